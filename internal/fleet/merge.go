package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
)

// closeLimit is what closing a slot may take beyond draining its calls.
const closeLimit = 10 * time.Second

// A merger turns views into tables. It belongs to the merge loop, and looks
// at those members alone that have published something.
type merger struct {
	catalog.Merger
	f       *Fleet
	roster  *roster
	entries []catalog.Entry // by place in the roster
	away    map[string]time.Time
	hideDue time.Time // when the next server is away for too long; zero if none will be
	out     *catalog.Table
}

func newMerger(f *Fleet) *merger { return &merger{f: f, away: map[string]time.Time{}} }

// merge returns the table of what the roster publishes now, where nothing but
// the named members has changed since the last time; the last table if nothing
// that it shows has changed.
func (m *merger) merge(r *roster, touched []string) *catalog.Table {
	naming := catalog.Naming{Separator: r.cfg.Separator, Max: r.cfg.MaxName}
	changed := m.out == nil || m.Naming != naming
	m.Naming = naming
	if m.roster != r {
		changed = m.rebuild(r) || changed
	}
	for _, name := range touched {
		if i, ok := r.place[name]; ok {
			e := m.entry(r.order[i])
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

// rebuild looks at all members of a new roster.
func (m *merger) rebuild(r *roster) (changed bool) {
	old := m.entries
	m.roster, m.entries = r, make([]catalog.Entry, len(r.order))
	for i, mem := range r.order {
		m.entries[i] = m.entry(mem)
	}
	for name := range m.away {
		if r.byName[name] == nil {
			delete(m.away, name)
		}
	}
	return !slices.EqualFunc(old, m.entries, catalog.Entry.Same)
}

// entry is what a member adds now. Whether it is hidden is decided by hide.
func (m *merger) entry(mem *member) catalog.Entry {
	v := mem.slot.View()
	e := mem.entry(v)
	if e.Published {
		e.Catalog = m.f.pinned(m.roster, mem, e.Catalog, v.State.Gen)
	}
	if e.Away == nil {
		delete(m.away, e.Server)
	} else {
		m.away[e.Server] = e.Away.Since
	}
	if i, ok := m.roster.place[e.Server]; ok && e.Away != nil {
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

// poke asks for a merge and returns its number; it never waits.
func (f *Fleet) poke() uint64 {
	n := f.asked.Add(1)
	select {
	case f.trigger <- struct{}{}:
	default:
	}
	return n
}

// Flush returns once the table reflects everything that slots had published
// when it was called.
func (f *Fleet) Flush(ctx context.Context) error {
	n := f.poke()
	for {
		out := f.out.Load()
		if out.merged >= n {
			return nil
		}
		select {
		case <-out.changed:
		case <-ctx.Done():
			return fault.From("publish", ctx.Err())
		case <-f.stop:
			return fault.New(fault.Closed, "publish", "everline is shutting down")
		}
	}
}

// mergeLoop is the only writer of Fleet.out after New.
func (f *Fleet) mergeLoop(m *merger) {
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
		case <-f.trigger:
		case <-due:
		case <-f.stop:
			return
		}
		n := f.asked.Load()
		touched := f.touched.take()
		r := f.roster.Load()
		if m.roster != r {
			touched = r.names()
		}
		old := f.out.Load()
		next := &published{table: m.merge(r, touched), merged: n, changed: make(chan struct{})}
		f.out.Store(next)
		close(old.changed)
		if kinds := catalog.Changed(old.table, next.table); len(kinds) > 0 && f.opts.Changed != nil {
			f.opts.Changed(kinds)
		}
		f.follow(r, touched)
	}
}

// follow does what new lives ask for: they are told of the clients' wishes, and
// what they offer is kept on disk.
func (f *Fleet) follow(r *roster, touched []string) {
	for _, name := range touched {
		m := r.byName[name]
		if m == nil {
			continue
		}
		f.unsaved.add(name)
		v := m.slot.View()
		if v.State.Serving == 0 || m.told.Load() == v.State.Serving {
			continue
		}
		m.told.Store(v.State.Serving)
		f.tell(m)
	}
	select {
	case f.save <- struct{}{}:
	default:
	}
}

// saveLoop writes what changed to disk, off the path of publishing.
func (f *Fleet) saveLoop() {
	written := map[string]kept{}
	again := time.NewTimer(saveRetry)
	defer again.Stop()
	for {
		var due <-chan time.Time
		if len(f.problems.all()) > 0 {
			due = again.C
		}
		select {
		case <-f.save:
			f.saveNews(written)
		case <-due:
			again.Reset(saveRetry)
			f.retryWrites()
			f.saveNews(written)
		case <-f.stop:
			f.saveAll(written, f.roster.Load().names())
			f.dropUnused()
			f.savePins()
			return
		}
	}
}

// saveRetry is how often a write is tried again that has failed.
const saveRetry = 15 * time.Second

// theCatalog is what is kept of each server.
const theCatalog = "the catalog"

func (f *Fleet) saveNews(written map[string]kept) {
	f.saveAll(written, f.unsaved.take())
	f.dropUnused()
	f.savePins()
	f.saveLedger()
}

// saveAll writes what is new of the named members. What cannot be written is
// tried again with the next change of that member.
func (f *Fleet) saveAll(written map[string]kept, names []string) {
	if f.store == nil {
		return
	}
	r := f.roster.Load()
	for _, name := range names {
		if m := r.byName[name]; m != nil {
			f.saveOne(written, m)
		}
	}
}

// kept is what was written of a member, and under which key.
type kept struct {
	key string
	catalog.Saved
}

func (k kept) same(o kept) bool {
	return k.key == o.key && k.Catalog == o.Catalog && k.Gen == o.Gen && bytes.Equal(k.Era, o.Era)
}

// saveOne keeps the catalog under the identity of the server that listed it: a
// slot goes on showing what the last server offered until the new one is up.
func (f *Fleet) saveOne(written map[string]kept, m *member) {
	v := m.slot.View()
	now := kept{m.spec.Identity(), catalog.Saved{Gen: v.State.Gen}}
	if v.CatalogOf == now.key {
		now.Catalog = v.Catalog
	}
	if e := m.learned(); e.Proven() { // silence is no verdict: it is not kept
		now.Era, _ = json.Marshal(e) // a struct of a number, a string and a bool always encodes
	}
	if last := written[m.name]; now.same(last) || now.Catalog == nil && now.Gen == 0 {
		f.wrote(m.name, theCatalog, nil)
		return
	}
	saved := now.Saved
	if saved.Catalog == nil { // what an earlier run has listed stays, if it can be read
		if last, err := f.store.Load(now.key); err == nil && last != nil {
			saved.Catalog, saved.Gen = last.Catalog, max(saved.Gen, last.Gen)
		}
	}
	err := f.store.Save(now.key, saved)
	f.wrote(m.name, theCatalog, err)
	if err != nil {
		return
	}
	written[m.name] = now
	if now.Catalog != nil {
		for _, key := range m.replaced.take() {
			if key == now.key { // it was replaced while it was being written: its successor has listed nothing yet
				m.replaced.add(key)
				continue
			}
			f.unused.add(key)
		}
	}
}

// dropUnused forgets what is kept of servers that are not configured any more.
// The saver alone calls it, so that nothing is written again behind it.
func (f *Fleet) dropUnused() {
	if f.store == nil {
		return
	}
	keys := f.unused.take()
	if len(keys) == 0 {
		return
	}
	used, failed := map[string]bool{}, error(nil)
	for _, m := range f.roster.Load().order {
		used[m.spec.Identity()] = true
	}
	for _, key := range keys {
		if used[key] {
			continue
		}
		if err := f.store.Remove(key); err != nil {
			f.unused.add(key)
			failed = err
		}
	}
	f.wrote("", "the end of a server that was removed", failed)
}

// load returns what is on disk of a server; nothing, with a warning, if the
// file cannot be used.
func (f *Fleet) load(s config.Server) catalog.Saved {
	if f.store == nil {
		return catalog.Saved{}
	}
	saved, err := f.store.Load(s.Identity())
	if err != nil {
		f.warn(s.Name, "the catalog on disk is not used: "+err.Error())
	}
	if saved == nil {
		return catalog.Saved{}
	}
	return *saved
}

func (f *Fleet) warn(server, text string) {
	if f.opts.Warn != nil {
		f.opts.Warn(server, text)
	}
}
