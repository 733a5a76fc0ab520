package fleet

import (
	"context"
	"net/http"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/upstream"
)

// dial is the member's way to its next generation.
func (f *Fleet) dial(m *member, before <-chan struct{}) slot.Dial {
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
		heard := m.late.Load()
		m.look(s)
		up, err := f.start(ctx, f.upstreamOptions(m, s, gen, h))
		m.refused(s, err)
		m.doubt.Store(err != nil && !m.doubt.Load() && perhapsChanged(m.known(), fault.From("start", err)))
		if err == nil {
			era := up.Info().Era // at once: the next generation may be due in a moment
			m.era.Store(&era)
			m.late.CompareAndSwap(heard, 0) // what was learned from an older generation has been tried
			f.introduce(ctx, m, up)
		}
		return up, err
	}
}

// start starts an upstream, the real one or a test's.
func (f *Fleet) start(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
	if f.opts.Start != nil {
		return f.opts.Start(ctx, o)
	}
	u, err := upstream.Start(ctx, o)
	if err != nil {
		return nil, err // a nil *Upstream must not become a non-nil slot.Upstream
	}
	return u, nil
}

// upstreamOptions are what one generation is started with. What it says by
// itself goes to the session that it is for, or else to everybody.
func (f *Fleet) upstreamOptions(m *member, s config.Server, gen uint64, h slot.Hooks) upstream.Options {
	o := upstream.Options{
		Server:  s,
		Gen:     gen,
		Name:    f.opts.Name,
		Version: f.opts.Version,
		Era:     m.known(),
		Open:    f.opener(&s),
		Faults:  h.Faults,
		Changed: h.Changed,
		Stderr:  h.Stderr,
		Linked:  h.Linked,
		Spawned: func(pid int) { f.spawned(m.key(), pid) },
		Modern: func() {
			m.late.Store(gen)
			if m.of == nil {
				f.touched.add(m.name) // it is kept on disk
				f.poke()
			}
		},
		Updated: func(uri string, params []byte) { f.wishes.updated(m.seat(), uri, params) },
	}
	if m.of != nil {
		m.of.concern(&o)
		return o
	}
	o.Log = func(params []byte) {
		if f.opts.Log != nil {
			f.opts.Log(m.name, params)
		}
	}
	return o
}

// known is the era of the last life, which a start tries first. The start after
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

// perhapsChanged tells whether a start may have failed because the server is
// not of the era that it was. Not so where none answered, or one that asks for
// something else first, or one ended that was asked nothing but initialize.
func perhapsChanged(was upstream.Era, f *fault.Fault) bool {
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
