package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/typed"
	"github.com/everline/everline/internal/visible"
)

// The words of package show, under the names that the commands use.
func printable(s string) string         { return show.Printable(s) }
func advice(remedy string) string       { return show.Advice(remedy) }
func span(d time.Duration) string       { return show.Span(d) }
func clock(t, now time.Time) string     { return show.Clock(t, now) }
func pad(text string, width int) string { return show.Pad(text, width) }
func plural(n int, word string) string  { return show.Plural(n, word) }

// longestName is how much of a server's name a line has room for, in columns.
const longestName = 64

// shownName is a server's name in a line for people. A key of a file may be any
// text.
func shownName(name string) string {
	if strings.TrimSpace(name) == "" {
		return strconv.Quote(name)
	}
	return show.Cut(show.Line(name), longestName)
}

// shownEvent is shownName for an event, which may be about no server.
func shownEvent(server string) string {
	if server == "" {
		return ""
	}
	return shownName(server)
}

func shownNames(names []string) string {
	shown := make([]string, len(names))
	for i, n := range names {
		shown[i] = shownName(n)
	}
	return strings.Join(shown, ", ")
}

// typedName is a server's name as it is typed; "" for none.
func typedName(name string) string {
	if name == "" {
		return ""
	}
	return typed.Argument(name)
}

// forMachines tells whether stdout is read by a program.
func (a *app) forMachines() bool { return a.output == "json" || a.output == "jsonl" }

// writeJSON prints indented JSON.
func writeJSON(w io.Writer, v any) error { return encode(w, v, "  ") }

// writeLine prints JSON in one line.
func writeLine(w io.Writer, v any) error { return encode(w, v, "") }

// encode writes what does not show as escapes, so that JSON is the same to a
// program and safe on a screen.
func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(visible.JSON(b.Bytes()))
	return err
}

// A look is how a state shows: a symbol and a colour beside its word.
type look struct {
	symbol string
	colour string // an SGR parameter
}

var looks = func() map[event.State]look {
	all := map[event.State]look{}
	for state, l := range show.Looks {
		all[state] = look{l.Symbol, l.Colour}
	}
	return all
}()

// colours tells whether w is a terminal that wants them.
func colours(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && isTerminal(w) }

// checked is a stdout that remembers its first failure, so that no command
// takes data that never arrived for a success. It writes out what does not show
// or would be an order to the terminal: no text of others may hide or do
// anything there.
type checked struct {
	to     *os.File
	failed atomic.Pointer[error]
}

func (c *checked) Write(p []byte) (int, error) {
	if _, err := (uncut{c}).Write(visible.Screen(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// uncut is a checked stdout for programs, which get each byte as it is.
type uncut struct{ *checked }

func (u uncut) Write(p []byte) (int, error) {
	n, err := u.to.Write(p)
	if err != nil {
		u.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// raw is stdout for a protocol, and for data that a program reads.
func (s *streams) raw() io.Writer {
	if c, ok := s.out.(*checked); ok {
		return uncut{c}
	}
	return s.out
}

// Close ends a write that is stuck.
func (c *checked) Close() error { return c.to.Close() }

// fileOf is the file behind a stream; nil if it is none.
func fileOf(stream any) *os.File {
	switch s := stream.(type) {
	case *talk:
		return fileOf(s.to)
	case *checked:
		return s.to
	case uncut:
		return s.to
	case *os.File:
		return s
	default:
		return nil
	}
}

// onScreen tells whether a stream is a terminal, which obeys what it is sent.
func onScreen(stream any) bool {
	f := fileOf(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// isTerminal tells whether a stream is a terminal that can do more than print.
func isTerminal(stream any) bool {
	return onScreen(stream) && os.Getenv("TERM") != "dumb" && knowsEscapes(fileOf(stream))
}

// screenText is a text of several lines as a terminal may be sent it.
func screenText(s string) string { return show.Lines(s) }

func paint(text, colour string, on bool) string {
	if !on || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// live is stderr for what a terminal shows at once: in order with what comes on
// stdout, and before the user types. Elsewhere it is stderr as it is.
func (a *app) live() io.Writer {
	if t, ok := a.err.(*talk); ok && isTerminal(t) {
		return t.to
	}
	return a.err
}

// terminalWidth is how many columns the terminal has that w is; 0 where w is
// none, and lines may have any length.
func terminalWidth(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(fileOf(w).Fd()))
	if err != nil {
		return 0
	}
	return width
}
