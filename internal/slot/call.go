package slot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/upstream"
)

// resendPause is before the first send again on the same generation; it is four
// times as long before each further one.
const resendPause = 10 * time.Millisecond

// An Answer is what a server has answered, and which of its generations has.
type Answer struct {
	upstream.Result
	Gen    uint64
	Spent  time.Duration // at the server, and waiting for it
	Mortal bool          // what the server remembers ends with that generation
}

// Call sends one request to the server and returns its answer. It waits
// for a generation as Acquire does. What failed is sent again, on the next one
// and within the deadline, if there is proof that it was not executed, or if
// replay and the tool's hints say that repeating it is harmless; the table is
// rules. Its errors are faults whose Outcome covers all sends. It returns no
// later than ctx or the server's callTimeout ends.
func (s *Slot) Call(ctx context.Context, c *upstream.Call, replay config.Replay) (Answer, error) {
	return s.CallGen(ctx, 0, c, replay, Waited{}, nil)
}

// CallGen is Call for one generation alone: another is not asked, and the fault
// is NotFound. 0: any. before is how the call has waited already, the zero value if it
// has not; facts takes what is known of the call in the end; may be nil.
func (s *Slot) CallGen(ctx context.Context, gen uint64, c *upstream.Call, replay config.Replay, before Waited, facts *event.CallFacts) (Answer, error) {
	t := attempts{method: c.Method, name: c.Name, replay: replay, began: before.Began, waitSum: before.sum}
	if t.began.IsZero() {
		t.began = time.Now()
	}
	if s.opts.Recorder != nil {
		t.trace, _ = tracing.From(ctx)
	}
	out, err := s.call(ctx, gen, c, &t)
	f := s.settle(ctx, c, &t, &out, err)
	if facts != nil {
		*facts = f
	}
	s.drill.Load().note(ctx, t.began, err)
	return out, err
}

// Notify writes a notification of a client to the generation that serves now. There is
// none whose start it would wait for.
func (s *Slot) Notify(ctx context.Context, method string, params []byte) error {
	g := s.view.Load().serving
	if g == nil || !g.lease() {
		f := fault.New(fault.Unavailable, method, "no generation serves now")
		f.Server, f.Outcome = s.name, fault.NotSent
		return f
	}
	defer g.release()
	return g.up.Notify(ctx, method, params)
}

// settle counts a call that has ended, and tells of it.
func (s *Slot) settle(ctx context.Context, c *upstream.Call, t *attempts, out *Answer, err error) event.CallFacts {
	f := event.CallFacts{
		Server: s.name, Session: s.opts.Session, Gen: t.gen, FirstGen: t.first, Method: c.Method, Name: c.Name,
		Began: t.began, Waited: t.waited, Parked: t.parked, Upstream: t.upstream, Sends: t.sent, ParamBytes: len(c.Params), Bytes: len(out.Raw),
		Exposed: c.Exposed, By: c.By, FirstFailed: t.firstFailed,
	}
	if c.Client != nil {
		f.Client = c.Client.ID()
	}
	switch {
	case err != nil:
		cause := fault.From(c.Method, err)
		f.Took, f.Result, f.Kind = time.Since(t.began), event.ResultOf(cause), cause.Kind
		if cause.RPC != nil {
			f.Code = cause.RPC.Code
		}
	case c.Method == mcp.ToolsCall && out.IsError():
		f.Took, f.Result = t.ended.Sub(t.began), event.CallToolError
	default:
		f.Took = t.ended.Sub(t.began)
	}
	switch {
	case !f.Result.Answered():
	case t.sent > 1:
		f.Saved = event.ByReplay
	case t.parked:
		f.Saved = event.ByParking
	}
	if tracing.Interesting(&f) {
		s.interesting(ctx, c, t)
	}
	f.Trace = t.trace.Settle(&f)
	s.meter.Call(&f)
	if s.meter.CountsTools() && f.Method == mcp.ToolsCall {
		s.meter.Tool(f.Name, f.Result, func() bool { return s.lists(f.Name) })
	}
	if f.Trace != [16]byte{} {
		s.meter.Sampled(f.Trace, &f)
	}
	if s.opts.Observe != nil {
		s.opts.Observe(f)
	}
	return f
}

