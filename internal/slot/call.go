package slot

import (
	"context"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/upstream"
)

const (
	maxSends    = 6                      // of one call, while there is proof that the earlier ones were not executed
	maxUnknown  = 2                      // sends again whose earlier outcome is unknown
	maxSessions = 3                      // sends again because the server forgot the session
	resendPause = 100 * time.Millisecond // before the first send again on the same life; doubled for each further one
	maxPause    = 5 * time.Minute        // the longest Retry-After that calls obey
	limitPause  = time.Second            // for a rate limit that names no time; doubled for each further one
)

// Call sends one request to the server and returns its raw result. It waits
// for a life as Acquire does. What failed is sent again, on the next life and
// within the deadline, if there is proof that it was not executed, or if
// replay says that repeating it is harmless. Its errors are faults whose
// Outcome covers all sends. It returns no later than ctx or the server's
// callTimeout ends.
func (s *Slot) Call(ctx context.Context, c *upstream.Call, replay bool) ([]byte, error) {
	limit := s.view.Load().Server.CallTimeout
	if at, ok := ctx.Deadline(); limit > 0 && (!ok || time.Until(at) > limit) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	t := attempts{replay: replay}
	for {
		lease, err := s.acquire(ctx, t.after)
		if err != nil {
			return nil, t.total(err)
		}
		out, f := s.send(ctx, lease, c)
		if f == nil {
			return out, nil
		}
		if !s.again(ctx, lease.life, &t, f, c) {
			return nil, t.total(f)
		}
	}
}

// send sends the call once and releases the lease.
func (s *Slot) send(ctx context.Context, lease Lease, c *upstream.Call) (out []byte, f *fault.Fault) {
	returned := false
	defer func() {
		if !returned { // a panic ends one request, and must not keep its lease
			lease.free()
		}
	}()
	out, err := lease.life.up.Call(ctx, c)
	returned = true
	if err == nil {
		lease.Release(nil)
		return out, nil
	}
	f = s.classify(lease.life, err)
	lease.Release(f)
	return nil, f
}

// classify completes what a call failed with, and has a life ended that
// proved to be of no use.
func (s *Slot) classify(l *life, err error) *fault.Fault {
	f := fault.From("call", err).At(s.name, l.gen)
	if f.Kind.BlamesLink() {
		f = s.explain(f, l) // a process that died has said why
	}
	if ends(f.Kind) && l.lost.CompareAndSwap(false, true) {
		s.post(lost{l, f})
	}
	return f
}

// ends tells whether a failure of this kind is the end of its life: the
// session is gone, or the server wants a login that nobody has.
func ends(k fault.Kind) bool { return k == fault.SessionLost || k == fault.Unauthorized }

// attempts are what one call has been through.
type attempts struct {
	replay   bool
	after    uint64 // only a newer life helps
	sends    int
	sessions int
	unknown  int // sends whose outcome is unknown
	limited  int // sends that met a rate limit
}

// An action is what follows a failed send.
type action uint8

const (
	giveUp     action = iota
	nextLife          // send again on a newer life, or on this one if its link stands
	afterPause        // send again when the server's pause is over
)

// judge decides by the evidence alone, and counts the failure.
func (t *attempts) judge(f *fault.Fault) action {
	t.sends++
	if f.Outcome == fault.Unknown {
		t.unknown++
	}
	switch {
	case f.Outcome == fault.Answered || t.sends >= maxSends:
		return giveUp
	case f.Kind == fault.RateLimited:
		t.limited++
		return afterPause
	case !mends(f.Kind):
		return giveUp
	case f.Outcome == fault.Unknown && (!t.replay || t.unknown > maxUnknown):
		return giveUp
	case f.Kind == fault.SessionLost:
		if t.sessions++; t.sessions > maxSessions {
			return giveUp
		}
	}
	return nextLife
}

// mends tells whether another life, or another moment, can make a difference.
func mends(k fault.Kind) bool {
	switch k {
	case fault.Dial, fault.Broken, fault.Exited, fault.Wedged, fault.SessionLost, fault.HTTPStatus, fault.Protocol, fault.Closed:
		return true
	default:
		return false
	}
}

// total gives a fault the outcome of all sends: if one of them is unknown, so
// is the call.
func (t *attempts) total(err error) error {
	f := fault.From("call", err)
	if t.unknown > 0 && f.Outcome != fault.Unknown {
		c := *f
		c.Outcome = fault.Unknown
		return &c
	}
	return f
}

// again tells whether the call is to be sent again, and waits for the moment.
func (s *Slot) again(ctx context.Context, l *life, t *attempts, f *fault.Fault, c *upstream.Call) bool {
	what := t.judge(f)
	head := Head{Time: time.Now(), Server: s.name, Gen: l.gen}
	if what == afterPause && !s.obey(ctx, f, t.limited) || ctx.Err() != nil {
		what = giveUp
	}
	if what == giveUp {
		if f.Kind != fault.RPC && f.Kind != fault.Canceled {
			s.failed.Add(1)
			if f.Kind.BlamesLink() {
				s.say(CallFailed{Head: head, Method: c.Method, Name: c.Name, Cause: f})
			}
		}
		return false
	}
	s.resent.Add(1)
	s.say(CallReplayed{Head: head, Method: c.Method, Name: c.Name, Cause: f})
	if what == nextLife {
		s.move(ctx, l, t)
	}
	return true
}

// obey pauses the server's calls as it asked; false if this call cannot wait
// so long.
func (s *Slot) obey(ctx context.Context, f *fault.Fault, n int) bool {
	until := time.Now().Add(pauseOf(f, n))
	s.pause(until)
	at, ok := ctx.Deadline()
	return !ok || until.Before(at)
}

// pauseOf is how long to leave a server alone after its nth rate limit in a row.
func pauseOf(f *fault.Fault, n int) time.Duration {
	if f.RetryAfter > 0 {
		return min(f.RetryAfter, maxPause)
	}
	return min(limitPause<<min(max(n-1, 0), 10), maxPause)
}

// move leaves a life whose link is gone for the next one. Where the link still
// stands, as after one refused connection of many, the same life gets another
// chance after a pause; its strikes decide how long it lives.
func (s *Slot) move(ctx context.Context, l *life, t *attempts) {
	if !l.gone() && pauseFor(ctx, l.up.Done(), resendPause<<(t.sends-1)) && !l.gone() {
		return
	}
	t.after = l.gen
}
