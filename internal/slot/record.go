package slot

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// A try is one send that has ended.
type try struct {
	gen          *generation
	began, ended time.Time
	result       upstream.Result
	err          error
}

// onSend has the span s be that of one send of the call.
func onSend(s *tracing.Span, c *upstream.Call, g *generation, send int, began time.Time) *tracing.Span {
	s.Method, s.Server, s.Generation, s.Peer, s.Send, s.Began = c.Method, g.server, g.gen, g.peer, send, began
	if c.Method == mcp.ToolsCall || c.Method == mcp.PromptsGet {
		s.Target = c.Name
	}
	return s
}

// recorded returns the call with a span for the send that begins.
func recorded(c *upstream.Call, t *tracing.Trace, g *generation, send int, began time.Time) *upstream.Call {
	out := *c
	out.Span = onSend(t.Below(nil, tracing.Client), c, g, send, began)
	return &out
}

// sent records and measures a send that has ended.
func (t *try) sent(d *tracing.Durations, method string, s *tracing.Span) {
	if s == nil && d == nil {
		return
	}
	word, code, text := "", int64(0), ""
	f := fault.From(method, t.err)
	switch {
	case f == nil && method == mcp.ToolsCall && t.result.IsError():
		word = event.CallToolError.String()
	case f == nil:
	case f.RPC != nil:
		code, text = f.RPC.Code, t.gen.redact.hide(f.RPC.Message)
		word = strconv.FormatInt(code, 10)
	default:
		word = f.Kind.String() // its text may hold what the process wrote
	}
	if s != nil {
		s.Error, s.Code, s.Text = word, code, text
		s.End(t.ended)
	}
	if d != nil {
		d.Asked.Observe(tracing.Operation{Method: method, Error: word, Code: code, Peer: *t.gen.peer}, t.ended.Sub(t.began))
	}
}

// meet is the server as the spans of its calls have it. The start is over.
func (g *generation) meet() *tracing.Peer {
	link := transport.Info{Kind: transport.HTTP, URL: g.spec.URL}
	if info := g.link.Load(); info != nil {
		link = (*info)()
	} else if g.spec.URL == "" {
		link.Kind = transport.Stdio
	}
	p := &tracing.Peer{Version: g.info.Era.Version, Session: link.Session, Transport: "pipe"}
	if link.Kind != transport.HTTP && link.Kind != transport.SSE {
		return p
	}
	p.Transport, p.HTTP = "tcp", link.HTTP
	u, err := url.Parse(link.URL)
	switch {
	case err != nil:
	case u.Scheme == "unix":
		p.Transport, p.Address = "unix", u.Path
	default:
		p.Address = u.Hostname()
		if p.Port, _ = strconv.Atoi(u.Port()); p.Port == 0 {
			p.Port = map[string]int{"http": 80, "https": 443}[u.Scheme]
		}
	}
	return p
}

// recordStart records how a generation came up, or that it did not.
func recordStart(r tracing.Recorder, g *generation, began time.Time, f *fault.Fault) {
	now := time.Now()
	t, chance := r.Begin(tracing.Context{}, began)
	if chance {
		t = tracing.Perhaps(context.Background(), began).Over(now)
	}
	if t == nil {
		return
	}
	for i := range g.info.Phases {
		p := &g.info.Phases[i]
		child := t.Below(nil, tracing.Internal)
		child.Server, child.Generation, child.Began = g.server, g.gen, p.Began
		if child.Method = methodOfPhase[p.Name]; child.Method != "" {
			child.Kind, child.Peer = tracing.Client, g.peer
		} else {
			child.Name = "everline.start " + p.Name
		}
		if p.Fault != nil {
			child.Fail(g.redact.fault(p.Fault))
		}
		child.End(p.Began.Add(p.Took))
	}
	s := t.Over(now)
	s.Name, s.Server, s.Generation, s.Peer = "everline.start "+g.server, g.server, g.gen, g.peer
	if f != nil {
		s.Fail(f)
	}
	t.End(r)
}

// methodOfPhase are the phases that are one request.
var methodOfPhase = map[string]string{
	upstream.PhaseEra: mcp.ServerDiscover, upstream.PhaseInitialize: mcp.Initialize, upstream.PhaseList: mcp.ToolsList,
}

// lasted measures how long a generation has served.
func (g *generation) lasted(d *tracing.Durations) {
	if d != nil && !g.served.IsZero() {
		d.Generations.Observe(tracing.Operation{Peer: *g.peer}, time.Since(g.served))
	}
}
