package fleet

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/upstream"
)

// keptIn runs a fleet over a state folder in a bubble of its own.
func keptIn(t *testing.T, dir string, cfg *config.Config, up bool, body func(t *testing.T, f *Fleet, p *park)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("drop_table", "")}})
		p.down["a"] = !up
		o := p.options()
		o.StateDir = dir
		f := start(t, cfg, o)
		defer stop(t, f)
		body(t, f, p)
	})
}

func withArgs(args ...string) *config.Config {
	cfg := configOf("a")
	cfg.Servers[0].Args = args
	return cfg
}

// What the last server offered is not kept as what the new one offers, which
// has not come up yet; nor is that lost which the new one offered in an earlier run.
func TestACatalogIsKeptForTheServerThatListedIt(t *testing.T) {
	dir := t.TempDir()
	changeTo := func(args ...string) func(t *testing.T, f *Fleet, p *park) {
		return func(t *testing.T, f *Fleet, p *park) {
			time.Sleep(time.Second)
			p.fail("a", true, mcptest.Config{})
			if _, err := f.Apply(t.Context(), withArgs(args...)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if got := listed(f); len(got) != 1 {
				t.Errorf("until the new one is up it lists %v", got)
			}
		}
	}
	keptIn(t, dir, withArgs(), true, changeTo("new"))
	keptIn(t, dir, withArgs("new"), false, func(t *testing.T, f *Fleet, _ *park) {
		if got := listed(f); len(got) != 0 {
			t.Errorf("a server that never answered offers %v", got)
		}
	})
	keptIn(t, dir, withArgs("newer"), true, func(*testing.T, *Fleet, *park) { time.Sleep(time.Second) })
	keptIn(t, dir, withArgs(), true, changeTo("newer"))
	saved, err := (&catalog.Store{Dir: dir}).Load(withArgs("newer").Servers[0].Identity())
	if err != nil || saved == nil || saved.Catalog == nil {
		t.Errorf("what an earlier run has listed is lost: %v %v", saved, err)
	}
}

// The generations of a server that never listed anything are kept as well.
func TestGenerationsOfAServerThatNeverListed(t *testing.T) {
	dir := t.TempDir()
	var last uint64
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			p := newPark()
			p.add("a", mcptest.Config{})
			p.down["a"] = true
			o := p.options()
			o.StateDir = dir
			f := start(t, configOf("a"), o)
			defer stop(t, f)
			first := f.Slot("a").View().State.Gen
			if first <= last {
				t.Errorf("generation %d after %d", first, last)
			}
			time.Sleep(time.Minute)
			last = f.Slot("a").View().State.Gen
		})
	}
}

// Nothing is kept of servers that were removed, or whose command is another one.
func TestNothingIsKeptOfServersThatAreGone(t *testing.T) {
	dir := t.TempDir()
	files := func(t *testing.T) (names []string) {
		t.Helper()
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.Type().IsRegular() && len(e.Name()) > 8 && e.Name()[len(e.Name())-8:] == ".catalog" {
				names = append(names, e.Name())
			}
		}
		return names
	}
	keptIn(t, dir, withArgs(), true, func(t *testing.T, f *Fleet, _ *park) {
		time.Sleep(time.Second)
		first := files(t)
		if _, err := f.Apply(t.Context(), withArgs("new")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if second := files(t); len(first) != 1 || len(second) != 1 || slices.Equal(first, second) {
			t.Errorf("kept: %v, then %v", first, second)
		}
		if _, err := f.Apply(t.Context(), configOf()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if third := files(t); len(third) != 0 {
			t.Errorf("kept of a server that was removed: %v", third)
		}
	})
}

// What another server has listed is not the last good list of the one in its
// place, whatever that one's own listing is worth.
func TestAnotherServersListIsNobodysLastGood(t *testing.T) {
	endless := func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Result: `{"tools":[` + tool("z", "") + `],"nextCursor":"again"}`}
	}
	failing := func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Error: `{"code":-32603,"message":"warming up"}`}
	}
	for name, c := range map[string]struct {
		cfg  mcptest.Config
		list func(*mcptest.Request) *mcptest.Reply
		want []string
	}{
		"endless":    {mcptest.Config{}, endless, []string{"z"}},
		"undeclared": {mcptest.Config{Capabilities: "{}"}, failing, nil},
	} {
		t.Run(name, func(t *testing.T) {
			keptIn(t, t.TempDir(), withArgs(), true, func(t *testing.T, f *Fleet, p *park) {
				time.Sleep(time.Second)
				next := mcptest.New(c.cfg)
				next.On("tools/list", c.list)
				p.replaceBy("a", next)
				if _, err := f.Apply(t.Context(), withArgs("new")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if got := listed(f); !slices.Equal(got, c.want) {
					t.Errorf("it lists %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A change that never came up costs nothing of what was kept before it.
func TestWhatWasKeptOutlivesAChangeThatFails(t *testing.T) {
	dir := t.TempDir()
	keptIn(t, dir, withArgs(), true, func(*testing.T, *Fleet, *park) { time.Sleep(time.Second) })
	keptIn(t, dir, withArgs(), false, func(t *testing.T, f *Fleet, _ *park) {
		before := f.roster.Load().byName["a"]
		if _, err := f.Apply(t.Context(), withArgs("typo")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()                             // the saver waits
		f.keeper.saveOne(map[string]kept{}, before) // what it does if the change comes in the middle of a write
		f.keeper.dropUnused()
	})
	keptIn(t, dir, withArgs(), false, func(t *testing.T, f *Fleet, _ *park) {
		if got := listed(f); !slices.Equal(got, []string{"drop_table"}) {
			t.Errorf("after the change was taken back it lists %q", got)
		}
	})
}

// The end of a process says something of its era only where it was asked for
// that: a legacy server in a crash loop is not probed, which would cost it a
// second process.
func TestWhatMakesAnEraDoubtful(t *testing.T) {
	modern, legacy := upstream.Era{Version: "2026-07-28", Modern: true}, upstream.Era{Version: "2025-11-25"}
	for _, c := range []struct {
		was  upstream.Era
		f    fault.Fault
		want bool
	}{
		{modern, fault.Fault{Kind: fault.Exited}, true},
		{legacy, fault.Fault{Kind: fault.Exited}, false},
		{legacy, fault.Fault{Kind: fault.Broken}, false},
		{legacy, fault.Fault{Kind: fault.Deadline}, true},
		{modern, fault.Fault{Kind: fault.Dial}, false},
		{modern, fault.Fault{Kind: fault.HTTPStatus, Status: 500}, true},
		{modern, fault.Fault{Kind: fault.HTTPStatus, Status: 503}, false},
	} {
		if got := perhapsChanged(c.was, &c.f); got != c.want {
			t.Errorf("%+v after %s %d: %v", c.was, c.f.Kind, c.f.Status, got)
		}
	}
}
