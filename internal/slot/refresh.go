package slot

import (
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/lifecycle"
)

const (
	gapFirst   = 100 * time.Millisecond // between listings of a server that announces changes again and again
	gapMax     = 30 * time.Second
	quietTime  = 10 * time.Second // without an announcement, after which the next is answered immediately
	busyStreak = 20               // announced listings in a row after which even real changes are looked at less often
	leastTTL   = 10 * time.Second // ttlMs below that is not obeyed to the letter
	listRetry  = 250 * time.Millisecond
	extraLooks = 4 // at an empty list of a server that says it has tools: after 1, 2, 4 and 8 s
)

// refresh is the loop's memory of listings on the serving generation. One runs,
// and whatever is asked for meanwhile is pending: the last announcement of a
// burst always leads to one more listing.
type refresh struct {
	due       alarm
	running   *generation // of the listing that runs; nil if none does
	announced bool        // it is
	pending   kinds
	said      kinds // of those that the listing which runs looks at, what the server itself has announced
	pace      pace
	fails     int          // listings in a row
	hold      time.Time    // not before then: the last listing failed
	cause     *fault.Fault // of that; nil if it did not
	planned   time.Time    // the next one that nobody asks for; zero if there is none
	ttl       time.Duration
	looks     int // extra looks taken at an empty list
	checked   time.Time
}

// pace keeps a server that announces a change after each listing from being
// listed in a tight loop.
type pace struct {
	gap    time.Duration // to be kept after last
	streak int           // announced listings without a quiet time
	last   time.Time     // when the last listing ended
}

// asked: an announcement arrived.
func (p *pace) asked(now time.Time) {
	if now.Sub(p.last) > max(quietTime, 4*p.gap) {
		p.gap, p.streak = 0, 0
	}
}

// listed: an announced listing ended well.
func (p *pace) listed(now time.Time, changed bool) {
	p.last = now
	p.streak++
	if changed && p.streak <= busyStreak {
		p.gap = gapFirst
		return
	}
	p.gap = min(max(2*p.gap, gapFirst), gapMax)
}

// refreshFrom begins anew with a generation that serves from now on.
func (lp *loop) refreshFrom(g *generation) {
	r := &lp.refresh
	*r = refresh{due: r.due, pace: r.pace, ttl: g.cat.Fresh(), checked: time.Now()}
	r.pace.last = r.checked
	g.said.Store(0) // what it announces before it serves is about its start
	lp.schedule(g.cat)
	lp.listChanged(g)
}

// noRefresh: no generation serves.
func (lp *loop) noRefresh() {
	r := &lp.refresh
	*r = refresh{due: r.due, pace: r.pace, checked: r.checked}
	r.due.off()
}

// listChanged takes what a generation has announced.
func (lp *loop) listChanged(g *generation) {
	r := &lp.refresh
	if lp.state.Serving != g.gen {
		return
	}
	if ks := kinds(g.changed.Swap(0)); ks != 0 {
		r.pending |= ks
		r.pace.asked(time.Now())
	}
	lp.plan()
}

// schedule says when the next listing is due that nobody asks for.
func (lp *loop) schedule(cat *catalog.Catalog) {
	r := &lp.refresh
	var wait time.Duration
	if every := lp.spec.RefreshInterval; every > 0 {
		wait = time.Duration(float64(every) * (0.9 + 0.2*lp.slot.opts.Rand()))
	}
	if r.ttl > 0 && (wait == 0 || r.ttl < wait) {
		wait = max(r.ttl, leastTTL)
	}
	switch {
	case !shouldHaveTools(cat):
		r.looks = extraLooks
	case r.looks < extraLooks:
		look := time.Second << r.looks
		if r.looks++; wait == 0 || look < wait {
			wait = look
		}
	}
	r.planned = time.Time{}
	if wait > 0 {
		r.planned = time.Now().Add(wait)
	}
}

