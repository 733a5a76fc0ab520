package systest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

var (
	changeEdits = flag.Int("config.edits", 60, "random changes of the configuration under load")
	changeSeed  = flag.Uint64("config.seed", 1, "seed of these changes")
)

// The same configuration again, with a call in flight on each server: nothing
// is restarted, and a session over HTTP stays the same one.
func TestFaultO1NothingIsTouchedInFlight(t *testing.T) {
	far := mcptest.New(mcptest.Config{})
	near := mcptest.New(mcptest.Config{})
	set := servers{"far": web(mcptest.Web(t, far)), "near": web(mcptest.Web(t, near)), "child": child(mcptest.Config{})}
	hub := open(t, set, everline.Options{})
	for name := range set {
		ready(t, hub, name, 0)
	}
	gens := generations(hub)
	var calls sync.WaitGroup
	for name := range set {
		calls.Go(func() {
			if _, err := call(t, hub, name+"__work", fmt.Sprintf(`{"id":%q,"ms":500}`, name)); err != nil {
				t.Errorf("%s: a call over ten reloads: %v", name, err)
			}
		})
	}
	for _, s := range []*mcptest.Server{far, near} {
		s.Await(t, "a call in flight", func() bool { return s.Count("tools/call") == 1 })
	}
	for range 10 {
		if plan, err := hub.Apply(within(t), set.config(t)); err != nil || len(plan.Keep) != len(set) {
			t.Errorf("plan %+v, %v", plan, err)
		}
	}
	set["far"]["headers"] = map[string]any{"X-New": "1"}
	if plan, err := hub.Apply(within(t), set.config(t)); err != nil || !slices.Equal(plan.Change, []string{"far"}) {
		t.Errorf("plan %+v, %v", plan, err)
	}
	calls.Wait()
	ready(t, hub, "far", gens["far"])
	now := generations(hub)
	if now["near"] != gens["near"] || now["child"] != gens["child"] || near.Count("initialize") != 1 {
		t.Errorf("generations were %v, are %v; near was initialized %d times", gens, now, near.Count("initialize"))
	}
}

func generations(hub *everline.Hub) map[string]uint64 {
	gens := map[string]uint64{}
	for _, st := range hub.Status() {
		gens[st.Name] = st.Generation
	}
	return gens
}

// After a change of its environment the old process is gone, and so is that of
// a server that was removed.
func TestFaultO2TheOldProcessEnds(t *testing.T) {
	set := servers{"a": child(mcptest.Config{}), "b": child(mcptest.Config{})}
	hub := open(t, set, everline.Options{})
	first, other := ready(t, hub, "a", 0), ready(t, hub, "b", 0)
	env := map[string]string{"ANOTHER": "value"}
	for k, v := range set["a"]["env"].(map[string]string) {
		env[k] = v
	}
	set["a"]["env"] = env
	if _, err := hub.Apply(within(t), set.config(t)); err != nil {
		t.Fatal(err)
	}
	second := ready(t, hub, "a", first.Generation)
	if second.PID == first.PID || !exists(second.PID) {
		t.Errorf("process %d, was %d", second.PID, first.PID)
	}
	untilGone(t, first.PID)
	delete(set, "b")
	if _, err := hub.Apply(within(t), set.config(t)); err != nil {
		t.Fatal(err)
	}
	untilGone(t, other.PID)
}

// exists tells whether there is a process of this id that is not only waiting
// to be waited for: children of this test are reaped by the hub.
func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

func untilGone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t); exists(pid); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// A server is removed while it is connecting: what comes of that is thrown away.
func TestFaultO3RemovedWhileConnecting(t *testing.T) {
	slow := mcptest.New(mcptest.Config{})
	asked, release := make(chan struct{}, 8), make(chan struct{})
	slow.On("initialize", func(*mcptest.Request) *mcptest.Reply {
		asked <- struct{}{}
		<-release
		return nil
	})
	set := servers{"slow": web(mcptest.Web(t, slow)), "b": web(mcptest.Web(t, mcptest.New(mcptest.Config{})))}
	hub := open(t, set, everline.Options{})
	select {
	case <-asked:
	case <-within(t).Done():
		t.Fatal("it never came to the handshake")
	}
	delete(set, "slow")
	if _, err := hub.Apply(within(t), set.config(t)); err != nil {
		t.Fatal(err)
	}
	close(release)
	ready(t, hub, "b", 0)
	untilNames(t, hub, "echo", "work", "fail")
	if _, ok := hub.Server("slow"); ok {
		t.Error("the removed server is back")
	}
	if n := slow.Count("tools/list"); n != 0 {
		t.Errorf("the removed server was listed %d times", n)
	}
}

