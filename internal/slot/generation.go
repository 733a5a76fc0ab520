package slot

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// A generation is one connection as the slot holds it. Calls reach it through
// the View alone; what is not atomic is owned as the comments say.
type generation struct {
	server string
	gen    uint64
	spec   config.Server
	ctx    context.Context // ends the start, and listings; not calls
	cancel context.CancelFunc
	begun  time.Time
	redact redactor // over what it writes to stderr
	logs   *ring    // the slot's

	// word is twice the number of leases, plus 1 once new leases are refused.
	word     atomic.Int64
	drained  chan struct{} // gets a token when the last lease of a refused generation is back
	feedback feedback      // what releases have to tell the loop
	wake     chan struct{} // the inbox's
	tracked  atomic.Bool   // record when leases come back, for idling
	used     atomic.Int64  // when the last lease came back, counted from begun; valid if tracked

	changed atomic.Uint32               // kinds with a list_changed that the loop has not taken yet
	said    atomic.Uint32               // those that the server itself has announced since it serves
	lastBad atomic.Pointer[fault.Fault] // the last failure that blamed the link
	lost    atomic.Bool                 // a call has reported that the session is gone
	refused atomic.Bool                 // a call was refused for its credentials, and the loop does not know

	linked meter.Link                            // what of link is counted
	linkMu sync.Mutex                            // guards linked; held while the link is read, which waits for nothing
	link   atomic.Pointer[func() transport.Info] // describes the link that the start has opened; nil if it has opened none

	over    chan struct{} // closed when the start worker has ended; then the five below are final
	up      Upstream      // nil if the start failed
	cat     *catalog.Catalog
	info    upstream.Info
	excused time.Duration // of the start, which Options.Ready has taken; after a failure for the credential's sake all of it
	peer    *tracing.Peer // nil while nothing is recorded
	served  time.Time     // when it could; zero if the start failed

	known atomic.Pointer[catalog.Catalog] // what this generation offers, as last listed; nil before it serves
	shown atomic.Pointer[catalog.Catalog] // the view's catalog, as of then: it has the same items; nil before it serves

	doubts   doubts
	noise    *fault.Fault // the loop's: what it wrote instead of an answer while it was starting; nil if nothing
	stopping bool         // the loop's: a closer ends it
	exited   bool         // the loop's: its end has been stepped
}

// newGeneration returns the generation gen of server. Its context ends with
// parent; wake tells the loop that it has something to take.
func newGeneration(parent context.Context, server string, gen uint64, spec config.Server, logs *ring, wake chan struct{}) *generation {
	g := &generation{
		server: server, gen: gen, spec: spec, begun: time.Now(), redact: redactorOf(spec), logs: logs,
		drained: make(chan struct{}, 1), wake: wake, over: make(chan struct{}),
	}
	g.ctx, g.cancel = context.WithCancel(parent)
	return g
}

// freezeLink lets go of the link of a start that has failed: it is described
// as it was at its end, and writes no more.
func (g *generation) freezeLink() {
	info := g.link.Load()
	if info == nil {
		return
	}
	last := (*info)()
	last.StderrRate = 0
	now := func() transport.Info { return last }
	g.link.Store(&now)
}

// countLink counts what has happened on the link since it was called last.
func (g *generation) countLink(m *meter.Server) {
	info := g.link.Load()
	if info == nil {
		return
	}
	g.linkMu.Lock()
	defer g.linkMu.Unlock()
	i := (*info)()
	now := meter.Link{Late: i.LateAnswers, Noise: i.Noise, Ignored: i.Ignored, Stderr: i.StderrBytes, CPU: i.CPU}
	m.Linked(g.linked, now)
	g.linked = now
}

// explain completes a fault with where it happened and what the process said.
func (g *generation) explain(f *fault.Fault) *fault.Fault {
	f = f.At(g.server, g.gen)
	if len(f.Stderr) == 0 {
		f.Stderr = g.logs.last(g.gen)
	}
	return g.redact.fault(f)
}

func (g *generation) hooks(faults *transport.Injector) Hooks {
	return Hooks{
		Announced: func(k catalog.Kind) { g.said.Or(1 << k) },
		Changed: func(k catalog.Kind) {
			g.changed.Or(1 << k)
			g.nudge()
		},
		Stderr: func(line string) { g.logs.add(g.gen, g.redact.hide(line)) },
		Linked: func(info func() transport.Info) { g.link.Store(&info) },
		Failed: func(era upstream.Era, phases []upstream.Phase) { g.info.Era, g.info.Phases = era, phases },
		Faults: faults,
	}
}

// lease adds a lease, unless the generation is being ended. Adding first and
// looking then costs one atomic operation whatever others do at the same time.
func (g *generation) lease() bool {
	if g.word.Add(2)&1 == 0 {
		return true
	}
	g.release()
	return false
}

// release returns a lease. That of the last one of a refused generation is
// reported.
func (g *generation) release() {
	switch left := g.word.Add(-2); {
	case left < 0:
		g.releasedTwice()
	case left == 1:
		g.sayDrained()
	}
}

func (g *generation) releasedTwice() {
	panic(fmt.Sprintf("bug: a lease on generation %d of server %s was released twice", g.gen, g.server))
}

// refuse lets no new lease in. It is called by the loop, before the view that
// shows it.
func (g *generation) refuse() {
	if g.word.Or(1) == 0 {
		g.sayDrained()
	}
}

func (g *generation) sayDrained() {
	select {
	case g.drained <- struct{}{}:
	default:
	}
}

func (g *generation) leases() int { return int(g.word.Load() >> 1) }

func (g *generation) refuses() bool { return g.word.Load()&1 != 0 }

// gone tells whether the link cannot be used any more.
func (g *generation) gone() bool {
	if g.lost.Load() {
		return true
	}
	select {
	case <-g.up.Done():
		return true
	default:
		return false
	}
}

// nudge tells the loop that there is something to take. It never waits.
func (g *generation) nudge() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// noteResult records how a call went. In the steady state, good answer after good
// answer, it is one atomic load.
func (g *generation) noteResult(err error) {
	f := fault.From("call", err)
	switch {
	case f == nil || f.Outcome == fault.Answered: // a bad answer comes over a good link
		if g.feedback.good() {
			g.nudge()
		}
	default:
		g.report(f)
	}
	if g.tracked.Load() {
		g.used.Store(int64(time.Since(g.begun)))
	}
}

// report tells the loop what a failed call counts against, beside itself.
func (g *generation) report(f *fault.Fault) {
	switch evidence.Of(evidence.Call, f) {
	case evidence.Doubt:
		g.lastBad.Store(f)
		g.feedback.doubt()
	case evidence.LoginDoubt:
		g.refused.Store(true)
	default:
		return
	}
	g.nudge()
}

// doubts are what calls on one generation have raised against its link or its
// login. The loop owns them. One probe at a time decides.
type doubts struct {
	calls   int // that failed in a way that the link may explain, and are not decided
	probing bool
	good    time.Time // the last probe that the server answered
	login   time.Time // the last probe because of a login
}

// lost: a call proved that g is of no use any more.
type lost struct {
	g     *generation
	cause *fault.Fault
}

func (lost) note() {}
