package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// A Mux matches the answers that come in on one stream to the calls that
// wait for them, and ends all of them at once. stdio and memory share it.
type Mux struct {
	inbound  func(Inbound)
	injector *Injector
	done     chan struct{} // closed by End
	pool     sync.Pool     // of *Waiter

	// mu guards the fields below. Memory only: what is sent under it goes into
	// a channel that has room.
	mu                 sync.Mutex
	waiters            map[int64]*Waiter
	lowest, newest     int64 // the ids used so far; valid if used
	used               bool
	ended              bool
	cause              *fault.Fault // valid once ended; nil if Close ended the link
	noise, lateAnswers uint64
	lastNoise          string
	oneWay             int           // messages sent that want no answer and may have got one
	oneWayAfter        int64         // the newest id when the last of them was sent
	large              int           // answers that are here and not delivered yet
	misfit             *wire.Message // the last answer that fitted no call while there were such
}

// A Waiter is one call that waits. Exactly one reply is sent for it, by
// whoever takes it out of the table; a caller that gives up takes it out
// itself.
type Waiter struct {
	op    string
	reply chan muxReply // has room for one
}

type muxReply struct {
	msg  wire.Message
	fail *fault.Fault
}

// newWaiter makes what a Mux saves in its pool: the waiter and its
// channel, the only things a call allocates beside its answer. The pool is the
// mux's own because a channel must not leave the testing/synctest bubble that
// it was made in.
func newWaiter() any { return &Waiter{reply: make(chan muxReply, 1)} }

// NewMux returns the table of one link.
func NewMux(opt Options) *Mux {
	return &Mux{
		inbound: opt.Inbound, injector: opt.Injector, done: make(chan struct{}), waiters: map[int64]*Waiter{},
		pool: sync.Pool{New: newWaiter},
	}
}

// Register enters a call into the table before it is written, so that no
// answer can be too early.
func (m *Mux) Register(r *Request) (*Waiter, *fault.Fault) {
	w := m.pool.Get().(*Waiter)
	w.op = r.Method
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		m.pool.Put(w)
		return nil, m.Gone(r.Method, fault.NotSent)
	}
	if m.waiters[r.ID] != nil {
		m.pool.Put(w)
		return nil, NotSent(fault.Internal, r.Method, errors.New("bug: two calls with one request id"))
	}
	if !m.used {
		m.used, m.lowest, m.newest = true, r.ID, r.ID
	}
	m.lowest, m.newest = min(m.lowest, r.ID), max(m.newest, r.ID)
	m.waiters[r.ID] = w
	return w, nil
}

// Done is closed by End.
func (m *Mux) Done() <-chan struct{} { return m.done }

// Waiting is how many calls wait.
func (m *Mux) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiters)
}

// Forget takes a call out of the table whose request was not written.
func (m *Mux) Forget(id int64, w *Waiter) { m.forget(id, w) }

// forget takes a call out of the table. If it was answered before, the reply
// is returned.
func (m *Mux) forget(id int64, w *Waiter) (reply muxReply, answered bool) {
	m.mu.Lock()
	if m.waiters[id] == w {
		delete(m.waiters, id)
	} else {
		reply, answered = <-w.reply, true // is there: it was sent under mu
	}
	m.mu.Unlock()
	m.pool.Put(w)
	return reply, answered
}

// Await returns the answer to a call that was written.
func (m *Mux) Await(ctx context.Context, id int64, w *Waiter) (wire.Message, error) {
	var reply muxReply
	select {
	case reply = <-w.reply:
		m.pool.Put(w)
	case <-ctx.Done():
		op := w.op
		var answered bool
		if reply, answered = m.forget(id, w); !answered {
			return wire.Message{}, fault.From(op, ctx.Err())
		}
	}
	if reply.fail != nil {
		return wire.Message{}, reply.fail
	}
	return reply.msg, nil
}

