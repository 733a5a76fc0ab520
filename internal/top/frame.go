package top

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/show"
)

// A tone is what a piece of text means; how that looks is the painter's.
type tone uint8

const (
	plain tone = iota
	strong
	dim
	title
	good
	busy
	warn
	bad
	chosen // the selected row
)

// tones are those of the colours of package show.
var tones = map[string]tone{"32": good, "36": busy, "33": warn, "31": bad, "90": dim}

type span struct {
	text string
	tone tone
}

// A line is a row of the screen; what does not fit is cut off.
type line []span

func text(s string, t tone) line { return line{{s, t}} }

// choose marks a line as the selected one, over its whole width.
func (l line) choose(width int) line {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return line{{show.Pad(show.Cut(b.String(), width), width), chosen}}
}

// frame is the whole screen: no more lines than fit, and the last one at the
// bottom.
func (m *model) frame() []line {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	head, foot := m.head(), m.foot()
	room := m.height - len(head) - 1
	if room < 2 { // a very low window: what matters most
		head, room = nil, m.height-1
	}
	var body []line
	switch m.page {
	case helpPage:
		body = m.scrolled(m.help(), room)
	case serverPage:
		body = m.scrolled(m.details(), room)
	default:
		body = m.list(room)
	}
	for len(body) < room {
		body = append(body, nil)
	}
	return append(append(head, body[:max(room, 0)]...), foot)
}

// HeadParts say how everline as a whole does.
func HeadParts(st admin.Status, now time.Time) []string {
	parts := []string{"everline", "running " + show.Span(now.Sub(st.StartedAt))}
	if st.Endpoint != "" {
		parts = append(parts, st.Endpoint)
	}
	var files []string
	for _, f := range st.Config {
		files = append(files, filepath.Base(f))
	}
	if len(files) > 0 {
		parts = append(parts, strings.Join(files, ", ")+" "+configVerdict(st))
	}
	if n := len(st.Problems); n > 0 {
		parts = append(parts, show.Plural(n, "problem"))
	}
	return append(parts, summary(st.Servers))
}

// configVerdict says how the configuration is in a word or two.
func configVerdict(st admin.Status) string {
	bad := 0
	for _, s := range st.Servers {
		if s.State == event.StateMisconfigured {
			bad++
		}
	}
	switch n := len(st.Warnings); {
	case st.ConfigError != nil:
		return "not reloaded"
	case bad > 0:
		return show.Plural(bad, "unusable server")
	case n > 0:
		return show.Plural(n, "warning")
	}
	return "ok"
}

// head is HeadParts, or that everline does not answer.
func (m *model) head() []line {
	if m.lost != "" {
		return []line{
			text("everline   not running", strong),
			text(fmt.Sprintf("\u2717 %s; last answer %s ago, asking again", m.lost, show.Span(m.now.Sub(m.seen))), bad),
		}
	}
	var lines []line
	for i, l := range show.Fold(HeadParts(m.status, m.now), "   ", m.width) {
		if i > 0 {
			l = "  " + l
		}
		lines = append(lines, text(l, strong))
	}
	return lines
}

// summary counts the servers in each state: "3 servers: 2 connected, ...".
func summary(servers []admin.Server) string {
	var order []event.State
	count := map[event.State]int{}
	for _, s := range servers {
		if count[s.State]++; count[s.State] == 1 {
			order = append(order, s.State)
		}
	}
	text := show.Plural(len(servers), "server")
	for i, state := range order {
		text += [...]string{": ", " \u00b7 "}[min(i, 1)] + fmt.Sprintf("%d %s", count[state], state)
	}
	return text
}

// fewEvents is how many lines events get at least where there are many servers.
const fewEvents = 4

// list is the table, what is known of the selected server, and the events.
func (m *model) list(room int) []line {
	l, rows := m.layout(), m.rows()
	about := m.about()
	free := room - 1 - len(about) // without the titles
	shown := min(len(rows), max(free-1-fewEvents, free/2, 1))
	m.follow(rows, shown)
	out := []line{l.titles(sortings[m.sorting].column)}
	for _, s := range rows[m.offset : m.offset+shown] {
		row := l.row(m, s)
		if s.Name == m.selected {
			row = row.choose(m.width)
		}
		out = append(out, row)
	}
	if len(rows) == 0 {
		out, free = append(out, text("   no server "+m.nothing(), dim)), free-1
	}
	out = append(out, about...)
	if free -= shown; free >= 2 {
		out = append(out, m.ruler(len(rows), shown))
		for _, e := range m.newest(free-1, nil) {
			out = append(out, m.event(e))
		}
	}
	return out
}

