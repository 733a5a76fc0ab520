package fleet

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/transport/stdio"
	"github.com/everline/everline/internal/upstream"
	"github.com/everline/everline/internal/watch"
)

// starter makes members' slots, and is their way to each generation.
type starter struct {
	*core
	keeper      *keeper
	processes   *processes
	pins        *pins
	subs        *subscriptions
	credentials *credentials
	spares      *stdio.Spares // of the processes that guard servers
	starting    chan struct{} // bounds the starts over all slots
	headStart   *headStart
	ports       watch.Ports // looks at ports that refused, for all slots

	own atomic.Pointer[[]string] // paths that no sandbox opens; see keepOwn
}

// newMember makes the slot of a server, whose newest generation of an earlier
// run, or under an earlier slot, was gen. before, if not nil, is closed when that
// slot is gone; the first generation waits for it.
func (st *starter) newMember(s config.Server, gen uint64, before <-chan struct{}) *member {
	m := &member{name: s.Name, spec: s, meter: meter.New(), memory: newMemory()}
	st.credentials.use(&s)
	saved := st.keeper.load(s)
	var era upstream.Era
	if len(saved.Era) > 0 && json.Unmarshal(saved.Era, &era) == nil && era.Proven() {
		m.era.Store(&era)
		m.asks.Store(era.Asks)
	}
	o := st.slotOptions(m, nil, before)
	o.Last, o.Gen = saved.Catalog, max(saved.Gen, gen)
	if saved.Catalog != nil {
		o.After = st.headStart.over
	}
	o.Published = func(v *slot.View) { st.published(m, v) }
	o.Announced = func(kinds []catalog.Kind) { st.announced(m, kinds) }
	m.slot = slot.New(o)
	return m
}

// newSessionMember makes the slot of one session. It takes what the shared one
// knows of the server, and publishes nothing.
// A lane's is spoken to in the older era.
func (st *starter) newSessionMember(shared *member, session *Session, lane bool) *member {
	m := &member{name: shared.name, spec: sessionSpec(shared.spec), session: session, meter: shared.meter, memory: newMemory()}
	if e := shared.learned(); lane {
		m.spec = laneSpec(shared.spec)
	} else if e != (upstream.Era{}) {
		m.era.Store(&e)
	}
	m.digest.Store(shared.digest.Load())
	o := st.slotOptions(m, shared, nil)
	if v := shared.slot.View(); v.CatalogOf == m.spec.Identity() {
		o.Last = v.Catalog
	}
	o.Gen, o.Session = session.gens[m.name], session.Client.ID()
	o.Published = func(v *slot.View) {
		st.serves(m, v)
		if lane {
			m.laneListed(shared, v)
		}
	}
	m.slot = slot.New(o)
	return m
}

func (st *starter) slotOptions(m, shared *member, before <-chan struct{}) slot.Options {
	return slot.Options{
		Server:     m.spec,
		Dial:       st.dial(m, shared, before),
		Admit:      func(c *upstream.Call, offers *catalog.Catalog) *fault.Fault { return st.pins.admit(m, c, offers) },
		Starting:   st.starting,
		Ready:      st.credentials.ready,
		Credential: func() slot.Credential { return st.credentials.standing(m.name) },
		Hide:       st.credentials.manager.Hide,
		Watch:      st.watch(m),
		Meter:      m.meter,
		Observe:    st.opts.Observe,
		Recorder:   st.opts.Recorder,
		Emit:       st.opts.Emit,
	}
}

// sessionSpec is the configuration of a session's slot: it is there because it is
// used, whether an operator or the configuration has enabled the server, and
// what it lists is only looked at for the hints and the pins of its tools.
func sessionSpec(s config.Server) config.Server {
	s.Disabled, s.Lazy, s.IdleTimeout, s.RefreshInterval = false, false, 0, 0
	return s
}

// dial is the member's way to its next generation. shared is the member whose
// sessions it serves; nil if it is that itself.
func (st *starter) dial(m, shared *member, before <-chan struct{}) slot.Dial {
	return func(ctx context.Context, s config.Server, gen uint64, h slot.Hooks) (slot.Upstream, error) {
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if s.Command != "" && !st.processes.clean(ctx) {
			return nil, context.Cause(ctx)
		}
		heard := m.late.Load()
		m.look(s)
		up, err := st.start(ctx, st.upstreamOptions(m, s, gen, h))
		if shared != nil && s.Eras == config.ErasLegacy {
			up, err = st.older(ctx, shared, up, err)
		}
		m.refused(s, err)
		m.doubt.Store(err != nil && !m.doubt.Load() && perhapsChanged(m.known(), fault.From("start", err)))
		if err == nil {
			era := up.Info().Era // at once: the next generation may be due in a moment
			m.era.Store(&era)
			m.oneEra.Store(false)
			m.late.CompareAndSwap(heard, 0) // what was learned from an older generation has been tried
			st.subs.introduce(ctx, m, up)
		}
		return up, err
	}
}

