package slot

import (
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
)

// startsKept bounds the memory of recent starts. It is far above any limit on
// starts in a minute that slows a server down.
const startsKept = 1024

// loop is what only the loop goroutine reads and writes.
type loop struct {
	spec    config.Server
	policy  lifecycle.Policy
	state   lifecycle.State
	enabled bool // by config or an operator
	owned   bool // wanted by the fleet
	closing bool

	gens       map[uint64]*generation
	lastUp     *generation      // served last, or serves: a late answer on it still counts
	catalog    *catalog.Catalog // last good
	catalogOf  string           // the Identity of the configuration that it was listed with
	cause      *fault.Fault
	closeCause *fault.Fault // why the last generation that was ended would not end in order
	since      time.Time
	next       time.Time   // when retry fires; zero if it is not set
	began      time.Time   // when the newest generation was started
	awayAt     time.Time   // since when no generation serves that should; zero if one does, or none is wanted now
	hadServed  bool        // a generation that served was lost at awayAt
	newest     *generation // started last; nil if none was
	recent     []time.Time
	losses     lossClock
	cutShort   time.Time // when the wait would have ended that what was back has cut short
	unwatch    func()    // ends the worker that watches for what is lacking

	sessionLosses []time.Time // when the server lost a session, within sessionLossWindow

	retry, stable, idle, noise alarm
	stableGen                  uint64
	retryGen                   uint64
	refresh                    refresh

	dirty   bool // the view that is out is not true any more
	changed chan struct{}
	events  []event.Event   // to be emitted once the next view is out
	replies []chan struct{} // closed after that
}

// An alarm is a timer that can be off.
type alarm struct{ t *time.Timer }

func newAlarm() alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return alarm{t}
}

func (a alarm) set(d time.Duration) { a.t.Reset(max(d, 0)) }
func (a alarm) off()                { a.t.Stop() }

// begin makes the first view; the loop does not run yet.
func (s *Slot) begin() {
	lp := &s.loop
	lp.gens = map[uint64]*generation{}
	lp.state.Gen = s.opts.Gen
	lp.catalog = s.opts.Last
	if lp.catalog != nil {
		lp.catalogOf = s.opts.Server.Identity()
	}
	lp.since = time.Now()
	lp.retry, lp.stable, lp.idle, lp.noise, lp.refresh.due = newAlarm(), newAlarm(), newAlarm(), newAlarm(), newAlarm()
	lp.unwatch = func() {}
	lp.owned, lp.enabled = true, !s.opts.Server.Disabled
	s.adopt(s.opts.Server)
	lp.changed = make(chan struct{})
	s.view.Store(&View{Server: lp.spec, State: lp.state, Catalog: lp.catalog, CatalogOf: lp.catalogOf, Since: lp.since, Changed: lp.changed})
	s.want()
	s.flush()
}

// run is the loop. Nothing in it waits for anybody.
func (s *Slot) run() {
	defer close(s.ended)
	for !s.finished() {
		s.await()
		notes, asking := s.inbox.take()
		s.readFeedback()
		for _, n := range notes {
			s.handle(n)
		}
		if asking != nil {
			s.demanded()
			s.loop.replies = append(s.loop.replies, asking)
		}
		s.flush()
	}
	s.quit()
}

// await returns when there is something to do, and does what timers and a
// link's end ask for.
func (s *Slot) await() {
	lp := &s.loop
	serving, done := s.watched()
	select {
	case <-s.wake:
	case e := <-s.callEvents:
		s.emit(e)
	case <-done:
		s.readFeedback()
		s.exit(serving, endOf(serving))
	case <-lp.retry.t.C:
		lp.next = time.Time{}
		s.step(lifecycle.RetryDue{Gen: lp.retryGen})
	case <-lp.stable.t.C:
		s.readFeedback()
		s.stepProof(lifecycle.Stable{Gen: lp.stableGen})
	case <-lp.idle.t.C:
		s.checkIdle()
	case <-lp.noise.t.C:
		s.lookForNoise()
	case <-lp.refresh.due.t.C:
		s.relist()
	}
}

// watched is the serving generation and what tells that its link has ended.
func (s *Slot) watched() (*generation, <-chan struct{}) {
	g := s.serving()
	if g == nil || g.exited || g.stopping {
		return nil, nil
	}
	return g, g.up.Done()
}

func (s *Slot) serving() *generation { return s.loop.gens[s.loop.state.Serving] }

// step is the only place that changes the lifecycle's state.
func (s *Slot) step(ev lifecycle.Event) {
	before := s.loop.state
	next, effects := s.loop.policy.Step(before, ev)
	s.loop.state = next
	s.loop.losses.follow(before, next, time.Now())
	for _, e := range effects {
		s.do(e)
	}
	if before.Serving != next.Serving {
		s.handOver()
	}
	s.trackAway(before, next)
	s.narrate(before, next)
}

