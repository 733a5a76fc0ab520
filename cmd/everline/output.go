package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// printable takes control characters out of a server's text, which could
// otherwise move the cursor or recolour the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return '\ufffd'
		}
		return r
	}, s)
}

// forMachines tells whether stdout is read by a program.
func (a *app) forMachines() bool { return a.output == "json" || a.output == "jsonl" }

// advice prints a remedy, which may be a command, a sentence, or say itself
// that it is to be run.
func advice(remedy string) string {
	if strings.HasPrefix(remedy, "run: ") || strings.HasPrefix(remedy, "did you mean ") {
		return printable(remedy)
	}
	return "try: " + printable(remedy)
}

// writeJSON prints indented JSON.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeLine prints JSON in one line.
func writeLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// span prints a time as people say it: "0.4 s", "27 s", "5 min", "3d 4h".
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0 s"
	case d < 3*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < day:
		return fmt.Sprintf("%dh %dmin", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd %dh", int(d/day), int(d.Hours())%24)
	}
}

// clock prints a time of today as 15:04, and one of another day with its date.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// A look is how a state shows: a symbol and a colour beside its word.
type look struct {
	symbol string
	colour string // an SGR parameter
}

var looks = map[string]look{
	"connected":     {"\u25cf", "32"}, // filled circle, green
	"connecting":    {"\u25d0", "36"}, // half circle, cyan
	"reconnecting":  {"\u25d0", "33"},
	"disconnected":  {"\u2717", "31"}, // cross, red
	"failed":        {"\u2717", "31"},
	"misconfigured": {"\u2717", "31"},
	"auth_required": {"!", "33"},
	"idle":          {"\u25cb", "32"}, // empty circle
	"disabled":      {"\u25cb", "90"},
	"disabling":     {"\u25cb", "90"},
}

// colours tells whether w is a terminal that wants them.
func colours(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && isTerminal(w) }

// isTerminal tells whether w is a terminal that can do more than print.
func isTerminal(w io.Writer) bool {
	if t, ok := w.(*talk); ok {
		w = t.to
	}
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func paint(text, colour string, on bool) string {
	if !on || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// pad fills text with spaces to width characters.
func pad(text string, width int) string {
	if n := width - utf8.RuneCountInString(text); n > 0 {
		return text + strings.Repeat(" ", n)
	}
	return text
}