// start starts an upstream, the real one or a test's.
func (st *starter) start(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
	if st.opts.Start != nil {
		return st.opts.Start(ctx, o)
	}
	u, err := upstream.Start(ctx, o)
	if err != nil {
		return nil, err // a nil *Upstream must not become a non-nil slot.Upstream
	}
	return u, nil
}

// upstreamOptions are what one generation is started with. What it says by
// itself goes to the session that it is for, or else to everybody.
func (st *starter) upstreamOptions(m *member, s config.Server, gen uint64, h slot.Hooks) upstream.Options {
	o := upstream.Options{
		Server:  s,
		Gen:     gen,
		Name:    st.opts.Name,
		Version: st.opts.Version,
		Era:     m.known(),
		Open:    st.opener(&s),
		Faults:  h.Faults,
		Changed: h.Changed, Announced: h.Announced,
		Stderr:  h.Stderr,
		Linked:  h.Linked,
		Failed:  h.Failed,
		Pinged:  m.meter.Pinged,
		Spawned: func(pid int) { st.processes.spawned(m.key(), pid) },
		Modern: func() {
			m.late.Store(gen)
			if m.session == nil {
				st.touch(m.name) // it is kept on disk
			}
		},
		Updated: func(uri string, params []byte) { st.subs.updated(m.slotKey(), uri, params) },
	}
	if m.session != nil {
		m.session.concern(&o)
	} else {
		o.Asked = func() { st.asked(m) }
	}
	if o.Log != nil {
		return o
	}
	o.Log = func(params []byte) {
		if st.opts.Log != nil {
			st.opts.Log(m.name, params)
		}
	}
	return o
}

// perhapsChanged tells whether a start may have failed because the server is
// not of the era that it was. Not so where none answered, or one that asks for
// something else first, or one ended that was asked nothing but initialize.
func perhapsChanged(era upstream.Era, f *fault.Fault) bool {
	if f.Op == fault.OpAuthorize {
		return false
	}
	switch f.Kind {
	case fault.Exited, fault.Broken:
		return era.Modern
	case fault.Deadline, fault.Wedged, fault.Protocol, fault.RPC, fault.NoVersion, fault.SessionSuspect:
		return true
	case fault.HTTPStatus:
		return f.Status != http.StatusUnauthorized && (f.Status < http.StatusBadGateway || f.Status > http.StatusGatewayTimeout)
	default:
		return false
	}
}

// watch is the member's slot.Options.Watch. A port is looked at while retries
// are fast; the files of a command for as long as it takes.
func (st *starter) watch(m *member) func(context.Context, config.Server, time.Time) bool {
	return func(ctx context.Context, s config.Server, lost time.Time) bool {
		l := m.lack.Load()
		often := lost.Add(s.Retry.WatchFor)
		switch {
		case l == nil || s.Retry.WatchFor <= 0:
			return false
		case l.files != nil:
			return l.files.Wait(ctx, often)
		case l.port == watch.Address{}:
			return false
		}
		ctx, cancel := context.WithDeadline(ctx, lost.Add(s.Retry.FastFor))
		defer cancel()
		return st.ports.Wait(ctx, l.port, often)
	}
}

// published is called by the slot's loop.
func (st *starter) published(m *member, v *slot.View) {
	if r := st.roster.Load(); r != nil && r.pinsOn() && v.Published() {
		m.digestOf(v.Catalog)
	}
	st.touch(m.name)
}

// announced is called by the slot's loop.
func (st *starter) announced(m *member, kinds []catalog.Kind) {
	m.announcer.say(kinds, func(kinds []catalog.Kind) {
		if st.opts.Announced != nil && st.ctx.Err() == nil && m.slot.View().Published() {
			st.opts.Announced(m.name, kinds)
		}
	})
}

// serves tells a new generation of one session what its client wants of it. It is
// called by the slot's loop.
func (st *starter) serves(m *member, v *slot.View) {
	st.pins.checkSession(m, v)
	if v.State.Serving == 0 || m.told.Swap(v.State.Serving) == v.State.Serving {
		return
	}
	st.subs.renew(m)
}
