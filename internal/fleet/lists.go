package fleet

import (
	"maps"

	"github.com/everline/everline/internal/catalog"
)

// A client whose calls are served by a lane sees what that lists, where it is
// something else than the shared generation lists.

// TableFor is the table of a session, nil for nobody's: base, with what the lanes of the
// session list in the place of what the shared slots do. Where definitions are pinned
// it is base alone, which has what was approved.
func (f *Fleet) TableFor(s *Session, base *catalog.Table) *catalog.Table {
	if s == nil || !s.laned.Load() || f.roster.Load().pinsOn() {
		return base
	}
	listed, last := f.sessions.listed(s), s.own.Load()
	if last != nil {
		f.remember(s, listed, last.listed)
		if last.base == base && maps.Equal(last.listed, listed) {
			return last.table
		}
	}
	differs := maps.Clone(listed)
	maps.DeleteFunc(differs, func(server string, c *catalog.Catalog) bool {
		return len(catalog.Diff(base.Listing(server), c).Kinds()) == 0
	})
	own := &ownTable{base, listed, base}
	if len(differs) > 0 {
		own.table = base.With(differs)
	}
	s.own.Store(own)
	return own.table
}

// remember adds what lanes have listed that have ended for want of use: the next call
// begins them again.
func (f *Fleet) remember(s *Session, listed, last map[string]*catalog.Catalog) {
	for server, c := range last {
		if m := f.roster.Load().byName[server]; listed[server] == nil && m != nil && m.splits(s) {
			listed[server] = c
		}
	}
}

// listed are the catalogs of the lanes that serve a session, by server.
func (ss *sessions) listed(s *Session) map[string]*catalog.Catalog {
	all := map[string]*catalog.Catalog{}
	add := func(of *Session) {
		of.mu.Lock()
		defer of.mu.Unlock()
		for server, o := range of.slots {
			if c := o.slot.View().Catalog; o.lane && c != nil && !o.gone.Load() {
				all[server] = c
			}
		}
	}
	add(s)
	for _, c := range ss.lanesOf(s) {
		add(c)
	}
	return all
}

// lanesOf are the shared lanes that a session is a member of.
func (ss *sessions) lanesOf(s *Session) (all []*Session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, c := range ss.lanes {
		if _, in := c.members[s]; in {
			all = append(all, &c.Session)
		}
	}
	return all
}
