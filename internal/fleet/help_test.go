package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A park is servers in memory with real upstreams, for a fleet in a bubble.
type park struct {
	mu      sync.Mutex
	servers map[string]*mcptest.Server
	down    map[string]bool
	events  []event.Event
	changed [4]int
	warned  []string
}

func newPark() *park { return &park{servers: map[string]*mcptest.Server{}, down: map[string]bool{}} }

func (p *park) add(name string, cfg mcptest.Config) *mcptest.Server {
	s := mcptest.New(cfg)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[name] = s
	return s
}

// fail takes a server down, or lets it come back as a new process.
func (p *park) fail(name string, down bool, next mcptest.Config) {
	p.mu.Lock()
	old := p.servers[name]
	p.down[name] = down
	if !down {
		p.servers[name] = mcptest.New(next)
	}
	p.mu.Unlock()
	old.Close()
}

func (p *park) start(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
	p.mu.Lock()
	srv, down := p.servers[o.Server.Name], p.down[o.Server.Name]
	p.mu.Unlock()
	if down {
		return nil, fault.New(fault.Dial, "dial", "nobody is there")
	}
	o.Open = func(_ context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
		return mcptest.OpenMemory(srv.ServeFrames, o), nil
	}
	return opened(upstream.Start(ctx, o))
}

func opened(u *upstream.Upstream, err error) (slot.Upstream, error) {
	if err != nil {
		return nil, err
	}
	return u, nil
}

func (p *park) options() Options {
	return Options{
		Name: "everline", Version: "test", Start: p.start,
		Emit: func(e event.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.events = append(p.events, e)
		},
		Changed: func(kinds []catalog.Kind) {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, k := range kinds {
				p.changed[k]++
			}
		},
		Warn: func(server, text string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.warned = append(p.warned, server+": "+text)
		},
	}
}

// count tells how many events f says yes to.
func (p *park) count(f func(event.Event) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, e := range p.events {
		if f(e) {
			n++
		}
	}
	return n
}

func (p *park) changes() [4]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func configOf(names ...string) *config.Config {
	cfg := config.New()
	for _, n := range names {
		s := config.NewServer(n)
		s.Command = "memory"
		cfg.Servers = append(cfg.Servers, s)
	}
	return cfg
}

func pinned(t *testing.T, mode config.Pins, cfg *config.Config) *config.Config {
	t.Helper()
	cfg.Pins, cfg.PinsFile = mode, filepath.Join(t.TempDir(), "everline.lock.json")
	return cfg
}

func start(t *testing.T, cfg *config.Config, o Options) *Fleet {
	t.Helper()
	lock, err := ReadPins(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o.Pins = lock
	f := New(cfg, o)
	synctest.Wait()
	return f
}

func stop(t *testing.T, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.Close(ctx); err != nil {
		t.Error(err)
	}
}

func tool(name, text string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, text)
}

func listed(f *Fleet) []string {
	var tools []struct{ Name string }
	if err := json.Unmarshal(f.Table().Array(catalog.Tools), &tools); err != nil {
		panic("bug: " + err.Error())
	}
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	return names
}
