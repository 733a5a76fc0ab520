package fleet

import (
	"slices"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/slot"
)

// A merger turns views into tables. It belongs to the merge loop, and looks
// at those members alone that have published something.
type merger struct {
	catalog.Merger
	pins    *pins
	roster  *roster
	entries []catalog.Entry // by place in the roster
	views   []*slot.View    // that entries were made from
	away    map[string]time.Time
	hideDue time.Time // when the next server is away for too long; zero if none will be
	out     *catalog.Table
}

func newMerger(p *pins) *merger { return &merger{pins: p, away: map[string]time.Time{}} }

// merge returns the table of what the roster publishes now, where nothing but
// the named members has changed since the last time; the last table if nothing
// that it shows has changed.
func (m *merger) merge(r *roster, touched []string) *catalog.Table {
	naming := catalog.Naming{Separator: r.cfg.Separator, Max: r.cfg.MaxName, Always: r.cfg.Naming == config.NamingAlwaysPrefix}
	changed := m.out == nil || m.Naming != naming
	m.Naming = naming
	if m.roster != r {
		changed = m.rebuild(r) || changed
	}
	for _, name := range touched {
		if i, ok := r.place[name]; ok {
			e := m.entry(i)
			changed = changed || !m.entries[i].Same(e)
			m.entries[i] = e
		}
	}
	changed = m.hide(r) || changed
	if changed {
		m.out = m.Merge(m.entries)
	}
	return m.out
}

// publish is merge that keeps what the table was made from.
func (m *merger) publish(r *roster, touched []string, asked uint64) *published {
	table := m.merge(r, touched)
	return &published{table: table, merged: asked, roster: r, views: slices.Clone(m.views), changed: make(chan struct{})}
}

// rebuild looks at all members of a new roster.
func (m *merger) rebuild(r *roster) (changed bool) {
	old := m.entries
	m.roster, m.entries, m.views = r, make([]catalog.Entry, len(r.order)), make([]*slot.View, len(r.order))
	for i := range r.order {
		m.entries[i] = m.entry(i)
	}
	for name := range m.away {
		if r.byName[name] == nil {
			delete(m.away, name)
		}
	}
	return !slices.EqualFunc(old, m.entries, catalog.Entry.Same)
}

// entry is what the member at a place adds now. Whether it is hidden is decided by hide.
func (m *merger) entry(i int) catalog.Entry {
	mem := m.roster.order[i]
	v := mem.slot.View()
	m.views[i] = v
	e := mem.entry(v)
	if e.Published {
		e.Catalog = m.pins.publish(m.roster, mem, e.Catalog, v.State.Gen)
	}
	if e.Away == nil {
		delete(m.away, e.Server)
	} else {
		m.away[e.Server] = e.Away.Since
	}
	if e.Away != nil {
		e.Hidden = m.entries[i].Hidden && m.entries[i].Server == e.Server
	}
	return e
}

// hide hides the servers that have been away for too long, and says when the
// next one will have been.
func (m *merger) hide(r *roster) (changed bool) {
	m.hideDue = time.Time{}
	now := time.Now()
	for name, since := range m.away {
		due := since.Add(r.cfg.HideAfter)
		hidden := r.cfg.Outage == config.OutageHide && !now.Before(due)
		if e := &m.entries[r.place[name]]; e.Hidden != hidden {
			e.Hidden, changed = hidden, true
		}
		if r.cfg.Outage == config.OutageHide && !hidden && (m.hideDue.IsZero() || due.Before(m.hideDue)) {
			m.hideDue = due
		}
	}
	return changed
}
