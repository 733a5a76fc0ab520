package slot

import (
	"fmt"
	"strings"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/meter"
)

// startGeneration begins generation gen in a worker.
func (lp *loop) startGeneration(gen uint64, why meter.Cause) {
	g := newGeneration(lp.slot.forced, lp.slot.name, gen, lp.spec, &lp.slot.logs, lp.slot.inbox.wake)
	g.redact = g.redact.and(lp.slot.opts.Hide)
	lp.keep(g)
	old := lp.catalog
	if lp.catalogOf != g.spec.Identity() {
		old = nil // what another server has listed stays published, and says nothing of this one
	}
	lp.noise.set(noiseLook)
	lp.emit(event.Connecting{Head: lp.slot.head(gen), Why: why.String()})
	lp.work(func() note { return lp.starter.start(g, old) }) // ends with its generation's context or in startupTimeout
}

// ready takes a generation that has come up. One that is not wanted any more is
// closed by its closer, and nothing of it is published.
func (lp *loop) ready(g *generation) {
	if g.stopping {
		return
	}
	lp.losses.excuse(g.excused)
	mark := len(lp.events)
	c := event.Connected{Head: lp.slot.head(g.gen), Took: time.Since(g.begun)}
	for _, p := range g.info.Phases {
		c.Phases = append(c.Phases, event.Phase{Name: p.Name, Took: p.Took})
	}
	if lp.hadServed && !lp.awayAt.IsZero() {
		c.After = time.Since(lp.awayAt)
	}
	lp.step(lifecycle.Started{Gen: g.gen})
	if lp.state.Serving != g.gen {
		panic("bug: a generation has started that the lifecycle does not know")
	}
	lp.dirty = true
	lp.forgiveNoise(g)
	lp.take(g, g.cat)
	c.Items = countsOf(lp.catalog)
	lp.emitAt(mark, c)
}

// startFailed takes a start that came to nothing.
func (lp *loop) startFailed(g *generation, cause *fault.Fault) {
	if g.stopping {
		return // its closer reports it
	}
	g.cancel()
	lp.drop(g.gen)
	if ofCredential(cause) {
		g.excused = time.Since(g.begun)
	}
	lp.losses.excuse(g.excused)
	cause = lp.noteSessionLoss(named(withNoise(cause, g)))
	lp.blame(cause)
	verdict := verdictOf(cause, lp.slot.opts.Credential)
	if verdict == lifecycle.SessionEnd {
		verdict = lifecycle.Retry // a session that never began cannot be lost
	}
	mark := len(lp.events)
	lp.step(lifecycle.Failed{Gen: g.gen, Verdict: verdict, After: retryAfterOf(cause), Recent: lp.startsInMinute(), Down: lp.down()})
	lp.emitAt(mark, event.StartFailed{Head: lp.slot.head(g.gen), Cause: cause, Next: lp.next, Attempt: int(lp.state.Attempt)})
}

// named is a failed start whose text names the request that failed, and what
// came instead of its answer.
func named(f *fault.Fault) *fault.Fault {
	switch f.Kind {
	case fault.RPC, fault.Protocol, fault.HTTPStatus, fault.SessionLost, fault.SessionSuspect:
	default:
		return f
	}
	if !strings.Contains(f.Op, "/") && f.Op != mcp.Initialize {
		return f
	}
	c := *f
	c.Err, c.Op = fmt.Errorf("%s failed: %w", f.Op, f.Cause()), "start"
	return &c
}

// endGeneration ends generation gen: it refuses new leases now, and is closed in
// a worker.
func (lp *loop) endGeneration(gen uint64, drain bool) {
	g := lp.gens[gen]
	if g == nil {
		lp.slot.inbox.post(ended{gen: gen})
		return
	}
	g.stopping = true
	g.refuse()
	if !drain {
		g.cancel()
	}
	lp.work(func() note { return lp.closer.end(g, drain) }) // bounded by drainTimeout and closeLimit
}

// generationEnded takes the end of a closer's work. That a generation would not
// end in order is reported, and changes nothing.
func (lp *loop) generationEnded(gen uint64, err error) {
	lp.drop(gen)
	lp.closeCause = nil
	if err != nil {
		lp.closeCause = fault.From("close", err).At(lp.slot.name, gen)
		lp.emit(event.CloseFailed{Head: lp.slot.head(gen), Cause: lp.closeCause})
	}
	lp.step(lifecycle.Closed{Gen: gen, Err: err != nil})
	lp.dirty = true
}

// keep remembers a generation that begins.
func (lp *loop) keep(g *generation) {
	lp.gens[g.gen] = g
	lp.newest, lp.began = g, g.begun
	lp.recent = append(lp.recent, g.begun)
	if len(lp.recent) > startsKept {
		lp.recent = lp.recent[1:]
	}
	lp.count()
}

// drop forgets a generation that is gone, with all of its processes.
func (lp *loop) drop(gen uint64) {
	if g := lp.gens[gen]; g != nil {
		g.countLink(lp.slot.meter)
		g.lasted(lp.slot.durations)
	}
	delete(lp.gens, gen)
	lp.count()
}

// count publishes which generations are there, for Counts and Close.
func (lp *loop) count() {
	list := make([]*generation, 0, len(lp.gens))
	for _, g := range lp.gens {
		list = append(list, g)
	}
	lp.slot.alive.Store(&list)
}

// startsInMinute counts the starts of the last minute and forgets older ones.
func (lp *loop) startsInMinute() int {
	old := time.Now().Add(-time.Minute)
	n := 0
	for n < len(lp.recent) && lp.recent[n].Before(old) {
		n++
	}
	lp.recent = lp.recent[n:]
	return len(lp.recent)
}