// Deliver takes in one frame, whose memory it keeps. It reports whether anything
// in it was a message.
func (m *Mux) Deliver(frame []byte) bool {
	msg, err := wire.Parse(frame)
	if errors.Is(err, wire.ErrBatch) {
		parts, _ := wire.Batch(frame)
		any, empty := false, true
		for part := range parts {
			msg, err := wire.Parse(part)
			any = m.dispatch(part, msg, err) || any
			empty = false
		}
		if empty {
			m.AddNoise(frame)
		}
		return any
	}
	any := false
	for first, rest, ok := glued(frame, err); ok; first, rest, ok = glued(frame, err) {
		any = m.Deliver(first) || any
		frame = rest
		msg, err = wire.Parse(frame)
	}
	return m.dispatch(frame, msg, err) || any
}

func (m *Mux) dispatch(frame []byte, msg wire.Message, err error) bool {
	switch {
	case err != nil:
		return m.broken(frame, err)
	case msg.Method != "":
		select {
		case <-m.done: // stale
		default:
			m.inbound(Inbound{Msg: msg})
		}
	case msg.IsResponse():
		m.answer(msg)
	default:
		return m.empty(frame, msg)
	}
	return true
}

// broken takes in what is not JSON. The calls whose answers can be made out in
// it fail now, because nothing else will come for them; what is a message by
// itself, in a batch, is one. It reports whether there was any such thing.
func (m *Mux) broken(frame []byte, err error) (known bool) {
	m.AddNoise(frame)
	for part := range wire.Remnants(frame) {
		if msg, bad := wire.Parse(part.Raw); bad == nil && wire.IsBatch(frame) {
			known = m.dispatch(part.Raw, msg, nil) || known
			continue
		}
		id, ok := part.ID, part.Answer
		if part.Nameless {
			id, ok = m.onlyWaiting()
		}
		known = ok && m.Fail(id, func(op string) *fault.Fault { return Unreadable(op, err) }) || known
	}
	return known
}

// onlyWaiting is the call that an answer without an id is almost certainly
// meant for; false if more than one waits, or none.
func (m *Mux) onlyWaiting() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.waiters {
		return id, len(m.waiters) == 1
	}
	return 0, false
}

// empty takes in a message that is neither a request nor an answer, which is
// an answer without content if it says that it is JSON-RPC.
func (m *Mux) empty(frame []byte, msg wire.Message) bool {
	m.AddNoise(frame)
	id, ok := EmptyAnswer(frame, msg)
	return ok && m.Fail(id, func(op string) *fault.Fault { return Unreadable(op, ErrNoContent) })
}

// LargeComes announces a call of DeliverLarge.
func (m *Mux) LargeComes() {
	m.mu.Lock()
	m.large++
	m.mu.Unlock()
}

