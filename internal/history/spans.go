package history

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/everline/everline/event"
)

// Mixed is the state of a span that stands for several.
const Mixed event.State = "mixed"

// A Span is a time in which a server was in one state, or a stretch of such times
// that are too short to be told apart.
type Span struct {
	State       event.State
	Gen         uint64
	From, To    time.Time // To is zero for the one that lasts
	Text        string    // why it is not connected, if it is not; "" where that is not kept
	Generations int       // of a mixed span: how many began to serve
	Away        time.Duration
}

// span is a Span without its end, which is the begin of the next.
type span struct {
	from  int64 // Unix nanoseconds
	gen   uint32
	state state
}

// state is an event.State in one byte: there are many spans. 0 is none.
type state uint8

var states = [...]event.State{
	"", event.StateConnecting, event.StateConnected, event.StateDisconnected, event.StateIdle, event.StateDisabled,
	event.StateAuthRequired, event.StateMisconfigured, event.StateFailed,
}

const (
	connecting state = iota + 1
	connected
	disconnected
	idle
	disabled
	authRequired
	misconfigured
	failed
)

// folded is a time whose spans are not kept.
type folded struct {
	from        int64 // 0: there is none
	generations int
	away        time.Duration
}

type cause struct {
	at   int64 // the begin of the span
	text string
}

// stateAfter is the state that an event begins, and why if it is an outage; 0 for
// an event that begins none.
func stateAfter(e event.Event) (state, string) {
	switch e := e.(type) {
	case event.Connecting:
		return connecting, ""
	case event.Connected:
		return connected, ""
	case event.StartFailed:
		return disconnected, e.Cause.Reason()
	case event.Lost:
		return disconnected, e.Cause.Reason()
	case event.Stopped:
		return afterStop(e.Reason), reason(e)
	case event.Idled:
		return idle, ""
	case event.Disabled:
		return disabled, ""
	default:
		return 0, ""
	}
}

func afterStop(r event.Reason) state {
	switch r {
	case event.Auth:
		return authRequired
	case event.Config:
		return misconfigured
	case event.Budget, event.Missing:
		return failed
	default:
		return disconnected
	}
}

func reason(e event.Stopped) string {
	if e.Cause == nil {
		return ""
	}
	return e.Cause.Reason()
}

// away tells whether a server in this state does not serve, though it should.
func away(s event.State) bool {
	switch s {
	case event.StateConnected, event.StateIdle, event.StateDisabled, event.StateDisabling, Mixed:
		return false
	default:
		return true
	}
}

// enterLocked begins a span, and returns by how many the server has more.
func (s *server) enterLocked(next state, head event.Head, text string) int {
	at := head.Time.UnixNano()
	if n := len(s.spans); n > 0 {
		last := s.spans[n-1]
		at = max(at, last.from) // events of one instant may come out of order
		if last.state == next && last.gen == uint32(head.Gen) {
			return 0
		}
	}
	if text != "" {
		if len(s.causes) == causesEach {
			s.causes = slices.Delete(s.causes, 0, 1)
		}
		s.causes = append(s.causes, cause{at, cut(text, causeSize)})
	}
	s.spans = append(s.spans, span{at, uint32(head.Gen), next})
	const slack = spansEach / 8 // so that not each event moves all of them
	if len(s.spans) <= spansEach {
		return 1
	}
	return 1 - s.foldLocked(slack)
}

// foldLocked keeps the oldest n spans as a sum alone.
func (s *server) foldLocked(n int) int {
	n = min(n, len(s.spans)-1)
	for i := range n {
		if s.older.from == 0 {
			s.older.from = s.spans[i].from
		}
		s.older.add(states[s.spans[i].state], time.Duration(s.spans[i+1].from-s.spans[i].from))
	}
	s.spans = slices.Delete(s.spans, 0, n)
	return n
}

func (f *folded) add(state event.State, d time.Duration) {
	if state == event.StateConnected {
		f.generations++
	}
	if away(state) {
		f.away += d
	}
}

// cut shortens a text to n bytes at most, and keeps nothing of a longer one.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return string([]byte(text[:n]))
}

// Spans are those of a server from one time to another, oldest first, with those
// that are shorter than least together in mixed ones. now ends the last one.
func (h *History) Spans(server string, from, to, now time.Time, least time.Duration) []Span {
	h.mu.RLock()
	s := h.servers[server]
	h.mu.RUnlock()
	if s == nil {
		return []Span{}
	}
	s.mu.Lock()
	all := s.listLocked()
	s.mu.Unlock()
	return merge(clip(all, from, to), now, least)
}

func (s *server) listLocked() []Span {
	all := make([]Span, 0, len(s.spans)+1)
	if s.older.from != 0 {
		all = append(all, Span{State: Mixed, From: time.Unix(0, s.older.from), To: time.Unix(0, s.spans[0].from), Generations: s.older.generations, Away: s.older.away})
	}
	for i, p := range s.spans {
		sp := Span{State: states[p.state], Gen: uint64(p.gen), From: time.Unix(0, p.from)}
		if i+1 < len(s.spans) {
			sp.To = time.Unix(0, s.spans[i+1].from)
		}
		if j, found := slices.BinarySearchFunc(s.causes, p.from, func(c cause, at int64) int { return int(min(max(c.at-at, -1), 1)) }); found {
			sp.Text = s.causes[j].text
		}
		all = append(all, sp)
	}
	return all
}

// clip drops what is outside, and shortens nothing: the begin of a span is a fact.
func clip(all []Span, from, to time.Time) []Span {
	return slices.DeleteFunc(all, func(s Span) bool {
		return !s.To.IsZero() && !s.To.After(from) || !s.From.Before(to)
	})
}

// merge puts neighbors together that are shorter than least.
func merge(all []Span, now time.Time, least time.Duration) []Span {
	merged := []Span{}
	var group []Span
	flush := func() {
		if len(group) == 1 {
			merged = append(merged, group[0])
		} else if len(group) > 1 {
			merged = append(merged, together(group))
		}
		group = group[:0]
	}
	for _, s := range all {
		if s.length(now) >= least || s.To.IsZero() {
			flush()
			merged = append(merged, s)
			continue
		}
		group = append(group, s)
	}
	flush()
	return merged
}

func (s Span) length(now time.Time) time.Duration {
	if s.To.IsZero() {
		return now.Sub(s.From)
	}
	return s.To.Sub(s.From)
}

// together is one outage if the server was away all the time, else mixed.
func together(group []Span) Span {
	m := Span{State: event.StateDisconnected, From: group[0].From, To: group[len(group)-1].To}
	for _, s := range group {
		f := folded{generations: s.Generations, away: s.Away}
		f.add(s.State, s.To.Sub(s.From))
		if !away(s.State) {
			m.State = Mixed
		}
		m.Generations += f.generations
		m.Away += f.away
		m.Gen = max(m.Gen, s.Gen)
		if s.Text != "" {
			m.Text = s.Text
		}
	}
	return m
}
