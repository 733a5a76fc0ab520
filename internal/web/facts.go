package web

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/history"
)

func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// History is the answer of GET /api/v1/history.
type History struct {
	Run       string          `json:"run"`
	StartedAt time.Time       `json:"startedAt"` // before that nothing is known
	From      time.Time       `json:"from"`
	To        time.Time       `json:"to"`
	Servers   []ServerHistory `json:"servers"`
}

// ServerHistory is what happened to one server.
type ServerHistory struct {
	Name  string `json:"name"`
	Spans []Span `json:"spans"`
	Marks []Mark `json:"marks"`
}

// Span is a time in one state; state "mixed" stands for several that are too short
// to be told apart.
type Span struct {
	State       event.State `json:"state"`
	Generation  uint64      `json:"generation"`
	From        time.Time   `json:"from"`
	To          *time.Time  `json:"to"` // null if it lasts
	Text        string      `json:"text,omitempty"`
	Generations int         `json:"generations,omitempty"`
	AwayMS      int64       `json:"awayMs,omitempty"`
}

// Mark is what happened in one minute.
type Mark struct {
	Time     time.Time `json:"time"`
	Saved    uint16    `json:"saved,omitempty"`
	Unknown  uint16    `json:"unknown,omitempty"`
	Failed   uint16    `json:"failed,omitempty"`
	Repeated uint16    `json:"repeated,omitempty"`
	Catalog  uint8     `json:"catalog,omitempty"`
	Config   uint8     `json:"config,omitempty"`
	Drill    uint8     `json:"drill,omitempty"` // that began
}

// window is the time that a request asks for; the last hour if it does not say.
func window(r *http.Request) (from, to time.Time, f *fault.Fault) {
	to = time.Now()
	from = to.Add(-time.Hour)
	for name, at := range map[string]*time.Time{"from": &from, "to": &to} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return from, to, fault.New(fault.Invalid, "history", name+" must be a time as in RFC 3339")
		}
		*at = t
	}
	if !from.Before(to) || to.Sub(from) > 7*history.Day {
		return from, to, fault.New(fault.Invalid, "history", "from must be before to, and a week before at most")
	}
	return from, to, nil
}

// history is GET /api/v1/history?from&to&px&server.
func (s *Site) history(w http.ResponseWriter, r *http.Request) {
	from, to, f := window(r)
	if f != nil {
		refuse(w, http.StatusBadRequest, f.Kind, f.Reason(), "")
		return
	}
	px, err := strconv.Atoi(r.URL.Query().Get("px"))
	if err != nil || px < 1 || px > 10_000 {
		px = 1200
	}
	only, least := r.URL.Query().Get("server"), to.Sub(from)/time.Duration(px)
	h := History{Run: s.opts.Journal.Run(), StartedAt: s.started, From: from, To: to, Servers: []ServerHistory{}}
	for _, server := range s.opts.Hub.Config().Servers {
		if only == "" || server.Name == only {
			h.Servers = append(h.Servers, s.shapeHistory(server.Name, from, to, least))
		}
	}
	answer(w, h)
}

func (s *Site) shapeHistory(name string, from, to time.Time, least time.Duration) ServerHistory {
	h := ServerHistory{Name: name, Spans: []Span{}, Marks: []Mark{}}
	for _, sp := range s.opts.History.Spans(name, from, to, time.Now(), least) {
		span := Span{State: sp.State, Generation: sp.Gen, From: sp.From, Text: s.opts.API.Hide(sp.Text), Generations: sp.Generations, AwayMS: sp.Away.Milliseconds()}
		if !sp.To.IsZero() {
			span.To = &sp.To
		}
		h.Spans = append(h.Spans, span)
	}
	if st, ok := s.opts.Hub.Server(name); ok && !st.AwaySince.IsZero() && st.AwaySince.Before(from) {
		from = st.AwaySince // what an outage has cost is told whole
	}
	for _, m := range s.opts.History.Marks(name, from, to) {
		h.Marks = append(h.Marks, Mark{m.At(), m.Saved, m.Unknown, m.Failed, m.Repeated, m.Catalog, m.Config, m.Drill})
	}
	return h
}

// Series is the answer of GET /api/v1/series.
type Series struct {
	StepS  int       `json:"stepSeconds"`
	Begin  time.Time `json:"begin"` // of the first step
	Calls  []uint32  `json:"calls"`
	Failed []uint32  `json:"failed"`
	P50    []int64   `json:"p50us"` // 0 where nothing was answered
	P95    []int64   `json:"p95us"`
}