// do runs one effect, or starts the worker that does.
func (s *Slot) do(e lifecycle.Effect) {
	lp := &s.loop
	switch e := e.(type) {
	case lifecycle.Start:
		s.startGeneration(e.Gen)
	case lifecycle.Stop:
		s.endGeneration(e.Gen, e.Drain)
	case lifecycle.Arm:
		s.arm(e)
	case lifecycle.Disarm:
		if e.Timer == lifecycle.StableTimer {
			lp.stable.off()
			return
		}
		lp.retry.off()
		lp.unwatch()
		lp.next = time.Time{}
	case lifecycle.Publish:
		lp.dirty = true
	}
}

// arm sets a timer. The jitter is drawn here: the lifecycle knows no chance.
func (s *Slot) arm(e lifecycle.Arm) {
	lp := &s.loop
	d := e.After
	if e.Jitter {
		d = e.Least + time.Duration(s.opts.Rand()*float64(e.After-e.Least))
	}
	if e.Timer == lifecycle.StableTimer {
		lp.stableGen = e.Gen
		lp.stable.set(d)
		return
	}
	if left := time.Until(lp.cutShort); e.Keep && left < d {
		d = max(left, 0)
	}
	lp.retryGen = e.Gen
	lp.next = time.Now().Add(d)
	lp.retry.set(d)
	s.watch(e.Gen, e.Heed)
}

// trackAway keeps since when the server has been away, over all attempts.
func (s *Slot) trackAway(before, after lifecycle.State) {
	lp := &s.loop
	switch away := after.Want && after.Serving == 0 && after.Phase() != lifecycle.Idle; {
	case !away:
		lp.awayAt = time.Time{}
	case lp.awayAt.IsZero():
		lp.awayAt, lp.hadServed = time.Now(), before.Serving != 0
	}
}

// handOver follows a change of the serving generation.
func (s *Slot) handOver() {
	lp := &s.loop
	if g := s.serving(); g != nil {
		lp.lastUp = g
		s.watchIdle()
		s.refreshFrom(g)
		return
	}
	lp.idle.off()
	s.noRefresh()
}

// handle reads one note.
func (s *Slot) handle(n note) {
	switch n := n.(type) {
	case started:
		s.ready(n.gen)
	case failed:
		s.startFailed(n.gen, n.cause)
	case lost:
		s.exit(n.gen, n.cause)
	case ended:
		s.generationEnded(n.gen, n.err)
	case returned:
		if !s.loop.next.IsZero() {
			s.loop.cutShort = s.loop.next
		}
		s.step(lifecycle.Returned{Gen: n.gen})
	case probed:
		s.probeDone(n)
	case listed:
		s.listDone(n)
	case *operation:
		n.err = n.op(s)
		s.loop.replies = append(s.loop.replies, n.done)
	}
}

// readFeedback takes what calls have left on release. The generation that served last
// is asked too: an answer that its end overtook still proves it.
func (s *Slot) readFeedback() {
	g := s.loop.lastUp
	if g == nil {
		return
	}
	good, doubts := g.feedback.take()
	if good {
		s.stepProof(lifecycle.Healthy{Gen: g.gen})
	}
	if doubts > 0 {
		s.doubtLink(g, doubts)
	}
	if g.refused.Swap(false) {
		s.doubtLogin(g)
	}
	if g.changed.Load() != 0 {
		s.listChanged(g)
	}
}

// stepProof steps an event that proves health. The cause of the last loss is
// then history; not so that of a successor that failed beside the generation, or of
// listings that fail.
func (s *Slot) stepProof(ev lifecycle.Event) {
	lp := &s.loop
	before := lp.state
	s.step(ev)
	after := lp.state
	news := !before.Proven || before.CallStrikes > after.CallStrikes
	if news && after.Proven && after.Serving == after.Gen && lp.cause != nil && lp.cause != lp.refresh.cause {
		lp.cause, lp.dirty = nil, true
	}
}

// struck steps a failure that blames the link. If it was one too many, the
// generation was given up, and this failure is why.
func (s *Slot) struck(g *generation, list bool, cause *fault.Fault) {
	if s.loop.state.Serving != g.gen {
		return
	}
	cause = s.explain(cause, g)
	s.blame(cause)
	mark := len(s.loop.events)
	s.step(lifecycle.Struck{Gen: g.gen, List: list, Recent: s.startsInMinute(), Down: s.down()})
	if s.loop.state.Serving != g.gen {
		s.emitAt(mark, event.Lost{Head: s.head(g.gen), Cause: cause, Next: s.loop.next})
	}
}

// exit steps the end of a link that served.
func (s *Slot) exit(g *generation, cause *fault.Fault) {
	if g.exited || g.stopping {
		return
	}
	g.exited = true
	cause = s.noteSessionLoss(s.explain(cause, g))
	s.blame(cause)
	mark := len(s.loop.events)
	s.step(lifecycle.Exited{
		Gen: g.gen, Verdict: verdictOf(cause), After: retryAfterOf(cause), Recent: s.startsInMinute(), Down: s.down(),
	})
	s.emitAt(mark, event.Lost{Head: s.head(g.gen), Cause: cause, Next: s.loop.next})
}

// blame remembers why there is trouble.
func (s *Slot) blame(cause *fault.Fault) {
	s.loop.cause = cause
	s.loop.dirty = true
}

