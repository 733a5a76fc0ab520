package slot

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
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

// listed: a listing of g has ended, with a catalog or an error.
type listed struct {
	g     *generation
	kinds kinds
	cat   *catalog.Catalog
	err   *fault.Fault
}

func (listed) note() {}

// relist is the worker that lists a generation anew.
func relist(g *generation, old *catalog.Catalog, ks kinds) note {
	ctx, cancel := context.WithTimeout(g.ctx, g.spec.StartupTimeout)
	defer cancel()
	cat, err := g.up.List(ctx, old, ks.list()...)
	if err == nil {
		cat, err = believe(ctx, g.up, old, cat, ks.list())
	}
	if err != nil {
		return listed{g: g, kinds: ks, err: g.redact.fault(fault.From("list", err).At(g.server, g.gen))}
	}
	return listed{g: g, kinds: ks, cat: cat}
}

// believe takes a second look where a kind has become empty: some servers
// answer before they have registered what they offer.
func believe(ctx context.Context, up Upstream, old, cat *catalog.Catalog, kinds []catalog.Kind) (*catalog.Catalog, error) {
	if !emptied(old, cat) {
		return cat, nil
	}
	if !pauseFor(ctx, up.Done(), secondLook) {
		return cat, nil // the end of the link is seen elsewhere
	}
	return up.List(ctx, old, kinds...)
}

// emptied tells whether a kind that had items has none any more.
func emptied(old, cat *catalog.Catalog) bool {
	if old == nil {
		return false
	}
	for k := range cat.Items {
		if len(cat.Items[k]) == 0 && len(old.Items[k]) > 0 {
			return true
		}
	}
	return false
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

// sameAbout compares what a catalog says beside its items.
func sameAbout(a, b *catalog.Catalog) bool {
	for k := range a.Warnings {
		if !slices.Equal(a.Warnings[k], b.Warnings[k]) {
			return false
		}
	}
	return bytes.Equal(a.ServerInfo, b.ServerInfo) && bytes.Equal(a.Capabilities, b.Capabilities)
}
