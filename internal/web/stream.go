package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// How often a stream says something.
const (
	stateGap  = 250 * time.Millisecond // at least between two words on the states of servers
	tickGap   = time.Second            // between two of numbers
	aliveGap  = 15 * time.Second       // of comments, where nothing else is said
	lookAge   = 900 * time.Millisecond // how old the numbers may be
	backfills = 200                    // events for a viewer that has none
)

// Hello is the first word of a stream.
type Hello struct {
	Run       string    `json:"run"`
	StartedAt time.Time `json:"startedAt"`
	Version   string    `json:"version"`
	Seq       uint64    `json:"seq"`    // of the newest event
	Assets    string    `json:"assets"` // changes with the files of the page
	Token     string    `json:"token"`  // none, ok or expired
}

// Gap says that events are not kept any more that a viewer has not seen.
type Gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	Why  string `json:"why"` // ring: newer ones took their place
}

// Servers are those that have changed, and all names in order where that changed.
type Servers struct {
	Set   []admin.Server `json:"set"`
	Order []string       `json:"order,omitempty"`
}

// Tick are the numbers of servers that changed.
type Tick struct {
	Time    time.Time          `json:"t"`
	Servers map[string]Numbers `json:"s"`
}

// viewer is one stream. It has no queue: what it has not said yet is where it
// happened, and who reads slowly hears the newest.
type viewer struct {
	site *Site
	out  io.Writer
	enc  *json.Encoder
	wire *http.ResponseController

	seq, call, line uint64 // newest ones that were said
	board, capture  uint64
	withCalls       bool
	logsOf          string // a server
}

// stream is GET /api/v1/stream?topics=servers,events,tick,calls,logs:NAME.
func (s *Site) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.viewers <- struct{}{}:
		defer func() { <-s.viewers }()
	default:
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, fault.Overloaded, fmt.Sprintf("%d pages are open already", maxViewers), "")
		return
	}
	v := &viewer{site: s, out: w, enc: newEncoder(w), wire: http.NewResponseController(w)}
	for topic := range strings.SplitSeq(r.URL.Query().Get("topics"), ",") {
		name, isLogs := strings.CutPrefix(topic, "logs:")
		switch {
		case isLogs:
			v.logsOf = name
		case topic == "calls":
			v.withCalls = true
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	v.run(r, s.keys.state(bearer(r), time.Now()))
}

// run ends when the viewer goes, cannot be written to, or the site ends.
func (v *viewer) run(r *http.Request, token string) {
	v.begin(r, token)
	var told, counted time.Time // when anything was said, and numbers were
	next := time.NewTicker(stateGap)
	defer next.Stop()
	for {
		_ = v.wire.SetWriteDeadline(time.Now().Add(v.site.readTime)) // a writer without deadlines is bounded by its server
		events, more := v.site.opts.API.Since(v.seq)
		said := v.events(events)
		if len(events) > 0 || time.Since(counted) >= tickGap {
			counted = time.Now()
			said = v.servers() || said
		}
		said = v.calls() || said
		said = v.captures() || said
		said = v.logs() || said
		if !said && time.Since(told) >= aliveGap {
			_, _ = io.WriteString(v.out, ":\n\n") // the flush has the error
			said = true
		}
		if said {
			if v.wire.Flush() != nil {
				return
			}
			told = time.Now()
		}
		if len(events) > 0 {
			more = nil // what comes next waits for its turn
		}
		select {
		case <-more:
		case <-next.C:
		case <-r.Context().Done():
			return
		case <-v.site.stop:
			v.say("bye", map[string]string{"why": "stopping"})
			_ = v.wire.Flush() // it ends either way
			return
		}
	}
}

// begin says who we are, and finds where the viewer has to go on.
func (v *viewer) begin(r *http.Request, token string) {
	st := v.site.opts.API.Status()
	last := v.site.opts.Journal.Last()
	v.say("hello", Hello{st.Run, st.StartedAt, st.Version, last, v.site.assets.tag, token})
	seen, f := v.site.opts.API.Cursor(r)
	if f != nil || seen > last {
		seen = 0
	}
	if v.seq = seen; seen == 0 && last > backfills {
		v.seq = last - backfills
	}
	v.call = v.site.opts.History.LastCall()
}

// events says the events, and which are missing between them.
func (v *viewer) events(events []admin.Event) bool {
	for _, e := range events {
		if e.Seq > v.seq+1 && v.seq > 0 {
			v.say("gap", Gap{v.seq + 1, e.Seq - 1, "ring"})
		}
		v.seq = e.Seq
		_, _ = fmt.Fprintf(v.out, "id: %s-%d\n", v.site.opts.Journal.Run(), e.Seq) // the flush has the error
		v.say("event", e)
	}
	return len(events) > 0
}

func (v *viewer) servers() bool {
	news := v.site.board.look(v.board, v.seq, lookAge)
	v.board = news.version
	if news.servers != nil || news.order != nil {
		v.say("servers", Servers{append([]admin.Server{}, news.servers...), news.order})
	}
	if news.numbers != nil {
		v.say("tick", Tick{time.Now(), news.numbers})
	}
	return news.servers != nil || news.order != nil || news.numbers != nil
}

// callsAtOnce bounds the calls that are said at a time: of more the newest.
const callsAtOnce = 100

func (v *viewer) calls() bool {
	if !v.withCalls {
		return false
	}
	calls := v.site.opts.History.Calls(v.call, 0, callsAtOnce, every)
	for _, c := range slices.Backward(calls) {
		v.say("call", v.site.shapeCall(c))
		v.call = c.ID
	}
	return len(calls) > 0
}

// captures says whose arguments are recorded, where that has changed.
func (v *viewer) captures() bool {
	changed := v.site.opts.Capture.Changed()
	if changed == v.capture {
		return false
	}
	v.capture = changed
	v.say("capture", v.site.opts.Capture.Running())
	return true
}

func (v *viewer) logs() bool {
	if v.logsOf == "" {
		return false
	}
	lines, err := v.site.opts.Hub.Logs(v.logsOf)
	if err != nil {
		return false // it is not configured any more, which the servers say
	}
	lines = admin.Newer(lines, v.line)
	for _, l := range lines {
		v.line = l.N
		v.say("log", LogLine{v.logsOf, v.site.shapeLog(l)})
	}
	return len(lines) > 0
}

// say writes one word. What is said has no line break in it.
func (v *viewer) say(name string, what any) {
	_, _ = io.WriteString(v.out, "event: "+name+"\ndata: ") // the flush has the error
	_ = v.enc.Encode(what)                                  // likewise; it ends the line
	_, _ = io.WriteString(v.out, "\n")
}

// LogLine is a line of one server.
type LogLine struct {
	Server string `json:"server"`
	admin.LogLine
}
