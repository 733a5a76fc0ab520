package fleet

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
)

// keeper writes to disk what outlives everline, in one goroutine: the last good
// catalogs, what was approved at first sight, and the list of processes.
type keeper struct {
	*core
	store     *catalog.Store // nil without a state folder
	problems  *problems
	pins      *pins
	processes *processes
	unsaved   names // members of which the disk may not have the latest
	unused    names // keys of the store that may belong to no server any more
}

// run writes what changed to disk, off the path of publishing.
func (k *keeper) run() {
	written := map[string]kept{}
	again := time.NewTimer(saveRetry)
	defer again.Stop()
	for {
		var due <-chan time.Time
		if len(k.problems.all()) > 0 {
			due = again.C
		}
		select {
		case <-k.save:
			k.saveNews(written)
		case <-due:
			again.Reset(saveRetry)
			k.retryWrites()
			k.saveNews(written)
		case <-k.stop:
			k.saveAll(written, k.roster.Load().names())
			k.dropUnused()
			k.pins.save()
			return
		}
	}
}

// saveRetry is how often a write is tried again that has failed.
const saveRetry = 15 * time.Second

// theCatalog is what is kept of each server.
const theCatalog = "the catalog"

func (k *keeper) saveNews(written map[string]kept) {
	k.saveAll(written, k.unsaved.take())
	k.dropUnused()
	k.pins.save()
	k.processes.save()
}

// saveAll writes what is new of the named members. What cannot be written is
// tried again with the next change of that member.
func (k *keeper) saveAll(written map[string]kept, names []string) {
	if k.store == nil {
		return
	}
	r := k.roster.Load()
	for _, name := range names {
		if m := r.byName[name]; m != nil {
			k.saveOne(written, m)
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
func (k *keeper) saveOne(written map[string]kept, m *member) {
	v := m.slot.View()
	now := kept{m.spec.Identity(), catalog.Saved{Gen: v.State.Gen}}
	if v.CatalogOf == now.key {
		now.Catalog = v.Catalog
	}
	if e := m.learned(); e.Proven() { // silence is no verdict: it is not kept
		e.Asks = m.asks.Load()
		now.Era, _ = json.Marshal(e) // a struct of a number, a string and a bool always encodes
	}
	if last := written[m.name]; now.same(last) || now.Catalog == nil && now.Gen == 0 {
		k.problems.wrote(m.name, theCatalog, nil)
		return
	}
	saved := now.Saved
	if saved.Catalog == nil { // what an earlier run has listed stays, if it can be read
		if last, err := k.store.Load(now.key); err == nil && last != nil {
			saved.Catalog, saved.Gen = last.Catalog, max(saved.Gen, last.Gen)
		}
	}
	err := k.store.Save(now.key, saved)
	k.problems.wrote(m.name, theCatalog, err)
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
			k.unused.add(key)
		}
	}
}

// dropUnused forgets what is kept of servers that are not configured any more.
// The saver alone calls it, so that nothing is written again behind it.
func (k *keeper) dropUnused() {
	if k.store == nil {
		return
	}
	keys := k.unused.take()
	if len(keys) == 0 {
		return
	}
	used, failed := map[string]bool{}, error(nil)
	for _, m := range k.roster.Load().order {
		used[m.spec.Identity()] = true
	}
	for _, key := range keys {
		if used[key] {
			continue
		}
		if err := k.store.Remove(key); err != nil {
			k.unused.add(key)
			failed = err
		}
	}
	k.problems.wrote("", "the end of a server that was removed", failed)
}

// load returns what is on disk of a server; nothing, with a warning, if the
// file cannot be used.
func (k *keeper) load(s config.Server) catalog.Saved {
	if k.store == nil {
		return catalog.Saved{}
	}
	saved, err := k.store.Load(s.Identity())
	if err != nil {
		k.warn(s.Name, "the catalog on disk is not used: "+err.Error())
	}
	if saved == nil {
		return catalog.Saved{}
	}
	return *saved
}

// retryWrites has the saver try again what could not be written.
func (k *keeper) retryWrites() {
	for _, p := range k.problems.all() {
		if p.Server != "" {
			k.unsaved.add(p.Server)
		}
	}
}
