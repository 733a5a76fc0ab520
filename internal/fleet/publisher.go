package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/slot"
)

// publisher merges what members publish into one table, in one goroutine.
type publisher struct {
	*core
	merger *merger // its loop's alone
	out    atomic.Pointer[published]
}

func newPublisher(c *core, p *pins) *publisher {
	pub := &publisher{core: c, merger: newMerger(p)}
	pub.out.Store(pub.merger.publish(c.roster.Load(), nil, 0))
	return pub
}

// published is the table that is out. changed is closed when the next one is, and has been told of.
type published struct {
	table   *catalog.Table
	merged  uint64 // the value of core.asked that this table reflects
	roster  *roster
	views   []*slot.View // that it reflects, by place in the roster
	changed chan struct{}
}

// behind returns the members whose newest view the table does not show. A slot
// touches its member after its view is out, so whoever has seen the view may be
// here first.
func (out *published) behind(r *roster) []string {
	if out.roster != r {
		return r.names()
	}
	var late []string
	for i, m := range r.order {
		if m.slot.View() != out.views[i] {
			late = append(late, m.name)
		}
	}
	return late
}

// fresh is the table that shows every view that was out when it was called; after
// limit, the one that is out.
func (p *publisher) fresh(limit time.Duration) *catalog.Table {
	if len(p.out.Load().behind(p.roster.Load())) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_ = p.flush(ctx) // older counts are better than none
	}
	return p.out.Load().table
}

// flush returns once the table reflects every view that was out when it was
// called, and everything that a merge was asked for until then, and clients were
// told of it.
func (p *publisher) flush(ctx context.Context) error {
	out := p.out.Load()
	for _, name := range out.behind(p.roster.Load()) {
		p.touched.add(name)
	}
	for n := p.poke(); out.merged < n; out = p.out.Load() {
		select {
		case <-out.changed:
		case <-ctx.Done():
			return fault.From("publish", ctx.Err())
		case <-p.stop:
			return fault.New(fault.Closed, "publish", "everline is shutting down")
		}
	}
	return nil
}

// run is the only writer of out after New. follow hears which members may have
// published something that is out now.
func (p *publisher) run(follow func(r *roster, touched []string)) {
	m := p.merger
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		var due <-chan time.Time
		if !m.hideDue.IsZero() {
			timer.Reset(time.Until(m.hideDue))
			due = timer.C
		}
		select {
		case <-p.trigger:
		case <-due:
		case <-p.stop:
			return
		}
		n := p.asked.Load()
		touched := p.touched.take()
		r := p.roster.Load()
		if m.roster != r {
			touched = r.names()
		}
		old := p.out.Load()
		next := m.publish(r, touched, n)
		p.out.Store(next)
		if kinds := catalog.Changed(old.table, next.table); len(kinds) > 0 && p.opts.Changed != nil {
			p.opts.Changed(kinds)
		}
		close(old.changed) // last: whoever has waited for the table is not told then that it is another one
		follow(r, touched)
	}
}
