package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/rounds"
	"github.com/everline/everline/internal/wire"
)

const (
	maxPendingInput = 1024                   // calls that wait for their clients to come back
	inputTime       = 5 * time.Minute        // how long one waits
	gatherGap       = 50 * time.Millisecond  // questions that come so close belong to one round
	gatherMost      = 250 * time.Millisecond // but no round is held up for longer
	refusedGap      = time.Second            // a call with a question that was refused may fail first: nobody is asked in vain
)

// inputs are the calls of modern clients that may be asked for input. A server
// of an older revision asks while the call is in flight; the client gets the
// question as the result of its request, and comes back with the answer.
type inputs struct {
	sealer sealer

	mu      sync.Mutex // guards the rest; ordered behind the lock of each call; nothing waits under it
	all     map[uint64]*pendingInput
	next    uint64
	waiting int // those that no request attends
	closed  bool
	work    sync.WaitGroup // the goroutines that make the calls
}

// A pendingInput is one call that outlives the requests which attend it, one
// after the other. The goroutine that makes the call ends with the server's
// answer, when the client gives the call up, or when it does not come back in
// time.
type pendingInput struct {
	id     uint64
	first  *caller // who began the call
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the call has ended; then the next two are final
	result []byte
	err    error
	asking chan struct{} // one slot: there are questions

	mu     sync.Mutex // guards the rest; nothing waits under it
	now    *caller    // attends; nil while the client has the questions
	last   []byte     // the raw id of the request that attended last
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

// begin registers a call that c attends first; nil if the gateway is closing.
// Whoever makes the call must finish it.
func (reg *inputs) begin(ctx context.Context, c *caller) *pendingInput {
	p := &pendingInput{first: c, now: c, last: c.exchange.ID, done: make(chan struct{}), asking: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if reg.closed {
		p.cancel(errClosing)
		return nil
	}
	if reg.all == nil {
		reg.all = map[uint64]*pendingInput{}
	}
	reg.next++
	p.id = reg.next
	reg.all[p.id] = p
	reg.work.Add(1)
	return p
}

// finish ends a call with its outcome.
func (reg *inputs) finish(p *pendingInput, result []byte, err error) {
	defer reg.work.Done()
	defer close(p.done)
	p.result, p.err = lacked(p.first.missing.Load(), result, err)
	if f := (*fault.Fault)(nil); p.err != nil && errors.As(context.Cause(p.ctx), &f) {
		p.err = f // why it was given up says more than that it was
	}
}

// attend waits for what is next: the call's outcome, or questions, which are
// an interim result. When ctx ends the call does.
func (reg *inputs) attend(ctx context.Context, p *pendingInput) ([]byte, error) {
	for {
		select {
		case <-p.done:
			reg.drop(p)
			return p.result, p.err
		case <-p.asking:
			p.gather(ctx)
			if ctx.Err() != nil {
				continue // the client has gone: what it was to be asked is not its call's alone
			}
			if interim := reg.pause(p); interim != nil {
				return interim, nil
			}
		case <-ctx.Done():
			p.cancel(context.Cause(ctx))
			<-p.done
			reg.drop(p)
			return p.result, p.err
		}
	}
}

// gather waits for further questions that come right behind the first.
func (p *pendingInput) gather(ctx context.Context) {
	refused := false
	end := time.NewTimer(gatherMost)
	gap := time.NewTimer(gatherGap)
	defer end.Stop()
	defer gap.Stop()
	for {
		select {
		case <-p.asking:
			gap.Reset(gatherGap)
			continue
		case <-gap.C:
		case <-end.C:
		case <-p.done:
			return
		case <-ctx.Done():
			return
		}
		if refused || p.first.missing.Load() == nil {
			return
		}
		refused = true
		end.Reset(refusedGap)
		gap.Stop()
	}
}

// pause hands the open questions to the client: the interim result; nil if
// there are none any more, or the call cannot wait and is given up.
func (reg *inputs) pause(p *pendingInput) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 || p.ctx.Err() != nil {
		return nil
	}
	method := p.now.Method
	if p.round == rounds.Max {
		p.cancel(rounds.Failed(method, fmt.Errorf("it has asked for more %d times already", rounds.Max)))
		return nil
	}
	if !reg.wait() {
		p.cancel(fault.New(fault.Overloaded, method, "too many calls wait for their clients"))
		return nil
	}
	p.round++
	round, until := p.round, time.Now().Add(inputTime)
	state := reg.sealer.seal(ticket{p.id, round, until, p.now.bind()})
	p.now = nil
	p.expiry = time.AfterFunc(inputTime, func() { reg.expire(p, round) })
	return interim(method, p.open, state)
}

// interim is the result that asks a client for input.
func interim(method string, open []*question, state string) []byte {
	b := append([]byte(`{"resultType":"input_required",`), itemless[method]...)
	b = append(appendQuestions(append(b, `"inputRequests":`...), open), `,"requestState":`...)
	return append(wire.AppendString(b, state), '}')
}

// appendQuestions appends the object that puts questions to a client.
func appendQuestions(b []byte, open []*question) []byte {
	b = append(b, '{')
	for i, q := range open {
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
	return append(b, '}')
}

// itemless is what the result of a method must have elsewhere. Clients that read
// each result as a complete one fail without it, and the others pass it over.
var itemless = map[string]string{mcp.ToolsCall: `"content":[],`, mcp.PromptsGet: `"messages":[],`, mcp.ResourcesRead: `"contents":[],`}

// expire gives up a call whose client did not come back with the answers of
// this round. It runs on the timer's goroutine. A retry comes before it or
// after it, and not between.
func (reg *inputs) expire(p *pendingInput, round uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil && p.round == round && reg.leave(p) {
		p.cancel(fault.New(fault.Canceled, "", "the client did not come back with the input"))
	}
}

// errState is the fault of a retry that belongs to nothing.
func errState(x *exchange, text string) *fault.Fault {
	f := fault.New(fault.Invalid, x.Method, text+": start over without requestState and inputResponses")
	f.Outcome = fault.NotSent
	return f
}

// resume finds the call that a retry belongs to, and hands it the answers. It
// is nil for a request that is no retry, or one of a call that does not wait
// here: the server decides about that.
func (reg *inputs) resume(x *exchange) (*pendingInput, error) {
	state, _ := wire.Text(x.Fields.RequestState)
	if !strings.HasPrefix(state, statePrefix) {
		return nil, nil
	}
	t, ok := reg.sealer.open(state)
	switch {
	case !ok:
		return nil, nil
	case t.bind != x.bind():
		return nil, errState(x, "this requestState is that of another request")
	}
	p := reg.find(t.call)
	if p == nil || !time.Now().Before(t.until) {
		return nil, errState(x, "the time for the input is over")
	}
	if !reg.take(p, x.caller(nil), t.round) {
		return nil, errState(x, "this requestState was used already")
	}
	return p, nil
}

// take makes c attend, and delivers what its request brings. What it does not
// bring is asked for again.
func (reg *inputs) take(p *pendingInput, c *caller, round uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil || p.round != round || !reg.unwait(p) {
		return false
	}
	p.expiry.Stop()
	p.now, p.last = c, c.exchange.ID
	p.open = slices.DeleteFunc(p.open, func(q *question) bool {
		raw := wire.Get(c.Fields.InputResponses, q.key)
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

func (p *pendingInput) signal() {
	select {
	case p.asking <- struct{}{}:
	default:
	}
}

// ID is that of the client; see everline.Client.
func (p *pendingInput) ID() uint64 { return p.first.id }

// Ask holds a request of the server until the client has brought the answer.
func (p *pendingInput) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	if lacking := p.first.serves.Lacks(method, params); lacking != "" {
		p.first.miss(lacking)
		return nil, session.Undeclared(method, lacking)
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

func (p *pendingInput) question(method string, params []byte) *question {
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

func (p *pendingInput) attending() *caller {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// Notify passes on what the server says to the request that attends; what
// comes while none does is lost.
func (p *pendingInput) Notify(method string, params []byte) {
	if c := p.attending(); c != nil {
		c.Notify(method, params)
	}
}

func (p *pendingInput) progress(params []byte) {
	if c := p.attending(); c != nil && c.wantsProgress() {
		c.progress(params)
	}
}

// wait counts one call more that nobody attends; false if there are too many.
func (reg *inputs) wait() bool {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if reg.waiting >= maxPendingInput || reg.closed {
		return false
	}
	reg.waiting++
	return true
}

// unwait is the end of that; false if the call was given up meanwhile.
func (reg *inputs) unwait(p *pendingInput) bool {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if reg.all[p.id] != p {
		return false
	}
	reg.waiting--
	return true
}

// leave drops a call that nobody attends; false if it was dropped before.
func (reg *inputs) leave(p *pendingInput) bool {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if reg.all[p.id] != p {
		return false
	}
	delete(reg.all, p.id)
	reg.waiting--
	return true
}

// drop drops a call that has ended.
func (reg *inputs) drop(p *pendingInput) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	delete(reg.all, p.id)
}

func (reg *inputs) empty() bool {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	return len(reg.all) == 0
}

func (reg *inputs) find(id uint64) *pendingInput {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	return reg.all[id]
}

// revoke gives up the call whose last request a client has canceled by its id:
// the cancel may have crossed an interim result, which is no answer to wait for.
func (reg *inputs) revoke(client uint64, rawID []byte) {
	reg.mu.Lock()
	var own []*pendingInput
	for _, p := range reg.all {
		if p.first.id == client {
			own = append(own, p)
		}
	}
	reg.mu.Unlock()
	for _, p := range own {
		p.revoke(reg, rawID)
	}
}

func (p *pendingInput) revoke(reg *inputs, rawID []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !bytes.Equal(p.last, rawID) || p.now == nil && !reg.leave(p) {
		return
	}
	p.cancel(session.ErrCanceled)
}

// forget gives up the calls of a client whose connection has ended.
func (reg *inputs) forget(client uint64) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, p := range reg.all {
		if p.first.id == client {
			p.cancel(session.ErrCanceled)
		}
	}
}

// cancelAll gives up all calls, for a reason.
func (reg *inputs) cancelAll(why error) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, p := range reg.all {
		p.cancel(why)
	}
}

// close gives up what is left, and waits for it as long as for any canceled
// request.
func (reg *inputs) close() {
	reg.mu.Lock()
	reg.closed = true
	reg.mu.Unlock()
	reg.cancelAll(errClosing)
	awaitCanceled(&reg.work)
}

// awaitCanceled waits for work that has been canceled as long as for any canceled request.
func awaitCanceled(work *sync.WaitGroup) {
	gone := make(chan struct{})
	go func() { // ends with the last of the work
		work.Wait()
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
		if bad, _ := wire.Bool(wire.Member(result, "isError")); !bad {
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
