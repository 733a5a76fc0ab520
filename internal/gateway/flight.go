package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/everline/everline/fault"
)

// A flight is one request that is being served. It is keyed by itself, so two
// requests of one client with the same id never meet.
type flight struct {
	id     string // raw JSON of the request's id
	rq     *request
	cancel context.CancelCauseFunc
	sess   *session           // nil if no later message can name this request
	emit   func(frame []byte) // see request.emit
	tell   func(frame []byte) // see request.tell; nil too if the request is of the modern era
}

// flights are the requests in flight of the whole gateway.
type flights struct {
	mu      sync.Mutex // guards the rest; nothing waits under it; ordered before post.mu and session.mu
	all     map[*flight]struct{}
	closed  bool
	drained chan struct{} // closed once closed is set and all is empty
}

func (f *flights) init() {
	f.all = map[*flight]struct{}{}
	f.drained = make(chan struct{})
}

// begin registers a request. It fails once the gateway is closing. The caller
// must end the flight.
func (f *flights) begin(parent context.Context, rq *request) (context.Context, *flight, error) {
	ctx, cancel := context.WithCancelCause(parent)
	fl := &flight{id: string(rq.msg.ID), rq: rq, cancel: cancel, sess: rq.sess, emit: rq.emit}
	if !rq.modern {
		fl.tell = rq.tell
	}
	f.mu.Lock()
	closed := f.closed
	if !closed {
		f.all[fl] = struct{}{}
	}
	f.mu.Unlock()
	if closed {
		cancel(errClosing)
		c := *errClosing
		c.Outcome = fault.NotSent
		return nil, nil, &c
	}
	if fl.sess != nil {
		fl.sess.addFlight(fl)
	}
	return ctx, fl, nil
}

func (f *flights) end(fl *flight) {
	if fl.sess != nil {
		fl.sess.dropFlight(fl)
	}
	fl.cancel(nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, fl)
	if f.closed && len(f.all) == 0 {
		f.finishLocked()
	}
}

func (f *flights) finishLocked() {
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

// drain refuses new flights and waits for those that are out until ctx ends.
// Nobody waits for those whose clients have gone: they are canceled, as are the
// ones that are left in the end, which may take cancelGrace.
func (f *flights) drain(ctx context.Context) error {
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
	f.mu.Lock()
	left := len(f.all)
	for fl := range f.all {
		fl.cancel(errClosing)
	}
	f.mu.Unlock()
	if left == 0 {
		return nil
	}
	select {
	case <-f.drained:
	case <-time.After(cancelGrace):
	}
	return &fault.Fault{Kind: fault.Deadline, Op: "close", Err: fmt.Errorf("%d requests were still in flight and were canceled", left)}
}

func (f *flights) cancelUnattended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for fl := range f.all {
		if !fl.rq.attended() {
			fl.cancel(errClosing)
		}
	}
}

// attended tells whether somebody waits for the answer: the client that asked,
// the same one on another stream, or another request for the outcome.
func (rq *request) attended() bool {
	select {
	case <-rq.gone:
		k := rq.kept.Load()
		return rq.post.followed() || k != nil && k.waiters.Load() > 0
	default:
		return true
	}
}

// errCanceled is why a request that its client canceled ends.
var errCanceled = errors.New("canceled by the client")

// errLeft is why a request ends whose client has closed its side of a pipe, and
// may still read: it is answered.
var errLeft = errors.New("the client closed its input before the answer came")