func (s *Slot) call(ctx context.Context, gen uint64, c *upstream.Call, t *attempts) (Answer, error) {
	limit := s.view.Load().Server.CallTimeout
	if deadline, ok := ctx.Deadline(); limit > 0 && (!ok || time.Until(deadline) > limit) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for {
		lease, err := s.acquire(ctx, t.after, &t.waitSum)
		if err != nil {
			return Answer{}, s.withState(t.total(err))
		}
		if gen != 0 && lease.Gen() != gen {
			lease.free()
			return Answer{}, s.withState(t.total(generationGone(s.name, gen, c.Method)))
		}
		if !t.bind(lease.gen) {
			lease.free()
			s.gaveUp(ctx, lease.gen, t, t.unknown, c)
			return Answer{}, s.withState(t.unknown)
		}
		if f := s.admit(lease.gen, c); f != nil {
			lease.free()
			return Answer{}, s.withState(t.total(f))
		}
		out, f := s.send(ctx, &lease, c, t)
		if f == nil {
			return out, nil
		}
		if !s.again(ctx, lease.gen, t, f, c) {
			if f.Kind == fault.SessionLost && t.sends > maxSessions {
				f = losesSessions(f, fmt.Sprintf("%d sessions in a row were lost under this call", t.sends))
			}
			return Answer{}, s.withState(t.total(f))
		}
	}
}

// admit asks whoever has a say about what is sent to this generation.
func (s *Slot) admit(g *generation, c *upstream.Call) *fault.Fault {
	if s.opts.Admit == nil {
		return nil
	}
	if f := s.opts.Admit(c, g.shown.Load()); f != nil {
		return f.At(g.server, g.gen)
	}
	return nil
}

// generationGone is the fault of a call for a generation that is over.
func generationGone(server string, gen uint64, method string) *fault.Fault {
	return &fault.Fault{
		Kind: fault.NotFound, Op: method, Server: server, Gen: gen, Outcome: fault.NotSent,
		Err: fmt.Errorf("the server was restarted since, and what generation %d remembered is lost", gen),
	}
}

// lists tells whether the server has said that it has this tool.
func (s *Slot) lists(tool string) bool {
	c := s.view.Load().Catalog
	return c != nil && slices.ContainsFunc(c.Items[catalog.Tools], func(t catalog.Item) bool { return t.Name == tool })
}

// withState adds to a fault how the server is seen now, and when the next attempt
// is due.
func (s *Slot) withState(f *fault.Fault) *fault.Fault {
	if f.Kind == fault.RPC {
		return f
	}
	c, v := *f, s.view.Load()
	c.State = string(v.Seen())
	if c.RetryAfter == 0 && !v.Next.IsZero() {
		c.RetryAfter = max(time.Until(v.Next), time.Millisecond)
	}
	return &c
}

// send sends the call once and releases the lease.
func (s *Slot) send(ctx context.Context, lease *Lease, c *upstream.Call, t *attempts) (out Answer, f *fault.Fault) {
	begun := s.sending(lease, t)
	returned := false
	defer func() {
		if !returned { // a panic ends one request, and must not keep its lease
			lease.free()
		}
	}()
	if t.trace != nil {
		c = recorded(c, t.trace, lease.gen, t.sent, begun)
	}
	result, err := lease.gen.up.Call(ctx, c)
	returned = true
	t.ended = time.Now()
	took := t.ended.Sub(begun)
	if s.opts.Recorder != nil {
		t.last = try{lease.gen, begun, t.ended, result, err}
		t.last.sent(s.durations, c.Method, c.Span)
	}
	t.upstream += took
	s.meter.Sent(took)
	if err == nil {
		lease.finish(c, nil)
		return Answer{result, lease.Gen(), t.upstream + t.waited, lease.gen.info.Mortal()}, nil
	}
	f = s.classify(lease.gen, err)
	lease.finish(c, f)
	return Answer{}, f
}

