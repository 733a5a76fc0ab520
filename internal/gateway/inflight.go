package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/pipe"
)

// A pending is one request that is being served. It is keyed by itself, so two
// requests of one client with the same id never meet.
type pending struct {
	*exchange
	cancel context.CancelCauseFunc
	noted  session.Request // as its session knows it; unused without one
}

// inflight are the requests of the whole gateway that are being served.
type inflight struct {
	awaited func(x *exchange) bool // whether another request waits for the outcome; it does not block

	mu      sync.Mutex // guards the rest; nothing waits under it; ordered before the locks of posts, sessions and results
	all     map[*pending]struct{}
	closed  bool
	drained chan struct{} // closed once closed is set and all is empty
}

func (f *inflight) init(awaited func(x *exchange) bool) {
	f.awaited = awaited
	f.all = map[*pending]struct{}{}
	f.drained = make(chan struct{})
}

// track registers a request that waits for something, unless its transport has
// done so: then there is nothing to end. It fails once the gateway is closing. The
// caller must end what it returns.
func (f *inflight) track(parent context.Context, x *exchange) (context.Context, *pending, error) {
	if x.tracked {
		return parent, nil, nil
	}
	return f.begin(parent, x)
}

// begin is track for a transport.
func (f *inflight) begin(parent context.Context, x *exchange) (context.Context, *pending, error) {
	ctx, cancel := context.WithCancelCause(parent)
	p := &pending{exchange: x, cancel: cancel}
	f.mu.Lock()
	closed := f.closed
	if !closed {
		f.all[p] = struct{}{}
	}
	f.mu.Unlock()
	if closed {
		cancel(errClosing)
		c := *errClosing
		c.Outcome = fault.NotSent
		return nil, nil, &c
	}
	if x.sess != nil {
		p.noted = session.Request{ID: x.ID, Modern: x.Modern, Out: x.out, Cancel: cancel}
		x.sess.Begin(&p.noted)
	}
	return ctx, p, nil
}

func (f *inflight) end(p *pending) {
	if p == nil {
		return
	}
	if p.sess != nil {
		p.sess.Finish(&p.noted)
	}
	p.cancel(nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, p)
	if f.closed && len(f.all) == 0 {
		f.finishLocked()
	}
}

func (f *inflight) finishLocked() {
	select {
	case <-f.drained:
	default:
		close(f.drained)
	}
}

// cancelGrace is how long a canceled request may take to be answered.
const cancelGrace = time.Second

// attendedGap is how often a drain looks whether somebody still waits for what is
// in flight.
const attendedGap = 100 * time.Millisecond

// drain refuses new requests and waits for those that are out until ctx ends.
// Nobody waits for those whose clients have gone: they are canceled, as are the
// ones that are left in the end, which may take cancelGrace.
func (f *inflight) drain(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	if len(f.all) == 0 {
		f.finishLocked()
	}
	f.mu.Unlock()
	tick := time.NewTicker(attendedGap)
	defer tick.Stop()
	for ctx.Err() == nil {
		f.cancelUnattended()
		select {
		case <-f.drained:
			return nil
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	left := f.cancelAll(errClosing)
	if left == 0 {
		return nil
	}
	select {
	case <-f.drained:
	case <-time.After(cancelGrace):
	}
	return &fault.Fault{Kind: fault.Deadline, Op: "close", Err: fmt.Errorf("%d requests were still in flight and were canceled", left)}
}

// cancelAll cancels what is in flight, for a reason.
func (f *inflight) cancelAll(why error) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.all {
		p.cancel(why)
	}
	return len(f.all)
}

func (f *inflight) cancelUnattended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.all {
		if !p.present() && !f.awaited(p.exchange) {
			p.cancel(errClosing)
		}
	}
}

// errClosing is why a request is canceled by Close.
var errClosing = fault.New(fault.Closed, "close", "everline is shutting down")

// errNoMore is why a request is canceled whose identity is not let in any more.
var errNoMore = fault.New(fault.Forbidden, "serve", "the client's token was revoked, or is not taken any more")

// failed answers a request that ended in an error. Why our own context ended
// decides where the backend can only say that it did.
func failed(ctx context.Context, m *message.Message, err error) message.Answer {
	f := fault.From(m.Method, err)
	if f.Kind != fault.Canceled {
		return m.Failure(f)
	}
	c := *f
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errClosing):
		return m.CutOff(f)
	case errors.Is(cause, session.ErrCanceled):
		a := m.Failure(&c)
		a.Silent = true
		return a
	case errors.Is(cause, errNoMore):
		c.Err = errNoMore
	case errors.Is(cause, pipe.ErrLeft):
		c.Err = pipe.ErrLeft
	}
	return m.Failure(&c)
}