// DeliverLarge takes in an answer, whose memory it keeps, and may run beside
// everything else. It reports whether it was one.
func (m *Mux) DeliverLarge(frame []byte) bool {
	msg, err := wire.Parse(frame)
	isAnswer := err == nil && msg.IsResponse()
	switch {
	case isAnswer:
		m.answer(msg)
	case err != nil:
		isAnswer = m.broken(frame, err)
	default:
		m.AddNoise(frame)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.large--; m.large == 0 && m.misfit != nil {
		m.matchOnly(*m.misfit)
		m.misfit = nil
	}
	return isAnswer
}

// match gives an answer to the call that waits for it.
func (m *Mux) match(msg wire.Message) {
	id, isInt := wire.ParseID(msg.ID)
	late := false
	defer func() { // behind the unlock
		if late && m.inbound != nil {
			m.inbound(Inbound{Msg: msg})
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.waiters[id]; isInt && w != nil {
		delete(m.waiters, id)
		w.reply <- muxReply{msg: msg}
		if id > m.oneWayAfter {
			m.oneWay = 0
		}
		return
	}
	m.lateAnswers++
	if isInt && m.used && m.lowest <= id && id <= m.newest {
		late = true // its call was given up
		return
	}
	if m.oneWay > 0 && msg.Error != nil && (msg.ID == nil || wire.IsNull(msg.ID)) {
		m.oneWay-- // some servers refuse a notification with an error
		return
	}
	if m.large > 0 {
		kept := msg
		m.misfit = &kept // the call that seems to wait may be answered already
		return
	}
	m.matchOnly(msg)
}

// matchOnly ends the only call that waits with an answer that fits none. The
// caller holds mu.
func (m *Mux) matchOnly(msg wire.Message) {
	if len(m.waiters) == 1 {
		for id, w := range m.waiters {
			delete(m.waiters, id)
			w.reply <- muxReply{fail: wrongID(w.op, msg)}
		}
	}
}

// SendingOneWay notes that a message that wants no answer is about to be sent.
func (m *Mux) SendingOneWay() {
	m.mu.Lock()
	m.oneWay++
	m.oneWayAfter = m.newest
	m.mu.Unlock()
}

// wrongID describes an answer that fits no call, while only one waits: it is
// almost certainly meant for that one, and nothing else will come.
func wrongID(op string, msg wire.Message) *fault.Fault {
	got := string(msg.ID)
	if got == "" {
		got = "no id"
	}
	text := "the server answered with the wrong id (" + clip(got, 64) + ")"
	if msg.Error != nil {
		_, reason := wire.DecodeError(msg.Error)
		text += ": " + clip(reason, noiseSample)
	}
	return fault.New(fault.Protocol, op, text)
}

// Fail ends one waiting call; false if none waits under this id.
func (m *Mux) Fail(id int64, describe func(op string) *fault.Fault) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.waiters[id]
	if w == nil {
		return false
	}
	delete(m.waiters, id)
	w.reply <- muxReply{fail: describe(w.op)}
	return true
}

// End closes the link for good: all waiting calls fail now, later ones are
// refused. A nil cause means that Close ended it. Only the first call counts.
func (m *Mux) End(cause *fault.Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.ended, m.cause = true, cause
	close(m.done) // first: who gets the fault may look at Done
	for _, w := range m.waiters {
		w.reply <- muxReply{fail: m.Gone(w.op, fault.Unknown)}
	}
	m.waiters = nil
}

// Gone is why a request fails on a link that has ended. Valid once it has.
func (m *Mux) Gone(op string, outcome fault.Outcome) *fault.Fault {
	f := fault.Fault{Kind: fault.Closed, Err: errLinkClosed}
	if m.cause != nil {
		f = *m.cause
	}
	f.Op, f.Outcome = op, outcome
	return &f
}

var errLinkClosed = errors.New("the connection was closed")

// Err is Conn.Err.
func (m *Mux) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause == nil {
		return nil
	}
	return m.cause
}

// CleanExit is Fault.Exit of a process that ended, or ended the link, without
// telling of a failure.
const CleanExit = "exit 0"

const noiseSample = 200 // bytes of a noise line that are kept

func (m *Mux) AddNoise(line []byte) {
	sample := clip(LineText(line[:min(len(line), noiseSample)], ""), noiseSample)
	m.mu.Lock()
	m.noise++
	m.lastNoise = sample
	m.mu.Unlock()
}

// Counts fills in what the mux knows of a link.
func (m *Mux) Counts(info Info) Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	info.Noise, info.LastNoise, info.LateAnswers = m.noise, m.lastNoise, m.lateAnswers
	return info
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// NotSent is a fault of a request that did not reach the server.
func NotSent(kind fault.Kind, op string, err error) *fault.Fault {
	return &fault.Fault{Kind: kind, Op: op, Outcome: fault.NotSent, Err: err}
}

// GaveUp is the fault of a caller whose context ended before its request was
// written.
func GaveUp(op string, err error) *fault.Fault {
	f := *fault.From(op, err)
	f.Outcome = fault.NotSent
	return &f
}

func TooLargeToSend(op string, size int, limit int64) *fault.Fault {
	return NotSent(fault.TooLarge, op, fmt.Errorf("a message of %d bytes is over the limit of %d", size, limit))
}

// TooLargeAnswer says Answered: the request was executed, and executing it
// again would not make the answer fit.
func TooLargeAnswer(op string, size, limit int64) *fault.Fault {
	return &fault.Fault{
		Kind: fault.TooLarge, Op: op, Outcome: fault.Answered,
		Err: fmt.Errorf("the answer has %d bytes; the limit for one message is %d", size, limit),
	}
}

// answer is match behind the injector: a slow server's answer comes later,
// whatever else the server says. An answer that comes after the end of the
// link finds nobody who waits.
func (m *Mux) answer(msg wire.Message) {
	if t := m.injector.Lasting(BreakSlow); t != nil {
		time.AfterFunc(t.Delay, func() { m.match(msg) })
		return
	}
	m.match(msg)
}
