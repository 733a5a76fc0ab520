package slot

import (
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/meter"
)

// startsKept bounds the memory of recent starts. It is far above any limit on
// starts in a minute that slows a server down.
const startsKept = 1024

// A loop is the goroutine of one slot. Its methods decide; they run on it alone,
// and nothing in them waits for anybody. It reads notes, steps the lifecycle, has
// workers do the IO, and publishes what came of it in its slot.
type loop struct {
	slot    *Slot
	starter starter
	closer  closer
	workers sync.WaitGroup

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
	ending     meter.Cause // why a generation was ended last
	drilled    bool        // what is stepped is the end of a drill
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

func (a alarm) off() { a.t.Stop() }

// newLoop makes the first view of s, and starts what is wanted. The loop does
// not run yet.
func newLoop(s *Slot) *loop {
	o := s.opts
	lp := &loop{
		slot:   s,
		closer: closer{drainCut: s.drainCut, forced: s.forced},
		owned:  true, enabled: !o.Server.Disabled,
		gens:    map[uint64]*generation{},
		catalog: o.Last,
		since:   time.Now(),
		unwatch: func() {},
		retry:   newAlarm(), stable: newAlarm(), idle: newAlarm(), noise: newAlarm(),
		changed: make(chan struct{}),
	}
	lp.starter = starter{dial: o.Dial, ready: o.Ready, after: o.After, places: o.Starting, faults: &s.faults, closer: lp.closer, recorder: o.Recorder}
	lp.state.Gen = o.Gen
	lp.refresh.due = newAlarm()
	if lp.catalog != nil {
		lp.catalogOf = o.Server.Identity()
	}
	lp.adopt(o.Server)
	s.view.Store(&View{Server: lp.spec, State: lp.state, Catalog: lp.catalog, CatalogOf: lp.catalogOf, Since: lp.since, Changed: lp.changed})
	lp.want()
	lp.flush()
	return lp
}

// run ends when the slot is closed and everything that it started has ended.
func (lp *loop) run() {
	defer close(lp.slot.ended)
	for !lp.finished() {
		lp.await()
		notes, demand := lp.slot.inbox.take()
		lp.readFeedback()
		for _, n := range notes {
			lp.handle(n)
		}
		if demand != nil {
			lp.demanded()
			lp.replies = append(lp.replies, demand)
		}
		lp.flush()
	}
	lp.quit()
}

// await returns when there is something to do, and does what timers and a
// link's end ask for.
func (lp *loop) await() {
	serving, done := lp.watched()
	select {
	case <-lp.slot.inbox.wake:
	case e := <-lp.slot.callEvents:
		lp.emit(e)
	case <-done:
		lp.readFeedback()
		lp.exit(serving, endOf(serving))
	case <-lp.retry.t.C:
		lp.next = time.Time{}
		lp.step(lifecycle.RetryDue{Gen: lp.retryGen})
	case <-lp.stable.t.C:
		lp.readFeedback()
		lp.stepProof(lifecycle.Stable{Gen: lp.stableGen})
	case <-lp.idle.t.C:
		lp.checkIdle()
	case <-lp.noise.t.C:
		lp.lookForNoise()
	case <-lp.refresh.due.t.C:
		lp.relist()
	}
}

// work runs a worker, whose note, unless it is nil, the loop reads when it is
// done. quit waits for all of them.
func (lp *loop) work(fn func() note) {
	lp.workers.Go(func() {
		if n := fn(); n != nil {
			lp.slot.inbox.post(n)
		}
	})
}

// watched is the serving generation and what tells that its link has ended.
func (lp *loop) watched() (*generation, <-chan struct{}) {
	g := lp.serving()
	if g == nil || g.exited || g.stopping {
		return nil, nil
	}
	return g, g.up.Done()
}

func (lp *loop) serving() *generation { return lp.gens[lp.state.Serving] }

// step is the only place that changes the lifecycle's state.
func (lp *loop) step(ev lifecycle.Event) {
	before := lp.state
	next, effects := lp.policy.Step(before, ev)
	lp.state = next
	lp.losses.follow(before, next, time.Now())
	for _, e := range effects {
		lp.execute(e, lp.reason(ev, before))
	}
	if before.Serving != next.Serving {
		lp.handOver()
	}
	lp.trackAway(before, next)
	lp.narrate(before, next)
}

// execute runs one effect, or starts the worker that does.
func (lp *loop) execute(e lifecycle.Effect, why meter.Cause) {
	switch e := e.(type) {
	case lifecycle.Start:
		lp.slot.meter.Started(why)
		lp.startGeneration(e.Gen, why)
	case lifecycle.Stop:
		lp.ending = why
		lp.endGeneration(e.Gen, e.Drain)
	case lifecycle.Arm:
		lp.arm(e)
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

// reason is why what follows from an event happens; before is the state in which
// the event came.
func (lp *loop) reason(ev lifecycle.Event, before lifecycle.State) meter.Cause {
	switch ev := ev.(type) {
	case lifecycle.Want:
		switch {
		case lp.newest == nil:
			return meter.First
		case ev.Spec != before.RunSpec:
			return meter.Config
		}
		return meter.Operator
	case lifecycle.Wake:
		switch {
		case lp.drilled:
			return meter.Drill
		case ev.Operator:
			return meter.Operator
		}
		return meter.Call
	case lifecycle.Struck:
		return meter.Strikes
	case lifecycle.Closed, lifecycle.Started:
		return lp.ending // what the next one had to wait for
	default:
		if lp.cause == nil {
			return lp.ending
		}
		return meter.Cause(lp.cause.Kind)
	}
}

// arm sets a timer. The jitter is drawn here: the lifecycle knows no chance.
func (lp *loop) arm(e lifecycle.Arm) {
	d := e.After
	if e.Jitter {
		d = e.Least + time.Duration(lp.slot.opts.Rand()*float64(e.After-e.Least))
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
	lp.watch(e.Gen, e.Heed)
}

// handOver follows a change of the serving generation.
func (lp *loop) handOver() {
	if g := lp.serving(); g != nil {
		lp.lastUp = g
		lp.watchIdle()
		lp.refreshFrom(g)
		return
	}
	lp.idle.off()
	lp.noRefresh()
}

// handle reads one note.
func (lp *loop) handle(n note) {
	switch n := n.(type) {
	case started:
		lp.ready(n.g)
	case failed:
		lp.startFailed(n.g, n.cause)
	case lost:
		lp.exit(n.g, n.cause)
	case ended:
		lp.generationEnded(n.gen, n.err)
	case returned:
		if !lp.next.IsZero() {
			lp.cutShort = lp.next
		}
		lp.step(lifecycle.Returned{Gen: n.gen})
	case probed:
		lp.probeDone(n)
	case listed:
		lp.listDone(n)
	case *operation:
		n.err = n.op(lp)
		lp.replies = append(lp.replies, n.done)
	}
}

func (lp *loop) finished() bool { return lp.closing && len(lp.gens) == 0 }

// quit ends what the loop owns and answers everybody who is left. Workers that
// still run find their generation's context ended.
func (lp *loop) quit() {
	lp.retry.off()
	lp.stable.off()
	lp.idle.off()
	lp.noise.off()
	lp.refresh.due.off()
	lp.slot.forceCancel()
	notes, demand := lp.slot.inbox.shut()
	for _, n := range notes {
		if t, ok := n.(*operation); ok {
			t.err = lp.slot.closedFault("close")
			close(t.done)
		}
	}
	if demand != nil {
		close(demand)
	}
	lp.workers.Wait()
}
