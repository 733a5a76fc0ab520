package fleet

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/upstream"
)

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
			f := New(cfg, o)
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
	for raw, want := range map[string]upstream.Era{
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
	legacy, modern := upstream.Era{Version: "2025-11-25"}, upstream.Era{Version: "2026-07-28", Modern: true, Answered: true}
	for _, c := range []struct {
		era   *upstream.Era
		doubt bool
		want  upstream.Era
	}{
		{nil, false, upstream.Era{Modern: true}},
		{nil, true, upstream.Era{Modern: true}},
		{&legacy, false, upstream.Era{Modern: true}},
		{&legacy, true, upstream.Era{Modern: true}},
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
