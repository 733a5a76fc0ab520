package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/transport/stdio"
	"github.com/everline/everline/internal/upstream"
)

func seen(f *Fleet, name string) event.State { return f.Slot(name).View().Seen() }

func at(begun time.Time, d time.Duration) {
	time.Sleep(time.Until(begun.Add(d)))
	synctest.Wait()
}

// Servers that never say a word have all the places there are, and one that
// would answer does not have to wait until they are given up.
func TestStartsAreNotHeldUpByDeafServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		names := make([]string, 0, 10)
		for i := range 9 {
			names = append(names, fmt.Sprintf("deaf%d", i))
			srv := p.add(names[i], mcptest.Config{})
			for _, method := range []string{"server/discover", "initialize"} {
				srv.On(method, func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} })
			}
		}
		cfg := configOf(append(names, "good")...)
		p.add("good", mcptest.Config{})
		var deaf atomic.Int32 // that are being started
		o := p.options()
		o.Start = func(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
			if o.Server.Name != "good" {
				deaf.Add(1)
			}
			return p.start(ctx, o)
		}
		begun := time.Now()
		f := start(t, cfg, o)
		defer stop(t, f)
		if n := deaf.Load(); n != 8 {
			t.Errorf("%d starts at a time, want 8", n)
		}
		at(begun, 300*time.Millisecond)
		if s := seen(f, "good"); s != "connected" {
			t.Errorf("the good server is %s", s)
		}
	})
}

// Fifty slow servers come up side by side, and no more than eight begin at the
// same moment.
func TestStartOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		var names []string
		for i := range 50 {
			name := fmt.Sprintf("s%02d", i)
			names = append(names, name)
			p.add(name, mcptest.Config{})
		}
		begins := map[time.Duration]int{}
		o := p.options()
		var begun time.Time
		o.Start = func(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
			p.mu.Lock()
			begins[time.Since(begun)]++
			p.mu.Unlock()
			time.Sleep(5 * time.Second) // npx downloads
			return p.start(ctx, o)
		}
		begun = time.Now()
		f := start(t, configOf(names...), o)
		defer stop(t, f)
		last := 6 * 300 * time.Millisecond // the seventh batch of eight
		at(begun, last+5*time.Second)
		for _, name := range names {
			if s := seen(f, name); s != "connected" {
				t.Errorf("%s is %s", name, s)
			}
		}
		for when, n := range begins {
			if n > 8 {
				t.Errorf("%d starts after %v", n, when)
			}
		}
	})
}

// A command that is not there yet is looked for slowly, and found once it is
// installed, without anybody doing anything.
func TestFaultD5_E7_MissingCommandIsPickedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("tool", mcptest.Config{})
		path := filepath.Join(t.TempDir(), "tool")
		var tries atomic.Int64
		o := p.options()
		o.Start = func(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
			tries.Add(1)
			if _, err := os.Stat(path); err != nil { // the real refusal, of the real transport
				return nil, fault.From("start", missing(ctx, path))
			}
			return p.start(ctx, o)
		}
		begun := time.Now()
		f := start(t, configOf("tool"), o)
		defer stop(t, f)
		at(begun, time.Minute)
		if tries.Load() != 1 || seen(f, "tool") == "connected" {
			t.Errorf("%d tries within a minute, %s", tries.Load(), seen(f, "tool"))
		}
		if cause := f.Slot("tool").View().Cause; cause == nil || cause.Kind != fault.Missing || cause.Remedy == "" {
			t.Errorf("%#v", cause)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // must be executable
			t.Fatal(err)
		}
		at(begun, 11*time.Minute)
		if seen(f, "tool") != "connected" {
			t.Errorf("still %s after %d tries", seen(f, "tool"), tries.Load())
		}
	})
}

func missing(ctx context.Context, path string) error {
	conn, err := stdio.Open(ctx, stdio.Spec{Command: path}, transport.Options{Inbound: func(transport.Inbound) {}})
	if err == nil {
		_ = conn.Close(ctx)
	}
	return err
}

// Servers start while the fleet is still being made of its configuration.
func TestSandboxedServersStartWhileTheFleetIsMade(t *testing.T) {
	cfg := config.New()
	for i := range 100 {
		s := config.NewServer(fmt.Sprint("s", i))
		s.Command, s.Sandbox = "/no/such/command", &config.Sandbox{}
		cfg.Servers = append(cfg.Servers, s)
	}
	f := New(cfg, Options{Name: "everline", Version: "test"})
	if n := len(f.Names()); n != 100 {
		t.Errorf("%d servers", n)
	}
	stop(t, f)
}

// The first process of a server that comes with a configuration is denied what that
// says is everline's own, however early it starts.
func TestSandboxesOfANewConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("old", mcptest.Config{})
		p.add("new", mcptest.Config{})
		sandboxed := func(audit string, names ...string) *config.Config {
			cfg := configOf(names...)
			cfg.Audit.Path = audit
			for i := range cfg.Servers {
				cfg.Servers[i].Sandbox = &config.Sandbox{}
			}
			return cfg
		}
		const newer = "/var/log/newer.jsonl"
		next := sandboxed(newer, "old", "new")
		var f *Fleet
		denied, comes := false, 0
		o := p.options()
		o.Emit = func(e event.Event) {
			if e.About().Server == "new" { // the first comes before its start
				comes++
				denied = slices.Contains(f.starter.rules(&next.Servers[1]).Denied, newer) && (comes == 1 || denied)
			}
		}
		f = start(t, sandboxed("/var/log/older.jsonl", "old"), o)
		defer stop(t, f)
		if _, err := f.Apply(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if comes == 0 || !denied {
			t.Errorf("%d events, denied: %t", comes, denied)
		}
	})
}
