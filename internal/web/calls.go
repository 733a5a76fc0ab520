package web

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/history"
)

// Calls is the answer of GET /api/v1/calls.
type Calls struct {
	Calls []Call  `json:"calls"` // newest first
	Next  *string `json:"next"`  // ?before= of the next page; null if there is none
}

// Call is one call that has ended. Neither arguments nor results are kept.
type Call struct {
	ID           string    `json:"id"`
	Time         time.Time `json:"time"` // when it came
	Server       string    `json:"server"`
	Generations  []uint64  `json:"generations"` // that it was sent to first and last; none if to none
	Method       string    `json:"method"`
	Name         string    `json:"name"`    // the server's own of the tool or prompt, or a URI
	Exposed      *string   `json:"exposed"` // by which the client asked; null if that names no item
	Client       *Client   `json:"client"`  // null if nobody is known
	Outcome      string    `json:"outcome"`
	Kind         *string   `json:"kind"`  // why it failed
	Saved        *string   `json:"saved"` // replay or parking
	TookMS       float64   `json:"tookMs"`
	WaitedMS     float64   `json:"waitedMs"`
	UpstreamMS   float64   `json:"upstreamMs"`
	Sends        int       `json:"sends"`
	FirstFailed  *string   `json:"firstFailed"` // what its first send failed with, where another followed
	RequestBytes int       `json:"requestBytes"`
	ResultBytes  int       `json:"resultBytes"`
	TraceID      *string   `json:"traceId"` // null if it is in no trace
	Code         *int64    `json:"code"`    // of the JSON-RPC error that the server has answered
}

// Client is who made a call, as far as it shows.
type Client struct {
	ID       uint64  `json:"id"`
	Name     string  `json:"name"` // as it calls itself; "" where it has not said so
	Version  string  `json:"version"`
	Protocol string  `json:"protocol"` // the revision that it speaks
	Subject  *string `json:"subject"`  // the identity that was proven; null for none
}

func (s *Site) shapeClient(id uint64, by *event.Caller) *Client {
	if by == nil && id == 0 {
		return nil
	}
	c := &Client{ID: id}
	if by != nil {
		c.Name, c.Version, c.Protocol = s.opts.API.Hide(by.Name), s.opts.API.Hide(by.Version), by.Protocol
		c.Subject = known(by.Subject)
	}
	return c
}

func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func generations(f *event.CallFacts) []uint64 {
	all := []uint64{}
	if f.FirstGen != 0 {
		all = append(all, f.FirstGen)
	}
	if f.Gen != f.FirstGen {
		all = append(all, f.Gen)
	}
	return all
}

func (s *Site) shapeCall(c history.Call) Call {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	out := Call{
		ID: s.opts.Journal.Run() + "-" + strconv.FormatUint(c.ID, 10), Time: c.Began, Server: c.Server, Generations: generations(&c.CallFacts), Method: c.Method,
		Name: s.opts.API.Hide(c.Name), Exposed: known(s.opts.API.Hide(c.Exposed)), Client: s.shapeClient(c.Client, c.By), Outcome: c.Result.String(), TookMS: ms(c.Took), WaitedMS: ms(c.Waited), UpstreamMS: ms(c.Upstream),
		Sends: c.Sends, RequestBytes: c.ParamBytes, ResultBytes: c.Bytes, Saved: known(c.Saved.String()), Code: known(c.Code),
	}
	if !c.Result.Answered() && c.Result != event.CallCanceled {
		out.Kind = known(c.Kind.String())
	}
	if c.Sends > 1 {
		out.FirstFailed = known(c.FirstFailed.String())
	}
	if c.Trace != [16]byte{} {
		out.TraceID = known(hex.EncodeToString(c.Trace[:]))
	}
	return out
}

func every(*event.CallFacts) bool { return true }

const callsPage = 100

// calls is GET /api/v1/calls?limit&before&server&outcome&name&client; outcome may be
// "saved", and the last two are parts of names.
func (s *Site) calls(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 1 || limit > 1000 {
		limit = callsPage
	}
	before, ok := s.callNumber(q.Get("before"))
	if !ok && q.Get("before") != "" {
		answer(w, Calls{Calls: []Call{}}) // of another run nothing is kept
		return
	}
	server, outcome, name, client := q.Get("server"), q.Get("outcome"), q.Get("name"), q.Get("client")
	found := s.opts.History.Calls(0, before, limit, func(f *event.CallFacts) bool {
		return (server == "" || f.Server == server) && (name == "" || strings.Contains(f.Name, name) || strings.Contains(f.Exposed, name)) &&
			(client == "" || f.By != nil && (strings.Contains(f.By.Name, client) || strings.Contains(f.By.Subject, client))) &&
			(outcome == "" || f.Result.String() == outcome || outcome == "saved" && f.Saved != event.NotSaved)
	})
	out := Calls{Calls: []Call{}}
	for _, c := range found {
		out.Calls = append(out.Calls, s.shapeCall(c))
	}
	if len(found) == limit {
		out.Next = &out.Calls[limit-1].ID
	}
	answer(w, out)
}

// call is GET /api/v1/calls/ID.
func (s *Site) call(w http.ResponseWriter, r *http.Request) {
	if n, ok := s.callNumber(r.PathValue("id")); ok {
		if found := s.opts.History.Calls(n-1, n+1, 1, every); len(found) == 1 {
			answer(w, s.shapeCall(found[0]))
			return
		}
	}
	refuse(w, http.StatusNotFound, fault.NotFound, "this call is not kept: the newest 2,000 of this run are", "")
}

// callNumber is the number of a call of this run.
func (s *Site) callNumber(id string) (uint64, bool) {
	run, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	return n, err == nil && n > 0 && run == s.opts.Journal.Run()
}
