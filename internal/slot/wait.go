package slot

import (
	"errors"
	"fmt"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/typed"
)

// prospects are what the view says about a generation to come.
type prospects struct {
	want  bool
	phase lifecycle.Phase
	next  time.Time // when the next attempt is due; zero if none is
	began time.Time // when the attempt that runs began; valid in Starting
}

func (v *View) prospects() prospects {
	return prospects{want: v.State.Want && !v.closed, phase: v.State.Phase(), next: v.Next, began: v.began}
}

// mayWait decides whether a call that found no generation may wait, and until when
// that decision holds if nothing changes before. limit is when its parkFor
// ends. It may wait as long as an attempt that can still help is running, or
// is due before limit; an attempt that runs when limit comes is waited out, up
// to the deadline. A zero deadline is none, and a zero until is no limit but
// the caller's own.
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
		// An attempt follows at once, by itself or by this call's wish.
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

// refusal says why a call cannot be served, and what is known about when it could.
func (v *View) refusal(now time.Time) *fault.Fault {
	name := v.Server.Name
	f := &fault.Fault{Op: "call", Server: name, Outcome: fault.NotSent}
	switch {
	case v.closed:
		f.Kind, f.Err = fault.Closed, errors.New("everline is letting go of this server")
		return f
	case !v.State.Want:
		f.Kind, f.Err = fault.Disabled, errors.New("the server is disabled")
		f.Remedy = "run: everline enable " + typed.Argument(name)
		return f
	}
	f.Kind = fault.Unavailable
	f.Gen = v.State.Gen
	if v.State.Phase() == lifecycle.Stopped {
		f.Remedy = remedyOf(name, v.State.Stopped, v.Cause)
	}
	if !v.Next.IsZero() {
		f.RetryAfter = max(v.Next.Sub(now), time.Millisecond)
	}
	f.Err = v.away()
	if c := v.Cause; c != nil {
		f.Status, f.Exit, f.Stderr = c.Status, c.Exit, c.Stderr
	}
	return f
}

// away is the text of a refusal: the state and the cause. When the call can be
// sent again is for RetryAfter alone, or there would be two times to choose from.
func (v *View) away() error {
	text := "the server is " + v.Seen()
	if v.State.Phase() == lifecycle.Ready {
		text = "the link was lost, and no new one came in time"
	}
	if v.Cause == nil {
		return errors.New(text)
	}
	if v.Cause.Exit != "" && v.Cause.Exit != v.Cause.Text() {
		text += " (" + v.Cause.Exit + ")"
	}
	return fmt.Errorf("%s: %w", text, v.Cause.Cause())
}
