package catalog

import (
	"iter"
	"slices"
	"sync"

	"github.com/everline/everline/internal/mcp"
)

// A Filter says what of a table is in another one. It must be comparable: what was
// made by an equal one is taken over.
type Filter interface {
	Server(server string) bool                    // whether anything of a server is
	Whole(server string) bool                     // whether all of it is
	Tool(server, name string, readOnly bool) bool // whether a tool is, by the server's own name; of a server that is not there whole
}

// Only returns a table of what the filter lets through, under the same names as in
// t. old, which may be nil, is an earlier table made so: what did not change is
// taken over from it.
func (t *Table) Only(filter Filter, old *Table) *Table {
	n := &Table{
		naming: t.naming, entries: slices.Clone(t.entries), fragments: slices.Clone(t.fragments),
		labels: t.labels, byLabel: t.byLabel, lone: -1,
	}
	known := old.known()
	for i, f := range n.fragments {
		switch server := n.entries[i].Server; {
		case !filter.Server(server):
			n.entries[i].Published = false
			n.fragments[i] = nil
		case f == nil || f.pieces[Tools] == nil || filter.Whole(server):
		default:
			n.fragments[i] = f.only(filter, known[server])
		}
	}
	if t.only != nil {
		n.only = n.fragments[0]
	}
	n.gather(old)
	n.text = sync.OnceValue(n.instructions)
	return n
}

// With returns a table in which some servers, by name, have other catalogs.
func (t *Table) With(catalogs map[string]*Catalog) *Table {
	n := &Table{
		naming: t.naming, entries: slices.Clone(t.entries), fragments: slices.Clone(t.fragments),
		labels: t.labels, byLabel: t.byLabel, lone: -1,
	}
	for i, f := range n.fragments {
		e := &n.entries[i]
		if c := catalogs[e.Server]; c != nil && f != nil {
			e.Catalog = c
			n.fragments[i] = newFragment(fragmentKey{Entry: *e, naming: n.naming, label: n.labels[i]})
		}
	}
	if t.only != nil {
		n.only = n.fragments[0]
	}
	n.gather(t)
	n.text = sync.OnceValue(n.instructions)
	return n
}

// Listing is the catalog of a server that is published; nil if none is.
func (t *Table) Listing(server string) *Catalog {
	i := slices.IndexFunc(t.entries, func(e Entry) bool { return e.Server == server })
	if i < 0 || t.fragments[i] == nil {
		return nil
	}
	return t.entries[i].Catalog
}

// WithTools returns a table that lists these tools instead of its own. Its own
// are still found by their names. old is as for Only.
func (t *Table) WithTools(items []Item, old *Table) *Table {
	n := *t
	p := &piece{}
	for _, item := range items {
		p.all = append(p.all, Listed{Exposed: item.Name, Item: item})
	}
	p.encode(Tools)
	n.lists[Tools] = &list{part: newPart(Tools, []*piece{p}), away: []*Away{nil}}
	if old != nil && old.Hash(Tools) == n.Hash(Tools) {
		n.lists[Tools] = old.lists[Tools]
	}
	n.offers[Tools] = true
	n.whole = t
	return &n
}

// Whole is the table that WithTools made this one from; else the table itself.
func (t *Table) Whole() *Table {
	if t.whole != nil {
		return t.whole
	}
	return t
}

// Changed returns the kinds whose published lists differ. Outage marks do not
// count: a restart with an identical catalog is silent.
func Changed(old, next *Table) []Kind {
	if old == next {
		return nil
	}
	var kinds []Kind
	for _, k := range Kinds {
		if old.Hash(k) != next.Hash(k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Listed is the text of the i-th item of Array.
func (t *Table) Listed(k Kind, i int) []byte {
	l := t.lists[k]
	for n, p := range l.part.pieces {
		if i >= len(p.ends) {
			i -= len(p.ends)
			continue
		}
		begin := 0
		if i > 0 {
			begin = p.ends[i-1] + 1
		}
		text := p.text[begin:p.ends[i]]
		if l.away[n] != nil {
			return withMeta(text, mcp.MetaAvailability, l.away[n].mark())
		}
		return text
	}
	return nil
}

// texts yields the items of Array without outage marks.
func (t *Table) texts(k Kind) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		n := 0
		for _, p := range t.lists[k].part.pieces {
			begin := 0
			for _, end := range p.ends {
				if !yield(n, p.text[begin:end]) {
					return
				}
				begin = end + 1
				n++
			}
		}
	}
}

// Sizes are the bytes that each server adds to Array, without outage marks.
func (t *Table) Sizes(k Kind) map[string]int {
	sizes := make(map[string]int, len(t.lists[k].part.pieces))
	for _, p := range t.lists[k].part.pieces {
		sizes[p.server] += len(p.text)
	}
	return sizes
}

// Counts are how many items of each kind each server has in Array.
func (t *Table) Counts() map[string][len(Kinds)]int {
	counts := make(map[string][len(Kinds)]int, len(t.entries))
	for _, k := range Kinds {
		for _, p := range t.lists[k].part.pieces {
			n := counts[p.server]
			n[k] += len(p.ends)
			counts[p.server] = n
		}
	}
	return counts
}

// Tokens estimates what a text costs a model: a token for each four bytes.
// Tokenizers differ; for JSON of English text they are within a third of it.
func Tokens(bytes int) int { return (bytes + 3) / 4 }
