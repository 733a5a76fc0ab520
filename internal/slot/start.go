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
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

const (
	firstTries  = 3                      // first listings tried on one life
	firstPause  = 250 * time.Millisecond // before the second try; doubled for each further one
	secondLook  = time.Second            // before an empty list that was not empty is believed
	closeLimit  = 10 * time.Second       // for ending a life, beyond the configured grace
	defaultWait = time.Minute            // startupTimeout and drainTimeout of a Server made by hand
)

// startLife begins life gen in a worker.
func (s *Slot) startLife(gen uint64) {
	l := newLife(gen, s.loop.spec, s.hard, s.wake)
	s.keep(l)
	old := s.loop.catalog
	if s.loop.catalogOf != l.spec.Identity() {
		old = nil // what another server has listed stays published, and says nothing of this one
	}
	s.loop.look.set(noiseLook)
	s.emit(event.Connecting{Head: s.head(gen)})
	s.workers.Go(func() { s.start(l, old) }) // ends by its life's context or startupTimeout; quit waits
}

// start is the start worker: it ends in one started or failed.
func (s *Slot) start(l *life, old *catalog.Catalog) {
	err := s.open(l, old)
	if err != nil {
		l.settleLink()
	}
	close(l.over)
	if err != nil {
		s.post(failed{l, s.explain(fault.From("start", err), l)})
		return
	}
	s.post(started{l})
}

// open dials and lists, bounded by startupTimeout and by no caller.
func (s *Slot) open(l *life, old *catalog.Catalog) error {
	if l.spec.Err != nil {
		return l.spec.Err
	}
	giveBack, err := s.takePlace(l)
	if err != nil {
		return err
	}
	defer giveBack()
	limit := orElse(l.spec.StartupTimeout, defaultWait)
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	up, err := s.opts.Dial(ctx, l.spec, l.gen, s.hooks(l))
	if err != nil {
		return lateStart(ctx, err, limit)
	}
	listed := time.Now()
	cat, err := firstList(ctx, up, old)
	if err != nil {
		err = lateStart(ctx, linkErr(up, err), limit)
		_ = s.shutDown(up, l.spec) // what it says is no news beside err
		return err
	}
	l.up, l.cat, l.info = up, cat, up.Info()
	l.info.Phases = append(slices.Clip(l.info.Phases), upstream.Phase{Name: upstream.PhaseList, Took: time.Since(listed)})
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
func (s *Slot) takePlace(l *life) (giveBack func(), err error) {
	if s.opts.After != nil {
		select {
		case <-s.opts.After:
		case <-l.ctx.Done():
			return nil, l.ctx.Err()
		}
	}
	if s.opts.Starting == nil || l.spec.URL != "" {
		return func() {}, nil
	}
	select {
	case s.opts.Starting <- struct{}{}:
	case <-l.ctx.Done():
		return nil, l.ctx.Err()
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

func (s *Slot) hooks(l *life) Hooks {
	return Hooks{
		Changed: func(k catalog.Kind) {
			l.changed.Or(1 << k)
			l.nudge()
		},
		Stderr: func(line string) { s.logs.add(l.gen, l.veil.hide(line)) },
		Linked: func(info func() transport.Info) { l.link.Store(&info) },
		Faults: &s.faults,
	}
}

// firstList fetches the first complete listing. A listing that fails while
// the link lives is tried again: it is not the same as a server without tools.
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
		} else if try++; try > firstTries || hopeless(f.Kind) {
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

// hopeless tells whether asking the same life again cannot help.
func hopeless(k fault.Kind) bool {
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

// ready takes a life that has come up. One that is not wanted any more is
// closed by its stop worker, and nothing of it is published.
func (s *Slot) ready(l *life) {
	if l.stopping {
		return
	}
	lp := &s.loop
	mark := len(lp.events)
	c := event.Connected{Head: s.head(l.gen), Took: time.Since(l.begun)}
	if lp.fell && !lp.awayAt.IsZero() {
		c.After = time.Since(lp.awayAt)
	}
	s.step(lifecycle.Started{Gen: l.gen})
	if lp.state.Serving != l.gen {
		panic("bug: a life has started that the lifecycle does not know")
	}
	lp.dirty = true
	s.noiseForgiven(l)
	s.take(l, l.cat)
	c.Items = countsOf(lp.catalog)
	s.emitAt(mark, c)
}

// startFailed takes a start that came to nothing.
func (s *Slot) startFailed(l *life, cause *fault.Fault) {
	if l.stopping {
		return // its stop worker reports it
	}
	l.cancel()
	s.drop(l.gen)
	cause = s.forgot(named(withNoise(cause, l)))
	s.blame(cause)
	verdict := verdictOf(cause)
	if verdict == lifecycle.SessionEnd {
		verdict = lifecycle.Retry // a session that never began cannot be lost
	}
	mark := len(s.loop.events)
	s.step(lifecycle.Failed{Gen: l.gen, Verdict: verdict, After: wishOf(cause), Recent: s.startsInMinute(), Down: s.down()})
	s.emitAt(mark, event.StartFailed{Head: s.head(l.gen), Cause: cause, Next: s.loop.next})
}

// named is a failed start whose text names the request that failed, and what
// came instead of its answer.
func named(f *fault.Fault) *fault.Fault {
	switch f.Kind {
	case fault.RPC, fault.Protocol, fault.HTTPStatus, fault.SessionLost, fault.SessionSuspect:
	default:
		return f
	}
	if !strings.Contains(f.Op, "/") && f.Op != "initialize" {
		return f
	}
	c := *f
	c.Err, c.Op = fmt.Errorf("%s failed: %w", f.Op, f.Cause()), "start"
	return &c
}

// endLife ends life gen in a worker: refuse new leases now, close it there.
func (s *Slot) endLife(gen uint64, drain bool) {
	l := s.loop.lives[gen]
	if l == nil {
		s.post(ended{gen: gen})
		return
	}
	l.stopping = true
	l.refuse()
	if !drain {
		l.cancel()
	}
	s.workers.Go(func() { s.post(ended{gen, s.stop(l, drain)}) }) // bounded by drainTimeout and closeLimit; quit waits
}

// stop is the stop worker.
func (s *Slot) stop(l *life, drain bool) error {
	if drain {
		s.drain(l)
	}
	l.cancel()
	<-l.over // the start worker's context has ended
	if l.up == nil {
		return nil
	}
	return s.shutDown(l.up, l.spec)
}

// drain waits for the leases that are out, up to the drain deadline.
func (s *Slot) drain(l *life) {
	t := time.NewTimer(orElse(l.spec.DrainTimeout, defaultWait))
	defer t.Stop()
	select {
	case <-l.drained:
	case <-t.C:
	case <-s.hurry:
	case <-s.hard.Done():
	}
}

func (s *Slot) shutDown(up Upstream, spec config.Server) error {
	ctx, cancel := context.WithTimeout(s.hard, closeLimit+spec.StopGrace)
	defer cancel()
	return up.Close(ctx)
}

// lifeEnded takes the end of a stop worker. That a life would not end in order
// is told, and changes nothing.
func (s *Slot) lifeEnded(gen uint64, err error) {
	lp := &s.loop
	s.drop(gen)
	lp.closeBy = nil
	if err != nil {
		lp.closeBy = fault.From("close", err).At(s.name, gen)
		s.emit(event.CloseFailed{Head: s.head(gen), Cause: lp.closeBy})
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
