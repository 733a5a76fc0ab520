package slot

import (
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
)

// readFeedback takes what calls have left on release. The generation that
// served last is asked too: an answer that its end overtook still proves it.
func (lp *loop) readFeedback() {
	g := lp.lastUp
	if g == nil {
		return
	}
	good, doubts := g.feedback.take()
	if good {
		lp.stepProof(lifecycle.Healthy{Gen: g.gen})
	}
	if doubts > 0 {
		lp.doubtLink(g, doubts)
	}
	if g.refused.Swap(false) {
		lp.doubtLogin(g)
	}
	if g.changed.Load() != 0 {
		lp.listChanged(g)
	}
}

// stepProof steps an event that proves health. The cause of the last loss is
// then history; not so that of a successor that failed beside the generation,
// or of listings that fail.
func (lp *loop) stepProof(ev lifecycle.Event) {
	before := lp.state
	lp.step(ev)
	after := lp.state
	news := !before.Proven || before.CallStrikes > after.CallStrikes
	if news && after.Proven && after.Serving == after.Gen && lp.cause != nil && lp.cause != lp.refresh.cause {
		lp.cause, lp.dirty = nil, true
	}
}

// struck steps a failure that blames the link. If it was one too many, the
// generation was given up, and this failure is why.
func (lp *loop) struck(g *generation, list bool, cause *fault.Fault) {
	if lp.state.Serving != g.gen {
		return
	}
	cause = g.explain(cause)
	lp.blame(cause)
	mark := len(lp.events)
	lp.step(lifecycle.Struck{Gen: g.gen, List: list, Recent: lp.startsInMinute(), Down: lp.down()})
	if lp.state.Serving != g.gen {
		lp.emitAt(mark, event.Lost{Head: lp.slot.head(g.gen), Cause: cause, Next: lp.next, Attempt: int(lp.state.Attempt)})
	}
}

// exit steps the end of a link that served.
func (lp *loop) exit(g *generation, cause *fault.Fault) {
	if g.exited || g.stopping {
		return
	}
	g.exited = true
	cause = lp.noteSessionLoss(g.explain(cause))
	lp.blame(cause)
	mark := len(lp.events)
	lp.step(lifecycle.Exited{
		Gen: g.gen, Verdict: verdictOf(cause, lp.slot.opts.Credential), After: retryAfterOf(cause), Recent: lp.startsInMinute(), Down: lp.down(),
	})
	lp.emitAt(mark, event.Lost{Head: lp.slot.head(g.gen), Cause: cause, Next: lp.next, Attempt: int(lp.state.Attempt)})
}

// blame remembers why there is trouble.
func (lp *loop) blame(cause *fault.Fault) {
	lp.cause = cause
	lp.dirty = true
}

// demanded takes a call that wants a generation.
func (lp *loop) demanded() {
	now := time.Now()
	soon := lp.slot.since(now) < lp.slot.probeAt.Load()
	probe := lp.state.Phase() == lifecycle.Stopped && !soon
	before, every := lp.state, lp.policy.WakeEvery
	if before.Stopped == lifecycle.Auth {
		every = max(every, loginPace)
	}
	lp.step(lifecycle.Wake{TooSoon: soon})
	if probe && before != lp.state {
		lp.flush() // the view comes before the mark; see waiter.mayProbe
		lp.slot.probeAt.Store(lp.slot.since(now.Add(every)))
	}
}