// demanded takes a call that wants a generation.
func (s *Slot) demanded() {
	lp := &s.loop
	now := time.Now()
	soon := s.since(now) < s.probeAt.Load()
	probe := lp.state.Phase() == lifecycle.Stopped && !soon
	before := lp.state
	s.step(lifecycle.Wake{TooSoon: soon})
	if probe && before != lp.state {
		s.flush() // the view comes before the mark; see waiter.probe
		s.probeAt.Store(s.since(now.Add(lp.policy.WakeEvery)))
	}
}

// settle publishes what has changed, then tells of it, then answers those who
// waited for it.
func (s *Slot) flush() {
	lp := &s.loop
	if lp.dirty {
		lp.dirty = false
		s.publish()
	}
	for _, e := range lp.events {
		if s.opts.Emit != nil {
			s.opts.Emit(e)
		}
	}
	lp.events = nil
	for _, c := range lp.replies {
		close(c)
	}
	lp.replies = nil
}

// publish replaces the view: swap, then close.
func (s *Slot) publish() {
	lp := &s.loop
	old, stale := s.view.Load(), lp.changed
	lp.changed = make(chan struct{})
	v := &View{
		Server: lp.spec, State: lp.state, Catalog: lp.catalog, CatalogOf: lp.catalogOf, Cause: lp.cause, ListCause: lp.refresh.cause, CloseCause: lp.closeCause,
		Since: lp.since, AwaySince: lp.awayAt, Next: lp.next, Checked: lp.refresh.checked, Changed: lp.changed,
		serving: s.serving(), began: lp.began, closed: lp.closing,
	}
	switch {
	case v.serving != nil:
		v.Info = v.serving.info
	case !v.AwaySince.IsZero():
		v.newest = lp.newest
	}
	if v.Seen() != old.Seen() {
		lp.since = time.Now()
		v.Since = lp.since
	}
	s.view.Store(v)
	if s.opts.Published != nil {
		s.opts.Published(v) // before anybody who waits for the view can ask whoever it is told to
	}
	close(stale)
}

func (s *Slot) finished() bool { return s.loop.closing && len(s.loop.gens) == 0 }

// quit ends what the loop owns and answers everybody who is left. Workers that
// still run find their generation's context ended.
func (s *Slot) quit() {
	lp := &s.loop
	lp.retry.off()
	lp.stable.off()
	lp.idle.off()
	lp.noise.off()
	lp.refresh.due.off()
	s.forceCancel()
	notes, asking := s.inbox.shut()
	for _, n := range notes {
		if t, ok := n.(*operation); ok {
			t.err = s.closedFault("close")
			close(t.done)
		}
	}
	if asking != nil {
		close(asking)
	}
	s.workers.Wait()
}

// startsInMinute counts the starts of the last minute and forgets older ones.
func (s *Slot) startsInMinute() int {
	lp := &s.loop
	old := time.Now().Add(-time.Minute)
	n := 0
	for n < len(lp.recent) && lp.recent[n].Before(old) {
		n++
	}
	lp.recent = lp.recent[n:]
	return len(lp.recent)
}

// keep remembers a generation that begins.
func (s *Slot) keep(g *generation) {
	lp := &s.loop
	lp.gens[g.gen] = g
	lp.newest, lp.began = g, g.begun
	lp.recent = append(lp.recent, g.begun)
	if len(lp.recent) > startsKept {
		lp.recent = lp.recent[1:]
	}
	s.starts.Add(1)
	s.count()
}

func (s *Slot) drop(gen uint64) {
	delete(s.loop.gens, gen)
	s.count()
}

// count publishes which generations are there, for Counts and Close.
func (s *Slot) count() {
	list := make([]*generation, 0, len(s.loop.gens))
	for _, g := range s.loop.gens {
		list = append(list, g)
	}
	s.alive.Store(&list)
}

// checkIdle stops a lazy server that nobody has used for its idle timeout.
func (s *Slot) checkIdle() {
	g := s.serving()
	if g == nil || !g.tracked.Load() {
		return
	}
	limit := s.loop.spec.IdleTimeout
	left := limit - (time.Since(g.begun) - time.Duration(g.used.Load()))
	if g.leases() > 0 {
		left = limit
	}
	if left > 0 {
		s.loop.idle.set(left)
		return
	}
	s.step(lifecycle.Idled{Gen: g.gen})
	if s.loop.state.Serving != g.gen {
		s.emit(event.Idled{Head: s.head(g.gen)})
	}
}

// watchIdle arms the idle timer where the configuration has one.
func (s *Slot) watchIdle() {
	lp := &s.loop
	lp.idle.off()
	g := s.serving()
	if g == nil {
		return
	}
	on := lp.spec.Lazy && lp.spec.IdleTimeout > 0
	if on && !g.tracked.Swap(true) {
		g.used.Store(int64(time.Since(g.begun)))
	}
	if !on {
		g.tracked.Store(false)
		return
	}
	lp.idle.set(lp.spec.IdleTimeout)
}
