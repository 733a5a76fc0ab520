package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
)

// DrillRequest is the body of POST /v1/servers/{name}/drill. A time of 0 is
// the usual one.
type DrillRequest struct {
	Fault      string `json:"fault"` // kill, hang, 404, slow, garbage or drop
	ForMS      int64  `json:"forMs,omitempty"`
	DelayMS    int64  `json:"delayMs,omitempty"`    // how long slow holds an answer back
	RecoveryMS int64  `json:"recoveryMs,omitempty"` // how long the server may take to recover
}

// DrillStep is one line of its answer. The fault is over when the request ends,
// however it does.
type DrillStep struct {
	What   string       `json:"what"`             // broken, over, then done or failed
	Report *DrillReport `json:"report,omitempty"` // with done
	Error  *ErrorBody   `json:"error,omitempty"`  // with failed
}

// DrillReport is what a drill has shown, as everline itself saw it.
type DrillReport struct {
	Server           string     `json:"server"`
	Fault            string     `json:"fault"`
	Began            time.Time  `json:"began"`
	LastedMS         float64    `json:"lastedMs"` // 0 for a fault that happens once
	GenerationBefore uint64     `json:"generationBefore"`
	GenerationAfter  uint64     `json:"generationAfter"`
	Recovered        bool       `json:"recovered"`  // the server answered again
	RecoveryMS       float64    `json:"recoveryMs"` // from the fault's end until then
	Woken            bool       `json:"woken"`      // it was told to connect, because it had not recovered in time
	CatalogShort     bool       `json:"catalogShort"`
	Clients          DrillCalls `json:"clients"`
	Probes           DrillCalls `json:"probes"`
}

// DrillCalls is what calls saw meanwhile.
type DrillCalls struct {
	Calls     int            `json:"calls"`
	Answered  int            `json:"answered"` // with a result, or the server's own error
	Failed    map[string]int `json:"failed"`   // by kind; see fault.Kind
	GaveUp    int            `json:"gaveUp"`   // ended by their client
	Waited    int            `json:"waited"`   // times that one waited for the server
	Resent    int            `json:"resent"`   // times that one was sent again
	LongestMS float64        `json:"longestMs"`
	MedianMS  float64        `json:"medianMs"`
}

func shapeDrill(server, what string, r everline.DrillReport) *DrillReport {
	return &DrillReport{
		Server: server, Fault: what, Began: r.Began, LastedMS: millis(r.Lasted),
		GenerationBefore: r.Before, GenerationAfter: r.After, Recovered: r.Recovered, RecoveryMS: millis(r.Recovery),
		Woken: r.Woken, CatalogShort: r.Short, Clients: shapeTally(r.Clients), Probes: shapeTally(r.Probes),
	}
}

func shapeTally(t everline.DrillTally) DrillCalls {
	c := DrillCalls{
		Calls: t.Calls, Answered: t.Answered, Failed: map[string]int{}, GaveUp: t.GaveUp, Waited: t.Waited, Resent: t.Resent,
		LongestMS: millis(t.Longest), MedianMS: millis(t.Median),
	}
	for kind, n := range t.Failed {
		c.Failed[kind.String()] = n
	}
	return c
}

// millis has microseconds behind the point.
func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// maxDrill bounds the body of a drill's request in bytes.
const maxDrill = 4 << 10

// drill breaks a server for as long as the request lasts, at most.
func (a *API) drill(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if _, ok := a.opts.Hub.Server(name); !ok {
		a.fail(w, a.noServer("drill", name))
		return
	}
	var req DrillRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDrill))
	if err != nil || json.Unmarshal(body, &req) != nil || min(req.ForMS, req.DelayMS, req.RecoveryMS) < 0 {
		a.fail(w, &fault.Fault{Kind: fault.Invalid, Op: "drill", Outcome: fault.NotSent, Err: errors.New(`the body must be {"fault","forMs","delayMs","recoveryMs"}`)})
		return
	}
	a.Operated(r, name, "drill", req.Fault)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	steps := make(chan DrillStep, 3) // room for all: the drill waits for no reader
	go func() {                      // ends with ctx at the latest; read to its end below
		defer close(steps)
		report, err := a.opts.Hub.Drill(ctx, name, everline.Drill{
			Fault: req.Fault, For: ofMillis(req.ForMS), Delay: ofMillis(req.DelayMS), Recovery: ofMillis(req.RecoveryMS),
			Broken: func() { steps <- DrillStep{What: "broken"} },
			Over:   func() { steps <- DrillStep{What: "over"} },
		})
		if err != nil {
			e := shapeError(fault.From("drill", err), a.hide()).Error
			steps <- DrillStep{What: "failed", Error: &e}
			return
		}
		steps <- DrillStep{What: "done", Report: shapeDrill(name, req.Fault, report)}
	}()
	a.writeSteps(w, steps, cancel)
}

func ofMillis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// writeSteps writes the steps as they come, and ends the drill where nobody
// reads them any more.
func (a *API) writeSteps(w http.ResponseWriter, steps <-chan DrillStep, cancel func()) {
	stop := a.stop
	var out *lineWriter
	for {
		select {
		case <-stop:
			stop = nil
			cancel()
		case s, more := <-steps:
			switch {
			case !more:
				return
			case out == nil && s.Error != nil: // it never began
				answer(w, httpStatus(kindNamed(s.Error.Kind)), Error{*s.Error})
				continue
			case out == nil:
				out = newLineWriter(w)
			}
			if out.enc.Encode(s) != nil || out.ctl.Flush() != nil {
				cancel()
			}
		}
	}
}

// ping asks the server for an answer on the way of every call.
func (a *API) ping(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if _, ok := a.opts.Hub.Server(name); !ok {
		a.fail(w, a.noServer("ping", name))
		return
	}
	if err := a.opts.Hub.Ping(r.Context(), name); err != nil {
		a.fail(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

// Ping is POST /v1/servers/{name}/ping.
func (c *Client) Ping(ctx context.Context, server string) error {
	body, err := c.do(ctx, http.MethodPost, serverPath(server, "ping"), nil)
	if err != nil {
		return err
	}
	return body.Close()
}

// Drill breaks a server on purpose and gives each step to fn, the last one,
// which holds the report, included. The fault is over when ctx ends.
func (c *Client) Drill(ctx context.Context, server string, r DrillRequest, fn func(DrillStep)) (*DrillReport, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "drill", Outcome: fault.NotSent, Err: err}
	}
	body, err := c.do(ctx, http.MethodPost, serverPath(server, "drill"), data)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var s DrillStep
		switch err := dec.Decode(&s); {
		case err != nil && ctx.Err() != nil:
			return nil, fault.From("drill", ctx.Err())
		case err != nil:
			return nil, failedStream(err)
		}
		fn(s)
		switch {
		case s.Error != nil:
			return nil, s.Error.Fault()
		case s.Report != nil:
			return s.Report, nil
		}
	}
}
