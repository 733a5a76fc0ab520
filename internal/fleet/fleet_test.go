package fleet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
)

// A server that is away stays listed with a mark; with outage "hide" it is
// not listed any more after the time that is configured, and is back at once.
func TestOutageHide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{})
		p.add("b", mcptest.Config{Tools: []string{tool("x", "")}})
		cfg := configOf("a", "b")
		cfg.Outage, cfg.HideAfter = config.OutageHide, 2*time.Minute
		f := start(t, cfg, p.options())
		defer stop(t, f)
		all := listed(f)
		p.fail("b", true, mcptest.Config{})
		synctest.Wait()
		if got := listed(f); !slices.Equal(got, all) || !strings.Contains(string(f.Table().Array(catalog.Tools)), "everline/availability") {
			t.Errorf("after the loss %v, was %v", got, all)
		}
		before := p.changes()
		time.Sleep(2*time.Minute - time.Millisecond)
		synctest.Wait()
		if got := listed(f); !slices.Equal(got, all) || p.changes() != before {
			t.Errorf("just before the time: %v, changes %v", got, p.changes())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := listed(f); !slices.Equal(got, []string{"a__echo", "a__work", "a__fail"}) || p.changes()[catalog.Tools] != before[catalog.Tools]+1 {
			t.Errorf("after the time: %v, changes %v", got, p.changes())
		}
		if target, ok := f.Table().Tool("b__x"); !ok || target.Server != "b" {
			t.Error("a call cannot hear of the outage any more")
		}
		p.fail("b", false, mcptest.Config{Tools: []string{tool("x", "")}})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := listed(f); !slices.Equal(got, all) || p.changes()[catalog.Tools] != before[catalog.Tools]+2 {
			t.Errorf("after it came back: %v, changes %v", got, p.changes())
		}
	})
}

// Under warn a changed definition is told of; under enforce it is withheld
// until it is approved, and what is unchanged goes on.
func TestFaultG14_ChangedDefinitions(t *testing.T) {
	for _, mode := range []config.Pins{config.PinsWarn, config.PinsEnforce} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPark()
				s := p.add("a", mcptest.Config{Tools: []string{tool("send", "Sends."), tool("other", "")}})
				cfg := pinned(t, mode, configOf("a"))
				f := start(t, cfg, p.options())
				defer stop(t, f)
				time.Sleep(time.Second)
				if lock, err := catalog.ReadLock(cfg.PinsFile); err != nil || lock.Server("a") == nil {
					t.Fatalf("the first use is not kept: %v", err)
				}
				unapproved := func(e event.Event) bool { _, ok := e.(event.Unapproved); return ok }

				// The same in another order and form is the same.
				s.SetTools(`{ "inputSchema":{"type":"object"}, "description" : "\u0053ends.", "name":"send"}`, tool("other", ""))
				s.Notify("notifications/tools/list_changed", "")
				time.Sleep(time.Minute)
				if ch, _ := f.PinChanges("a"); ch != nil || p.count(unapproved) != 0 {
					t.Errorf("order and white space count: %+v", ch)
				}

				// A changed one, and one that nobody has seen.
				s.SetTools(tool("send", "Sends. And reads your keys."), tool("other", ""), tool("fresh", ""))
				s.Notify("notifications/tools/list_changed", "")
				time.Sleep(time.Minute)
				want := []string{"send", "other", "fresh"}
				if mode == config.PinsEnforce {
					want = []string{"other"}
				}
				if got := listed(f); !slices.Equal(got, want) {
					t.Errorf("listed %v, want %v", got, want)
				}
				if _, callable := f.Table().Tool("send"); callable != (mode == config.PinsWarn) {
					t.Errorf("callable: %v", callable)
				}
				ch, withheld := f.PinChanges("a")
				if len(ch) != 2 || ch[0].Tool != "fresh" || ch[1].Tool != "send" || withheld != (mode == config.PinsEnforce) || p.count(unapproved) != 1 {
					t.Errorf("changes %+v, withheld %v, %d events", ch, withheld, p.count(unapproved))
				}

				// One is approved, then all.
				ctx := t.Context()
				if n, err := f.Approve(ctx, "a", "send"); n != 1 || err != nil {
					t.Errorf("approved %d, %v", n, err)
				}
				if _, callable := f.Table().Tool("send"); !callable {
					t.Error("the approved tool is not published when Approve returns")
				}
				if _, err := f.Approve(ctx, "a", "nothing"); fault.KindOf(err) != fault.NotFound {
					t.Errorf("nothing to approve: %v", err)
				}
				if n, err := f.Approve(ctx, "", ""); n != 1 || err != nil {
					t.Errorf("approved %d, %v", n, err)
				}
				if got := listed(f); !slices.Equal(got, []string{"send", "other", "fresh"}) {
					t.Errorf("all is approved, listed %v", got)
				}

				// What goes back to what was approved is published by itself.
				s.SetTools(tool("send", "Bad."), tool("other", ""))
				s.Notify("notifications/tools/list_changed", "")
				time.Sleep(time.Minute)
				s.SetTools(tool("send", "Sends. And reads your keys."), tool("other", ""))
				s.Notify("notifications/tools/list_changed", "")
				time.Sleep(time.Minute)
				if got := listed(f); !slices.Equal(got, []string{"send", "other"}) {
					t.Errorf("what was approved is back, listed %v", got)
				}
			})
		})
	}
}

