package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/rounds"
	"github.com/everline/everline/internal/wire"
)

const (
	maxParked  = 1024                   // calls that wait for their clients to come back
	parkTime   = 5 * time.Minute        // how long one waits
	gatherGap  = 50 * time.Millisecond  // questions that come so close belong to one round
	gatherMost = 250 * time.Millisecond // but no round is held up for longer
	refusedGap = time.Second            // a call with a question that was refused may fail first: nobody is asked in vain
)

// parks are the calls of modern clients that may be asked for input. A server
// of an older revision asks while the call is in flight; the client gets the
// question as the result of its request, and comes back with the answer.
type parks struct {
	mu      sync.Mutex // guards the rest; nothing waits under it
	all     map[uint64]*parked
	next    uint64
	waiting int // those that no request attends
	closed  bool
	work    sync.WaitGroup // the goroutines of all
}

// A parked is one call that outlives the requests which attend it, one after
// the other. Its goroutine makes the call; it ends with the server's answer,
// when the client gives the call up, or when it does not come back in time.
type parked struct {
	g      *Gateway
	id     uint64
	client uint64
	serves served
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the call has ended; then the next two are final
	result []byte
	err    error
	news   chan struct{} // one slot: there are questions

	missing atomic.Pointer[string] // a capability that was needed and not declared

	mu     sync.Mutex // guards the rest; nothing waits under it
	rq     *request   // attends; nil while the client has the questions
	open   []*question
	asked  int
	round  uint32
	expiry *time.Timer
}

// A question is one request of the server that waits for the client.
type question struct {
	key, method string
	params      []byte
	answer      chan []byte // one slot
}

// performModern makes a call for a modern client.
func (g *Gateway) performModern(ctx context.Context, rq *request, c *everline.Call) ([]byte, error) {
	p, err := g.resume(rq)
	if err != nil {
		return nil, err
	}
	if p != nil {
		return p.attend(ctx)
	}
	st, err := g.stay(rq, c)
	if err != nil {
		return nil, err
	}
	if rq.serves == 0 {
		defer st.over()
		c.Client = rq
		result, err := g.invoke(ctx, rq, c, st)
		return lacked(rq.missing.Load(), result, err)
	}
	if p = g.park(ctx, rq, c, st); p == nil {
		st.over()
		return nil, errClosing
	}
	return p.attend(ctx)
}

// park begins a call that rq attends first; nil if the gateway is closing.
func (g *Gateway) park(ctx context.Context, rq *request, c *everline.Call, st *stay) *parked {
	p := &parked{
		g: g, client: rq.client, serves: rq.serves, rq: rq,
		done: make(chan struct{}), news: make(chan struct{}, 1),
	}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.Client = p
	if c.Progress != nil {
		c.Progress = p.progress
	}
	s := &g.parks
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		p.cancel(errClosing)
		return nil
	}
	if s.all == nil {
		s.all = map[uint64]*parked{}
	}
	s.next++
	p.id = s.next
	s.all[p.id] = p
	rq.held.keep()     // the call is made from the body
	s.work.Go(func() { // ends as the type's comment says; close waits for it
		defer rq.held.release()
		defer st.over()
		p.run(rq, c, st)
	})
	return p
}

func (p *parked) run(rq *request, c *everline.Call, st *stay) {
	defer close(p.done)
	defer func() {
		if v := recover(); v != nil {
			p.err = fault.New(fault.Internal, c.Method, "a panic")
			if p.g.opts.Warn != nil {
				p.g.opts.Warn(fmt.Sprintf("panic in %s: %v\n%s", c.Method, v, debug.Stack()))
			}
		}
	}()
	result, err := p.g.invoke(p.ctx, rq, c, st)
	p.result, p.err = lacked(p.missing.Load(), result, err)
	if f := (*fault.Fault)(nil); p.err != nil && errors.As(context.Cause(p.ctx), &f) {
		p.err = f // why it was given up says more than that it was
	}
}

// attend waits for what is next: the call's outcome, or questions, which are
// an interim result. When ctx ends the call does.
func (p *parked) attend(ctx context.Context) ([]byte, error) {
	for {
		select {
		case <-p.done:
			p.g.parks.drop(p)
			return p.result, p.err
		case <-p.news:
			p.gather(ctx)
			if interim := p.pause(); interim != nil {
				return interim, nil
			}
		case <-ctx.Done():
			p.cancel(context.Cause(ctx))
			<-p.done
			p.g.parks.drop(p)
			return p.result, p.err
		}
	}
}