// series is GET /api/v1/series?server&from&to.
func (s *Site) series(w http.ResponseWriter, r *http.Request) {
	from, to, f := window(r)
	if f != nil {
		refuse(w, http.StatusBadRequest, f.Kind, f.Reason(), "")
		return
	}
	step, begin, points := s.opts.History.Series(r.URL.Query().Get("server"), from, to)
	out := Series{int(step / time.Second), begin, []uint32{}, []uint32{}, []int64{}, []int64{}}
	for _, p := range points {
		out.Calls, out.Failed = append(out.Calls, p.Calls), append(out.Failed, p.Failed)
		out.P50, out.P95 = append(out.P50, p.P50.Microseconds()), append(out.P95, p.P95.Microseconds())
	}
	answer(w, out)
}

// Rates is the answer of GET /api/v1/rates.
type Rates struct {
	Servers map[string][]uint32 `json:"servers"` // calls by the minute, oldest first, of servers that had some
}

// rateMinutes is how far back the rates go.
const rateMinutes = 20

// rates is GET /api/v1/rates: the small pictures of the overview, for all servers at once.
func (s *Site) rates(w http.ResponseWriter, _ *http.Request) {
	out := Rates{map[string][]uint32{}}
	now := time.Now()
	for _, server := range s.opts.Hub.Config().Servers {
		if all := s.opts.History.Minutes(server.Name, now, rateMinutes); all != nil {
			out.Servers[server.Name] = all
		}
	}
	answer(w, out)
}

// events is GET /api/v1/events: those that are kept, oldest first.
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	after, f := s.opts.API.Cursor(r)
	if f != nil {
		refuse(w, http.StatusBadRequest, f.Kind, f.Reason(), "")
		return
	}
	events, _ := s.opts.API.Since(after)
	answer(w, append([]admin.Event{}, events...))
}

// logs is GET /api/v1/servers/NAME/logs: the lines that are kept, oldest first.
func (s *Site) logs(w http.ResponseWriter, r *http.Request) {
	lines, err := s.opts.Hub.Logs(r.PathValue("name"))
	if err != nil {
		f := fault.From("logs", err)
		refuse(w, http.StatusNotFound, f.Kind, f.Reason(), "")
		return
	}
	out := make([]admin.LogLine, len(lines))
	for i, l := range lines {
		out[i] = s.shapeLog(l)
	}
	answer(w, out)
}

func (s *Site) shapeLog(l everline.LogLine) admin.LogLine {
	return admin.LogLine{Time: l.Time, Generation: l.Gen, Text: s.opts.API.Hide(l.Text), N: l.N}
}

// Pins is the answer of GET /api/v1/pins: what differs, and what proves that a
// person has looked at it.
type Pins struct {
	admin.Pins
	Each []string          `json:"each"` // of each change, in their order
	Seen map[string]string `json:"seen"` // of all changes of a server; "" is for all
}

func (s *Site) pins(w http.ResponseWriter, _ *http.Request) {
	p := Pins{Pins: s.opts.API.Pins(), Each: []string{}, Seen: map[string]string{}}
	for _, c := range p.Changes {
		p.Each = append(p.Each, admin.Fingerprint(admin.Approval{Server: c.Server, Tool: c.Tool}.Concerned(p.Changes)))
		p.Seen[c.Server] = admin.Fingerprint(admin.Approval{Server: c.Server}.Concerned(p.Changes))
	}
	p.Seen[""] = admin.Fingerprint(p.Changes)
	answer(w, p)
}

// Config is the answer of GET /api/v1/config.
type Config struct {
	Files     []string `json:"files"`
	Warnings  []string `json:"warnings"`
	Error     *string  `json:"error"` // why the files, as they are now, are not applied
	Remedy    *string  `json:"remedy"`
	Effective string   `json:"effective"` // what is applied, without secrets
}

func (s *Site) config(w http.ResponseWriter, _ *http.Request) {
	st := s.opts.API.Status()
	answer(w, Config{st.Config, st.Warnings, st.ConfigError, st.ConfigRemedy, string(s.opts.Effective())})
}

// ClientSetup is how one client reaches everline.
type ClientSetup struct {
	Client  string `json:"client"`
	Title   string `json:"title"`
	Command string `json:"command"` // writes it into the client's file
	Text    string `json:"text"`    // what a file says that has nothing else in it
}

// connect is GET /api/v1/connect.
func (s *Site) connect(w http.ResponseWriter, _ *http.Request) {
	all := []ClientSetup{}
	for _, format := range clients.Formats()[1:] {
		entry := clients.LinkEntry(format, s.opts.Endpoint, "everline", "stdio")
		text, err := edit.SetServer(format, "config", nil, clients.LinkName, entry)
		if err != nil {
			text = nil // the command says why
		}
		all = append(all, ClientSetup{format, clients.Title(format), "everline link " + format, string(text)})
	}
	answer(w, all)
}
