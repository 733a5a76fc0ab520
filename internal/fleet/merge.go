package fleet

import (
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

// A merger turns views into tables. It belongs to the merge loop.
type merger struct {
	catalog.Merger
	last []catalog.Entry
	out  *catalog.Table
}

func newMerger(cfg *config.Config) *merger {
	return &merger{Merger: catalog.Merger{Naming: catalog.Naming{Separator: cfg.Separator, Max: cfg.MaxName}}}
}

// merge returns the table of what the roster publishes now: the last one if
// nothing that it shows has changed.
func (m *merger) merge(r *roster) *catalog.Table {
	m.Naming = catalog.Naming{Separator: r.cfg.Separator, Max: r.cfg.MaxName}
	entries := make([]catalog.Entry, len(r.order))
	for i, mem := range r.order {
		entries[i] = mem.entry(mem.slot.View())
	}
	if m.out != nil && slices.EqualFunc(m.last, entries, catalog.Entry.Same) {
		return m.out
	}
	m.last, m.out = entries, m.Merge(entries)
	return m.out
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
	for {
		select {
		case <-f.trigger:
		case <-f.stop:
			return
		}
		n := f.asked.Load()
		r := f.roster.Load()
		old := f.out.Load()
		next := &published{table: m.merge(r), merged: n, changed: make(chan struct{})}
		f.out.Store(next)
		close(old.changed)
		if kinds := changed(old.table, next.table); len(kinds) > 0 && f.opts.Changed != nil {
			f.opts.Changed(kinds)
		}
		f.follow(r)
	}
}

// changed returns the kinds whose published lists differ. Outage marks do not
// count: a restart with an identical catalog is silent.
func changed(old, new *catalog.Table) []catalog.Kind {
	if old == new {
		return nil
	}
	var kinds []catalog.Kind
	for _, k := range catalog.Kinds {
		if old.Hash(k) != new.Hash(k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// follow does what new lives ask for: their era is remembered, they are told
// of the clients' wishes, and what they offer is kept on disk.
func (f *Fleet) follow(r *roster) {
	for _, m := range r.order {
		v := m.slot.View()
		if v.State.Serving == 0 || m.told.Load() == v.State.Serving {
			continue
		}
		m.told.Store(v.State.Serving)
		era := v.Info.Era
		m.era.Store(&era)
		f.tell(m)
	}
	select {
	case f.save <- struct{}{}:
	default:
	}
}

// saveLoop writes what changed to disk, off the path of publishing.
func (f *Fleet) saveLoop() {
	written := map[string]catalog.Saved{}
	for {
		select {
		case <-f.save:
			f.saveAll(written)
		case <-f.stop:
			f.saveAll(written)
			return
		}
	}
}

func (f *Fleet) saveAll(written map[string]catalog.Saved) {
	if f.store == nil {
		return
	}
	for _, m := range f.roster.Load().order {
		v := m.slot.View()
		last := written[m.name]
		if v.Catalog == nil || (last.Catalog == v.Catalog && last.Gen == v.State.Gen) {
			continue
		}
		saved := catalog.Saved{Catalog: v.Catalog, Gen: v.State.Gen}
		if e := m.era.Load(); e != nil {
			saved.Era, _ = json.Marshal(e) // a struct of a number, a string and a bool always encodes
		}
		if err := f.store.Save(m.spec.Identity(), saved); err != nil {
			f.warn(m.name, "keeping the catalog on disk: "+err.Error())
			continue
		}
		written[m.name] = saved
	}
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
