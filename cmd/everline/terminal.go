package main

import (
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/term"

	"github.com/everline/everline/internal/visible"
)

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
	if c, ok := s.stdout.(*checked); ok {
		return uncut{c}
	}
	return s.stdout
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

// onScreen reports whether a stream is a terminal, which obeys what it is sent.
func onScreen(stream any) bool {
	f := fileOf(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// isTerminal reports whether a stream is a terminal that can do more than print.
func isTerminal(stream any) bool {
	return onScreen(stream) && os.Getenv("TERM") != "dumb" && knowsEscapes(fileOf(stream))
}

// live is stderr for what a terminal shows at once: in order with what comes on
// stdout, and before the user types. Elsewhere it is stderr as it is.
func (a *app) live() io.Writer {
	if t, ok := a.stderr.(*talk); ok && isTerminal(t) {
		return t.to
	}
	return a.stderr
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

// colours reports whether w is a terminal that wants them.
func colours(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && isTerminal(w) }

func paint(text, colour string, on bool) string {
	if !on || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
