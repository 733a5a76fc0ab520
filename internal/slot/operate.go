package slot

import (
	"context"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
)

// An operation is something that the loop does for a caller, who waits until the
// view that shows the result is out.
type operation struct {
	op   func(*loop) error
	err  error         // what op returned; valid once done is closed
	done chan struct{} // closed by the loop
}

func (*operation) note() {}

// operate has the loop run op and returns once the view that shows the result is
// out. When ctx ends first, op may still run.
func (s *Slot) operate(ctx context.Context, what string, op func(*loop) error) error {
	t := &operation{op: op, done: make(chan struct{})}
	if !s.inbox.post(t) {
		return s.closedFault(what)
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return fault.From(what, ctx.Err()).At(s.name, 0)
	}
}

// Want says whether this everline shall run the server at all; a slot begins
// wanted. A server that is disabled does not run however wanted it is.
func (s *Slot) Want(ctx context.Context, want bool) error {
	return s.operate(ctx, "want", func(lp *loop) error {
		lp.owned = want
		lp.want()
		return nil
	})
}

// Enable lets a disabled server run again. It is idempotent.
func (s *Slot) Enable(ctx context.Context) error { return s.enable(ctx, "enable", true) }

// Disable unpublishes the server and refuses calls immediately, whatever ending
// its generation then does. It is idempotent.
func (s *Slot) Disable(ctx context.Context) error { return s.enable(ctx, "disable", false) }

func (s *Slot) enable(ctx context.Context, what string, on bool) error {
	return s.operate(ctx, what, func(lp *loop) error {
		lp.enabled = on
		lp.want()
		return nil
	})
}

// Apply makes server the slot's configuration. A new generation is started only
// if what a generation depends on has changed. Its Disabled takes effect if it
// differs from what the configuration said before; else an operator's word
// stands.
func (s *Slot) Apply(ctx context.Context, server config.Server) error {
	return s.operate(ctx, "apply", func(lp *loop) error {
		if server.Disabled != lp.spec.Disabled {
			lp.enabled = !server.Disabled
		}
		spec := lp.state.Spec
		lp.adopt(server)
		lp.emit(event.Reconfigured{Head: s.head(lp.state.Gen), NewGeneration: server.Revision() != spec})
		lp.want()
		lp.watchIdle()
		lp.plan()
		lp.dirty = true
		return nil
	})
}

// Answers returns once the loop has read a note that asks for nothing.
func (s *Slot) Answers(ctx context.Context) error {
	return s.operate(ctx, "look", func(*loop) error { return nil })
}

// Wake has an idle server started, as a call would.
func (s *Slot) Wake(ctx context.Context) error {
	return s.operate(ctx, "wake", func(lp *loop) error {
		lp.demanded()
		return nil
	})
}

// Reconnect is an operator's order of a new generation, whatever the old one does
// and whatever is waited for. For a server that is disabled it is a Conflict.
func (s *Slot) Reconnect(ctx context.Context) error {
	return s.operate(ctx, "reconnect", func(lp *loop) error {
		if !lp.state.Want {
			f := fault.New(fault.Conflict, "reconnect", "the server is disabled")
			f.Server, f.Remedy = s.name, enableRemedy(s.name)
			return f
		}
		lp.step(lifecycle.Wake{Operator: true})
		return nil
	})
}

// Authorized tells that the server can be shown another token. One that waits for
// that is started; one that serves gets a new generation where the token is of
// another person, or allows something else.
func (s *Slot) Authorized(ctx context.Context, another bool) error {
	return s.operate(ctx, "authorize", func(lp *loop) error {
		serves := lp.state.Serving != 0
		if lp.state.Want && (serves && another || !serves && lp.awaitsLogin()) {
			lp.step(lifecycle.Wake{Operator: true})
		}
		return nil
	})
}

// awaitsLogin tells whether the last start failed for want of a token.
func (lp *loop) awaitsLogin() bool {
	switch lp.state.Phase() {
	case lifecycle.Stopped:
		return lp.state.Stopped == lifecycle.Auth || ofCredential(lp.cause)
	case lifecycle.Backoff:
		return ofCredential(lp.cause)
	default:
		return false
	}
}

func ofCredential(f *fault.Fault) bool {
	return f != nil && (f.Kind == fault.Unauthorized || f.Op == fault.OpAuthorize)
}

// adopt takes a configuration; want makes the lifecycle follow it.
func (lp *loop) adopt(server config.Server) {
	server = server.WithDefaults()
	lp.spec = server
	lp.policy = policyOf(server)
	lp.slot.gate.set(server.MaxConcurrent)
}

// want tells the lifecycle how the server shall run.
func (lp *loop) want() {
	lp.step(lifecycle.Want{
		Want:    lp.enabled && lp.owned && !lp.closing,
		Lazy:    lp.spec.Lazy,
		Overlap: lp.spec.Overlap,
		Spec:    lp.spec.Revision(),
	})
	// Of a lazy server that has never listed anything nothing could be called,
	// and so no call would ever start it. It is started once, to learn what it
	// offers.
	if lp.catalog == nil && lp.state.Phase() == lifecycle.Idle {
		lp.step(lifecycle.Wake{})
	}
}

// shut begins the end of the slot.
func (lp *loop) shut() error {
	lp.closing = true
	lp.dirty = true
	lp.want()
	return nil
}

// wakeAfterDrill ends the wait for the next attempt.
func (lp *loop) wakeAfterDrill() error {
	if p := lp.state.Phase(); p == lifecycle.Backoff || p == lifecycle.Stopped {
		lp.drilled = true
		lp.step(lifecycle.Wake{Operator: true})
		lp.drilled = false
	}
	return nil
}
