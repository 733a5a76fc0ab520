package top

import (
	"fmt"
	"strings"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/show"
)

const (
	historyShown = 60
	stderrShown  = keptLogs
	labelWidth   = 10
)

// details is the page of one server.
func (m *model) details() []line {
	s, ok := m.server()
	if !ok {
		return []line{text(" "+m.selected+" is not configured any more", warn)}
	}
	look := show.Looks[s.State]
	first := fmt.Sprintf("%s   %s %s   generation %s", s.State, map[bool]string{true: "away", false: "for"}[s.AwaySince != nil], since(m, s), count(s.Generation))
	out := []line{nil, {{" " + look.Symbol + " ", tones[look.Colour]}, {s.Name + "   ", strong}, {first, tones[look.Colour]}}}
	for _, f := range m.facts(s) {
		out = append(out, m.labelled(f.label, f.text, f.tone)...)
	}
	out = append(out, nil, text(" history", title))
	history := m.newest(historyShown, func(e admin.Event) bool { return e.Server == s.Name && !strings.HasPrefix(e.Kind, "call_") })
	for _, e := range history {
		out = append(out, line{
			{" " + e.Time.Local().Format("15:04:05") + "  ", dim},
			{show.Pad(fmt.Sprintf("gen %s", count(e.Generation)), 8) + " ", plain},
			{show.Line(e.Text), eventTones[e.Kind]},
		})
	}
	if len(history) == 0 {
		out = append(out, text("   nothing has happened to it of late", dim))
	}
	return append(out, m.stderr(s)...)
}

type fact struct {
	label, text string
	tone        tone
}

// facts are those of the first block, in the order of how urgent they are.
func (m *model) facts(s admin.Server) []fact {
	var all []fact
	add := func(label, text string, t tone) {
		if text != "" {
			all = append(all, fact{label, text, t})
		}
	}
	down := s.State != event.StateConnected
	if s.Cause != nil {
		add(map[bool]string{true: "cause", false: "last cause"}[down], *s.Cause, map[bool]tone{true: bad, false: plain}[down])
	}
	if s.NextAttempt != nil {
		add("next try", fmt.Sprintf("in %s, attempt %d", show.Span(s.NextAttempt.Sub(m.now)), s.Attempt+1), plain)
	}
	if s.Remedy != nil {
		add("to do", show.Advice(*s.Remedy), strong)
	}
	for _, w := range s.Warnings {
		add("warning", w, warn)
	}
	add("link", m.link(s), plain)
	offers := fmt.Sprintf("%s tools, %s prompts, %s resources, %s templates; the tools cost about %d tokens", show.OutOf(s.Tools, s.All().Tools),
		show.OutOf(s.Prompts, s.All().Prompts), show.OutOf(s.Resources, s.All().Resources), show.OutOf(s.Templates, s.All().Templates), s.ToolTokens)
	if s.CatalogAt == nil {
		offers = "it has not said yet what it offers"
	} else if down {
		offers += "; last good " + show.Clock(*s.CatalogAt, m.now)
	}
	add("offers", offers, plain)
	calls := fmt.Sprintf("%d in flight, %d waiting, %d ended, %s a second", s.Out, s.Waiting, s.Calls, m.perSecond(s.Name))
	if s.P50 != nil && s.P95 != nil {
		calls += fmt.Sprintf("; half took less than %s, 95 of 100 less than %s", show.Milliseconds(*s.P50), show.Milliseconds(*s.P95))
	}
	add("calls", calls, plain)
	add("from", s.Origin, plain)
	return all
}

func (m *model) link(s admin.Server) string {
	parts := []string{s.Transport}
	if s.URL != nil {
		parts = append(parts, *s.URL)
	}
	if s.PID != nil {
		parts = append(parts, fmt.Sprintf("pid %d", *s.PID))
	}
	if s.Memory != nil {
		parts = append(parts, show.Bytes(*s.Memory))
	}
	if s.Era != nil && s.ProtocolVersion != nil {
		parts = append(parts, *s.Era+" "+*s.ProtocolVersion)
	}
	if s.Required {
		parts = append(parts, "required")
	}
	return strings.Join(parts, "   ")
}

// labelled wraps a text behind its label.
func (m *model) labelled(label, value string, t tone) []line {
	var out []line
	for _, l := range show.Wrap(show.Printable(value), max(m.width-labelWidth-5, 20)) {
		out = append(out, line{{"   " + show.Pad(label, labelWidth) + " ", dim}, {l, t}})
		label = ""
	}
	return out
}

// stderr is what the server wrote, as read for this page, and until that is
// there what the status says.
func (m *model) stderr(s admin.Server) []line {
	var texts []string
	for _, l := range m.logs {
		texts = append(texts, l.Text)
	}
	if m.logsOf != s.Name {
		texts = s.Stderr
	}
	if len(texts) == 0 {
		return nil
	}
	out := []line{nil, text(" stderr", title)}
	for _, t := range texts[max(0, len(texts)-stderrShown):] {
		for _, l := range show.Wrap(show.Printable(t), max(m.width-4, 20)) {
			out = append(out, text("   "+l, plain))
		}
	}
	return out
}

var helpText = [][2]string{
	{"up, down, k, j", "select a server; on a page, scroll"},
	{"page up, page down, g, G", "further, and to the first and last one"},
	{"enter", "all about the selected server: cause, history, stderr, what to type; esc goes back"},
	{"r", "restart it: a new generation takes its place, calls in flight may finish first"},
	{"c", "reconnect it now, whatever it waits for"},
	{"d, e", "disable it: its calls are refused until it is enabled; enable it again"},
	{"/", "show only servers with these letters in their name, state or transport"},
	{"s", "sort by the next column: name, state, calls, p95, memory, configuration"},
	{"ctrl-l", "draw the screen again"},
	{"q, ctrl-c", "leave; everline goes on"},
}

func (m *model) help() []line {
	out := []line{nil, text(" Keys", title)}
	for _, h := range helpText {
		key := h[0]
		for _, l := range show.Wrap(h[1], max(m.width-30, 20)) {
			out = append(out, line{{"   " + show.Pad(key, 25) + " ", strong}, {l, plain}})
			key = ""
		}
	}
	out = append(out, nil, text(" Columns", title))
	for _, t := range []string{
		"OUT/WAIT: calls that the server has, and calls that wait for it. CALLS/S: calls that ended, over the last five seconds.",
		"P50, P95: how long the newest 256 answers took, waiting included. MEMORY: of its process and all that it has started.",
		"SINCE: how long in its state, or away over all attempts. NEXT TRY, CAUSE: when, which attempt; why the last generation ended.",
		"A narrow window leaves columns out; the page of a server has everything.",
	} {
		for _, l := range show.Wrap(t, max(m.width-4, 20)) {
			out = append(out, text("   "+l, plain))
		}
	}
	return append(out, nil, text(" States", title),
		m.legend(event.StateConnected, event.StateConnecting, event.StateReconnecting, event.StateDisconnected, event.StateFailed),
		m.legend(event.StateMisconfigured, event.StateAuthRequired, event.StateIdle, event.StateDisabled, event.StateDisabling))
}

func (m *model) legend(states ...event.State) line {
	out := line{{"   ", plain}}
	for _, s := range states {
		look := show.Looks[s]
		out = append(out, span{look.Symbol + " " + string(s) + "   ", tones[look.Colour]})
	}
	return out
}
