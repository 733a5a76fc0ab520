package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/upstream"
)

// Clients have a head start before a server whose tools are listed already: a
// call ends it. A server that was never listed does not wait.
func TestClientsHaveAHeadStart(t *testing.T) {
	dir := t.TempDir()
	web := func(name string) config.Server {
		s := config.NewServer(name)
		s.URL = "http://127.0.0.1:1/mcp"
		return s
	}
	// open starts a fleet and tells when each server was dialled, after it.
	open := func(t *testing.T, call bool, names ...string) map[string]time.Duration {
		p := newPark()
		at := map[string]time.Duration{}
		cfg := configOf(names...)
		cfg.Servers = append(cfg.Servers, web("web"))
		for _, s := range cfg.Servers {
			p.add(s.Name, mcptest.Config{})
		}
		o := p.options()
		o.StateDir = dir
		var began time.Time
		o.Start = func(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
			p.mu.Lock()
			at[o.Server.Name] = time.Since(began)
			p.mu.Unlock()
			return p.start(ctx, o)
		}
		began = time.Now()
		f := start(t, cfg, o)
		defer stop(t, f)
		if call {
			time.Sleep(headStartTime / 2)
			if _, _, err := f.At(t.Context(), "a", nil); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		if f.Table().Len(catalog.Tools) == 0 {
			t.Error("no tools are listed")
		}
		return at
	}
	for _, c := range []struct {
		name  string
		call  bool
		known time.Duration
	}{
		{"first", false, 0},
		{"warm", false, headStartTime},
		{"with a call", true, headStartTime / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			names := []string{"a", "b"}
			if c.name == "warm" {
				names = append(names, "new")
			}
			at := open(t, c.call, names...)
			if at["a"] != c.known || at["b"] != c.known || at["web"] != c.known || at["new"] != 0 {
				t.Errorf("%s: dialled after %v", c.name, at)
			}
		})
	}
}
