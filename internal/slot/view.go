package slot

import (
	"errors"
	"fmt"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// A View is the published picture of a slot. It is never changed; the next
// one replaces it, and then Changed is closed.
type View struct {
	Server  config.Server
	State   lifecycle.State
	Catalog *catalog.Catalog // last good; nil if there never was one
	// CatalogOf is the Identity of the configuration that Catalog was listed
	// with: after a change of it the last good one may be another server's.
	CatalogOf string
	Cause     *fault.Fault // why the last generation or attempt ended, or why it cannot be listed; nil after proven health
	// ListCause is why the newest listing of the serving generation failed; nil
	// if it did not. The last good one is kept.
	ListCause *fault.Fault
	// CloseCause is why the last generation that was ended would not end in
	// order; nil if it did.
	CloseCause *fault.Fault
	Since      time.Time       // when the seen state began
	AwaySince  time.Time       // since when no generation serves that should, over all attempts; zero if one does, or none is wanted now
	Next       time.Time       // when the next attempt is due; zero if none is
	Checked    time.Time       // when the catalog was last found to be true, as of this view; zero if never in this run
	Info       upstream.Info   // of the serving generation, as of its start
	Changed    <-chan struct{} // closed when this view is stale

	serving *generation // nil if none serves
	newest  *generation // of a server that is away: started last; nil if none was
	began   time.Time   // when the newest generation was started; zero if none was
	closed  bool        // the slot is closing
}

// Seen is the state as people see it.
func (v *View) Seen() event.State { return event.State(v.State.Seen()) }

// Now is Info as it is at this moment: what is counted has grown since the
// generation's start.
func (v *View) Now() upstream.Info {
	if v.serving == nil {
		return v.Info
	}
	return v.serving.up.Info()
}

// Link describes the link of the serving generation as it is now; while the
// server is away, that of the generation which is starting or was the last to.
func (v *View) Link() transport.Info {
	switch {
	case v.serving != nil:
		return v.serving.up.Info().Info
	case v.newest == nil:
		return transport.Info{}
	}
	if info := v.newest.link.Load(); info != nil {
		return (*info)()
	}
	return transport.Info{}
}

// Published tells whether clients may see what the server offers: it is
// wanted, and there is a last good catalog.
func (v *View) Published() bool { return v.State.Want && v.Catalog != nil }

// Away tells whether a call that comes now finds no generation to take it: the
// server is down, coming up, or stopped. An idle server is not away.
func (v *View) Away() bool {
	return v.State.Serving == 0 && v.State.Phase() != lifecycle.Idle
}

// Starting tells whether an attempt runs, and no generation serves beside it.
func (v *View) Starting() bool { return v.State.Phase() == lifecycle.Starting }

// Pending tells whether the server has never had a catalog and may still get
// its first one without anybody doing something.
func (v *View) Pending() bool {
	if v.Catalog != nil || !v.State.Want {
		return false
	}
	switch v.State.Phase() {
	case lifecycle.Starting, lifecycle.Ready, lifecycle.Draining, lifecycle.Backoff:
		return true
	default:
		return false
	}
}

// Settled tells whether nothing more happens by itself to bring up a generation
// newer than gen: it serves, or the server is off, idle or stopped.
func (v *View) Settled(gen uint64) bool {
	switch v.State.Phase() {
	case lifecycle.Ready:
		return v.State.Serving > gen
	case lifecycle.Off, lifecycle.Idle, lifecycle.Stopped:
		return true
	default:
		return false
	}
}

func (v *View) prospects() prospects {
	return prospects{want: v.State.Want && !v.closed, phase: v.State.Phase(), next: v.Next, began: v.began}
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
		f.Remedy = enableRemedy(name)
		return f
	}
	f.Kind = fault.Unavailable
	f.Gen = v.State.Gen
	if v.State.Phase() == lifecycle.Stopped {
		f.Remedy = stoppedRemedy(&v.Server, v.State.Stopped, v.Cause)
		if v.State.Stopped == lifecycle.Auth {
			f.Kind = fault.Unauthorized
		}
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
	text := "the server is " + string(v.Seen())
	if v.State.Phase() == lifecycle.Ready {
		text = "the link was lost, and no new one came in time"
	}
	if v.Cause == nil {
		return errors.New(text)
	}
	if v.Cause.Exit != "" && v.Cause.Exit != v.Cause.Reason() {
		text += " (" + v.Cause.Exit + ")"
	}
	return fmt.Errorf("%s: %w", text, v.Cause.Cause())
}
