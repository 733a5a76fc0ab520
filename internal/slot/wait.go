package slot

import (
	"time"

	"github.com/everline/everline/internal/lifecycle"
)

// prospects are what the view says about a generation to come.
type prospects struct {
	want  bool
	phase lifecycle.Phase
	next  time.Time // when the next attempt is due; zero if none is
	began time.Time // when the attempt that runs began; valid in Starting
}

// mayWait decides whether a call that found no generation may wait, and until
// when that decision holds if nothing changes before. limit is when its parkFor
// ends. It may wait as long as an attempt that can still help is running, or is
// due before limit; an attempt that runs when limit comes is waited out, up to
// the deadline. A zero deadline is none, and a zero until is no limit but the
// caller's own.
func mayWait(p prospects, now, limit, deadline time.Time) (until time.Time, ok bool) {
	if !p.want || (!deadline.IsZero() && !now.Before(deadline)) {
		return time.Time{}, false
	}
	bound := limit
	if !deadline.IsZero() && deadline.Before(bound) {
		bound = deadline
	}
	switch p.phase {
	case lifecycle.Starting:
		until, ok = deadline, !p.began.After(limit)
	case lifecycle.Idle, lifecycle.Ready, lifecycle.Draining:
		// An attempt follows immediately, by itself or by this call's demand.
		until, ok = bound, now.Before(bound)
	case lifecycle.Backoff, lifecycle.Stopped:
		until, ok = bound, !p.next.IsZero() && !p.next.After(bound) && now.Before(bound)
	case lifecycle.Off:
	}
	if !ok {
		return time.Time{}, false
	}
	return until, true
}