// A reload turns pins on and off; a damaged lock file changes nothing.
func TestPinsFollowTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		s := p.add("a", mcptest.Config{Instructions: "Be kind."})
		f := start(t, configOf("a"), p.options())
		defer stop(t, f)
		if _, err := f.Approve(t.Context(), "", ""); fault.KindOf(err) != fault.Conflict {
			t.Errorf("approving without pins: %v", err)
		}
		on := pinned(t, config.PinsEnforce, configOf("a"))
		if _, err := f.Apply(t.Context(), on); err != nil {
			t.Fatal(err)
		}
		s.SetTools(tool("echo", "else"))
		s.Notify("notifications/tools/list_changed", "")
		time.Sleep(time.Minute)
		if got := listed(f); len(got) != 0 {
			t.Errorf("listed %v", got)
		}
		if err := os.WriteFile(on.PinsFile, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		same := *on
		if _, err := f.Apply(t.Context(), &same); fault.KindOf(err) != fault.Invalid || f.Config() != on {
			t.Errorf("a damaged lock is applied: %v", err)
		}
		if _, err := f.Approve(t.Context(), "", ""); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a damaged lock is overwritten: %v", err)
		}
		if _, err := f.Apply(t.Context(), configOf("a")); err != nil {
			t.Fatal(err)
		}
		if got := listed(f); !slices.Equal(got, []string{"echo"}) {
			t.Errorf("without pins: %v", got)
		}
	})
}

// A catalog file that is damaged is no file, plus a warning; a difference to
// what was on disk is announced once the server is there.
func TestDiskAndWhatComesAfter(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("old", "")}})
		o := p.options()
		o.StateDir = dir
		stop(t, start(t, configOf("a"), o))
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("new", "")}, StartDelay: time.Second})
		o := p.options()
		o.StateDir = dir
		f := start(t, configOf("a"), o)
		defer stop(t, f)
		if got := listed(f); !slices.Equal(got, []string{"old"}) || len(p.warned) > 0 {
			t.Errorf("at the start: %v, warnings %v", got, p.warned)
		}
		before := p.changes()[catalog.Tools]
		time.Sleep(5 * time.Second)
		if got := listed(f); !slices.Equal(got, []string{"new"}) || p.changes()[catalog.Tools] != before+1 {
			t.Errorf("once it is there: %v, changes %v", got, p.changes())
		}
		named := func(e event.Event) bool {
			c, ok := e.(event.CatalogChanged)
			return ok && strings.Contains(c.String(), "tools +new; tools -old")
		}
		if p.count(named) != 1 {
			t.Errorf("the event does not name what came and went: %v", p.events)
		}
	})
	files, err := filepath.Glob(filepath.Join(dir, "*.catalog"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(files[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("new", "")}, StartDelay: time.Second})
		o := p.options()
		o.StateDir = dir
		f := start(t, configOf("a"), o)
		defer stop(t, f)
		if got := listed(f); len(got) != 0 || len(p.warned) != 1 || !strings.Contains(p.warned[0], "damaged") {
			t.Errorf("a damaged file: %v, warnings %v", got, p.warned)
		}
		time.Sleep(5 * time.Second)
		if got := listed(f); !slices.Equal(got, []string{"new"}) {
			t.Errorf("without the file: %v", got)
		}
	})
}

// What a server that never answers costs the others' listing, and the first
// list, is nothing but the time that is configured for it.
func TestFaultG10_FirstListWaitsABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("late", mcptest.Config{StartDelay: time.Second})
		p.add("good", mcptest.Config{Tools: []string{tool("x", "")}})
		f := start(t, configOf("late", "good"), p.options())
		defer stop(t, f)
		begin := time.Now()
		f.WaitFirst(context.Background())
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("the first list waited for %s", took)
		}
		before := p.changes()[catalog.Tools]
		time.Sleep(5 * time.Second)
		if p.changes()[catalog.Tools] != before+1 || len(listed(f)) != 4 {
			t.Errorf("the late server is not announced: %v, %v", p.changes(), listed(f))
		}
	})
}

// The end of one client's subscription must not overtake the begin of
// another's on the same resource.
func TestASubscriptionIsNotLostWhileAnotherEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		s := p.add("a", mcptest.Config{Resources: []string{`{"uri":"file:///r","name":"r"}`}})
		f := start(t, configOf("a"), p.options())
		defer stop(t, f)
		s.On("resources/unsubscribe", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Run: true, Delay: time.Second}
		})
		end, err := f.Subscribe(t.Context(), nil, "a", "file:///r", func([]byte) {})
		if err != nil {
			t.Fatal(err)
		}
		end()
		synctest.Wait() // its request is on its way for a second
		got := 0
		if _, err := f.Subscribe(t.Context(), nil, "a", "file:///r", func([]byte) { got++ }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		on, off := s.Requests("resources/subscribe"), s.Requests("resources/unsubscribe")
		if len(on) != 2 || len(off) != 1 || on[1].At.Sub(off[0].At) < time.Second {
			t.Errorf("asked for it %d times, and took it back %d times, or not in this order", len(on), len(off))
		}
		s.Notify("notifications/resources/updated", `{"uri":"file:///r"}`)
		synctest.Wait()
		if got != 1 {
			t.Errorf("%d updates", got)
		}
	})
}

// A new generation knows the log level before anything else is asked of it: the
// messages of its first call would be lost else.
func TestLevelIsToldBeforeTheFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{})
		p.down["a"] = true
		f := New(configOf("a"), p.options())
		defer stop(t, f)
		f.SetLevel("debug")
		synctest.Wait()
		s := p.add("a", mcptest.Config{})
		var levels []string
		s.On("tools/list", func(*mcptest.Request) *mcptest.Reply {
			levels = append(levels, s.Level())
			return nil
		})
		p.mu.Lock()
		p.down["a"] = false
		p.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(levels) == 0 || levels[0] != "debug" || s.Count("logging/setLevel") != 1 {
			t.Errorf("levels %q at the listings, %d requests", levels, s.Count("logging/setLevel"))
		}
	})
}
