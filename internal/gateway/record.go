package gateway

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/wire"
)

// record begins what is recorded of a request; nil for nothing. Its caller is who
// its _meta names, else who its POST does (SEP-414).
func (svc *service) record(x *exchange) *tracing.Trace {
	meta := &x.Fields.Meta
	if meta.Traces > 1 {
		return nil // whose child it is cannot be told
	}
	inMeta, inHeader := callerOf(wire.Text(meta.TraceParent)), tracing.Context{}
	if x.request != nil {
		inHeader = callerOf(x.request.Header.Get(mcp.MetaTraceParent), true)
	}
	caller := inMeta
	if caller.Valid() {
		caller.State, _ = wire.Text(meta.TraceState)
	} else if caller = inHeader; caller.Valid() {
		caller.State = x.request.Header.Get(mcp.MetaTraceState)
	}
	t := svc.opts.Recorder.Begin(caller, x.Method)
	if t != nil && inHeader.Valid() && inHeader.Span != caller.Span {
		t.Root.Link = inHeader
	}
	return t
}

func callerOf(text string, ok bool) tracing.Context {
	if !ok {
		return tracing.Context{}
	}
	c, _ := tracing.Parse([]byte(text))
	return c
}

// recorded ends what is recorded of a request by its answer.
func (svc *service) recorded(t *tracing.Trace, x *exchange, a *message.Answer) {
	s := &t.Root
	s.Ended, s.Kind, s.Method = time.Now(), tracing.Server, x.Method
	if x.Method == mcp.ToolsCall || x.Method == mcp.PromptsGet {
		s.Target, _ = x.ItemName()
	}
	if s.Name = s.Method; s.Target != "" {
		s.Name += " " + s.Target
	}
	s.RequestID, s.Peer = requestID(x.ID), x.peer()
	var text string
	s.Code, text = a.Error()
	switch verdict := t.Verdict(); {
	case callersFault(s.Code):
	case verdict != "":
		s.Error = verdict
	case s.Code != 0:
		s.Error, s.Text = strconv.FormatInt(s.Code, 10), text
	}
	t.End(svc.opts.Recorder)
}

// recordFailure notes why a call has failed.
func (svc *service) recordFailure(ctx context.Context, err error) {
	if svc.opts.Recorder == nil {
		return
	}
	if s := tracing.From(ctx); s != nil {
		f := fault.From("", err)
		s.Trace().Failed(f.State, f.Reason())
	}
}

// callersFault tells the errors that are the caller's own: the request was wrong,
// and nothing has failed (semantic conventions of JSON-RPC, server spans).
func callersFault(code int64) bool {
	switch code {
	case mcp.CodeParse, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams, mcp.CodeResourceNotFound:
		return true
	default:
		return false
	}
}

// requestID is the id of a request as text.
func requestID(raw []byte) string {
	if text, ok := wire.Text(raw); ok {
		return text
	}
	return string(raw)
}

// peer is the client of an exchange.
func (x *exchange) peer() *tracing.Peer {
	p := &tracing.Peer{Transport: "pipe"}
	switch {
	case x.Modern:
		p.Version = mcp.ModernVersion
	case x.sess != nil:
		p.Version = x.sess.Protocol()
		p.Session = mcp.Digest(x.sess.Key)
	}
	if r := x.request; r != nil {
		p.Transport, p.HTTP = "tcp", strings.TrimSuffix(strings.TrimPrefix(r.Proto, "HTTP/"), ".0")
		if host, port, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			p.Address = host
			p.Port, _ = strconv.Atoi(port) // 0 is none
		} else {
			p.Transport = "unix"
		}
	}
	return p
}

// askSpan begins the span of a request to a client, below that of ctx, and returns
// the params that tell of it; nil where nothing is recorded.
func askSpan(ctx context.Context, method string, params []byte) (*tracing.Span, []byte) {
	parent := tracing.From(ctx)
	if parent == nil {
		return nil, params
	}
	s := parent.Trace().Below(parent, tracing.Client, method)
	s.Method, s.Began = method, time.Now()
	return s, s.Told(params)
}
