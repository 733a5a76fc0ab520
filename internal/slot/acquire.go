package slot

import (
	"context"
	"fmt"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/tracing"
)

// Acquire takes a lease on the serving generation. If none serves it waits as
// the supervisor gives reason to (see mayWait), and for its turn where calls at
// a time are limited. All who wait for a generation are woken together when it
// serves; turns are given in order. Errors are faults with outcome NotSent:
// Disabled, Unavailable with cause and RetryAfter, RateLimited, Overloaded,
// Closed, and those of ctx.
func (s *Slot) Acquire(ctx context.Context) (Lease, error) { return s.acquire(ctx, 0, &waitSum{}) }

// A waitSum is what a call has waited, before all its sends.
type waitSum struct {
	waited time.Duration
	parked bool // it has waited for a generation while none served that could be had
	trace  *tracing.Trace
	stays  []stay // while there is no trace
}

// A stay is a wait that is over.
type stay struct {
	began, ended time.Time
	what         string
}

// note keeps a wait for when it may be recorded; most calls are never.
func (w *waitSum) note(p stay) {
	if w.trace == nil && p.ended.Sub(p.began) > time.Millisecond {
		w.stays = append(w.stays, p)
	}
	w.trace.Waited(p.began, p.ended, p.what)
}

// A Waited is how a call has waited for a generation before it was known what it is
// to be sent as.
type Waited struct {
	Began time.Time // when the call came
	sum   waitSum
}

// For is how long it has waited.
func (w *Waited) For() time.Duration { return w.sum.waited }

// Wait waits for a generation as a call does; the errors are those of Acquire.
func (s *Slot) Wait(ctx context.Context) (Waited, error) {
	w := Waited{Began: time.Now()}
	if s.opts.Recorder != nil {
		w.sum.trace, _ = tracing.From(ctx)
	}
	lease, err := s.acquire(ctx, 0, &w.sum)
	if err == nil {
		lease.free() // no request was sent: that says nothing of the link
	}
	return w, err
}

// acquire is Acquire for a generation newer than after.
func (s *Slot) acquire(ctx context.Context, after uint64, total *waitSum) (Lease, error) {
	if s.pause.none() && s.gate.limit.Load() == 0 {
		if g := s.view.Load().serving; g != nil && g.gen > after && g.lease() {
			return Lease{slot: s, gen: g}, nil
		}
	}
	return s.acquireSlow(ctx, after, total)
}

func (s *Slot) acquireSlow(ctx context.Context, after uint64, total *waitSum) (Lease, error) {
	v := s.view.Load()
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > int64(v.Server.MaxWaiting) {
		return Lease{}, &fault.Fault{
			Kind: fault.Overloaded, Op: "call", Server: s.name, Outcome: fault.NotSent,
			Err: fmt.Errorf("%d calls wait for the server already", v.Server.MaxWaiting),
		}
	}
	began := time.Now()
	w := &waiter{slot: s, after: after, limit: began.Add(v.Server.ParkFor)}
	w.deadline, _ = ctx.Deadline()
	lease, err := w.wait(ctx)
	if err != nil && w.ticket != nil {
		s.gate.leave(w.ticket)
	}
	now := time.Now()
	total.waited += max(now.Sub(began), 1)
	w.count(now, err, total)
	if s.opts.Recorder != nil {
		total.note(stay{began, now, w.what})
	}
	return lease, err
}

// A waiter is one call that waits for a lease.
type waiter struct {
	slot     *Slot
	after    uint64
	limit    time.Time // when parkFor ends
	deadline time.Time // zero: none
	ticket   *ticket
	waited   bool      // it has waited
	what     string    // what it has waited for last
	lazy     bool      // it found the server idle: no outage is why it waits
	parked   time.Time // since when it has waited for a generation; zero if it has not
}

// count counts a wait for a generation that is over.
func (w *waiter) count(now time.Time, err error, total *waitSum) {
	if w.parked.IsZero() {
		return
	}
	total.parked = true
	end := meter.Served
	if err != nil {
		end = meter.Failed
		if kind := fault.KindOf(err); kind == fault.Canceled || kind == fault.Deadline {
			end = meter.GaveUp
		}
	}
	w.slot.meter.Parked(end, now.Sub(w.parked))
}

// A hold is what a waiter waits for next.
type hold struct {
	until    time.Time       // look again then; zero: only when something changes
	admitted <-chan struct{} // the gate's; nil if that is not what is waited for
	answered <-chan struct{} // the loop's answer to a demand; nil if none was made
}

// wait alternates between a look at the view and waiting for what the look
// says: a lease, a fault, or a hold.
func (w *waiter) wait(ctx context.Context) (Lease, error) {
	for {
		v := w.slot.view.Load()
		if err := ctx.Err(); err != nil {
			return Lease{}, w.gaveUp(v, err)
		}
		now := time.Now()
		if !w.deadline.IsZero() && !now.Before(w.deadline) {
			return Lease{}, w.gaveUp(v, context.DeadlineExceeded) // ctx is about to say so
		}
		lease, h, f := w.look(v, now)
		switch {
		case f != nil:
			return Lease{}, f
		case lease.gen != nil:
			return lease, nil
		}
		w.sleep(ctx, v, h)
	}
}

