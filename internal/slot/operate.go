package slot

import (
	"context"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/typed"
)

// The operations return once the view that shows what they did is out, or
// with a fault: of ctx, or Closed.

// Want says whether this everline shall run the server at all; a slot begins
// wanted. A server that is disabled does not run however wanted it is.
func (s *Slot) Want(ctx context.Context, want bool) error {
	return s.operate(ctx, "want", func(s *Slot) error {
		s.loop.owned = want
		s.want()
		return nil
	})
}

// Enable lets a disabled server run again. It is idempotent.
func (s *Slot) Enable(ctx context.Context) error { return s.enable(ctx, "enable", true) }

// Disable unpublishes the server and refuses calls at once, whatever ending
// its generation then does. It is idempotent.
func (s *Slot) Disable(ctx context.Context) error { return s.enable(ctx, "disable", false) }

func (s *Slot) enable(ctx context.Context, what string, on bool) error {
	return s.operate(ctx, what, func(s *Slot) error {
		s.loop.enabled = on
		s.want()
		return nil
	})
}

// Apply makes server the slot's configuration. A new generation is started only if
// what a generation depends on has changed. Its Disabled takes effect if it differs
// from what the configuration said before; else an operator's word stands.
func (s *Slot) Apply(ctx context.Context, server config.Server) error {
	return s.operate(ctx, "apply", func(s *Slot) error {
		lp := &s.loop
		if server.Disabled != lp.spec.Disabled {
			lp.enabled = !server.Disabled
		}
		spec := lp.state.Spec
		s.adopt(server)
		s.emit(event.Reconfigured{Head: s.head(lp.state.Gen), NewGeneration: server.Revision() != spec})
		s.want()
		s.watchIdle()
		s.plan()
		lp.dirty = true
		return nil
	})
}

// Wake has an idle server started, as a call would.
func (s *Slot) Wake(ctx context.Context) error {
	return s.operate(ctx, "wake", func(s *Slot) error {
		s.demanded()
		return nil
	})
}

// Reconnect is an operator's order of a new generation, whatever the old one does
// and whatever is waited for. For a server that is disabled it is a Conflict.
func (s *Slot) Reconnect(ctx context.Context) error {
	return s.operate(ctx, "reconnect", func(s *Slot) error {
		if !s.loop.state.Want {
			f := fault.New(fault.Conflict, "reconnect", "the server is disabled")
			f.Server, f.Remedy = s.name, "run: everline enable "+typed.Argument(s.name)
			return f
		}
		s.step(lifecycle.Wake{Operator: true})
		return nil
	})
}

// adopt takes a configuration; want makes the lifecycle follow it.
func (s *Slot) adopt(server config.Server) {
	s.loop.spec = server
	s.loop.policy = policyOf(server)
	s.gate.set(server.MaxConcurrent)
}

// want tells the lifecycle how the server shall run.
func (s *Slot) want() {
	lp := &s.loop
	s.step(lifecycle.Want{
		Want:    lp.enabled && lp.owned && !lp.closing,
		Lazy:    lp.spec.Lazy,
		Overlap: lp.spec.Overlap,
		Spec:    lp.spec.Revision(),
	})
	// Of a lazy server that has never listed anything nothing could be called,
	// and so no call would ever start it. It is started once, to learn what it
	// offers.
	if lp.catalog == nil && lp.state.Phase() == lifecycle.Idle {
		s.step(lifecycle.Wake{})
	}
}

// shut begins the end of the slot.
func (s *Slot) shut() error {
	s.loop.closing = true
	s.loop.dirty = true
	s.want()
	return nil
}
