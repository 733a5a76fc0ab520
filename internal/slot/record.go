package slot

import (
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

// recorded returns the call with the span s for one send of it.
func recorded(c *upstream.Call, s *tracing.Span) *upstream.Call {
	if c.Method == mcp.ToolsCall || c.Method == mcp.PromptsGet {
		s.Target = c.Name
		s.Name += " " + c.Name
	}
	s.Method = c.Method
	out := *c
	out.Span = s
	return &out
}

// finish ends the span of a send by what came of it.
func finish(c *upstream.Call, at time.Time, result *upstream.Result, err error) {
	s := c.Span
	f := fault.From(c.Method, err)
	switch {
	case f == nil && c.Method == mcp.ToolsCall && result.IsError():
		s.Error = event.CallToolError.String()
	case f == nil:
	case f.RPC != nil:
		s.Code, s.Error, s.Text = f.RPC.Code, strconv.FormatInt(f.RPC.Code, 10), f.RPC.Message
	default:
		s.Error = f.Kind.String() // its text may hold what the process wrote
	}
	s.End(at)
}

// peerOf is the server as the spans of its calls have it.
func peerOf(info *upstream.Info) *tracing.Peer {
	p := &tracing.Peer{Version: info.Era.Version, Session: info.Session, Transport: "pipe"}
	if info.Kind != transport.HTTP && info.Kind != transport.SSE {
		return p
	}
	p.Transport, p.HTTP = "tcp", "1.1"
	u, err := url.Parse(info.URL)
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
func recordStart(r tracing.Recorder, server string, gen uint64, began time.Time, phases []upstream.Phase, peer *tracing.Peer, f *fault.Fault) {
	t := r.Begin(tracing.Context{}, "everline.start")
	if t == nil {
		return
	}
	s := &t.Root
	s.Name, s.Server, s.Generation, s.Peer = "everline.start "+server, server, gen, peer
	s.Began, s.Ended = began, time.Now()
	if f != nil {
		s.Error, s.Text = f.Kind.String(), f.Reason()
	}
	for _, p := range phases {
		kind, method := tracing.Client, methodOfPhase[p.Name]
		if method == "" {
			kind, method = tracing.Internal, "everline.start "+p.Name
		}
		child := t.Below(s, kind, method)
		child.Server, child.Generation, child.Began = server, gen, p.Began
		if kind == tracing.Client {
			child.Method, child.Peer = method, peer
		}
		child.End(p.Began.Add(p.Took))
	}
	t.End(r)
}

// methodOfPhase are the phases that are one request.
var methodOfPhase = map[string]string{
	upstream.PhaseEra: mcp.ServerDiscover, upstream.PhaseInitialize: mcp.Initialize, upstream.PhaseList: mcp.ToolsList,
}
