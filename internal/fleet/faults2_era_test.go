package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// byEra starts processes in memory that go by what the fleet knows of their era.
func byEra(f **Fleet, p *park) func(string, slot.Dial) slot.Dial {
	return func(name string, _ slot.Dial) slot.Dial {
		return func(ctx context.Context, s config.Server, gen uint64, h slot.Hooks) (slot.Upstream, error) {
			u, err := upstream.Start(ctx, upstream.Options{
				Server: s, Gen: gen, Name: "everline", Version: "test", Modern: h.Modern,
				Era: (*f).roster.Load().byName[name].known(),
				Open: func(_ context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
					p.mu.Lock()
					defer p.mu.Unlock()
					return transport.OpenMemory(p.servers[name].ServeFrames, o), nil
				},
			})
			if err != nil {
				return nil, err
			}
			return u, nil
		}
	}
}

// W4: ten processes of both eras that are slow to start, of which two may start
// at a time. The generation after the late answer is modern, be it by a
// reconnect or after a restart of everline.
func TestFaultW4ManySlowStarts(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	dir := t.TempDir()
	run := func(t *testing.T, wantModern bool, body func(t *testing.T, f *Fleet)) {
		synctest.Test(t, func(t *testing.T) {
			p := newPark()
			for _, n := range names {
				p.add(n, mcptest.Config{Era: mcptest.Dual, StartDelay: 3 * time.Second})
			}
			cfg := configOf(names...)
			cfg.MaxStarting = 2
			o := p.options()
			o.StateDir = dir
			hold := make(chan struct{})
			var f *Fleet
			start := byEra(&f, p)
			o.Dial = func(name string, d slot.Dial) slot.Dial {
				dial := start(name, d)
				return func(ctx context.Context, s config.Server, gen uint64, h slot.Hooks) (slot.Upstream, error) {
					<-hold // until f is set
					return dial(ctx, s, gen, h)
				}
			}
			f = New(cfg, o)
			close(hold)
			defer stop(t, f)
			time.Sleep(time.Minute)
			erasAre(t, f, names, wantModern)
			if body != nil {
				body(t, f)
			}
		})
	}
	run(t, false, func(t *testing.T, f *Fleet) {
		for _, n := range names[:5] {
			if err := f.Slot(n).Reconnect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		erasAre(t, f, names[:5], true)
		erasAre(t, f, names[5:], false)
	})
	run(t, true, nil)
}

func erasAre(t *testing.T, f *Fleet, names []string, modern bool) {
	t.Helper()
	for _, n := range names {
		if v := f.Slot(n).View(); v.State.Serving == 0 || v.Info.Era.Modern != modern {
			t.Errorf("%s: serving %d, era %+v", n, v.State.Serving, v.Info.Era)
		}
	}
}

// W4: what an earlier version has kept does not say what it rests on. A modern
// era was always answered; a legacy one is asked for anew.
func TestFaultW4WhatEarlierVersionsKept(t *testing.T) {
	for raw, want := range map[string]slot.Era{
		`{"Transport":0,"Version":"2025-11-25","Modern":false}`:                 {},
		`{"Transport":0,"Version":"2026-07-28","Modern":true}`:                  {Version: "2026-07-28", Modern: true},
		`{"Transport":0,"Version":"2025-11-25","Modern":false,"Answered":true}`: {Version: "2025-11-25", Answered: true},
		`{"Transport":0,"Version":"","Modern":true,"Answered":false}`:           {Modern: true},
		`"legacy"`: {},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPark()
			p.add("a", mcptest.Config{})
			p.down["a"] = true
			o := p.options()
			o.StateDir = t.TempDir()
			cfg := configOf("a")
			store := catalog.Store{Dir: o.StateDir}
			if err := store.Save(cfg.Servers[0].Identity(), catalog.Saved{Gen: 3, Era: json.RawMessage(raw)}); err != nil {
				t.Fatal(err)
			}
			f := start(t, cfg, o)
			defer stop(t, f)
			if got := f.roster.Load().byName["a"].known(); got != want {
				t.Errorf("%s: known is %+v", raw, got)
			}
		})
	}
}

// W4: a late answer counts also where the start that it came in has failed, or
// nothing else is known; and never less than a modern era.
func TestFaultW4ALateAnswerCounts(t *testing.T) {
	legacy, modern := slot.Era{Version: "2025-11-25"}, slot.Era{Version: "2026-07-28", Modern: true, Answered: true}
	for _, c := range []struct {
		era   *slot.Era
		doubt bool
		want  slot.Era
	}{
		{nil, false, slot.Era{Modern: true}},
		{nil, true, slot.Era{Modern: true}},
		{&legacy, false, slot.Era{Modern: true}},
		{&legacy, true, slot.Era{Modern: true}},
		{&modern, false, modern},
	} {
		m := &member{memory: &memory{}}
		m.era.Store(c.era)
		m.doubt.Store(c.doubt)
		m.late.Store(7)
		if got := m.known(); got != c.want {
			t.Errorf("%+v, doubt %v: %+v", c.era, c.doubt, got)
		}
	}
}
