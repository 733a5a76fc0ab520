package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
)

// A chaos is a random run over many servers. Each version of a server's tools
// is named after it, so that what is published tells which listing it is of.
type chaos struct {
	t    *testing.T
	p    *park
	f    *Fleet
	rand *rand.Rand

	mu      sync.Mutex    // guards sizes and shown
	version []int         // what each server offers now
	size    []int         // how many tools that is
	sizes   []map[int]int // of every version ever
	down    []bool
	shown   []int       // the newest version that was seen published; 0 none
	empty   []time.Time // when each server was last made to answer with an empty list
}

const chaosServers = 20

func (c *chaos) config(i int) mcptest.Config {
	return mcptest.Config{Tools: c.tools(i), PageSize: 3}
}

func (c *chaos) tools(i int) []string {
	tools := []string{}
	for n := range c.size[i] {
		tools = append(tools, tool(fmt.Sprintf("v%d_%d", c.version[i], n), "x"))
	}
	return tools
}

// change gives a server another version of its tools.
func (c *chaos) change(i int) {
	c.version[i]++
	c.size[i] = 1 + c.rand.IntN(8)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes[i][c.version[i]] = c.size[i]
}

func (c *chaos) name(i int) string { return fmt.Sprintf("s%d", i) }

func (c *chaos) server(i int) *mcptest.Server {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.p.servers[c.name(i)]
}

// empties answers one listing with an empty list. One alone is not believed;
// two in a row would be, as they must.
func (c *chaos) empties(i int, s *mcptest.Server) {
	if time.Since(c.empty[i]) < time.Minute {
		return
	}
	c.empty[i] = time.Now()
	var once atomic.Bool
	result := []string{`{"tools":[]}`, `{"tools":null}`}[c.rand.IntN(2)]
	s.On("tools/list", func(r *mcptest.Request) *mcptest.Reply {
		if strings.Contains(string(r.Params), "cursor") || once.Swap(true) {
			return nil
		}
		return &mcptest.Reply{Result: result}
	})
}

// faults are what a page of a listing may be answered with.
var faults = []mcptest.Reply{
	{Error: `{"code":-32603,"message":"broken"}`},
	{Result: `{"tools":"none"}`},
	{Result: `{"tools":[],"nextCursor":"bm9uZQ"}`},
	{Raw: `{"jsonrpc":"2.0","id":"nobody","result":{}}`, Hang: true},
	{Exit: true},
}

// step lets one thing happen, between listings: what a server lists while it
// changes may be a part of each, and everline cannot tell.
func (c *chaos) step() {
	synctest.Wait()
	i := c.rand.IntN(chaosServers)
	s := c.server(i)
	switch c.rand.IntN(8) {
	case 0, 1:
		c.change(i)
		s.SetTools(c.tools(i)...)
		s.Notify("notifications/tools/list_changed", "")
	case 2: // on some page of the next listings
		s.Next("tools/list", c.rand.IntN(2), mcptest.Reply{})
		s.Next("tools/list", 1+c.rand.IntN(2), faults[c.rand.IntN(len(faults))])
		s.Notify("notifications/tools/list_changed", "")
	case 3:
		c.down[i] = true
		c.p.fail(c.name(i), true, mcptest.Config{})
	case 4:
		if c.rand.IntN(2) == 0 {
			c.change(i)
		}
		c.down[i] = false
		c.p.fail(c.name(i), false, c.config(i))
	case 5: // a storm
		for range 20 {
			s.Notify("notifications/tools/list_changed", "")
		}
	case 6:
		c.empties(i, s)
		s.Notify("notifications/tools/list_changed", "")
	case 7:
		c.change(i) // and says nothing
		s.SetTools(c.tools(i)...)
	}
	time.Sleep(time.Duration(c.rand.IntN(2000)) * time.Millisecond)
}

// check proves that the table is the merge of complete catalogs, none of which
// is older than what was published before.
func (c *chaos) check(table *catalog.Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]map[string]int{}
	var tools []struct{ Name string }
	if err := json.Unmarshal(table.Array(catalog.Tools), &tools); err != nil {
		c.t.Errorf("not JSON: %v", err)
		return
	}
	for _, tl := range tools {
		server, own, _ := strings.Cut(tl.Name, "__")
		version, _, _ := strings.Cut(own, "_")
		if seen[server] == nil {
			seen[server] = map[string]int{}
		}
		seen[server][version]++
	}
	for i := range chaosServers {
		versions := seen[c.name(i)]
		if len(versions) == 0 && c.shown[i] == 0 {
			continue
		}
		if len(versions) != 1 {
			c.t.Errorf("%s publishes parts of %d catalogs: %v", c.name(i), len(versions), versions)
			continue
		}
		for word, n := range versions {
			var version int
			fmt.Sscanf(word, "v%d", &version)
			if want := c.sizes[i][version]; n != want || version < c.shown[i] {
				c.t.Errorf("%s publishes %d of %d tools of version %d after version %d", c.name(i), n, want, version, c.shown[i])
			}
			c.shown[i] = version
		}
	}
}

func TestRandomListFaultsNeverPublishAPart(t *testing.T) {
	steps := 300
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			c := &chaos{t: t, p: newPark(), rand: rand.New(rand.NewPCG(seed, 7)), shown: make([]int, chaosServers), empty: make([]time.Time, chaosServers)}
			c.version, c.size, c.down = make([]int, chaosServers), make([]int, chaosServers), make([]bool, chaosServers)
			var names []string
			for i := range chaosServers {
				c.sizes = append(c.sizes, map[int]int{})
				c.change(i)
				c.p.add(c.name(i), c.config(i))
				names = append(names, c.name(i))
			}
			o := c.p.options()
			var published atomic.Int32
			var over atomic.Bool
			ready := make(chan struct{})
			count := o.Changed
			o.Changed = func(kinds []catalog.Kind) { // at every publish, by the merge loop
				count(kinds)
				<-ready
				if !over.Load() { // closing unpublishes all
					published.Add(1)
					c.check(c.f.Table())
				}
			}
			cfg := configOf(names...)
			for i := range cfg.Servers {
				cfg.Servers[i].StartupTimeout = 5 * time.Second
			}
			c.f = New(cfg, o)
			close(ready)
			for range steps {
				c.step()
			}
			for i := range chaosServers { // all is repaired
				c.p.fail(c.name(i), false, c.config(i))
			}
			time.Sleep(15 * time.Minute)
			synctest.Wait()
			c.check(c.f.Table())
			for i := range chaosServers {
				if c.shown[i] != c.version[i] {
					t.Errorf("%s ends with version %d, the truth is %d", c.name(i), c.shown[i], c.version[i])
				}
			}
			if n := int(published.Load()); n < steps/6 {
				t.Errorf("only %d publishes in %d steps: the run proves little", n, steps)
			}
			over.Store(true)
			stop(t, c.f)
		})
	}
}
