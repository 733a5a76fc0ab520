package slot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

const (
	firstTries  = 3                      // first listings tried on one generation
	firstPause  = 250 * time.Millisecond // before the second try; doubled for each further one
	secondLook  = time.Second            // before an empty list that was not empty is believed
	closeLimit  = 10 * time.Second       // for ending a generation, beyond the configured grace
	defaultWait = time.Minute            // startupTimeout and drainTimeout of a Server made by hand
)

// startGeneration begins generation gen in a worker.
func (s *Slot) startGeneration(gen uint64) {
	g := newGeneration(gen, s.loop.spec, s.forced, s.wake)
	s.keep(g)
	old := s.loop.catalog
	if s.loop.catalogOf != g.spec.Identity() {
		old = nil // what another server has listed stays published, and says nothing of this one
	}
	s.loop.noise.set(noiseLook)
	s.emit(event.Connecting{Head: s.head(gen)})
	s.workers.Go(func() { s.start(g, old) }) // ends by its generation's context or startupTimeout; quit waits
}

// start is the start worker: it ends in one started or failed.
func (s *Slot) start(g *generation, old *catalog.Catalog) {
	err := s.open(g, old)
	if err != nil {
		g.freezeLink()
	}
	close(g.over)
	if err != nil {
		s.post(failed{g, s.explain(fault.From("start", err), g)})
		return
	}
	s.post(started{g})
}

// open dials and lists, bounded by startupTimeout and by no caller.
func (s *Slot) open(g *generation, old *catalog.Catalog) error {
	if g.spec.Err != nil {
		return g.spec.Err
	}
	giveBack, err := s.takePlace(g)
	if err != nil {
		return err
	}
	defer giveBack()
	limit := orElse(g.spec.StartupTimeout, defaultWait)
	ctx, cancel := context.WithTimeout(g.ctx, limit)
	defer cancel()
	up, err := s.opts.Dial(ctx, g.spec, g.gen, s.hooks(g))
	if err != nil {
		return lateStart(ctx, err, limit)
	}
	listed := time.Now()
	cat, err := firstList(ctx, up, old)
	if err != nil {
		err = lateStart(ctx, linkErr(up, err), limit)
		_ = s.shutDown(up, g.spec) // what it says is no news beside err
		return err
	}
	g.up, g.cat, g.info = up, cat, up.Info()
	g.info.Phases = append(slices.Clip(g.info.Phases), upstream.Phase{Name: upstream.PhaseList, Took: time.Since(listed)})
	return nil
}

// placeHold is how long a start may keep others waiting. What a start costs the
// machine is mostly over by then; what is left is waiting for an answer, and a
// server that never gives one must not stand in the way of those that would.
const placeHold = 300 * time.Millisecond

// takePlace waits for Options.After, and then for one of the places that bound
// how many processes start at the same time. It is given back when the start
// is over or placeHold has passed, whichever comes first. A URL needs none: it
// starts nothing here.
func (s *Slot) takePlace(g *generation) (giveBack func(), err error) {
	if s.opts.After != nil {
		select {
		case <-s.opts.After:
		case <-g.ctx.Done():
			return nil, g.ctx.Err()
		}
	}
	if s.opts.Starting == nil || g.spec.URL != "" {
		return func() {}, nil
	}
	select {
	case s.opts.Starting <- struct{}{}:
	case <-g.ctx.Done():
		return nil, g.ctx.Err()
	}
	free := sync.OnceFunc(func() { <-s.opts.Starting }) // at once: our own is in it
	held := time.AfterFunc(placeHold, free)
	return func() { held.Stop(); free() }, nil
}

// lateStart says which limit was hit, where it was ours.
func lateStart(ctx context.Context, err error, limit time.Duration) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || fault.KindOf(err) != fault.Deadline {
		return err
	}
	f := *fault.From("start", err)
	f.Err = fmt.Errorf("it was not up within its startupTimeout of %s: %w", event.Short(limit), err)
	return &f
}

// linkErr prefers the reason why the link ended over what a request on it saw.
func linkErr(up Upstream, err error) error {
	select {
	case <-up.Done():
		if cause := up.Err(); cause != nil {
			return cause
		}
	default:
	}
	return err
}

func (s *Slot) hooks(g *generation) Hooks {
	return Hooks{
		Changed: func(k catalog.Kind) {
			g.changed.Or(1 << k)
			g.nudge()
		},
		Stderr: func(line string) { s.logs.add(g.gen, g.redact.hide(line)) },
		Linked: func(info func() transport.Info) { g.link.Store(&info) },
		Faults: &s.faults,
	}
}

// firstList fetches the first complete listing. A listing that fails while
// the link stands is tried again: it is not the same as a server without tools.
func firstList(ctx context.Context, up Upstream, old *catalog.Catalog) (*catalog.Catalog, error) {
	pause := firstPause
	for try := 1; ; {
		cat, err := listWithin(ctx, up, old, firstTries+1-try)
		if err == nil {
			return believe(ctx, up, old, cat)
		}
		wait := pause
		if f := fault.From("list", err); f.Kind == fault.RateLimited && f.RetryAfter > 0 {
			wait = f.RetryAfter // the server's wish is no failure of the link
		} else if try++; try > firstTries || noPointRetrying(f.Kind) {
			return nil, err
		}
		pause *= 2
		if at, ok := ctx.Deadline(); ok && time.Until(at) < wait {
			return nil, err
		}
		if !pauseFor(ctx, up.Done(), wait) {
			return nil, err
		}
	}
}

