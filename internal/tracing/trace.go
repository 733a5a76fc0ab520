// Package tracing says what is recorded of a request on its way: its spans, and the
// context by which the spans of others belong to the same trace. It writes nothing
// anywhere, and does not know who does.
package tracing

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A Recorder decides about requests, and takes what was recorded. Its methods are
// called by many goroutines at a time; they do not block.
type Recorder interface {
	// Begin is asked about each request, whose caller stands there. nil: nothing
	// of it is recorded.
	Begin(caller Context, method string) *Trace
	// End takes a trace that is over. Nothing in it changes any more.
	End(*Trace)
}

// Kind is the side of an exchange that a span is of.
type Kind uint8

// The kinds.
const (
	Internal Kind = iota
	Server        // it was asked
	Client        // it asks
)

// A Span is one thing that took time. Its fields are set by whoever began it, and
// final when its trace ends.
type Span struct {
	Kind         Kind
	Own          Context
	Parent       Context // the zero value of a root
	Link         Context // another caller; the zero value if there is none
	Name         string
	Began, Ended time.Time

	Method     string
	Target     string // of tools/call and prompts/get: the name, in the words of that side
	RequestID  string // the JSON-RPC id, in the words of that side; "" for none
	Peer       *Peer  // the other side; nil if there is none
	Server     string // its name in the configuration
	Generation uint64
	Send       int    // of a send: which one of its request, from 1
	For        string // of a wait: what was waited for

	Error string // what went wrong, in one of few words; "" if nothing did
	Code  int64  // of the JSON-RPC error that is the answer; 0 if that is none
	Text  string // of the error, without secrets

	trace *Trace
}

// A Peer is the other side of an exchange.
type Peer struct {
	Version   string // of the protocol
	Session   string // a digest of its id; "" for none
	Transport string // tcp, pipe or unix
	HTTP      string // its version; "" if it is not spoken
	Address   string
	Port      int
}

// A Trace is what everline records of one request. All methods may be called by
// many goroutines at a time, and on nil, which records nothing.
type Trace struct {
	Root Span
	// Facts are what became of the request at a server; valid if Called.
	Facts  event.CallFacts
	Called bool
	State  string // of the server, where the request failed

	mu    sync.Mutex // guards the rest, and Facts, Called and State until End
	spans []*Span
	over  bool
	first [2]*Span // most requests have no more
}

// New returns a trace whose root stands below caller. Others are told of its spans
// if own is sampled.
func New(own, caller Context) *Trace {
	t := &Trace{}
	t.Root = Span{Own: own, Parent: caller, Began: time.Now(), trace: t}
	t.spans = t.first[:0]
	return t
}

// Spans are those below the root. It is for the Recorder, once the trace is over.
func (t *Trace) Spans() []*Span { return t.spans }

// End gives the trace to the recorder; what is begun below it now is not recorded.
func (t *Trace) End(r Recorder) {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	r.End(t)
}

// Settle notes what became of the request at a server.
func (t *Trace) Settle(f *event.CallFacts) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.Facts, t.Called = *f, true
	}
}

// Verdict is what went wrong at the server, in one word: nothing did where it has
// answered by an error of its own, or the caller gave up.
func (t *Trace) Verdict() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch f := &t.Facts; {
	case !t.Called || f.Result == event.CallAnswered || f.Result == event.CallRPCError || f.Result == event.CallCanceled:
		return ""
	case f.Result == event.CallToolError:
		return f.Result.String()
	default:
		return f.Kind.String()
	}
}

// Failed notes how the server was seen when the request failed, and why it did.
func (t *Trace) Failed(state, text string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.State, t.Root.Text = state, text
	}
}

// Below returns a new span below parent, a span of this trace. Whoever gets it
// fills it, and finishes it by End; what is not finished when the trace is over is
// left out.
func (t *Trace) Below(parent *Span, kind Kind, name string) *Span {
	own := parent.Own.Child()
	own.Flags = parent.Own.Flags
	return &Span{Kind: kind, Own: own, Parent: parent.Own, Name: name, trace: t}
}

// Waited notes a wait that was long enough to be of interest.
func (t *Trace) Waited(began, ended time.Time, what string) {
	if t == nil || ended.Sub(began) <= time.Millisecond {
		return
	}
	s := t.Below(&t.Root, Internal, "everline.wait")
	s.Began, s.For = began, what
	s.End(ended)
}

// End finishes a span.
func (s *Span) End(at time.Time) {
	t := s.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		s.Ended = at
		t.spans = append(t.spans, s)
	}
}

// Done finishes a span of a request by how that went.
func (s *Span) Done(err error) {
	if f := fault.From(s.Method, err); f != nil {
		s.Error, s.Text = f.Kind.String(), f.Reason()
		if f.RPC != nil {
			s.Code = f.RPC.Code
			s.Error = strconv.FormatInt(s.Code, 10)
		}
	}
	s.End(time.Now())
}

// Told returns the params of a request in which the span takes the place of what
// else it would stand below; the same where others are not told of the span.
func (s *Span) Told(params []byte) []byte {
	if !s.Tells() {
		return params
	}
	return wire.Set(params, s.Own.Text(), "_meta", mcp.MetaTraceParent)
}

// Trace is what the span is of; nil of a nil span.
func (s *Span) Trace() *Trace {
	if s == nil {
		return nil
	}
	return s.trace
}

// Tells tells whether others are to be told of the span.
func (s *Span) Tells() bool { return s != nil && s.Own.Sampled() }

type key struct{}

// With returns a context below which the span is the parent of others.
func With(ctx context.Context, s *Span) context.Context { return context.WithValue(ctx, key{}, s) }

// From is the span of a context; nil if it has none.
func From(ctx context.Context) *Span {
	s, _ := ctx.Value(key{}).(*Span)
	return s
}