// plan sets the alarm for the next listing.
func (lp *loop) plan() {
	r := &lp.refresh
	g := lp.serving()
	if g == nil || g.stopping || r.running == g {
		r.due.off()
		return
	}
	due := r.planned
	if r.pending != 0 {
		due = later(r.pace.last.Add(r.pace.gap), r.hold)
	} else if !due.IsZero() {
		due = later(due, r.hold)
	}
	if due.IsZero() {
		r.due.off()
		return
	}
	due = later(due, lp.slot.pause.end(time.Now()))
	r.due.set(time.Until(due))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// relist starts the listing whose time has come.
func (lp *loop) relist() {
	r := &lp.refresh
	g := lp.serving()
	if g == nil || g.stopping || r.running == g {
		return
	}
	if !lp.slot.pause.end(time.Now()).IsZero() { // it began after the plan
		lp.plan()
		return
	}
	if r.announced = r.pending != 0; !r.announced {
		r.pending = allKinds
	}
	ks, old := r.pending, g.known.Load()
	r.pending, r.running = 0, g
	r.said |= kinds(g.said.Swap(0))
	lp.work(func() note { return relist(g, old, ks) }) // ends with its generation's context or in startupTimeout
}

// listDone takes the end of a listing. That of an older generation means nothing.
func (lp *loop) listDone(n listed) {
	r := &lp.refresh
	if n.g != r.running {
		return
	}
	r.running = nil
	if lp.state.Serving != n.g.gen {
		return
	}
	if n.err != nil {
		lp.listFailed(n)
		return
	}
	lp.listWell()
	r.checked, r.ttl = time.Now(), n.cat.Fresh()
	lp.step(lifecycle.Healthy{Gen: n.g.gen, List: true})
	before := lp.catalog
	changed := lp.take(n.g, n.cat)
	lp.sayUnchanged(before, n.cat)
	if r.announced {
		r.pace.listed(r.checked, changed)
	}
	lp.schedule(lp.catalog)
	lp.plan()
}

// sayUnchanged tells of lists that the server has announced as changed and that
// are the same. A change that it announced is in the view.
func (lp *loop) sayUnchanged(before, now *catalog.Catalog) {
	said := lp.refresh.said
	lp.refresh.said = 0
	if said == 0 || lp.slot.opts.Announced == nil {
		return
	}
	diff := catalog.Diff(before, now)
	for _, k := range diff.Kinds() {
		said &^= 1 << k
	}
	if said != 0 {
		lp.slot.opts.Announced(said.list())
	}
}

// listWell forgets what listings have failed with.
func (lp *loop) listWell() {
	r := &lp.refresh
	if r.cause != nil {
		lp.dirty = true
	}
	if r.cause == lp.cause {
		lp.cause = nil
	}
	r.fails, r.hold, r.cause = 0, time.Time{}, nil
}

// listFailed keeps the catalog, and what was asked for.
func (lp *loop) listFailed(n listed) {
	r := &lp.refresh
	r.pending |= n.kinds
	wait := min(listRetry<<min(r.fails, 10), gapMax)
	r.fails++
	if n.err.Kind == fault.RateLimited {
		wait = pauseOf(n.err, r.fails)
		lp.slot.pause.extend(time.Now().Add(wait))
	}
	r.hold = time.Now().Add(wait)
	lp.emit(event.ListFailed{Head: lp.slot.head(n.g.gen), Cause: n.err})
	if n.err.Kind != fault.Deadline || n.g.leases() == 0 { // a server that works on a call may be too busy to list
		lp.listBlames(n.g, n.err)
	}
	lp.plan()
}

// listBlames shows why a listing has failed, and counts it.
func (lp *loop) listBlames(g *generation, f *fault.Fault) {
	lp.blame(g.explain(f))
	switch evidence.Of(evidence.List, f) {
	case evidence.Session:
		lp.exit(g, f)
	case evidence.LoginDoubt:
		lp.doubtLogin(g)
	case evidence.Strike:
		lp.struck(g, true, f)
	default: // it says nothing of the link
	}
	if lp.state.Serving == g.gen {
		lp.refresh.cause = lp.cause
	}
}

// take makes a new listing the last good catalog, if it says something new.
func (lp *loop) take(g *generation, cat *catalog.Catalog) (changed bool) {
	g.known.Store(cat)
	diff := catalog.Diff(lp.catalog, cat)
	changed = !diff.Empty()
	identity := g.spec.Identity()
	lp.dirty = lp.dirty || lp.catalogOf != identity
	lp.catalogOf = identity
	if !changed && lp.catalog != nil && sameAbout(lp.catalog, cat) {
		g.shown.Store(lp.catalog)
		return false
	}
	g.shown.Store(cat)
	lp.catalog = cat
	lp.dirty = true
	if changed {
		lp.emit(event.CatalogChanged{Head: lp.slot.head(g.gen), Change: changeOf(diff)})
	}
	return changed
}
