package fleet

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// replaceBy puts another process in the server's place.
func (p *park) replaceBy(name string, next *mcptest.Server) {
	p.mu.Lock()
	old := p.servers[name]
	p.servers[name] = next
	p.mu.Unlock()
	old.Close()
}

func refreshedEvery(d time.Duration, names ...string) *config.Config {
	cfg := configOf(names...)
	for i := range cfg.Servers {
		cfg.Servers[i].RefreshInterval = d
	}
	return cfg
}

func warnings(f *Fleet, server string) string {
	var all []string
	for _, of := range f.Slot(server).View().Catalog.Warnings {
		all = append(all, of...)
	}
	return strings.Join(all, "\n")
}

// A server that lists tools without having declared them keeps the last good
// ones over a restart that cannot list them at once, and is asked again.
func TestUndeclaredToolsOutliveOneFailure(t *testing.T) {
	for name, reply := range map[string]mcptest.Reply{
		"error":  {Error: `{"code":-32603,"message":"warming up"}`},
		"silent": {Hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPark()
				cfg := mcptest.Config{Capabilities: "{}", Tools: []string{tool("x", "")}}
				p.add("a", cfg)
				f := start(t, refreshedEvery(5*time.Minute, "a"), p.options())
				defer stop(t, f)
				time.Sleep(time.Second)
				next := mcptest.New(cfg)
				next.Next("tools/list", 1, reply)
				p.replaceBy("a", next)
				time.Sleep(time.Minute)
				if got := listed(f); !slices.Equal(got, []string{"x"}) || !strings.Contains(warnings(f, "a"), "the last good list is kept") {
					t.Errorf("after the failure: %q, warnings %q", got, warnings(f, "a"))
				}
				next.SetTools(tool("x", ""), tool("y", ""))
				time.Sleep(time.Hour)
				if got := listed(f); !slices.Equal(got, []string{"x", "y"}) || strings.Contains(warnings(f, "a"), "kept") {
					t.Errorf("an hour later: %q, warnings %q", got, warnings(f, "a"))
				}
			})
		})
	}
}

// A list whose pages go round in a circle costs neither the last good list nor
// the server that gave it (G5).
func TestFaultG5_EndlessListOfAGoodServer(t *testing.T) {
	endless := func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Result: `{"tools":[` + tool("z", "") + `],"nextCursor":"again"}`}
	}
	for name, begin := range map[string]func(p *park, s *mcptest.Server){
		"restarted": func(p *park, _ *mcptest.Server) {
			next := mcptest.New(mcptest.Config{Tools: []string{tool("x", "")}})
			next.On("tools/list", endless)
			p.replaceBy("a", next)
		},
		"announced": func(_ *park, s *mcptest.Server) {
			s.On("tools/list", endless)
			s.Notify("notifications/tools/list_changed", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPark()
				s := p.add("a", mcptest.Config{Tools: []string{tool("x", "")}})
				f := start(t, configOf("a"), p.options())
				defer stop(t, f)
				time.Sleep(time.Second)
				was := f.Slot("a").View().State.Gen
				begin(p, s)
				time.Sleep(10 * time.Minute)
				v := f.Slot("a").View()
				if v.Seen() != "connected" || v.State.Gen > was+1 || !slices.Equal(listed(f), []string{"x"}) {
					t.Errorf("%s, gen %d after %d, tools %q, cause %v", v.Seen(), v.State.Gen, was, listed(f), v.Cause)
				}
				if !strings.Contains(warnings(f, "a"), "bad pagination") {
					t.Errorf("warnings %q", warnings(f, "a"))
				}
			})
		})
	}
}

// What a list says of itself is forgotten with that list, and not with another.
func TestWarningsAndFreshnessBelongToTheirList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		s := p.add("a", mcptest.Config{
			Era: mcptest.Modern, Resources: []string{`{"uri":"file:///r","name":"r"}`},
			Tools: []string{tool("x", ""), `{"noname":1}`},
		})
		s.On("resources/list", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Result: `{"resources":[{"uri":"file:///r","name":"r"}],"ttlMs":20000,"cacheScope":"public","resultType":"complete"}`}
		})
		f := start(t, refreshedEvery(time.Hour, "a"), p.options())
		defer stop(t, f)
		time.Sleep(time.Second)
		if warnings(f, "a") == "" {
			t.Error("a tool without a name is not warned of")
		}
		s.SetTools(tool("x", ""), tool("y", ""))
		s.Notify("notifications/tools/list_changed", "")
		time.Sleep(time.Second)
		if got := warnings(f, "a"); got != "" {
			t.Errorf("the tool was repaired, and the warning is still there: %s", got)
		}
		before := s.Count("resources/list")
		time.Sleep(10 * time.Minute)
		if n := s.Count("resources/list") - before; n < 20 {
			t.Errorf("resources are fresh for 20 s, and were listed %d times in 10 min", n)
		}
	})
}
