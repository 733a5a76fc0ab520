package gateway

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/wire"
)

// record begins what is recorded of a request; nil for nothing. Its caller is who
// its _meta names, else who its POST does (SEP-414).
func (svc *service) record(x *exchange) (t *tracing.Trace, chance bool) {
	meta := &x.Fields.Meta
	if meta.Traces > 1 {
		return nil, false // whose child it is cannot be told
	}
	caller, inHeader := callerOf(wire.Text(meta.TraceParent)), tracing.Context{}
	if x.request != nil {
		inHeader = callerOf(single(x.request.Header[headerTraceParent]))
	}
	linked := inHeader.Valid() && caller.Valid() && inHeader.Span != caller.Span
	if caller.Valid() {
		caller.State, _ = wire.Text(meta.TraceState)
	} else if caller = inHeader; caller.Valid() {
		caller.State = strings.Join(x.request.Header[headerTraceState], ",")
	}
	t, chance = svc.opts.Recorder.Begin(caller, x.began)
	if t != nil && linked {
		link := inHeader // few requests have one: the others need no room for it
		t.Link = &link
	}
	return t, chance
}

// A recording is what is recorded of a request, or may be; the zero value is nothing.
type recording struct {
	trace *tracing.Trace
	late  *tracing.Chance
}

// recording begins that of a request, and returns ctx with it.
func (svc *service) recording(ctx context.Context, x *exchange) (context.Context, recording) {
	t, chance := svc.record(x)
	switch {
	case t != nil:
		return t.In(ctx), recording{trace: t}
	case chance:
		late := tracing.Perhaps(ctx, x.began)
		return late, recording{late: late}
	default:
		return ctx, recording{}
	}
}

// ended ends it by the answer.
func (svc *service) ended(r recording, x *exchange, a *message.Answer) {
	t := r.trace
	if r.late != nil {
		t = r.late.Over(time.Now())
	}
	if t != nil {
		svc.recorded(t, x, a)
	}
}

// The keys of what a POST says of its caller.
const (
	headerTraceParent = "Traceparent"
	headerTraceState  = "Tracestate"
)

// single is the one value of a header field that may not be there twice.
func single(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
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
	s := t.Over(time.Now())
	s.Kind, s.Method = tracing.Server, x.Method
	if x.Method == mcp.ToolsCall || x.Method == mcp.PromptsGet {
		s.Target, _ = x.ItemName()
	}
	s.RequestID, s.Peer = tracing.RequestID(x.ID), x.asker()
	var text string
	s.Code, text = a.Error()
	s.Error = wrong(t.Facts.Verdict(), s.Code)
	if s.Error != "" && s.Text == "" {
		s.Text = text
	}
	t.End(svc.opts.Recorder)
}

// wrong is what went wrong with a request, in one word, whose call ended with this
// verdict and whose answer has this code.
func wrong(verdict string, code int64) string {
	switch {
	case callersFault(code):
		return ""
	case verdict == "" && code != 0:
		return strconv.FormatInt(code, 10)
	default:
		return verdict
	}
}

// observe has what becomes of a call noted for measured.
func (x *exchange) observe(out *everline.Call) {
	also := out.Observe
	out.Observe = func(f event.CallFacts) {
		facts := tracing.FactsOf(&f)
		x.verdict.Store(&facts)
		if also != nil {
			also(f)
		}
	}
}

// measured notes how long a request took.
func (svc *service) measured(x *exchange, a *message.Answer) {
	code, _ := a.Error()
	f := tracing.Facts{}
	if v := x.verdict.Load(); v != nil {
		f = *v
	}
	svc.durations.Answered.Observe(tracing.Operation{Method: x.Method, Error: wrong(f.Verdict(), code), Code: code, Peer: *x.peer()}, time.Since(x.began))
}

// recordFailure notes why a call has failed.
func (svc *service) recordFailure(ctx context.Context, err error) {
	if svc.opts.Recorder == nil {
		return
	}
	if t, _ := tracing.From(ctx); t != nil {
		t.Failed(fault.From("", err))
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

// peer is the client of an exchange, as far as it is one of many alike.
func (x *exchange) peer() *tracing.Peer {
	p := &tracing.Peer{Transport: "pipe"}
	switch {
	case x.Modern:
		p.Version = mcp.ModernVersion
	case x.sess != nil:
		p.Version = x.sess.Protocol()
	}
	if r := x.request; r != nil {
		p.Transport, p.HTTP = "tcp", strings.TrimSuffix(strings.TrimPrefix(r.Proto, "HTTP/"), ".0")
		if !strings.Contains(r.RemoteAddr, ":") {
			p.Transport = "unix"
		}
	}
	return p
}

// asker is the client as the spans of its requests have it.
func (x *exchange) asker() *tracing.Peer {
	p := x.peer()
	if !x.Modern && x.sess != nil {
		p.Session = mcp.Digest(x.sess.Key)
	}
	if host, port, err := net.SplitHostPort(x.addr()); err == nil {
		p.Address = host
		p.Port, _ = strconv.Atoi(port) // 0 is none
	}
	return p
}

// askSpan begins the span of a request to a client, below that of ctx, and returns
// the params that tell of it; nil where nothing is recorded.
func askSpan(ctx context.Context, method string, params []byte) (*tracing.Span, []byte) {
	t, parent := tracing.From(ctx)
	if parent == nil {
		return nil, params
	}
	s := t.Below(parent, tracing.Client)
	s.Method, s.Began = method, time.Now()
	return s, s.Told(params)
}
