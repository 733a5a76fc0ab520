package fleet

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/slot"
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
	era    atomic.Pointer[slot.Era]
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
	var era slot.Era
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
		Admit:     func(c *slot.Request, offers *catalog.Catalog) *fault.Fault { return f.admit(m, c, offers) },
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

// dial is the member's way to a new life.
func (f *Fleet) dial(m *member, before <-chan struct{}) slot.Dial {
	real := slot.NewDial(f.opts.Name, f.opts.Version, f.spares, m.known)
	if f.opts.Dial != nil {
		real = f.opts.Dial(m.name, real)
	}
	return func(ctx context.Context, s config.Server, gen uint64, h slot.Hooks) (slot.Upstream, error) {
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if s.Command != "" && !f.clean(ctx) {
			return nil, context.Cause(ctx)
		}
		h.Spawned = func(pid int) { f.spawned(m.key(), pid) }
		heard := m.late.Load()
		h.Modern = func() {
			m.late.Store(gen)
			if m.of == nil {
				f.touched.add(m.name) // it is kept on disk
				f.poke()
			}
		}
		h.Updated = func(uri string, params []byte) { f.wishes.updated(m.seat(), uri, params) }
		h.Log = func(params []byte) {
			if f.opts.Log != nil {
				f.opts.Log(m.name, params)
			}
		}
		if m.of != nil {
			m.of.hook(&h)
		}
		m.look(s)
		up, err := real(ctx, s, gen, h)
		m.refused(s, err)
		m.doubt.Store(err != nil && !m.doubt.Load() && perhapsChanged(m.known(), fault.From("start", err)))
		if err == nil {
			era := up.Info().Era // at once: the next life may be due in a moment
			m.era.Store(&era)
			m.late.CompareAndSwap(heard, 0) // what was learned from an older generation has been tried
			f.introduce(ctx, m, up)
		}
		return up, err
	}
}

// known is the era of the last life, which a start tries first. The start after
// one that failed with it finds the era anew: the server may be another one. If
// that fails too, it was not the era, and the next goes by it again.
func (m *member) known() slot.Era {
	e := m.learned()
	switch {
	case m.doubt.Load():
		return slot.Era{Modern: e.Modern} // no more than how long its silence means nothing
	default:
		return e
	}
}

// learned is what is known of the era, zero if nothing is. An answer that came
// late counts more than what was agreed to without it.
func (m *member) learned() slot.Era {
	e := m.era.Load()
	switch {
	case m.late.Load() != 0 && (e == nil || !e.Modern):
		return slot.Era{Modern: true}
	case e == nil:
		return slot.Era{}
	default:
		return *e
	}
}

// perhapsChanged tells whether a start may have failed because the server is
// not of the era that it was. Not so where none answered, or one that asks for
// something else first, or one ended that was asked nothing but initialize.
func perhapsChanged(was slot.Era, f *fault.Fault) bool {
	switch f.Kind {
	case fault.Exited, fault.Broken:
		return was.Modern
	case fault.Deadline, fault.Wedged, fault.Protocol, fault.RPC, fault.NoVersion, fault.SessionSuspect:
		return true
	case fault.HTTPStatus:
		return f.Status != http.StatusUnauthorized && (f.Status < http.StatusBadGateway || f.Status > http.StatusGatewayTimeout)
	default:
		return false
	}
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
		e.Away = &catalog.Away{State: v.Seen(), Since: v.AwaySince}
		if v.Cause != nil {
			e.Away.Cause = v.Cause.Text()
		}
	}
	return e
}
