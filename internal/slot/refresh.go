package slot

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
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
	quietTime  = 10 * time.Second // without an announcement, after which the next is answered at once
	busyStreak = 20               // announced listings in a row after which even real changes are looked at less often
	leastTTL   = 10 * time.Second // ttlMs below that is not obeyed to the letter
	listRetry  = 250 * time.Millisecond
	extraLooks = 4 // at an empty list of a server that says it has tools: after 1, 2, 4 and 8 s
)

// kinds is a set of catalog kinds, a bit for each.
type kinds uint32

const allKinds kinds = 1<<len(catalog.Kinds) - 1

func (ks kinds) list() []catalog.Kind {
	var out []catalog.Kind
	for _, k := range catalog.Kinds {
		if ks&(1<<k) != 0 {
			out = append(out, k)
		}
	}
	return out
}

// refresh is the loop's memory of listings on the serving generation. One runs, and
// whatever is asked for meanwhile is pending: the last announcement of a burst
// always leads to one more listing.
type refresh struct {
	due       alarm
	running   *generation // of the listing that runs; nil if none does
	announced bool        // it is
	pending   kinds
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
func (s *Slot) refreshFrom(g *generation) {
	r := &s.loop.refresh
	*r = refresh{due: r.due, pace: r.pace, ttl: g.cat.Fresh(), checked: time.Now()}
	r.pace.last = r.checked
	s.schedule(g.cat)
	s.listChanged(g)
}

// noRefresh: no generation serves.
func (s *Slot) noRefresh() {
	r := &s.loop.refresh
	*r = refresh{due: r.due, pace: r.pace, checked: r.checked}
	r.due.off()
}

// listChanged takes what a generation has announced.
func (s *Slot) listChanged(g *generation) {
	r := &s.loop.refresh
	if s.loop.state.Serving != g.gen {
		return
	}
	if ks := kinds(g.changed.Swap(0)); ks != 0 {
		r.pending |= ks
		r.pace.asked(time.Now())
	}
	s.plan()
}

// schedule says when the next listing is due that nobody asks for.
func (s *Slot) schedule(cat *catalog.Catalog) {
	r := &s.loop.refresh
	var wait time.Duration
	if every := s.loop.spec.RefreshInterval; every > 0 {
		wait = time.Duration(float64(every) * (0.9 + 0.2*s.opts.Rand()))
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

// shouldHaveTools tells whether a server that declares tools lists none: some
// answer before they have registered them.
func shouldHaveTools(cat *catalog.Catalog) bool {
	if len(cat.Items[catalog.Tools]) > 0 || len(cat.Capabilities) == 0 {
		return false
	}
	var caps struct {
		Tools json.RawMessage `json:"tools"`
	}
	return json.Unmarshal(cat.Capabilities, &caps) == nil && len(caps.Tools) > 0
}

// plan sets the alarm for the next listing.
func (s *Slot) plan() {
	r := &s.loop.refresh
	g := s.serving()
	if g == nil || g.stopping || r.running == g {
		r.due.off()
		return
	}
	at := r.planned
	if r.pending != 0 {
		at = later(r.pace.last.Add(r.pace.gap), r.hold)
	} else if !at.IsZero() {
		at = later(at, r.hold)
	}
	if at.IsZero() {
		r.due.off()
		return
	}
	at = later(at, s.pauseEnd(time.Now()))
	r.due.set(time.Until(at))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// relist starts the listing whose time has come.
func (s *Slot) relist() {
	r := &s.loop.refresh
	g := s.serving()
	if g == nil || g.stopping || r.running == g {
		return
	}
	if !s.pauseEnd(time.Now()).IsZero() { // it began after the plan
		s.plan()
		return
	}
	if r.announced = r.pending != 0; !r.announced {
		r.pending = allKinds
	}
	ks, old := r.pending, g.known.Load()
	r.pending, r.running = 0, g
	s.workers.Go(func() { s.post(s.list(g, old, ks)) }) // ends with its generation's context or in startupTimeout; quit waits
}

// list is the refresh worker.
func (s *Slot) list(g *generation, old *catalog.Catalog, ks kinds) listed {
	ctx, cancel := context.WithTimeout(g.ctx, orElse(g.spec.StartupTimeout, defaultWait))
	defer cancel()
	cat, err := g.up.List(ctx, old, ks.list()...)
	if err == nil && emptied(old, cat) && pauseFor(ctx, g.up.Done(), secondLook) {
		cat, err = g.up.List(ctx, old, ks.list()...)
	}
	if err != nil {
		return listed{gen: g, kinds: ks, err: g.redact.fault(fault.From("list", err).At(s.name, g.gen))}
	}
	return listed{gen: g, kinds: ks, cat: cat}
}

// listDone takes the end of a listing. That of an older generation means nothing.
func (s *Slot) listDone(n listed) {
	r := &s.loop.refresh
	if n.gen != r.running {
		return
	}
	r.running = nil
	if s.loop.state.Serving != n.gen.gen {
		return
	}
	if n.err != nil {
		s.listFailed(n)
		return
	}
	s.listWell()
	r.checked, r.ttl = time.Now(), n.cat.Fresh()
	s.step(lifecycle.Healthy{Gen: n.gen.gen, List: true})
	changed := s.take(n.gen, n.cat)
	if r.announced {
		r.pace.listed(r.checked, changed)
	}
	s.schedule(s.loop.catalog)
	s.plan()
}

// listWell forgets what listings have failed with.
func (s *Slot) listWell() {
	r := &s.loop.refresh
	if r.cause != nil {
		s.loop.dirty = true
	}
	if r.cause == s.loop.cause {
		s.loop.cause = nil
	}
	r.fails, r.hold, r.cause = 0, time.Time{}, nil
}

// listFailed keeps the catalog, and what was asked for.
func (s *Slot) listFailed(n listed) {
	r := &s.loop.refresh
	r.pending |= n.kinds
	wait := min(listRetry<<min(r.fails, 10), gapMax)
	r.fails++
	if n.err.Kind == fault.RateLimited {
		wait = pauseOf(n.err, r.fails)
		s.pause(time.Now().Add(wait))
	}
	r.hold = time.Now().Add(wait)
	s.emit(event.ListFailed{Head: s.head(n.gen.gen), Cause: n.err})
	if n.err.Kind != fault.Deadline || n.gen.leases() == 0 { // a server that works on a call may be too busy to list
		s.listBlames(n.gen, n.err)
	}
	s.plan()
}

// listBlames shows why a listing has failed, and counts it.
func (s *Slot) listBlames(g *generation, f *fault.Fault) {
	s.blame(s.explain(f, g))
	switch evidence.Of(evidence.List, f) {
	case evidence.Session:
		s.exit(g, f)
	case evidence.LoginDoubt:
		s.doubtLogin(g)
	case evidence.Strike:
		s.struck(g, true, f)
	default: // it says nothing of the link
	}
	if s.loop.state.Serving == g.gen {
		s.loop.refresh.cause = s.loop.cause
	}
}

// take makes a new listing the last good catalog, if it says something new.
func (s *Slot) take(g *generation, cat *catalog.Catalog) (changed bool) {
	lp := &s.loop
	g.known.Store(cat)
	diff := catalog.Diff(lp.catalog, cat)
	changed = !diff.Empty()
	by := g.spec.Identity()
	lp.dirty = lp.dirty || lp.catalogOf != by
	lp.catalogOf = by
	if !changed && lp.catalog != nil && sameAbout(lp.catalog, cat) {
		g.shown.Store(lp.catalog)
		return false
	}
	g.shown.Store(cat)
	lp.catalog = cat
	lp.dirty = true
	if changed {
		s.emit(event.CatalogChanged{Head: s.head(g.gen), Change: changeOf(diff)})
	}
	return changed
}

// sameAbout compares what a catalog says beside its items.
func sameAbout(a, b *catalog.Catalog) bool {
	for k := range a.Warnings {
		if !slices.Equal(a.Warnings[k], b.Warnings[k]) {
			return false
		}
	}
	return bytes.Equal(a.ServerInfo, b.ServerInfo) && bytes.Equal(a.Capabilities, b.Capabilities)
}