// gather waits for further questions that come right behind the first.
func (p *parked) gather(ctx context.Context) {
	refused := false
	end := time.NewTimer(gatherMost)
	gap := time.NewTimer(gatherGap)
	defer end.Stop()
	defer gap.Stop()
	for {
		select {
		case <-p.news:
			gap.Reset(gatherGap)
			continue
		case <-gap.C:
		case <-end.C:
		case <-p.done:
			return
		case <-ctx.Done():
			return
		}
		if refused || p.missing.Load() == nil {
			return
		}
		refused = true
		end.Reset(refusedGap)
		gap.Stop()
	}
}

// pause hands the open questions to the client: the interim result; nil if
// there are none any more, or the call cannot wait and is given up.
func (p *parked) pause() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 || p.ctx.Err() != nil {
		return nil
	}
	if p.round == rounds.Max {
		p.cancel(rounds.Failed(p.rq.msg.Method, fmt.Errorf("it has asked for more %d times already", rounds.Max)))
		return nil
	}
	if !p.g.parks.wait() {
		p.cancel(fault.New(fault.Overloaded, p.rq.msg.Method, "too many calls wait for their clients"))
		return nil
	}
	p.round++
	bind, method := p.rq.bind(), p.rq.msg.Method
	p.rq = nil
	round := p.round
	p.expiry = time.AfterFunc(parkTime, func() { p.expire(round) })
	b := append([]byte(`{"resultType":"input_required",`), itemless[method]...)
	b = append(b, `"inputRequests":{`...)
	for i, q := range p.open {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(wire.AppendString(b, q.key), `:{"method":`...)
		b = wire.AppendString(b, q.method)
		params := q.params
		if params == nil {
			params = []byte("{}")
		}
		b = append(append(append(b, `,"params":`...), params...), '}')
	}
	b = append(b, `},"requestState":`...)
	state := p.g.sealer.seal(ticket{p.id, p.round, time.Now().Add(parkTime), bind})
	return append(wire.AppendString(b, state), '}')
}

// itemless is what the result of a method must have elsewhere. Clients that read
// each result as a complete one fail without it, and the others pass it over.
var itemless = map[string]string{mcp.ToolsCall: `"content":[],`, mcp.PromptsGet: `"messages":[],`, mcp.ResourcesRead: `"contents":[],`}

// expire gives up a call whose client did not come back with the answers of
// this round. It runs on the timer's goroutine. A retry comes before it or
// after it, and not between.
func (p *parked) expire(round uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rq == nil && p.round == round && p.g.parks.leave(p) {
		p.cancel(fault.New(fault.Canceled, "", "the client did not come back with the input"))
	}
}

// errState is the fault of a retry that belongs to nothing.
func errState(rq *request, text string) *fault.Fault {
	f := fault.New(fault.Invalid, rq.msg.Method, text+": start over without requestState and inputResponses")
	f.Outcome = fault.NotSent
	return f
}

// resume finds the call that a retry belongs to, and hands it the answers. It
// is nil for a request that is no retry, or one of a call that is not parked
// here: the server decides about that.
func (g *Gateway) resume(rq *request) (*parked, error) {
	state, _ := wire.Text(rq.fields.requestState)
	if !strings.HasPrefix(state, statePrefix) {
		return nil, nil
	}
	t, ok := g.sealer.open(state)
	switch {
	case !ok:
		return nil, nil
	case t.bind != rq.bind():
		return nil, errState(rq, "this requestState is that of another request")
	}
	p := g.parks.find(t.call)
	if p == nil || !time.Now().Before(t.until) {
		return nil, errState(rq, "the time for the input is over")
	}
	if !p.take(rq, t.round) {
		return nil, errState(rq, "this requestState was used already")
	}
	return p, nil
}

