package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/show"
)

// A column of the table. Where the screen is too narrow, columns of a higher
// rank are left out first.
type column struct {
	title string
	width int
	right bool // numbers
	rank  int
	cell  func(m *model, s admin.Server) string
}

var columns = []column{
	{"GEN", 4, true, 2, func(_ *model, s admin.Server) string { return count(s.Generation) }},
	{"TOOLS", 5, true, 5, tools},
	{"VIA", 5, false, 10, func(_ *model, s admin.Server) string { return s.Transport }},
	{"PID", 7, true, 8, func(_ *model, s admin.Server) string { return known(s.PID, strconv.Itoa) }},
	{"MEMORY", 6, true, 7, func(_ *model, s admin.Server) string { return known(s.Memory, show.Bytes) }},
	{"SINCE", 9, true, 1, since},
	{"OUT/WAIT", 8, true, 6, outWaiting},
	{"CALLS/S", 7, true, 3, func(m *model, s admin.Server) string { return m.perSecond(s.Name) }},
	{"P50", 7, true, 9, func(_ *model, s admin.Server) string { return known(s.P50, show.Milliseconds) }},
	{"P95", 7, true, 4, func(_ *model, s admin.Server) string { return known(s.P95, show.Milliseconds) }},
}

const (
	stateWidth = 13
	nameMin    = 6
	nameMax    = 28
	tailMin    = 18 // of the last column, "NEXT TRY, CAUSE"
)

// A layout says which columns there are at the present width.
type layout struct {
	name    int
	columns []column
	tail    int
}

// layout gives every column its place by rank, and the rest to the last one.
func (m *model) layout() layout {
	l := layout{name: nameMin}
	for _, s := range m.status.Servers {
		l.name = max(l.name, show.Width(s.Name))
	}
	l.name = min(l.name, nameMax, max(nameMin, m.width/6))
	room := m.width - len(" x ") - l.name - 1 - stateWidth - 1 - tailMin
	byRank := slices.SortedFunc(slices.Values(columns), func(a, b column) int { return cmp.Compare(a.rank, b.rank) })
	chosen := map[string]bool{}
	for _, c := range byRank {
		if c.width+1 <= room {
			chosen[c.title], room = true, room-c.width-1
		}
	}
	for _, c := range columns {
		if chosen[c.title] {
			l.columns = append(l.columns, c)
		}
	}
	l.tail = max(room+tailMin, 0)
	return l
}

func (l layout) titles(sorted string) line {
	mark := func(title string) string {
		if title == sorted {
			return title + "\u25be"
		}
		return title
	}
	text := "   " + show.Pad(mark("SERVER"), l.name) + " " + show.Pad(mark("STATE"), stateWidth)
	for _, c := range l.columns {
		text += " " + align(mark(c.title), c)
	}
	return line{{text + " NEXT TRY, CAUSE", title}}
}

func align(text string, c column) string {
	text = show.Cut(text, c.width)
	if c.right {
		return show.PadLeft(text, c.width)
	}
	return show.Pad(text, c.width)
}

func (l layout) row(m *model, s admin.Server) line {
	look := show.Looks[s.State]
	tone, name, other := tones[look.Colour], strong, plain
	if m.lost != "" { // all of it is old
		tone, name, other = dim, dim, dim
	}
	out := line{
		{" " + look.Symbol + " ", tone},
		{show.Pad(show.Cut(s.Name, l.name), l.name) + " ", name},
		{show.Pad(string(s.State), stateWidth), tone},
	}
	var rest strings.Builder
	for _, c := range l.columns {
		rest.WriteString(" " + align(c.cell(m, s), c))
	}
	out = append(out, span{rest.String() + " ", other})
	return append(out, span{show.Cut(tail(m, s), l.tail-1), other})
}

// tail is what a row says of what is wrong, or of what comes next.
func tail(m *model, s admin.Server) string {
	var parts []string
	if s.NextAttempt != nil {
		next := "in " + show.Span(s.NextAttempt.Sub(m.asOf()))
		if s.Attempt > 0 {
			next += " (" + strconv.Itoa(s.Attempt+1) + ")"
		}
		parts = append(parts, next)
	}
	switch {
	case s.State == event.StateConnected && len(s.Warnings) > 0:
		parts = append(parts, show.Plural(len(s.Warnings), "warning"))
	case s.State == event.StateAuthRequired && s.Remedy != nil:
		parts = append(parts, show.Advice(*s.Remedy))
	case s.State != event.StateConnected && s.Cause != nil:
		parts = append(parts, show.Line(*s.Cause))
	}
	return strings.Join(parts, "  ")
}

func count(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

func known[T any](v *T, text func(T) string) string {
	if v == nil {
		return "-"
	}
	return text(*v)
}

func tools(_ *model, s admin.Server) string {
	if s.CatalogAt == nil {
		return "-"
	}
	return strconv.Itoa(s.Tools)
}

// since is how long a server has been away, over all attempts, or else in its
// state.
func since(m *model, s admin.Server) string {
	began := s.Since
	if s.AwaySince != nil {
		began = s.AwaySince
	}
	if began == nil {
		return "-"
	}
	return show.Span(m.asOf().Sub(*began))
}

func outWaiting(_ *model, s admin.Server) string { return fmt.Sprintf("%d/%d", s.Out, s.Waiting) }

func (m *model) perSecond(server string) string {
	v, ok := m.rates[server].perSecond()
	switch {
	case !ok:
		return "-"
	case v > 0 && v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

// A sorting is an order of the rows; column is the one that is marked.
type sorting struct {
	column string
	less   func(m *model, a, b admin.Server) int // nil: as in the configuration
}

var sortings = []sorting{
	{"", nil},
	{"SERVER", func(_ *model, a, b admin.Server) int { return cmp.Compare(a.Name, b.Name) }},
	{"STATE", func(_ *model, a, b admin.Server) int { return cmp.Compare(urgency[a.State], urgency[b.State]) }},
	{"CALLS/S", func(m *model, a, b admin.Server) int {
		x, _ := m.rates[a.Name].perSecond()
		y, _ := m.rates[b.Name].perSecond()
		return cmp.Compare(y, x)
	}},
	{"P95", func(_ *model, a, b admin.Server) int { return cmp.Compare(value(b.P95), value(a.P95)) }},
	{"MEMORY", func(_ *model, a, b admin.Server) int { return cmp.Compare(value(b.Memory), value(a.Memory)) }},
}

// urgency puts the states that need somebody first.
var urgency = map[event.State]int{
	event.StateFailed: 0, event.StateMisconfigured: 1, event.StateAuthRequired: 2, event.StateDisconnected: 3, event.StateReconnecting: 4, event.StateConnecting: 5,
	event.StateConnected: 6, event.StateIdle: 7, event.StateDisabling: 8, event.StateDisabled: 9,
}

func value[T any](v *T) T {
	var zero T
	if v == nil {
		return zero
	}
	return *v
}
