package slot

import (
	"context"
	"time"

	"github.com/everline/everline/internal/lifecycle"
)

// A lossClock measures for how long a server has been losing its generations. It
// stands still while no attempt is to follow soon: while the server is idle, or
// stopped for another reason than the time itself, or waits for a credential.
type lossClock struct {
	began time.Time // when the first of the losses in a row was; zero if there are none
	still time.Time // since when the clock stands still; zero if it runs
}

// follow takes a step of the lifecycle.
func (c *lossClock) follow(before, after lifecycle.State, now time.Time) {
	stands := after.Phase() == lifecycle.Idle || after.Phase() == lifecycle.Backoff && after.Unready ||
		after.Phase() == lifecycle.Stopped && after.Stopped != lifecycle.Budget
	switch {
	case !stands && !c.still.IsZero():
		if !c.began.IsZero() {
			c.began = c.began.Add(now.Sub(c.still))
		}
		c.still = time.Time{}
	case stands && c.still.IsZero():
		c.still = now
	}
	switch {
	case after.Attempt == 0:
		c.began = time.Time{}
	case after.Attempt == 1 && before.Attempt != 1:
		c.began = now
	}
}

// excuse takes out of the count what the server is not to blame for.
func (c *lossClock) excuse(d time.Duration) {
	if !c.began.IsZero() {
		c.began = c.began.Add(d)
	}
}

// down is how long the losses in a row have gone on; 0 if the next is the first.
func (lp *loop) down() time.Duration {
	if lp.losses.began.IsZero() {
		return 0
	}
	return time.Since(lp.losses.began)
}

// returned: what the attempt gen failed for is there again.
type returned struct{ gen uint64 }

func (returned) note() {}

// watch begins to look, from heed on, for what the attempt gen lacked. What is
// found brings the next attempt forward.
func (lp *loop) watch(gen uint64, heed time.Duration) {
	lp.unwatch()
	if lp.slot.opts.Watch == nil || lp.state.NoEarlyWake {
		return
	}
	ctx, cancel := context.WithCancel(lp.slot.forced)
	lp.unwatch = cancel
	server, lost := lp.spec, lp.losses.began
	look := lp.slot.opts.Watch
	lp.work(func() note { // ended by unwatch or the end of the slot
		defer cancel()
		if pauseFor(ctx, nil, heed) && look(ctx, server, lost) {
			return returned{gen}
		}
		return nil
	})
}

// trackAway keeps since when the server has been away, over all attempts.
func (lp *loop) trackAway(before, after lifecycle.State) {
	switch away := after.Want && after.Serving == 0 && after.Phase() != lifecycle.Idle; {
	case !away:
		if !lp.awayAt.IsZero() && lp.slot.opts.Session == 0 {
			lp.slot.meter.Outage(time.Since(lp.awayAt))
		}
		lp.awayAt = time.Time{}
	case lp.awayAt.IsZero():
		lp.awayAt, lp.hadServed = time.Now(), before.Serving != 0
	}
}
