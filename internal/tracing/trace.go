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
	// Begin is asked about each request, whose caller stands there and which came
	// then. nil: nothing of it is recorded. Of one that might have been, something is
	// all the same if it turns out to be of interest: see Chance.
	Begin(caller Context, came time.Time) (t *Trace, chance bool)
	// End takes a trace that is over and has a root. Nothing in it changes any more.
	End(*Trace)
	// Late takes a span that has ended after its trace, as of a call that has gone on
	// behind the answer to its request.
	Late(*Span)
	// Durations are where durations are noted; nil: nowhere. It is always the same.
	Durations() *Durations
}

// DurationsOf are those of a recorder; nil of none.
func DurationsOf(r Recorder) *Durations {
	if r == nil {
		return nil
	}
	return r.Durations()
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
	Name         string // "" where Method and Target are the name
	Began, Ended time.Time

	Method     string
	Target     string // of tools/call and prompts/get: the name, in the words of that side
	RequestID  string // the JSON-RPC id, in the words of that side; "" for none
	Number     int64  // the same where it is one of ours; 0 for none
	Peer       *Peer  // the other side; nil if there is none
	Server     string // its name in the configuration
	Generation uint64
	Send       int    // of a send: which one of its request, from 1
	For        string // of a wait: what was waited for

	Error string // what went wrong, in one of few words; "" if nothing did
	Code  int64  // of the JSON-RPC error that is the answer; 0 if that is none
	Text  string // of the error, without secrets

	trace       *Trace
	own, parent [8]byte
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

// Facts are what became of a request at a server.
type Facts struct {
	Server     string
	Generation uint64
	Sends      int
	Result     event.CallResult
	Kind       fault.Kind // why it failed
	Saved      event.Saved
	Parked     bool
}

// A Trace is what everline records of one request. All methods may be called by many
// goroutines at a time, and on nil, which records nothing.
type Trace struct {
	context.Context // of the request: see In

	Caller Context  // the zero value for none
	Link   *Context // another caller; nil if there is none
	Began  time.Time

	// What follows is for the Recorder, once the trace is over.
	Root  *Span
	Facts Facts
	Asked bool   // a server was asked, or meant: Facts are valid
	State string // of the server, where the request failed
	Spans []*Span

	id    [16]byte
	own   [8]byte // the root's
	flags byte

	mu   sync.Mutex // guards the rest, and until the end Facts, Asked, State and Spans
	text string     // why the request failed
	late Recorder   // of spans that end now; nil until the end
}

// New returns a trace whose root stands below caller and began then. Others are told
// of its spans if own is sampled.
func New(own, caller Context, began time.Time) *Trace {
	return &Trace{Caller: caller, Began: began, id: own.Trace, own: own.Span, flags: own.Flags}
}

// Sampled tells whether the trace was wanted from the beginning, and others are told
// of it.
func (t *Trace) Sampled() bool { return t.flags&flagSampled != 0 }

// In returns ctx with the trace, whose root is the parent of what is begun below.
// A trace is of one context alone.
func (t *Trace) In(ctx context.Context) context.Context {
	t.Context = ctx
	return t
}

// Value implements context.Context.
func (t *Trace) Value(k any) any {
	if k == (key{}) {
		return t
	}
	return t.Context.Value(k)
}

// Over returns the root, for who began the trace to fill before End.
func (t *Trace) Over(now time.Time) *Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Root = &Span{trace: t, own: t.own, parent: t.Caller.Span, Began: t.Began, Ended: now, Text: t.text}
	return t.Root
}

// End gives the trace to the recorder.
func (t *Trace) End(r Recorder) {
	t.mu.Lock()
	t.late = r
	t.mu.Unlock()
	r.End(t)
}

// ID is the id of the trace; zero of nil.
func (t *Trace) ID() (id [16]byte) {
	if t != nil {
		id = t.id
	}
	return id
}