// sending notes that the call is about to be sent, and returns since when. Looking
// at the clock is not for free: a call that did not wait is sent when it came.
func (s *Slot) sending(lease *Lease, t *attempts) time.Time {
	t.gen = lease.Gen()
	t.sent++
	if t.sent == 1 {
		t.first = t.gen
	}
	if t.sent == 1 && t.waited == 0 {
		return t.began
	}
	if t.sent > 1 {
		s.meter.Repeated(t.failure)
	}
	return time.Now()
}

// classify completes what a call failed with, and has a generation ended that
// proved to be of no use.
func (s *Slot) classify(g *generation, err error) *fault.Fault {
	f := fault.From("call", err).At(g.server, g.gen)
	switch {
	case f.Kind.BlamesLink():
		f = g.explain(f) // a process that died has said why
	case f.Kind != fault.RPC:
		f = g.redact.fault(f)
	}
	if evidence.Of(evidence.Call, f) == evidence.Session && g.lost.CompareAndSwap(false, true) {
		s.inbox.post(lost{g, f})
	}
	return f
}

// again tells whether the call is to be sent again, and waits for the moment.
func (s *Slot) again(ctx context.Context, g *generation, t *attempts, f *fault.Fault, c *upstream.Call) bool {
	what := t.judge(f)
	if what == afterPause && !s.obey(ctx, f, t.limited) || ctx.Err() != nil {
		what = giveUp
	}
	if what == giveUp {
		s.gaveUp(ctx, g, t, f, c)
		return false
	}
	t.failure = f.Kind
	if t.sent <= 1 {
		t.firstFailed = f.Kind
	}
	s.drill.Load().count(ctx, resends)
	s.interesting(ctx, c, t)
	s.emitLater(event.CallReplayed{Head: s.head(g.gen), Method: c.Method, Name: c.Name, Cause: f, Trace: t.trace.ID()})
	if what == nextGeneration {
		s.leave(ctx, g, t)
	}
	return true
}

// gaveUp tells of a call that failed for good, unless the server itself or the
// client is why.
func (s *Slot) gaveUp(ctx context.Context, g *generation, t *attempts, f *fault.Fault, c *upstream.Call) {
	if f.Kind == fault.RPC || f.Kind == fault.Canceled {
		return
	}
	if !f.Kind.BlamesLink() && f.Kind != fault.Deadline {
		return
	}
	if f.Outcome == fault.Unknown {
		s.interesting(ctx, c, t)
	}
	s.emitLater(event.CallFailed{Head: s.head(g.gen), Method: c.Method, Name: c.Name, Cause: f, Trace: t.trace.ID()})
}

// interesting has a call recorded that has turned out to be of interest: what it has
// done until now, and what it does from now on.
func (s *Slot) interesting(ctx context.Context, c *upstream.Call, t *attempts) {
	if s.opts.Recorder == nil || t.trace != nil {
		return
	}
	if t.trace = tracing.Late(ctx); t.trace == nil {
		return
	}
	for _, p := range t.stays {
		t.trace.Waited(p.began, p.ended, p.what)
	}
	if last := &t.last; last.gen != nil {
		last.sent(nil, c.Method, onSend(t.trace.Below(nil, tracing.Client), c, last.gen, t.sent, last.began))
	}
}

// obey pauses the server's calls as it asked; false if this call cannot wait
// so long.
func (s *Slot) obey(ctx context.Context, f *fault.Fault, n int) bool {
	until := time.Now().Add(pauseOf(f, n))
	s.meter.Limited(s.pause.extend(until))
	deadline, ok := ctx.Deadline()
	return !ok || until.Before(deadline)
}

// leave leaves a generation whose link is gone for the next one. Where the link
// still stands, as after one refused connection of many, the same generation
// gets another chance after a pause; its strikes decide how long it lasts.
func (s *Slot) leave(ctx context.Context, g *generation, t *attempts) {
	if !g.gone() && pauseFor(ctx, g.up.Done(), resendPause<<(2*(t.sends-1))) && !g.gone() {
		return
	}
	t.after = g.gen
}