func (m *model) nothing() string {
	if m.filter != "" {
		return "matches " + m.filter
	}
	return "is configured: everline add, or everline import"
}

// follow keeps the selected row among those that are shown.
func (m *model) follow(rows []admin.Server, shown int) {
	selected := indexOf(rows, m.selected)
	m.offset = min(max(m.offset, selected-shown+1), selected)
	m.offset = max(min(m.offset, len(rows)-shown), 0)
}

// about is two lines on the selected server, so that a cause that is too long
// for its column can be read, and what to type can be seen.
func (m *model) about() []line {
	s, ok := m.server()
	if !ok || m.height < 12 {
		return nil
	}
	first, second := " "+s.Name+": "+string(s.State), ""
	switch {
	case s.State != event.StateConnected && s.Cause != nil:
		first += ": " + show.Line(*s.Cause)
	case len(s.Warnings) > 0:
		first += "; warning: " + show.Line(s.Warnings[0])
	}
	if s.Remedy != nil && s.State != event.StateConnected {
		second = "   " + show.Advice(*s.Remedy)
	}
	return []line{text(show.Cut(first, m.width), plain), text(show.Cut(second, m.width), plain)}
}

// ruler stands between servers and events.
func (m *model) ruler(rows, shown int) line {
	label := "\u2500\u2500 events "
	if rows > shown {
		label = fmt.Sprintf("\u2500\u2500 %d to %d of %d servers \u2500\u2500 events ", m.offset+1, m.offset+shown, rows)
	}
	return text(label+strings.Repeat("\u2500", max(m.width-show.Width(label), 0)), dim)
}

// eventTones are those of the events that are no plain news.
var eventTones = map[string]tone{
	"connected": good, "start_failed": bad, "lost": bad, "stopped": bad, "call_failed": bad, "client_refused": warn, "list_failed": warn, "call_replayed": warn,
	"unapproved": warn, "close_failed": warn,
}

func (m *model) event(e admin.Event) line {
	width := min(max(m.layout().name, len(e.Server)), nameMax)
	return line{
		{" " + e.Time.Local().Format("15:04:05") + "  ", dim},
		{show.Pad(show.Cut(e.Server, width), width) + "  ", plain},
		{show.Line(e.Text), eventTones[e.Kind]},
	}
}

// foot is the last line: a question, the outcome of an operation, or the keys.
func (m *model) foot() line {
	switch {
	case m.asking != nil:
		return text(m.question(), warn)
	case m.typing:
		return line{{" filter: ", strong}, {m.filter + "\u2588", plain}, {"   enter keeps it, esc drops it", dim}}
	case m.notice != "" && m.now.Sub(m.noticed) < noticeTime:
		return text(" "+show.Line(m.notice), map[bool]tone{true: bad, false: good}[m.failed])
	}
	keys := "\u2191\u2193 select  enter details  / filter  s sort  r restart  c reconnect  d disable  e enable"
	fixed := "  ? help  q quit"
	if m.page != listPage {
		keys, fixed = "\u2191\u2193 scroll  esc back  r restart  c reconnect  d disable  e enable", "  q quit"
	}
	if m.filter != "" && m.page == listPage {
		keys = "only " + m.filter + " (esc)  " + keys
	}
	words := show.Fold(strings.Split(keys, "  "), "  ", m.width-show.Width(fixed)-1)
	return text(" "+words[0]+fixed, dim)
}

// question asks before something is done to a server.
func (m *model) question() string {
	q := fmt.Sprintf(" %s %s?", m.asking.op, m.asking.server)
	if s, ok := m.server(); ok && s.Out > 0 && m.asking.op != "enable" {
		q += fmt.Sprintf(" %s in flight.", show.Plural(s.Out, "call"))
	}
	return q + "  y yes, any other key no"
}

// scrolled is the part of a page that fits, from where it was scrolled to.
func (m *model) scrolled(lines []line, room int) []line {
	m.scroll = max(min(m.scroll, len(lines)-room), 0)
	return slices.Clone(lines[m.scroll:min(m.scroll+max(room, 0), len(lines))])
}
