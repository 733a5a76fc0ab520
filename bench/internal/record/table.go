package record

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Style is how tables look.
type Style int

const (
	Plain    Style = iota // aligned, for a terminal
	Markdown              // for the documentation
)

// A column of a table shows one value, or its ratio to that of the reference.
type column struct {
	head  string
	value string
	ratio bool
	zero  bool // shown where it is 0 and not missing
}

// A table says what is shown of one mode.
type table struct {
	mode, title string
	columns     []column
	// references are targets, the first of which that took part is what ratios
	// are of.
	references []string
}

var tables = []table{
	{mode: "load", title: "Load", references: []string{"rawproxy", "sdkproxy", "direct"}, columns: []column{
		{head: "calls/s", value: "per_s"},
		{head: "x ref", value: "per_s", ratio: true},
		{head: "p50 us", value: "p50_us"},
		{head: "p99 us", value: "p99_us"},
		{head: "CPU us/call", value: "cpu_us"},
		{head: "x ref", value: "cpu_us", ratio: true},
		{head: "memory MiB", value: "pss_mib"},
	}},
	{mode: "startup", title: "Start", columns: []column{
		{head: "first list ms", value: "first_ms"},
		{head: "complete ms", value: "full_ms"},
		{head: "warm: first list ms", value: "warm_first_ms"},
		{head: "warm: complete ms", value: "warm_full_ms"},
		{head: "idle RSS MiB", value: "rss_mib"},
		{head: "idle PSS MiB", value: "pss_mib"},
		{head: "idle CPU %", value: "idle_cpu_percent", zero: true},
	}},
	{mode: "recover", title: "Recovery", columns: []column{
		{head: "recovery ms", value: "recovery_ms"},
		{head: "added ms", value: "added_ms", zero: true},
		{head: "failed, may be repeated", value: "failed_safe", zero: true},
		{head: "failed, may not", value: "failed_once", zero: true},
		{head: "executed twice", value: "executed_twice", zero: true},
		{head: "executed, told failed", value: "executed_but_failed", zero: true},
		{head: "short lists", value: "lists_short", zero: true},
		{head: "failed lists", value: "lists_failed", zero: true},
		{head: "calls", value: "calls"},
	}},
	{mode: "stall", title: "A neighbour that hangs", columns: []column{
		{head: "p50 us", value: "p50_us"},
		{head: "slowest call ms", value: "max_ms"},
		{head: "slowest list ms", value: "list_max_ms"},
		{head: "new session ms", value: "session_ms"},
		{head: "failed", value: "failed", zero: true},
	}},
	{mode: "memory", title: "Idle clients", columns: []column{
		{head: "no client MiB", value: "base_mib"},
		{head: "10,000 sessions MiB", value: "sessions_mib"},
		{head: "KiB/session", value: "session_kib"},
		{head: "KiB/stream", value: "stream_kib"},
	}},
	{mode: "tail", title: "Small calls beside large ones", columns: []column{
		{head: "calls/s", value: "per_s"},
		{head: "p50 us", value: "p50_us"},
		{head: "p99 us", value: "p99_us"},
		{head: "p99.9 us", value: "p999_us"},
		{head: "max us", value: "max_us"},
		{head: "large results", value: "large"},
		{head: "GC cycles", value: "gc_cycles"},
		{head: "GC pause p50 us", value: "gc_pause_p50_us"},
		{head: "GC pause max us", value: "gc_pause_max_us"},
	}},
	{mode: "pages", title: "Open pages", references: []string{"0 pages"}, columns: []column{
		{head: "calls/s", value: "per_s"},
		{head: "p50 us", value: "p50_us"},
		{head: "p99 us", value: "p99_us"},
		{value: "p99_us", ratio: true},
		{head: "CPU us/call", value: "cpu_us"},
		{head: "CPU %", value: "core_percent", zero: true},
	}},
	{mode: "growth", title: "Growth", columns: []column{
		{head: "calls/s", value: "per_s"},
		{head: "p50 us", value: "p50_us"},
		{head: "p99 us", value: "p99_us"},
		{head: "CPU us/call", value: "cpu_us"},
		{head: "list p50 us", value: "list_us"},
		{head: "complete ms", value: "full_ms"},
		{head: "memory MiB", value: "pss_mib"},
		{head: "idle CPU %", value: "idle_cpu_percent", zero: true},
	}},
}

