package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// A reader is a client as clients are: it lists when it connects and whenever
// it is told that the tools have changed, and believes what it has.
type reader struct {
	session *mcp.ClientSession
	told    chan struct{} // one slot: changes that come together are one
	mu      sync.Mutex    // guards names
	names   []string
}

func newReader(t *testing.T, tr mcp.Transport, version string) *reader {
	t.Helper()
	r := &reader{told: make(chan struct{}, 1)}
	client := mcp.NewClient(&mcp.Implementation{Name: "reader", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case r.told <- struct{}{}:
			default:
			}
		},
	})
	session, err := client.Connect(t.Context(), tr, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	r.session = session
	r.told <- struct{}{}
	return r
}

// read lists whenever it is told to, until ctx ends.
func (r *reader) read(ctx context.Context) error {
	for {
		select {
		case <-r.told:
		case <-ctx.Done():
			return nil
		}
		res, err := r.session.ListTools(ctx, nil)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		var names []string
		for _, tool := range res.Tools {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		r.mu.Lock()
		r.names = names
		r.mu.Unlock()
	}
}

func (r *reader) has(names []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Equal(r.names, names)
}

// A crowd is twenty servers whose tools change, and fail to be listed, at random.
type crowd struct {
	rand    *rand.Rand
	servers []*mcptest.Server
	version []int
}

func (c *crowd) name(i int) string { return fmt.Sprintf("s%d", i) }

// change gives a server other tools; whether it says so is up to the caller.
func (c *crowd) change(i int) {
	c.version[i]++
	var tools []string
	for n := range 1 + c.version[i]%3 {
		tools = append(tools, fmt.Sprintf(`{"name":"v%d_%d","inputSchema":{"type":"object"}}`, c.version[i], n))
	}
	c.servers[i].SetTools(tools...)
}

func (c *crowd) truth() (names []string) {
	for i := range c.servers {
		for n := range 1 + c.version[i]%3 {
			names = append(names, fmt.Sprintf("%s__v%d_%d", c.name(i), c.version[i], n))
		}
	}
	slices.Sort(names)
	return names
}

const changed = "notifications/tools/list_changed"

func (c *crowd) step() {
	i := c.rand.IntN(len(c.servers))
	s := c.servers[i]
	switch c.rand.IntN(6) {
	case 0, 1:
		c.change(i)
		s.Notify(changed, "")
	case 2:
		s.DropSessions()
	case 3: // what happens in the gap is not announced
		s.CutStreams()
		c.change(i)
	case 4:
		s.Next("tools/list", 1, []mcptest.Reply{
			{Error: `{"code":-32603,"message":"broken"}`}, {Result: `{"tools":"none"}`}, {Cut: true}, {Status: 503}, {Result: `{"tools":[]}`},
		}[c.rand.IntN(5)])
		c.change(i)
		s.Notify(changed, "")
	case 5:
		for range 50 {
			s.Notify(changed, "")
		}
	}
}

// However servers fail and change, every client of every version ends with
// the tools that there are, with nothing but what it was told.
func TestEveryClientEndsWithTheTruth(t *testing.T) {
	c := &crowd{rand: rand.New(rand.NewPCG(7, 11)), version: make([]int, 20)}
	var servers []config.Server
	for i := range c.version {
		c.servers = append(c.servers, mcptest.New(mcptest.Config{Era: []mcptest.Era{mcptest.Legacy, mcptest.Modern}[i%2], PageSize: 2}))
		c.change(i)
		cfg := config.NewServer(c.name(i))
		cfg.Transport, cfg.URL = "http", mcptest.Web(t, c.servers[i]).URL+"/mcp"
		cfg.Retry.FirstDelay, cfg.Retry.MaxDelay, cfg.Retry.FastFor = 5*time.Millisecond, 100*time.Millisecond, time.Hour
		servers = append(servers, cfg)
	}
	site := wholeOf(t, servers...)
	var readers []*reader
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		readers = append(readers, newReader(t, &mcp.StreamableClientTransport{Endpoint: site.url + "/mcp", HTTPClient: site.web}, version))
	}
	readers = append(readers, newReader(t, &mcp.SSEClientTransport{Endpoint: site.url + "/sse", HTTPClient: site.web}, "2024-11-05"))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, r := range readers {
		all.Go(func() {
			if err := r.read(ctx); err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for range 200 {
		c.step()
		<-pause.C
	}
	for i, s := range c.servers { // the last word of each
		c.change(i)
		s.CutStreams()
	}
	truth := c.truth()
	for i, r := range readers {
		eventually(t, fmt.Sprintf("reader %d has the truth", i), func() bool { return r.has(truth) })
	}
	cancel()
	all.Wait()
	for _, r := range readers {
		_ = r.session.Close() // the test's end would close it as well
	}
}
