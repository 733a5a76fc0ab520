// Package top is the live view of a running everline in a terminal: every
// server in a row that keeps itself up to date, what happens below, and keys
// that act on the selected server. It knows nothing that the admin API does
// not say, and decides nothing about servers.
package top

import (
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/internal/admin"
)

// What the view keeps is bounded by these.
const (
	keptEvents = 500
	keptLogs   = 200
	noticeTime = 6 * time.Second // how long the outcome of an operation is shown
)

// The messages that change a model.
type (
	sized    struct{ width, height int }
	pressed  struct{ key string } // "up", "enter", "esc", ..., or the character itself
	ticked   struct{}
	answered struct{ status admin.Status }
	lost     struct{ why string }
	happened struct {
		event admin.Event
		fresh bool // the first one of a stream: what older streams said is said again
	}
	logged struct {
		server string
		lines  []admin.LogLine
	}
	operated struct {
		server, op string
		now        admin.Server
		err        error
	}
)

// The effects that a model asks for.
type (
	quit    struct{}
	redraw  struct{} // everything, not only what has changed
	operate struct{ server, op string }
	readLog struct{ server string }
)

// A page is what fills the screen.
type page uint8

const (
	listPage page = iota
	serverPage
	helpPage
)

// A model is all that is shown, and is changed by update alone. It has no
// clock: now comes with each message.
type model struct {
	now           time.Time
	width, height int

	status admin.Status
	seen   time.Time // when the status was answered
	lost   string    // why it is not answered any more; "" if it is
	rates  map[string]*rate
	events []admin.Event // the newest last

	page     page
	selected string // name of a server
	offset   int    // the first row that is shown
	scroll   int    // the first line of the other pages that is shown
	sorting  int    // index in sortings
	filter   string
	typing   bool     // keys go to the filter
	asking   *operate // waits for a yes
	notice   string
	failed   bool // the notice is bad news
	noticed  time.Time

	logs   []admin.LogLine // of the server whose page is open
	logsOf string
}

func newModel(st admin.Status, now time.Time, width, height int) *model {
	m := &model{rates: map[string]*rate{}, now: now, width: width, height: height}
	m.update(now, answered{st})
	return m
}

// update changes the model by one message and returns what is to be done.
func (m *model) update(now time.Time, msg any) []any {
	m.now = now
	switch msg := msg.(type) {
	case sized:
		m.width, m.height = msg.width, msg.height
	case pressed:
		return m.press(msg.key)
	case ticked:
		return m.refresh()
	case answered:
		m.take(msg.status)
	case lost:
		m.lost = msg.why
	case happened:
		m.record(msg)
	case logged:
		if m.page == serverPage && msg.server == m.selected {
			m.logs, m.logsOf = msg.lines[max(0, len(msg.lines)-keptLogs):], msg.server
		}
	case operated:
		m.tell(msg)
	}
	return nil
}

// refresh asks for the log of the server whose page is open: nothing says when
// there are new lines.
func (m *model) refresh() []any {
	if m.page == serverPage {
		return []any{readLog{m.selected}}
	}
	return nil
}

func (m *model) take(st admin.Status) {
	if !st.StartedAt.Equal(m.status.StartedAt) {
		clear(m.rates) // another everline counts from 0
	}
	m.status, m.seen, m.lost = st, m.now, ""
	there := map[string]bool{}
	for _, s := range st.Servers {
		there[s.Name] = true
		if m.rates[s.Name] == nil {
			m.rates[s.Name] = &rate{}
		}
		m.rates[s.Name].add(m.now, s.Calls)
	}
	for name := range m.rates {
		if !there[name] {
			delete(m.rates, name)
		}
	}
	m.reselect()
}

// reselect selects a server that is shown.
func (m *model) reselect() {
	rows := m.rows()
	if !slices.ContainsFunc(rows, func(s admin.Server) bool { return s.Name == m.selected }) && m.page != serverPage {
		m.selected = ""
		if len(rows) > 0 {
			m.selected = rows[0].Name
		}
	}
}

func (m *model) record(h happened) {
	if h.fresh {
		m.events = nil
	}
	m.events = append(m.events, h.event)
	if n := len(m.events) - keptEvents; n >= keptEvents {
		m.events = slices.Clone(m.events[n:]) // now and then, so that the rest can be freed
	}
}

// newest are the last n events, of one server or of all.
func (m *model) newest(n int, wanted func(admin.Event) bool) []admin.Event {
	var found []admin.Event
	for i := len(m.events) - 1; i >= 0 && len(found) < n; i-- {
		if wanted == nil || wanted(m.events[i]) {
			found = append(found, m.events[i])
		}
	}
	slices.Reverse(found)
	return found
}

func (m *model) tell(o operated) {
	m.noticed, m.failed = m.now, o.err != nil
	if o.err != nil {
		m.notice = o.op + " " + o.server + ": " + o.err.Error()
		return
	}
	m.notice = o.op + " " + o.server + ": done, it is " + string(o.now.State)
	for i := range m.status.Servers {
		if m.status.Servers[i].Name == o.server {
			m.status.Servers[i] = o.now
		}
	}
}

// rows are the servers that the filter lets through, in the chosen order.
func (m *model) rows() []admin.Server {
	var rows []admin.Server
	want := strings.ToLower(m.filter)
	for _, s := range m.status.Servers {
		if strings.Contains(strings.ToLower(s.Name+" "+string(s.State)+" "+s.Transport), want) {
			rows = append(rows, s)
		}
	}
	if less := sortings[m.sorting].less; less != nil {
		slices.SortStableFunc(rows, func(a, b admin.Server) int { return less(m, a, b) })
	}
	return rows
}

// asOf is the time for which what is shown is true.
func (m *model) asOf() time.Time {
	if m.lost != "" {
		return m.seen
	}
	return m.now
}

// server is what is known of the selected server; ok is false if it is gone.
func (m *model) server() (s admin.Server, ok bool) {
	for _, s := range m.status.Servers {
		if s.Name == m.selected {
			return s, true
		}
	}
	return admin.Server{}, false
}

// A rate is how many calls a second have ended of late.
type rate struct {
	times []time.Time
	count []uint64
}

const (
	rateSpan = 5 * time.Second // that a rate is about
	rateStep = 900 * time.Millisecond
)

func (r *rate) add(now time.Time, count uint64) {
	n := len(r.times)
	if n > 0 && count < r.count[n-1] {
		*r, n = rate{}, 0
	}
	if n > 1 && now.Sub(r.times[n-2]) < rateStep { // the newest comes too soon to stay
		r.times[n-1], r.count[n-1] = now, count
		return
	}
	r.times, r.count = append(r.times, now), append(r.count, count)
	for len(r.times) > 2 && now.Sub(r.times[1]) >= rateSpan {
		r.times, r.count = r.times[1:], r.count[1:]
	}
}

// perSecond is the rate; ok is false as long as that cannot be told.
func (r *rate) perSecond() (v float64, ok bool) {
	if r == nil || len(r.times) < 2 {
		return 0, false
	}
	n := len(r.times) - 1
	span := r.times[n].Sub(r.times[0])
	if span <= 0 {
		return 0, false
	}
	return float64(r.count[n]-r.count[0]) / span.Seconds(), true
}