// Write prints all that rows hold, a table for each case: the medians of the
// repetitions, and their ratios to the reference.
func Write(w io.Writer, rows []Row, style Style) {
	cells := Cells(rows)
	for _, t := range tables {
		var names []string
		for _, c := range cells {
			if c.Mode == t.mode && !slices.Contains(names, c.Case) {
				names = append(names, c.Case)
			}
		}
		if len(names) == 0 {
			continue
		}
		if style == Markdown {
			fmt.Fprintf(w, "\n## %s\n", t.title)
		}
		for _, name := range names {
			t.write(w, name, cells, style)
		}
	}
}

func (t *table) write(w io.Writer, name string, cells []*Cell, style Style) {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c *Cell) bool { return c.Mode != t.mode || c.Case != name })
	ref := t.reference(cells)
	columns := slices.DeleteFunc(slices.Clone(t.columns), func(c column) bool {
		return c.ratio && ref == nil || !slices.ContainsFunc(cells, func(one *Cell) bool { return !math.IsNaN(one.Median(c.value)) })
	})
	head := []string{"target"}
	if grows(cells) {
		head = append(head, "n")
	}
	for _, c := range columns {
		text := c.head
		if c.ratio {
			text = "x " + ref.Target
		}
		head = append(head, text)
	}
	lines := [][]string{append(head, "runs")}
	for _, c := range cells {
		lines = append(lines, line(c, ref, columns, len(head) > len(columns)+1))
	}
	if style == Markdown {
		fmt.Fprintf(w, "\n**%s**\n\n", name)
		markdown(w, lines)
		return
	}
	fmt.Fprintf(w, "\n%s: %s\n", t.mode, name)
	plain(w, lines)
}

func grows(cells []*Cell) bool {
	return slices.ContainsFunc(cells, func(c *Cell) bool { return c.X != 0 })
}

func (t *table) reference(cells []*Cell) *Cell {
	for _, name := range t.references {
		if i := slices.IndexFunc(cells, func(c *Cell) bool { return c.Target == name }); i >= 0 {
			return cells[i]
		}
	}
	return nil
}

func line(c, ref *Cell, columns []column, withX bool) []string {
	out := []string{c.Target}
	if withX {
		out = append(out, strconv.FormatFloat(c.X, 'f', -1, 64))
	}
	for _, col := range columns {
		v := c.Median(col.value)
		if col.ratio {
			v = c.Ratio(ref, col.value)
		}
		out = append(out, number(v, col))
	}
	runs := strconv.Itoa(c.Reps)
	if c.Failed != "" {
		runs += ", failed: " + short(c.Failed)
	}
	return append(out, runs)
}

func short(text string) string {
	if len(text) > 90 {
		return text[:90]
	}
	return text
}

// number keeps three digits that say something.
func number(v float64, c column) string {
	switch {
	case math.IsNaN(v) || v == 0 && !c.zero:
		return ""
	case c.ratio:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10 || v == math.Trunc(v):
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

func plain(w io.Writer, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, text := range l {
			width[i] = max(width[i], len(text))
		}
	}
	for _, l := range lines {
		for i, text := range l {
			if i == 0 || i == len(l)-1 {
				fmt.Fprintf(w, "  %-*s", width[i], text)
			} else {
				fmt.Fprintf(w, "  %*s", width[i], text)
			}
		}
		fmt.Fprintln(w)
	}
}

func markdown(w io.Writer, lines [][]string) {
	for i, l := range lines {
		for _, text := range l {
			fmt.Fprintf(w, "| %s ", strings.ReplaceAll(text, "|", "\\|"))
		}
		fmt.Fprintln(w, "|")
		if i == 0 {
			fmt.Fprintln(w, "|---"+strings.Repeat("|---:", len(l)-1)+"|")
		}
	}
}
