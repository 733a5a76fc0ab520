package fleet

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/upstream"
)

// A member is one server's place in the fleet. It is immutable but for what
// its own lives found out.
type member struct {
	name string
	spec config.Server
	slot *slot.Slot
	of   *Session // whose own slot it is; nil for the one that is shared, and published
	*memory
}

// memory is what outlives a member's spec.
type memory struct {
	saying chan struct{} // one slot: held while the server is told of the log level
	era    atomic.Pointer[upstream.Era]
	late   atomic.Uint64          // the generation that was taken for a legacy one before the server said that it is modern; 0: none
	doubt  atomic.Bool            // the last start went by era and failed in a way that may be due to it
	lack   atomic.Pointer[lack]   // what the last start failed for; nil if that cannot be seen
	told   atomic.Uint64          // the newest life that was told of the clients' wishes
	level  atomic.Pointer[string] // the log level that the newest life was told before it served; nil if it was not

	replaced names // keys of the store under earlier definitions, kept until the present one has listed something

	digest atomic.Pointer[digest]  // of the catalog that was pinned last
	pin    atomic.Pointer[pinView] // what the pins make of what is published; nil where they are off
}

// with returns the member with a new spec and the same slot.
func (m *member) with(s config.Server) *member {
	return &member{name: m.name, spec: s, slot: m.slot, memory: m.memory}
}

// newMember makes the slot of a server. before, if not nil, is closed when an
// earlier slot of the same name is gone; the first life waits for that.
func (f *Fleet) newMember(s config.Server, before <-chan struct{}) *member {
	m := &member{name: s.Name, spec: s, memory: &memory{saying: make(chan struct{}, 1)}}
	saved := f.load(s)
	var era upstream.Era
	if len(saved.Era) > 0 && json.Unmarshal(saved.Era, &era) == nil && era.Proven() {
		m.era.Store(&era)
	}
	var after <-chan struct{}
	if saved.Catalog != nil {
		after = f.lead.over
	}
	m.slot = slot.New(slot.Options{
		Server:    s,
		Dial:      f.dial(m, before),
		Last:      saved.Catalog,
		After:     after,
		Gen:       max(saved.Gen, f.lastGen(s.Name)),
		Admit:     func(c *upstream.Call, offers *catalog.Catalog) *fault.Fault { return f.admit(m, c, offers) },
		Starting:  f.starting,
		Watch:     f.watch(m),
		Published: func(v *slot.View) { f.published(m, v) },
		Emit:      f.opts.Emit,
	})
	return m
}

func (m *member) seat() seat { return seat{m.name, m.of} }

// key tells the member's processes from those of all others.
func (m *member) key() string {
	if m.of == nil {
		return m.name
	}
	return m.name + "#" + strconv.FormatUint(m.of.Client.ID(), 10)
}

// published is called by the slot's loop.
func (f *Fleet) published(m *member, v *slot.View) {
	if r := f.roster.Load(); r != nil && r.pinsOn() && v.Published() {
		m.digestOf(v.Catalog)
	}
	f.touched.add(m.name)
	f.poke()
}

// retire closes a removed server's slot behind the caller's back; Close waits
// for it. No further generation begins behind the one that is remembered.
func (f *Fleet) retire(ctx context.Context, m *member) {
	if err := m.slot.Want(ctx, false); err != nil {
		f.warn(m.name, "ending the removed server: "+err.Error())
	}
	gone := make(chan struct{})
	f.mu.Lock()
	f.leaving[m.name] = gone
	f.retired[m] = struct{}{}
	f.gens[m.name] = m.slot.View().State.Gen
	f.mu.Unlock()
	f.endOwn(m.name)
	f.wishes.forget(func(at seat) bool { return at.server == m.name })
	f.spawn(func() {
		ctx, cancel := context.WithTimeout(f.hard, m.spec.DrainTimeout+closeLimit)
		defer cancel()
		err := m.slot.Close(ctx)
		if err != nil {
			f.warn(m.name, "closing the removed server: "+err.Error()) // closing the fleet tries again
		}
		f.mu.Lock()
		if err == nil {
			delete(f.retired, m)
		}
		if f.leaving[m.name] == gone {
			delete(f.leaving, m.name)
		}
		f.mu.Unlock()
		close(gone)
	})
}

// retiring returns the removed members whose slots are not gone yet.
func (f *Fleet) retiring() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.retired))
}

// lastGen is the newest generation of a server that was removed.
func (f *Fleet) lastGen(name string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gens[name]
}

// predecessor returns a channel that is closed when the last retired slot of
// that name is gone; nil if none is on its way out.
func (f *Fleet) predecessor(name string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.leaving[name]; ok {
		return c
	}
	return nil
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
			e.Away.Cause = v.Cause.Text()
		}
	}
	return e
}
