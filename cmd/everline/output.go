package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

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

// forMachines reports whether stdout is read by a program.
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

// screenText is a text of several lines as a terminal may be sent it.
func screenText(s string) string { return show.Lines(s) }
