package systest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.RunChild()
	historyChild()
	traceChild()
	otlpChild()
	processChild()
	goleak.VerifyTestMain(m)
}

// soon bounds everything that these tests wait for; nothing takes that long
// unless it is broken.
const soon = time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	t.Cleanup(cancel)
	return ctx
}

// servers is an mcpServers object in the making.
type servers map[string]map[string]any

func (s servers) config(t *testing.T) *config.Config {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": s})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("test.json", text, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range cfg.Warnings {
		t.Errorf("unexpected warning: %+v", w)
	}
	return cfg
}

// with adds our own keys to a server.
func with(server map[string]any, ours map[string]any) map[string]any {
	if old, ok := server["everline"].(map[string]any); ok {
		maps.Copy(ours, old)
	}
	server["everline"] = ours
	return server
}

func web(s *mcptest.Site) map[string]any {
	return map[string]any{"type": "http", "url": s.URL + "/mcp"}
}

func child(cfg mcptest.Config) map[string]any {
	command, args, env := mcptest.Child(cfg)
	return map[string]any{"command": command, "args": args, "env": env}
}

func open(t *testing.T, s servers, opts everline.Options) *everline.Hub {
	t.Helper()
	hub, err := everline.Open(within(t), s.config(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := hub.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return hub
}

// ready waits until a generation newer than gen serves.
func ready(t *testing.T, hub *everline.Hub, server string, gen uint64) everline.Status {
	t.Helper()
	ctx := within(t)
	for {
		st, err := hub.Await(ctx, server, gen)
		if err != nil {
			t.Fatalf("%s is %s after %s: %v", server, st.State, soon, err)
		}
		if st.State == "connected" && st.Generation > gen {
			return st
		}
		if st.Next.IsZero() && st.State != "connected" {
			t.Fatalf("%s will not come up: %+v", server, st)
		}
	}
}

func call(t *testing.T, hub *everline.Hub, name, arguments string) (string, error) {
	t.Helper()
	r, err := hub.Call(within(t), &everline.Call{
		Method: "tools/call", Name: name,
		Params: []byte(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)),
	})
	return string(r), err
}

func mustCall(t *testing.T, hub *everline.Hub, name, arguments string) string {
	t.Helper()
	r, err := call(t, hub, name, arguments)
	if err != nil {
		t.Fatalf("%s(%.80s): %v", name, arguments, err)
	}
	return r
}

func toolNames(hub *everline.Hub) []string {
	var tools []struct{ Name string }
	if err := json.Unmarshal(hub.Catalog().Array(everline.Tools), &tools); err != nil {
		panic("bug: the published list is not JSON: " + err.Error())
	}
	names := make([]string, len(tools))
	for i, tool := range tools {
		names[i] = tool.Name
	}
	return names
}

// untilNames waits for the published tools to be these.
func untilNames(t *testing.T, hub *everline.Hub, want ...string) {
	t.Helper()
	changed := make(chan struct{}, 1)
	defer hub.OnChange(func([]everline.Kind) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	ctx := within(t)
	for !slices.Equal(toolNames(hub), want) {
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("tools are %v, want %v", toolNames(hub), want)
		}
	}
}

const safeTool = `{"name":"safe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

// A lost session on a remote restart: one initialize for all who wait, new
// tools replace the old ones, and every call succeeds.
func TestLostSessionReinitializesOnceForAllCallers(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	st := ready(t, hub, "a", 0)
	mustCall(t, hub, "echo", `{"n":1}`)

	s.DropSessions()
	s.SetTools(safeTool, `{"name":"work","inputSchema":{"type":"object"}}`)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if r, err := call(t, hub, "work", fmt.Sprintf(`{"id":"n%d"}`, i)); err != nil {
				t.Errorf("call %d: %s, %v", i, r, err)
			}
		})
	}
	wg.Wait()
	ready(t, hub, "a", st.Generation)
	untilNames(t, hub, "safe", "work")
	if n := s.Count("initialize"); n != 2 {
		t.Errorf("%d initializes for one lost session, want 2 with the first one", n)
	}
	for i := range 50 {
		if n := s.Executions(fmt.Sprintf("n%d", i)); n != 1 {
			t.Errorf("call %d ran %d times", i, n)
		}
	}
}

// A tool that a client got before a reconnect works after it.
func TestStableHandlesOverReconnect(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{}), "b": child(mcptest.Config{})}, everline.Options{})
	for _, name := range []string{"a", "b"} {
		st := ready(t, hub, name, 0)
		handle := name + "__echo"
		mustCall(t, hub, handle, `{"n":1}`)
		if err := hub.Reconnect(within(t), name); err != nil {
			t.Fatal(err)
		}
		mustCall(t, hub, handle, `{"n":2}`)
		if got := ready(t, hub, name, st.Generation).Generation; got != st.Generation+1 {
			t.Errorf("generation %d after one reconnect of %d", got, st.Generation)
		}
	}
}

// The catalog stays while a refresh fails, while the server is away, and over
// a restart of everline itself; the outage is marked.
func TestLastGoodCatalogOutlivesEverything(t *testing.T) {
	s := mcptest.New(mcptest.Config{Tools: []string{safeTool}})
	site := mcptest.Web(t, s)
	dir := t.TempDir()
	slow := map[string]any{"parkFor": "100ms", "retry": map[string]any{"firstDelay": "1h", "maxDelay": "1h"}}
	set := servers{"a": with(web(site), slow)}

	hub := open(t, set, everline.Options{StateDir: dir})
	ready(t, hub, "a", 0)
	untilNames(t, hub, "safe")
	s.Await(t, "the standing stream", func() bool { return s.Listeners() > 0 })
	s.Next("tools/list", 1, mcptest.Reply{Status: 500})
	s.Notify("notifications/tools/list_changed", "")
	s.Await(t, "the failed refresh", func() bool { return s.Count("tools/list") >= 2 })
	untilNames(t, hub, "safe")

	site.Close()
	if err := hub.Reconnect(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, hub, "safe", `{}`); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a call to a server that is away: %v", err)
	}
	untilNames(t, hub, "safe")
	if _, err := hub.Apply(within(t), set.config(t)); err != nil { // changes nothing, and returns when all is published
		t.Error(err)
	}
	if list := string(hub.Catalog().Array(everline.Tools)); !strings.Contains(list, `"everline/availability"`) {
		t.Errorf("the outage is not marked: %s", list)
	}
	if err := hub.Close(within(t)); err != nil {
		t.Fatal(err)
	}

	again := open(t, set, everline.Options{StateDir: dir})
	if names := toolNames(again); !slices.Equal(names, []string{"safe"}) {
		t.Errorf("the first list after a restart of everline has %v", names)
	}
}

// Disabling unpublishes and refuses at once, and is idempotent; a disabled
// server is not reconnected; enabling brings it back as it was.
func TestDisableWinsAtOnce(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{}), "b": child(mcptest.Config{Tools: []string{safeTool}})}, everline.Options{})
	st := ready(t, hub, "a", 0)
	ready(t, hub, "b", 0)
	untilNames(t, hub, "a__echo", "a__work", "a__fail", "b__safe")
	for range 2 {
		if err := hub.Disable(within(t), "a"); err != nil {
			t.Fatal(err)
		}
		if names := toolNames(hub); !slices.Equal(names, []string{"b__safe"}) {
			t.Errorf("after disable the list has %v", names)
		}
	}
	if _, err := call(t, hub, "a__echo", `{}`); fault.KindOf(err) != fault.Disabled {
		t.Errorf("a call to a disabled server: %v", err)
	}
	if err := hub.Reconnect(within(t), "a"); fault.KindOf(err) != fault.Conflict {
		t.Errorf("reconnect of a disabled server: %v", err)
	}
	for range 2 {
		if err := hub.Enable(within(t), "a"); err != nil {
			t.Fatal(err)
		}
	}
	ready(t, hub, "a", st.Generation)
	untilNames(t, hub, "a__echo", "a__work", "a__fail", "b__safe")
}

// Slots stay in place during all lifecycle work: a reader never misses a
// server, nor its tools.
func TestReadersNeverMissAServer(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{}), "b": child(mcptest.Config{Tools: []string{safeTool}})}, everline.Options{})
	gen := map[string]uint64{}
	for _, name := range []string{"a", "b"} {
		gen[name] = ready(t, hub, name, 0).Generation
	}
	untilNames(t, hub, "a__echo", "a__work", "a__fail", "b__safe")
	stop, read := make(chan struct{}), make(chan int)
	go func() { // ends when stop is closed, below
		n := 0
		defer func() { read <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			n++
			if all := hub.Status(); len(all) != 2 {
				t.Errorf("%d servers", len(all))
				return
			}
			if names := toolNames(hub); len(names) != 4 {
				t.Errorf("tools %v", names)
				return
			}
		}
	}()
	for range 5 {
		for name := range gen {
			if err := hub.Reconnect(within(t), name); err != nil {
				t.Error(err)
			}
			gen[name] = ready(t, hub, name, gen[name]).Generation
		}
	}
	close(stop)
	if n := <-read; n == 0 {
		t.Error("the reader never read")
	}
}

// One server that hangs, one that dies at once, and one that is not there
// delay neither the others' start nor their calls nor a reconfiguration.
func TestFaultD1BadServersBlockNobody(t *testing.T) {
	hub := open(t, servers{
		"good":    child(mcptest.Config{Tools: []string{safeTool}}),
		"deaf":    child(mcptest.Config{Deaf: true}),
		"refused": {"type": "http", "url": "http://127.0.0.1:1/mcp"},
		"missing": {"command": "no-such-command-anywhere"},
	}, everline.Options{})
	ready(t, hub, "good", 0)
	mustCall(t, hub, "good__safe", `{}`)
	st, err := hub.Await(within(t), "missing", 0)
	if err != nil || st.State != "misconfigured" || st.Cause == nil || st.Cause.Kind != fault.Missing {
		t.Errorf("missing: %+v, %v", st, err)
	}
	if err := hub.Disable(within(t), "deaf"); err != nil {
		t.Error(err)
	}
	mustCall(t, hub, "good__safe", `{}`)
}

// A server that exits 0 after each answer is a fact to survive.
func TestCleanEndReconnects(t *testing.T) {
	journal := t.TempDir() + "/journal"
	hub := open(t, servers{"a": child(mcptest.Config{Journal: journal})}, everline.Options{})
	st := ready(t, hub, "a", 0)
	_, err := call(t, hub, "work", `{"id":"x","exit":true}`)
	f := fault.From("", err)
	if err == nil || f.Outcome != fault.Unknown || f.Server != "a" || f.Gen != st.Generation {
		t.Errorf("a call that ended its server: %v (%+v)", err, f)
	}
	ready(t, hub, "a", st.Generation)
	mustCall(t, hub, "echo", `{}`)
	if n := mcptest.JournalCount(journal, "exec x"); n != 1 {
		t.Errorf("the call ran %d times", n)
	}
}

// A change of the configuration touches only what changed.
func TestFaultO1ApplyTouchesOnlyWhatChanged(t *testing.T) {
	set := servers{"a": child(mcptest.Config{Tools: []string{safeTool}}), "b": child(mcptest.Config{Tools: []string{safeTool}}), "c": child(mcptest.Config{})}
	hub := open(t, set, everline.Options{})
	gens := map[string]uint64{}
	for name := range set {
		gens[name] = ready(t, hub, name, 0).Generation
	}
	for range 3 {
		plan, err := hub.Apply(within(t), set.config(t))
		if err != nil || len(plan.Keep) != 3 {
			t.Errorf("the same configuration again: %+v, %v", plan, err)
		}
	}
	delete(set, "c")
	set["b"] = child(mcptest.Config{Tools: []string{`{"name":"new","inputSchema":{"type":"object"}}`}})
	set["d"] = child(mcptest.Config{Tools: []string{safeTool}})
	plan, err := hub.Apply(within(t), set.config(t))
	if err != nil || !slices.Equal(plan.Change, []string{"b"}) || !slices.Equal(plan.Add, []string{"d"}) || !slices.Equal(plan.Remove, []string{"c"}) {
		t.Errorf("plan %+v, %v", plan, err)
	}
	ready(t, hub, "b", gens["b"])
	ready(t, hub, "d", 0)
	untilNames(t, hub, "a__safe", "b__new", "d__safe")
	if st, _ := hub.Server("a"); st.Generation != gens["a"] {
		t.Errorf("a, which did not change, is at generation %d, was %d", st.Generation, gens["a"])
	}
	if _, ok := hub.Server("c"); ok {
		t.Error("c is still there")
	}
}

// What went wrong, with which server, and what is known, can be told apart
// without reading texts.
func TestErrorsAreTyped(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{})}, everline.Options{})
	ready(t, hub, "a", 0)
	if _, err := call(t, hub, "nothing", `{}`); !errors.Is(err, &fault.Fault{Kind: fault.NotFound}) {
		t.Errorf("an unknown tool: %v", err)
	}
	if err := hub.Disable(within(t), "nobody"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown server: %v", err)
	}
	if r := mustCall(t, hub, "fail", `{}`); !strings.Contains(r, `"isError":true`) {
		t.Errorf("a tool's own error became %s", r)
	}
}

// Events say what happened, in order, and end with the hub.
func TestWatchTellsWhatHappens(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{})}, everline.Options{})
	events := hub.Watch(context.Background())
	ready(t, hub, "a", 0)
	if err := hub.Disable(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	if err := hub.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	var last event.Event
	for e := range events {
		if e.About().Server != "a" {
			t.Errorf("event of server %q: %s", e.About().Server, e)
		}
		if last != nil && e.About().Time.Before(last.About().Time) {
			t.Errorf("%s came after %s", e, last)
		}
		last = e
	}
	if last == nil {
		t.Error("no event at all")
	}
}

func ExampleHub() {
	cfg, err := config.Parse("everline.json", []byte(`{"mcpServers": {}}`), os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	hub, err := everline.Open(ctx, cfg, everline.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hub.Close(ctx)
	_, err = hub.Call(ctx, &everline.Call{Method: "tools/call", Name: "search", Params: []byte(`{"name":"search"}`)})
	fmt.Println(fault.KindOf(err), err)
	// Output: not_found tools/call: nothing here is called search
}

// A call that comes before a server has ever said what it offers waits as a
// call does that comes in an outage, whether its name tells the server or not;
// where the server cannot come up it says why.
func TestFirstCallWaitsForTheFirstCatalog(t *testing.T) {
	slow := mcptest.New(mcptest.Config{Tools: []string{safeTool}})
	starting, goOn := make(chan struct{}, 1), make(chan struct{})
	slow.On("initialize", func(*mcptest.Request) *mcptest.Reply {
		starting <- struct{}{}
		<-goOn
		return nil
	})
	never := map[string]any{"command": "/nonexistent/command"}
	hub := open(t, servers{"slow": web(mcptest.Web(t, slow)), "never": never}, everline.Options{})
	view := gateway.ViewOf(hub, "")
	<-starting
	answers := make(chan error, 3)
	for _, call := range []func() error{
		func() error { return once(hub, "slow__safe", `{}`) },
		func() error {
			_, err := view.Do(within(t), &everline.Call{Method: "tools/call", Name: "slow__safe", Params: []byte(`{"name":"slow__safe"}`)})
			return err
		},
		func() error {
			_, err := hub.Call(within(t), &everline.Call{Method: "tools/call", Server: "slow", Name: "safe", Params: []byte(`{"name":"safe"}`)})
			return err
		},
	} {
		go func() { answers <- call() }() // ends within(t)
	}
	for whole := within(t); ; {
		if st, _ := hub.Server("slow"); st.Waiting == 3 {
			break
		} else if whole.Err() != nil {
			t.Fatalf("%d calls wait", st.Waiting)
		}
		select {
		case err := <-answers:
			t.Fatalf("a call did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	close(goOn)
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	f := fault.From("", once(hub, "never__tool", `{}`))
	if f == nil || f.Kind != fault.Unavailable || f.Outcome != fault.NotSent || !strings.Contains(f.Reason(), "/nonexistent/command") {
		t.Errorf("a call to a server that never starts: %v", f)
	}
}
