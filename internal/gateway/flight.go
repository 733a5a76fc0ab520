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
	cancel context.CancelCauseFunc
	sess   *session           // nil if no later message can name this request
	emit   func(frame []byte) // see request.emit
	tell   func(frame []byte) // see request.tell; nil too if the request is of the modern era
}

// flights are the requests in flight of the whole gateway.
type flights struct {
	mu      sync.Mutex // guards the rest; nothing waits under it
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
	fl := &flight{id: string(rq.msg.ID), cancel: cancel, sess: rq.sess, emit: rq.emit}
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

// drain refuses new flights and waits for those that are out until ctx ends.
// The ones that are left are canceled, and may take cancelGrace to end.
func (f *flights) drain(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	if len(f.all) == 0 {
		f.finishLocked()
	}
	f.mu.Unlock()
	select {
	case <-f.drained:
		return nil
	case <-ctx.Done():
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

// errCanceled is why a request that its client canceled ends.
var errCanceled = errors.New("canceled by the client")

// errLeft is why a request ends whose client has closed its side of a pipe, and
// may still read: it is answered.
var errLeft = errors.New("the client closed its input before the answer came")
