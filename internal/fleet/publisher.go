package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
)

// publisher merges what members publish into one table, in one goroutine.
type publisher struct {
	*core
	merger *merger // its loop's alone
	out    atomic.Pointer[published]
}

func newPublisher(c *core, p *pins) *publisher {
	pub := &publisher{core: c, merger: newMerger(p)}
	pub.out.Store(&published{table: pub.merger.merge(c.roster.Load(), nil), changed: make(chan struct{})})
	return pub
}

// published is the table that is out. changed is closed when the next one is.
type published struct {
	table   *catalog.Table
	merged  uint64 // the value of core.asked that this table reflects
	changed chan struct{}
}

// flush returns once the table reflects everything that slots had published
// when it was called.
func (p *publisher) flush(ctx context.Context) error {
	n := p.poke()
	for {
		out := p.out.Load()
		if out.merged >= n {
			return nil
		}
		select {
		case <-out.changed:
		case <-ctx.Done():
			return fault.From("publish", ctx.Err())
		case <-p.stop:
			return fault.New(fault.Closed, "publish", "everline is shutting down")
		}
	}
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
		next := &published{table: m.merge(r, touched), merged: n, changed: make(chan struct{})}
		p.out.Store(next)
		close(old.changed)
		if kinds := catalog.Changed(old.table, next.table); len(kinds) > 0 && p.opts.Changed != nil {
			p.opts.Changed(kinds)
		}
		follow(r, touched)
	}
}