// take makes rq the request that attends, and delivers what it brings. What it
// does not bring is asked for again.
func (p *parked) take(rq *request, round uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rq != nil || p.round != round || !p.g.parks.unwait(p) {
		return false
	}
	p.expiry.Stop()
	p.rq = rq
	p.open = slices.DeleteFunc(p.open, func(q *question) bool {
		raw := wire.Get(rq.fields.inputResponses, q.key)
		if !wire.IsObject(raw) {
			return false
		}
		q.answer <- raw // has a slot, and a question is answered once
		return true
	})
	if len(p.open) > 0 {
		p.signal()
	}
	return true
}

func (p *parked) signal() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// ID is that of the client; see everline.Client.
func (p *parked) ID() uint64 { return p.client }

// Ask holds a request of the server until the client has brought the answer.
func (p *parked) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	if lacking := p.serves.lacks(method, params); lacking != "" {
		p.missing.CompareAndSwap(nil, &lacking)
		return nil, undeclared(method, lacking)
	}
	q := p.question(method, params)
	if q == nil {
		return nil, fault.New(fault.Overloaded, method, "too many requests of one call wait for its client")
	}
	select {
	case raw := <-q.answer:
		return raw, nil
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open = slices.DeleteFunc(p.open, func(o *question) bool { return o == q })
		return nil, fault.From(method, ctx.Err())
	}
}

func (p *parked) question(method string, params []byte) *question {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) >= rounds.MaxInputs {
		return nil
	}
	p.asked++
	kind, _, _ := strings.Cut(method, "/")
	q := &question{key: kind + "-" + strconv.Itoa(p.asked), method: method, params: params, answer: make(chan []byte, 1)}
	p.open = append(p.open, q)
	p.signal()
	return q
}

func (p *parked) attending() *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rq
}

// Notify passes on what the server says to the request that attends; what
// comes while none does is lost.
func (p *parked) Notify(method string, params []byte) {
	if rq := p.attending(); rq != nil {
		rq.Notify(method, params)
	}
}

func (p *parked) progress(params []byte) {
	if rq := p.attending(); rq != nil && rq.emit != nil && rq.fields.meta.progressToken != nil {
		rq.progress(params)
	}
}

// wait counts one call more that nobody attends; false if there are too many.
func (s *parks) wait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting >= maxParked || s.closed {
		return false
	}
	s.waiting++
	return true
}

// unwait is the end of that; false if the call was given up meanwhile.
func (s *parks) unwait(p *parked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[p.id] != p {
		return false
	}
	s.waiting--
	return true
}

// leave drops a call that nobody attends; false if it was dropped before.
func (s *parks) leave(p *parked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[p.id] != p {
		return false
	}
	delete(s.all, p.id)
	s.waiting--
	return true
}

// drop drops a call that has ended.
func (s *parks) drop(p *parked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, p.id)
}

func (s *parks) find(id uint64) *parked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// forget gives up the calls of a client whose connection has ended.
func (s *parks) forget(client uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		if p.client == client {
			p.cancel(errCanceled)
		}
	}
}

// close gives up what is left, and waits for it as long as for any canceled
// request.
func (s *parks) close() {
	s.mu.Lock()
	s.closed = true
	for _, p := range s.all {
		p.cancel(errClosing)
	}
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() { // ends with the last call, all of which are canceled
		s.work.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(cancelGrace):
	}
}

// lacked is the outcome of a call that has asked for a capability which the
// client has not declared: if it failed, that is why (2026-07-28 basic/index,
// "Error Codes").
func lacked(missing *string, result []byte, err error) ([]byte, error) {
	if missing == nil {
		return result, err
	}
	text := ""
	switch f := fault.From("", err); {
	case f != nil && f.Kind == fault.RPC:
		text = f.RPC.Message
	case f == nil:
		if bad, _ := wire.Bool(memberOf(result, "isError")); !bad {
			return result, nil
		}
	default:
		return result, err
	}
	say := "Missing required client capability"
	if text != "" {
		say += ": " + text
	}
	raw := wire.AppendString(append(wire.AppendInt([]byte(`{"code":`), mcp.CodeMissingCapability), `,"message":`...), say)
	raw = append(append(append(raw, `,"data":{"requiredCapabilities":`...), *missing...), "}}"...)
	return nil, &fault.Fault{
		Kind: fault.RPC, Outcome: fault.Answered, RPC: &fault.RPCError{Code: mcp.CodeMissingCapability, Message: say, Raw: raw},
	}
}