// sleep ends when the hold, the view or ctx gives reason to look again.
func (w *waiter) sleep(ctx context.Context, v *View, h hold) {
	if !w.waited {
		w.waited = true
		w.slot.drill.Load().count(ctx, waits)
	}
	var alarm <-chan time.Time
	if !h.until.IsZero() {
		t := time.NewTimer(time.Until(h.until))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-v.Changed:
	case <-h.admitted:
	case <-h.answered:
	case <-alarm:
	case <-ctx.Done():
	}
}

// look decides what to do about one view.
func (w *waiter) look(v *View, now time.Time) (Lease, hold, *fault.Fault) {
	g := v.serving
	if g == nil || g.gen <= w.after || g.refuses() {
		return w.lookAhead(v, now)
	}
	if until := w.slot.pause.end(now); !until.IsZero() {
		if !w.deadline.IsZero() && !until.Before(w.deadline) {
			return Lease{}, hold{}, rateLimited(w.slot.name, until.Sub(now))
		}
		w.what = "rate_limit"
		return Lease{}, hold{until: until}, nil
	}
	if w.ticket == nil && w.slot.gate.limit.Load() > 0 {
		w.ticket = w.slot.gate.join()
	}
	if w.ticket != nil && !w.ticket.open() {
		w.what = "turn"
		return Lease{}, hold{admitted: w.ticket.admitted}, nil
	}
	if !g.lease() {
		return w.lookAhead(v, now)
	}
	return Lease{slot: w.slot, gen: g, ticket: w.ticket}, hold{}, nil
}

// lookAhead decides about a view in which no generation can be had.
func (w *waiter) lookAhead(v *View, now time.Time) (Lease, hold, *fault.Fault) {
	until, ok := mayWait(v.prospects(), now, w.limit, w.deadline)
	if ok {
		if v.State.Phase() == lifecycle.Idle {
			w.lazy = true
			w.slot.demand() // what comes of it is a new view
		}
		w.park(v, now)
		return Lease{}, hold{until: until}, nil
	}
	if w.mayProbe(v, now) {
		w.park(v, now)
		return Lease{}, hold{answered: w.slot.demand()}, nil
	}
	if w.slot.view.Load() != v {
		return Lease{}, hold{}, nil // v.Changed is closed: look at the newer one
	}
	f := v.refusal(now)
	if probeAt := w.slot.born.Add(time.Duration(w.slot.probeAt.Load())); probeable(v.State) && probeAt.Before(v.Next) {
		f.RetryAfter = max(probeAt.Sub(now), time.Millisecond)
	}
	return Lease{}, hold{}, f
}

// park notes that it waits for a generation, unless it is the first start of a
// server that runs only when it is called.
func (w *waiter) park(v *View, now time.Time) {
	w.what = "generation"
	if w.parked.IsZero() && !(w.lazy && v.State.Attempt == 0) {
		w.parked = now
	}
}

// mayProbe tells whether this call may bring a slow retry forward.
func (w *waiter) mayProbe(v *View, now time.Time) bool {
	if v.closed || !probeable(v.State) || !now.Before(w.limit) {
		return false
	}
	return w.slot.since(now) >= w.slot.probeAt.Load()
}

// probeable tells whether a slow retry is due that nobody but its timer owns.
func probeable(st lifecycle.State) bool {
	return st.Want && st.Phase() == lifecycle.Stopped && st.RetryArmed() && !st.NoEarlyWake
}

// gaveUp is the fault of a call whose ctx ended while it waited.
func (w *waiter) gaveUp(v *View, err error) *fault.Fault {
	f := *fault.From("call", err)
	f.Server, f.Outcome = w.slot.name, fault.NotSent
	if v.serving == nil {
		f.Gen = v.State.Gen
		f.Err = gaveUpWaiting{f.Kind, string(v.Seen()), err}
		if v.Cause != nil {
			f.Err = fmt.Errorf("%w: %w", f.Err, v.Cause.Cause())
			f.Status, f.Exit, f.Stderr = v.Cause.Status, v.Cause.Exit, v.Cause.Stderr
		}
	}
	return &f
}

// gaveUpWaiting says in our own words that a call was given up while it waited.
type gaveUpWaiting struct {
	kind fault.Kind
	seen string
	err  error // of the context
}

func (w gaveUpWaiting) Error() string {
	if w.kind == fault.Deadline {
		return "the deadline passed while the server was " + w.seen
	}
	return "the call was given up while the server was " + w.seen
}

func (w gaveUpWaiting) Unwrap() error { return w.err }
