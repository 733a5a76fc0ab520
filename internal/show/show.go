// Package show puts facts into the words, symbols and widths that people read
// in a terminal. It writes nowhere and asks nobody: values in, text out.
package show

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/visible"
)

// A Look is how a state shows: a symbol and a colour beside its word.
type Look struct {
	Symbol string
	Colour string // an SGR parameter
}

// Looks are the looks of all states, by their words.
var Looks = map[event.State]Look{
	event.StateConnected:     {"\u25cf", "32"}, // filled circle, green
	event.StateConnecting:    {"\u25d0", "36"}, // half circle, cyan
	event.StateReconnecting:  {"\u25d0", "33"},
	event.StateDisconnected:  {"\u2717", "31"}, // cross, red
	event.StateFailed:        {"\u2717", "31"},
	event.StateMisconfigured: {"\u2717", "31"},
	event.StateAuthRequired:  {"!", "33"},
	event.StateIdle:          {"\u25cb", "32"}, // empty circle
	event.StateDisabled:      {"\u25cb", "90"},
	event.StateDisabling:     {"\u25cb", "90"},
}

// Printable is one line of a text that others wrote, in which nothing moves the
// cursor, recolours the terminal, or stands in another place than it shows:
// that is written out, line ends too, as <U+202E>.
func Printable(s string) string {
	return strings.ReplaceAll(visible.Text(s), "\n", "<U+000A>")
}

// Lines is Printable for a text of several lines, which keeps them.
func Lines(s string) string {
	return visible.Text(strings.ReplaceAll(s, "\r\n", "\n"))
}

// Quoted is Printable for one of several words, so that it is seen where each
// begins and ends: in quotes unless it is plain.
func Quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@:,=%^~", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return `"` + visible.Text(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s)) + `"`
}

// Line is Printable for one line: line ends and tabs become spaces.
func Line(s string) string {
	return Printable(strings.Join(strings.Fields(s), " "))
}

// Program is how the user starts everline, for what there is to type. It is set
// before anything is shown.
var Program = "everline"

var typed = regexp.MustCompile(`(^|: |, or )everline `)

// AsStarted puts Program in the place of everline's name in a command to type.
func AsStarted(text string) string {
	if Program == "everline" {
		return text
	}
	return typed.ReplaceAllStringFunc(text, func(m string) string { return strings.TrimSuffix(m, "everline ") + Program + " " })
}

// Advice words a remedy, which may be a command, a sentence, or say itself
// that it is to be run.
func Advice(remedy string) string {
	remedy = AsStarted(remedy)
	if strings.HasPrefix(remedy, "run: ") || strings.HasPrefix(remedy, "did you mean ") {
		return Printable(remedy)
	}
	return "try: " + Printable(remedy)
}

// Span says a time as people do: "0.4 s", "27 s", "5 min", "3d 4h".
func Span(d time.Duration) string {
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

// Clock says a time of today as 15:04, and one of another day with its date.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// Bytes says a size in the unit that leaves one to three digits: "62 MB".
func Bytes(n int64) string {
	const kilo, mega, giga = 1_000, 1_000_000, 1_000_000_000
	switch {
	case n < kilo:
		return fmt.Sprintf("%d B", n)
	case n < mega:
		return fmt.Sprintf("%d kB", n/kilo)
	case n < giga:
		return fmt.Sprintf("%d MB", n/mega)
	default:
		return fmt.Sprintf("%.1f GB", float64(n)/giga)
	}
}

// Milliseconds says a latency: "0.4 ms", "310 ms", "12 s".
func Milliseconds(ms float64) string {
	switch {
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 9_999.5:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.0f s", ms/1000)
	}
}

// Plural says "1 tool" and "2 tools".
func Plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// Width is how many columns of a terminal a text takes.
func Width(s string) int { return displaywidth.String(s) }

// Pad fills a text with spaces up to width columns.
func Pad(s string, width int) string {
	if n := width - Width(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// PadLeft is Pad with the spaces before the text.
func PadLeft(s string, width int) string {
	if n := width - Width(s); n > 0 {
		return strings.Repeat(" ", n) + s
	}
	return s
}

// Cut shortens a text to width columns, the last of which then is an ellipsis.
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	return displaywidth.TruncateString(s, width, "\u2026")
}

// Fold puts parts that belong together into as few lines of width columns as
// it can, joined by sep; width 0 means any. A part that is longer than a line
// has one of its own.
func Fold(parts []string, sep string, width int) []string {
	var lines []string
	for _, p := range parts {
		if n := len(lines); n > 0 && (width <= 0 || Width(lines[n-1])+Width(sep)+Width(p) <= width) {
			lines[n-1] += sep + p
			continue
		}
		lines = append(lines, p)
	}
	return lines
}

// Wrap breaks a text between words into lines of width columns, and inside of
// words that are longer.
func Wrap(s string, width int) []string {
	var words []string
	for _, w := range strings.Fields(s) {
		for width > 0 && Width(w) > width {
			head := displaywidth.TruncateString(w, width, "")
			if head == "" {
				break // not even one character fits
			}
			words, w = append(words, head), w[len(head):]
		}
		words = append(words, w)
	}
	return Fold(words, " ", width)
}

// OutOf is how many things are seen, and of how many where that is not all of them:
// "9", "5 of 9".
func OutOf(seen, all int) string {
	if seen == all {
		return strconv.Itoa(seen)
	}
	return strconv.Itoa(seen) + " of " + strconv.Itoa(all)
}
