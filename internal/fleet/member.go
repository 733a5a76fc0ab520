package fleet

import (
	"strconv"
	"sync/atomic"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/upstream"
)

// A member is one server's place in the fleet. It is immutable but for what
// its own generations found out.
type member struct {
	name    string
	spec    config.Server
	slot    *slot.Slot
	meter   *meter.Server // of the server, sessions' slots included
	session *Session      // whose slot it is; nil for the one that is shared, and published
	*memory
}

// memory is what outlives a member's spec.
type memory struct {
	announcer announcer
	saying    ctxLock // held while the server is told of the log level
	era       atomic.Pointer[upstream.Era]
	late      atomic.Uint64          // the generation that was taken for a legacy one before the server said that it is modern; 0: none
	asks      atomic.Bool            // it asks its clients in the way of the older revisions, which it may not in the modern era
	oneEra    atomic.Bool            // it has refused the older era since the newest generation of the shared slot began
	doubt     atomic.Bool            // the last start went by era and failed in a way that may be due to it
	lack      atomic.Pointer[lack]   // what the last start failed for; nil if that cannot be seen
	told      atomic.Uint64          // the newest generation that was told what clients want
	level     atomic.Pointer[string] // the log level that the newest generation was told before it served; nil if it was not

	replaced names // keys of the store under earlier definitions, kept until the present one has listed something

	listed atomic.Pointer[catalog.Catalog] // of a lane: what its clients have been told of
	digest atomic.Pointer[digest]          // of the catalog that was pinned last
	pin    atomic.Pointer[pinView]         // what the pins make of what is published; nil where they are off
}

func newMemory() *memory { return &memory{saying: newCtxLock()} }

// with returns the member with a new spec and the same slot.
func (m *member) with(s config.Server) *member {
	return &member{name: m.name, spec: s, slot: m.slot, meter: m.meter, memory: m.memory}
}

func (m *member) slotKey() slotKey { return slotKey{m.name, m.session} }

// key tells the member's processes from those of all others.
func (m *member) key() string {
	if m.session == nil {
		return m.name
	}
	return m.name + "#" + strconv.FormatUint(m.session.Client.ID(), 10)
}

// entry is what the member adds to the table.
func (m *member) entry(v *slot.View) catalog.Entry {
	e := catalog.Entry{
		Server:    m.name,
		Rules:     m.spec.Tools,
		Replay:    m.spec.Replay,
		Catalog:   v.Catalog,
		Published: v.Published(),
	}
	if e.Published && v.Away() {
		e.Away = &catalog.Away{State: string(v.Seen()), Since: v.AwaySince}
		if v.Cause != nil {
			e.Away.Cause = v.Cause.Reason()
		}
	}
	return e
}

// digestOf computes the pins of a catalog once. A slot's own loop does it when
// it publishes, so that an enormous definition costs its own server's time.
func (m *member) digestOf(c *catalog.Catalog) *catalog.Pins {
	if d := m.digest.Load(); d != nil && d.catalog == c {
		return d.now
	}
	now := catalog.PinsOf(c)
	m.digest.Store(&digest{c, now})
	return now
}

// known is the era of the last generation, which a start tries first. The start after
// one that failed with it finds the era anew: the server may be another one. If
// that fails too, it was not the era, and the next goes by it again.
func (m *member) known() upstream.Era {
	e := m.learned()
	switch {
	case m.doubt.Load():
		return upstream.Era{Modern: e.Modern} // no more than how long its silence means nothing
	default:
		return e
	}
}

// learned is what is known of the era, zero if nothing is. An answer that came
// late counts more than what was agreed to without it.
func (m *member) learned() upstream.Era {
	e := m.era.Load()
	switch {
	case m.late.Load() != 0 && (e == nil || !e.Modern):
		return upstream.Era{Modern: true}
	case e == nil:
		return upstream.Era{}
	default:
		return *e
	}
}

// private tells whether sessions have slots of their own of the server.
func (m *member) private() bool {
	return m.spec.Isolation == config.IsolationSession && m.slot.View().State.Want
}

// laneListed tells the clients of a lane that it lists something else than before, or
// than the shared slot does. It runs on the loop of the lane's slot.
func (m *member) laneListed(shared *member, v *slot.View) {
	old := m.listed.Swap(v.Catalog)
	if v.Catalog == nil || old == v.Catalog || m.session.Changed == nil {
		return
	}
	if old == nil {
		old = shared.slot.View().Catalog
	}
	if kinds := catalog.Diff(old, v.Catalog).Kinds(); len(kinds) > 0 {
		m.session.Changed(kinds)
	}
}