// A server is removed while a call on it is in flight: the call is answered,
// and a new one is refused at once.
func TestRemovedServerAnswersWhatIsInFlight(t *testing.T) {
	gone := mcptest.New(mcptest.Config{})
	started, release := make(chan struct{}), make(chan struct{})
	gone.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
		close(started)
		<-release
		return nil
	})
	set := servers{"gone": web(mcptest.Web(t, gone)), "b": web(mcptest.Web(t, mcptest.New(mcptest.Config{})))}
	hub := open(t, set, everline.Options{})
	ready(t, hub, "gone", 0)
	ready(t, hub, "b", 0)
	answered := make(chan error, 1)
	go func() { // waited for below
		_, err := call(t, hub, "gone__echo", `{}`)
		answered <- err
	}()
	<-started
	delete(set, "gone")
	if _, err := hub.Apply(within(t), set.config(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, hub, "gone__echo", `{}`); fault.From("", err).Kind != fault.NotFound {
		t.Errorf("a new call: %v", err)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
}

// Two servers swap their names: each name leads to the other server, and the
// catalogs go with the servers, not with the names.
func TestNamesAreSwapped(t *testing.T) {
	tool := func(name string) []string {
		return []string{fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, name)}
	}
	one := web(mcptest.Web(t, mcptest.New(mcptest.Config{Tools: tool("one")})))
	two := child(mcptest.Config{Tools: tool("two")})
	hub := open(t, servers{"a": one, "b": two}, everline.Options{StateDir: t.TempDir()})
	ready(t, hub, "a", 0)
	ready(t, hub, "b", 0)
	untilNames(t, hub, "a__one", "b__two")
	gens := generations(hub)
	plan, err := hub.Apply(within(t), servers{"a": two, "b": one}.config(t))
	if err != nil || len(plan.Change) != 2 {
		t.Fatalf("plan %+v, %v", plan, err)
	}
	a, b := ready(t, hub, "a", gens["a"]), ready(t, hub, "b", gens["b"])
	untilNames(t, hub, "a__two", "b__one")
	if a.PID == 0 || b.PID != 0 {
		t.Errorf("a has process %d, b %d", a.PID, b.PID)
	}
}

// Two changes at the same time end as one of them, whole.
func TestTwoChangesAtOnce(t *testing.T) {
	site := func() map[string]any { return web(mcptest.Web(t, mcptest.New(mcptest.Config{}))) }
	stays := site()
	left, right := servers{"a": stays, "b": site()}, servers{"a": stays, "c": site(), "d": site()}
	hub := open(t, servers{"a": stays}, everline.Options{})
	gen := ready(t, hub, "a", 0).Generation
	for range 10 {
		var both sync.WaitGroup
		for _, set := range []servers{left, right} {
			cfg := set.config(t)
			both.Go(func() {
				if _, err := hub.Apply(within(t), cfg); err != nil {
					t.Errorf("apply: %v", err)
				}
			})
		}
		both.Wait()
		var names []string
		for _, st := range hub.Status() {
			names = append(names, st.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"a", "b"}) && !slices.Equal(names, []string{"a", "c", "d"}) {
			t.Errorf("a mixture: %v", names)
		}
	}
	if st, _ := hub.Server("a"); st.Generation != gen {
		t.Errorf("a is at generation %d, was %d", st.Generation, gen)
	}
}

// Random changes while calls run on two servers that no change is about: no
// call fails, and neither server is connected anew.
func TestRandomChangesUnderLoad(t *testing.T) {
	far := mcptest.New(mcptest.Config{})
	pool := make([]map[string]any, 6)
	for i := range pool {
		pool[i] = web(mcptest.Web(t, mcptest.New(mcptest.Config{})))
	}
	set := servers{"far": web(mcptest.Web(t, far)), "child": child(mcptest.Config{})}
	hub := open(t, set, everline.Options{})
	ready(t, hub, "far", 0)
	ready(t, hub, "child", 0)
	gens := generations(hub)
	if _, err := hub.Apply(within(t), servers{"far": set["far"], "child": set["child"], "extra": pool[0]}.config(t)); err != nil {
		t.Fatal(err) // from here on names have their prefix
	}
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	var calls, failed atomic.Int64
	for i := range 8 {
		load.Go(func() { // ends with ctx
			name := []string{"far__echo", "child__echo"}[i%2]
			for n := 0; ctx.Err() == nil; n++ {
				calls.Add(1)
				if _, err := call(t, hub, name, fmt.Sprintf(`{"n":%d}`, n)); err != nil {
					failed.Add(1)
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(*changeSeed, 0))
	for range *changeEdits {
		cfg := randomChange(random, set, pool).config(t)
		if _, err := hub.Apply(within(t), cfg); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("apply: %v", err)
		}
	}
	stop()
	load.Wait()
	now := generations(hub)
	if now["far"] != gens["far"] || now["child"] != gens["child"] || far.Count("initialize") != 1 {
		t.Errorf("generations were %v, are %v; far was initialized %d times", gens, now, far.Count("initialize"))
	}
	t.Logf("%d changes, %d calls, %d failed", *changeEdits, calls.Load(), failed.Load())
}

// randomChange returns the two servers that stay, with others that come, go,
// are disabled, get another header or another setting, and swap names.
func randomChange(random *rand.Rand, stay servers, pool []map[string]any) servers {
	next := servers{"far": stay["far"], "child": stay["child"], "extra": pool[0]}
	for i, from := range random.Perm(len(pool)) {
		if random.IntN(3) == 0 {
			continue
		}
		server := map[string]any{}
		for k, v := range pool[from] {
			server[k] = v
		}
		switch random.IntN(4) {
		case 0:
			server["headers"] = map[string]any{"X-Edit": fmt.Sprint(random.IntN(3))}
		case 1:
			server["disabled"] = true
		case 2:
			server["everline"] = map[string]any{"parkFor": fmt.Sprintf("%ds", 1+random.IntN(5))}
		}
		next[fmt.Sprintf("s%d", i)] = server
	}
	return next
}
