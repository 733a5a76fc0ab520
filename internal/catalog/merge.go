package catalog

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	"github.com/everline/everline/config"
)

// Same reports whether two entries add the same to a table. Catalogs are the
// same if they are the same value in memory: they are never changed.
func (e Entry) Same(o Entry) bool {
	return e.Server == o.Server && e.Published == o.Published && e.Hidden == o.Hidden && e.Replay == o.Replay && e.Catalog == o.Catalog &&
		sameAway(e.Away, o.Away) && sameRules(e.Rules, o.Rules)
}

func sameAway(a, b *Away) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return a.State == b.State && a.Cause == b.Cause && a.Since.Equal(b.Since)
}

func sameRules(a, b config.Tools) bool {
	return slices.Equal(a.Allow, b.Allow) && slices.Equal(a.Deny, b.Deny) && slices.Equal(a.Hide, b.Hide) &&
		maps.Equal(a.Rename, b.Rename) && maps.Equal(a.Replay, b.Replay)
}

// Merge merges once. Who merges again and again keeps a Merger.
func Merge(entries []Entry, n Naming) *Table {
	m := Merger{Naming: n}
	return m.Merge(entries)
}

// A Merger makes one table after another and keeps what did not change: a
// merge costs some words per configured server, and encoding for the servers
// that changed. The zero value works. It is not safe for use by more than one goroutine;
// its tables are.
type Merger struct {
	Naming Naming // may be changed between merges

	last *Table
}

// Merge makes the table of these entries. It keeps the catalogs, not the slice.
// If no entry differs from the last time it returns the last table.
func (m *Merger) Merge(entries []Entry) *Table {
	n := m.Naming.filled()
	old := m.last
	if old != nil && old.naming == n && slices.EqualFunc(old.entries, entries, Entry.Same) {
		return old
	}
	t := &Table{naming: n, entries: slices.Clone(entries), fragments: make([]*fragment, len(entries)), lone: -1}
	t.label(old)
	known := old.known()
	for i, e := range t.entries {
		if !e.Published || e.Catalog == nil {
			continue
		}
		key := fragmentKey{Entry: e, naming: n, label: t.labels[i]}
		if f := known[e.Server]; f != nil && f.key.same(key) {
			t.fragments[i] = f
		} else {
			t.fragments[i] = newFragment(key)
		}
	}
	if len(entries) == 1 && t.byLabel == nil {
		t.only = t.fragments[0]
	}
	t.gather(old)
	t.text = sync.OnceValue(t.instructions)
	m.last = t
	return t
}

// label gives the servers their labels; those of the last table if it had the
// same servers.
func (t *Table) label(old *Table) {
	same := func(a, b Entry) bool { return a.Server == b.Server }
	if old != nil && old.naming == t.naming && slices.EqualFunc(old.entries, t.entries, same) {
		t.labels, t.byLabel = old.labels, old.byLabel
		return
	}
	names := make([]string, len(t.entries))
	for i, e := range t.entries {
		names[i] = e.Server
	}
	t.labels = t.naming.labels(names)
	if t.labels == nil {
		t.labels = make([]string, len(t.entries))
		return
	}
	t.byLabel = make(map[string]int, len(t.labels))
	for i, l := range t.labels {
		t.byLabel[l] = i
	}
}

// known returns the fragments of a table, which may be nil, by server.
func (t *Table) known() map[string]*fragment {
	if t == nil {
		return nil
	}
	known := make(map[string]*fragment, len(t.fragments))
	for i, f := range t.fragments {
		if f != nil {
			known[t.entries[i].Server] = f
		}
	}
	return known
}

// gather makes the lists out of the fragments.
func (t *Table) gather(old *Table) {
	owners := 0
	for i, f := range t.fragments {
		if f == nil {
			continue
		}
		for k, has := range f.offers {
			t.offers[k] = t.offers[k] || has
		}
		if f.offers[Resources] || f.offers[Templates] {
			owners++
			t.lone = i
		}
	}
	if owners != 1 {
		t.lone = -1
	}
	for _, k := range Kinds {
		t.lists[k] = t.list(k, old)
		t.conflicts = append(t.conflicts, t.lists[k].part.conflicts...)
	}
}

// list makes the list of one kind, or takes over that of the last table.
func (t *Table) list(k Kind, old *Table) *list {
	var sources []*piece
	var away []*Away
	for i, f := range t.fragments {
		if f != nil && f.pieces[k] != nil && !t.entries[i].Hidden {
			sources = append(sources, f.pieces[k])
			away = append(away, t.entries[i].Away)
		}
	}
	if old == nil || !slices.Equal(old.lists[k].part.sources, sources) {
		return &list{part: newPart(k, sources), away: away}
	}
	last := old.lists[k]
	if slices.EqualFunc(last.away, away, sameAway) {
		return last
	}
	return &list{part: last.part, away: away}
}

// A part is one kind of a table without outage marks.
type part struct {
	sources   []*piece       // what the servers add
	pieces    []*piece       // sources without what is shadowed
	owners    map[string]int // resources and templates: piece by URI
	conflicts []Conflict
	n         int
	hash      [32]byte
}

func newPart(k Kind, sources []*piece) *part {
	p := &part{sources: sources, pieces: sources}
	if k == Resources || k == Templates {
		p.shadow(k)
	}
	h := sha256.New()
	for _, s := range p.pieces {
		p.n += len(s.ends)
		p.conflicts = append(p.conflicts, s.conflicts...)
		if len(s.ends) > 0 {
			h.Write(s.hash[:])
		}
	}
	h.Sum(p.hash[:0])
	return p
}

// shadow finds the owner of each URI. Of several servers with one URI the
// first by the order of the configuration has it.
func (p *part) shadow(k Kind) {
	n := 0
	for _, s := range p.sources {
		n += len(s.all)
	}
	p.owners = make(map[string]int, n)
	p.pieces = slices.Clone(p.sources)
	for i, s := range p.sources {
		shadowed := map[string]bool{}
		for _, l := range s.all {
			first, taken := p.owners[l.Exposed]
			if !taken {
				p.owners[l.Exposed] = i
				continue
			}
			shadowed[l.Exposed] = true
			p.conflicts = append(p.conflicts, Conflict{
				Kind: k, Server: s.server, Name: l.Exposed, Winner: p.sources[first].server,
			})
		}
		if len(shadowed) > 0 {
			p.pieces[i] = s.without(shadowed)
		}
	}
}