// Settle notes what became of the request at a server, and returns the id of the trace.
func (t *Trace) Settle(f *event.CallFacts) [16]byte {
	if t == nil {
		return [16]byte{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late == nil {
		t.Facts, t.Asked = FactsOf(f), true
	}
	return t.id
}

// FactsOf are those of a call.
func FactsOf(f *event.CallFacts) Facts {
	return Facts{f.Server, f.Gen, f.Sends, f.Result, f.Kind, f.Saved, f.Parked}
}

// Verdict is what went wrong at the server, in one word: nothing did where it has
// answered by an error of its own, or the caller gave up.
func (f *Facts) Verdict() string {
	switch f.Result {
	case event.CallAnswered, event.CallRPCError, event.CallCanceled:
		return ""
	case event.CallToolError:
		return f.Result.String()
	default:
		return f.Kind.String()
	}
}

// Failed notes why the request failed, and how its server was seen then.
func (t *Trace) Failed(f *fault.Fault) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late != nil {
		return
	}
	t.State, t.text = f.State, f.Reason()
	if !t.Asked {
		t.Facts, t.Asked = Facts{Server: f.Server, Generation: f.Gen, Result: event.ResultOf(f), Kind: f.Kind}, true
	}
}

// Below returns a new span below parent, a span of this trace; nil is the root.
// Whoever gets it fills it, and finishes it by End.
func (t *Trace) Below(parent *Span, kind Kind) *Span {
	s := &Span{Kind: kind, trace: t, own: newID(), parent: t.own}
	if parent != nil {
		s.parent = parent.own
	}
	return s
}

// Waited notes a wait that was long enough to be of interest.
func (t *Trace) Waited(began, ended time.Time, what string) {
	if t == nil || ended.Sub(began) <= time.Millisecond {
		return
	}
	s := t.Below(nil, Internal)
	s.Name, s.Began, s.For = "everline.wait", began, what
	s.End(ended)
}

// End finishes a span.
func (s *Span) End(at time.Time) {
	s.Ended = at
	if late := s.trace.add(s); late != nil {
		late.Late(s)
	}
}

// add keeps a span that has ended, or returns who else takes it.
func (t *Trace) add(s *Span) Recorder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late == nil {
		t.Spans = append(t.Spans, s)
	}
	return t.late
}

// Done finishes a span of a request by how that went.
func (s *Span) Done(err error) {
	if f := fault.From(s.Method, err); f != nil {
		s.Fail(f)
	}
	s.End(time.Now())
}

// Fail notes why the request of the span has failed.
func (s *Span) Fail(f *fault.Fault) {
	s.Error, s.Text = f.Kind.String(), f.Reason()
	if f.RPC != nil {
		s.Code = f.RPC.Code
		s.Error = strconv.FormatInt(s.Code, 10)
	}
}

// Own is where the span stands, as others are told.
func (s *Span) Own() Context {
	return Context{Trace: s.trace.id, Span: s.own, Flags: s.trace.flags, State: s.trace.Caller.State}
}

// Parent is what the span stands below; the zero value of a root.
func (s *Span) Parent() Context {
	if s == s.trace.Root {
		return s.trace.Caller
	}
	c := s.Own()
	c.Span = s.parent
	return c
}

// Follow has the span stand below what others have begun, if that is of the same
// trace.
func (s *Span) Follow(c Context) {
	if c.Trace == s.trace.id {
		s.parent = c.Span
	}
}

// Told returns the params of a request in which the span takes the place of what
// else it would stand below; the same where others are not told of the span.
func (s *Span) Told(params []byte) []byte {
	if !s.Tells() {
		return params
	}
	own := s.Own()
	return wire.Set(params, own.Text(), "_meta", mcp.MetaTraceParent)
}

// RequestID is the id of a request as text; "" of null.
func RequestID(raw []byte) string {
	if text, ok := wire.Text(raw); ok {
		return text
	}
	if wire.IsNull(raw) {
		return ""
	}
	return string(raw)
}

// Trace is what the span is of; nil of a nil span.
func (s *Span) Trace() *Trace {
	if s == nil {
		return nil
	}
	return s.trace
}

// Tells tells whether others are to be told of the span.
func (s *Span) Tells() bool { return s != nil && s.trace.Sampled() }

type key struct{}

// With returns a context below which the span is the parent of others.
func With(ctx context.Context, s *Span) context.Context {
	return context.WithValue(ctx, key{}, s)
}

// From is the trace of a context, and the span of it below which others stand there:
// nil is the root. The trace is nil if the context has none.
func From(ctx context.Context) (*Trace, *Span) {
	switch v := ctx.Value(key{}).(type) {
	case *Trace:
		return v, nil
	case *Span:
		return v.trace, v
	case *Chance:
		return v.Begun(), nil
	default:
		return nil, nil
	}
}