// noPointRetrying tells whether asking the same generation again cannot help.
func noPointRetrying(k fault.Kind) bool {
	switch k {
	case fault.SessionLost, fault.Unauthorized, fault.Forbidden, fault.Invalid, fault.NoVersion, fault.Canceled:
		return true
	default:
		return false
	}
}

// listWithin gives one listing its share of the time that is left, so that a
// server which swallows the first request gets another.
func listWithin(ctx context.Context, up Upstream, old *catalog.Catalog, triesLeft int) (*catalog.Catalog, error) {
	at, ok := ctx.Deadline()
	if !ok {
		panic("bug: a first listing without a deadline")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Until(at)/time.Duration(triesLeft))
	defer cancel()
	return up.List(ctx, old, catalog.Kinds[:]...)
}

// believe takes a second look where a kind has become empty: some servers
// answer before they have registered what they offer.
func believe(ctx context.Context, up Upstream, old, cat *catalog.Catalog) (*catalog.Catalog, error) {
	if !emptied(old, cat) {
		return cat, nil
	}
	if !pauseFor(ctx, up.Done(), secondLook) {
		return cat, nil // whoever waits for the link's end will hear of it
	}
	again, err := up.List(ctx, old, catalog.Kinds[:]...)
	if err != nil {
		return nil, err
	}
	return again, nil
}

// emptied tells whether a kind that had items has none any more.
func emptied(old, cat *catalog.Catalog) bool {
	if old == nil {
		return false
	}
	for k := range cat.Items {
		if len(cat.Items[k]) == 0 && len(old.Items[k]) > 0 {
			return true
		}
	}
	return false
}

// pauseFor waits, and tells whether going on makes sense.
func pauseFor(ctx context.Context, gone <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-gone:
		return false
	case <-ctx.Done():
		return false
	}
}

// ready takes a generation that has come up. One that is not wanted any more is
// closed by its stop worker, and nothing of it is published.
func (s *Slot) ready(g *generation) {
	if g.stopping {
		return
	}
	lp := &s.loop
	mark := len(lp.events)
	c := event.Connected{Head: s.head(g.gen), Took: time.Since(g.begun)}
	if lp.hadServed && !lp.awayAt.IsZero() {
		c.After = time.Since(lp.awayAt)
	}
	s.step(lifecycle.Started{Gen: g.gen})
	if lp.state.Serving != g.gen {
		panic("bug: a generation has started that the lifecycle does not know")
	}
	lp.dirty = true
	s.forgiveNoise(g)
	s.take(g, g.cat)
	c.Items = countsOf(lp.catalog)
	s.emitAt(mark, c)
}

// startFailed takes a start that came to nothing.
func (s *Slot) startFailed(g *generation, cause *fault.Fault) {
	if g.stopping {
		return // its stop worker reports it
	}
	g.cancel()
	s.drop(g.gen)
	cause = s.noteSessionLoss(named(withNoise(cause, g)))
	s.blame(cause)
	verdict := verdictOf(cause)
	if verdict == lifecycle.SessionEnd {
		verdict = lifecycle.Retry // a session that never began cannot be lost
	}
	mark := len(s.loop.events)
	s.step(lifecycle.Failed{Gen: g.gen, Verdict: verdict, After: retryAfterOf(cause), Recent: s.startsInMinute(), Down: s.down()})
	s.emitAt(mark, event.StartFailed{Head: s.head(g.gen), Cause: cause, Next: s.loop.next})
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

// endGeneration ends generation gen in a worker: refuse new leases now, close it there.
func (s *Slot) endGeneration(gen uint64, drain bool) {
	g := s.loop.gens[gen]
	if g == nil {
		s.post(ended{gen: gen})
		return
	}
	g.stopping = true
	g.refuse()
	if !drain {
		g.cancel()
	}
	s.workers.Go(func() { s.post(ended{gen, s.stop(g, drain)}) }) // bounded by drainTimeout and closeLimit; quit waits
}

// stop is the stop worker.
func (s *Slot) stop(g *generation, drain bool) error {
	if drain {
		s.drain(g)
	}
	g.cancel()
	<-g.over // the start worker's context has ended
	if g.up == nil {
		return nil
	}
	return s.shutDown(g.up, g.spec)
}

// drain waits for the leases that are out, up to the drain deadline.
func (s *Slot) drain(g *generation) {
	t := time.NewTimer(orElse(g.spec.DrainTimeout, defaultWait))
	defer t.Stop()
	select {
	case <-g.drained:
	case <-t.C:
	case <-s.drainCut:
	case <-s.forced.Done():
	}
}

func (s *Slot) shutDown(up Upstream, spec config.Server) error {
	ctx, cancel := context.WithTimeout(s.forced, closeLimit+spec.StopGrace)
	defer cancel()
	return up.Close(ctx)
}

// generationEnded takes the end of a stop worker. That a generation would not end in order
// is told, and changes nothing.
func (s *Slot) generationEnded(gen uint64, err error) {
	lp := &s.loop
	s.drop(gen)
	lp.closeCause = nil
	if err != nil {
		lp.closeCause = fault.From("close", err).At(s.name, gen)
		s.emit(event.CloseFailed{Head: s.head(gen), Cause: lp.closeCause})
	}
	s.step(lifecycle.Closed{Gen: gen, Err: err != nil})
	lp.dirty = true
}

func orElse(d, other time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return other
}
