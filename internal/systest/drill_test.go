package systest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// drilled runs a drill while clients call and probes ping, and checks that it
// leaves nothing behind: the server is connected, nothing says that a drill
// runs, and an answer is not held back.
func drilled(t *testing.T, hub *everline.Hub, d everline.Drill) everline.DrillReport {
	t.Helper()
	ctx, stop := context.WithCancel(within(t))
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	for _, ask := range []func() error{
		func() error { return hub.Ping(ctx, "a") },
		func() error {
			_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo","arguments":{}}`)})
			return err
		},
	} {
		work.Go(func() { // ends with the drill
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				_ = ask() // the report says how it went
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	order := make(chan string, 2)
	d.Broken, d.Over = func() { order <- "broken" }, func() { order <- "over" }
	r, err := hub.Drill(within(t), "a", d)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := <-order, <-order; a != "broken" || b != "over" {
		t.Errorf("it told %s, then %s", a, b)
	}
	st, _ := hub.Server("a")
	if !r.Recovered || r.Short || st.State != "connected" || r.After != st.Generation {
		t.Errorf("the server is %s (generation %d) after %+v", st.State, st.Generation, r)
	}
	if i := slices.IndexFunc(st.Warnings, func(w string) bool { return strings.HasPrefix(w, "a drill breaks") }); i >= 0 {
		t.Errorf("status says: %s", st.Warnings[i])
	}
	if r.Probes.Calls+r.Probes.Waited == 0 || r.Clients.Calls+r.Clients.Waited == 0 {
		t.Errorf("nobody called: %+v", r)
	}
	return r
}

// TestDrillStdio: whatever is done to a process, harmless calls are answered,
// and the server is well afterwards.
func TestDrillStdio(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{})}, everline.Options{})
	ready(t, hub, "a", 0)
	for _, c := range []struct {
		fault   string
		newLife bool
		longest time.Duration // at least
	}{
		{"kill", true, 0},
		{"drop", true, 0},
		{"garbage", false, 0},
		{"slow", false, 100 * time.Millisecond},
		{"hang", false, 200 * time.Millisecond},
	} {
		t.Run(c.fault, func(t *testing.T) {
			r := drilled(t, hub, everline.Drill{Fault: c.fault, For: 300 * time.Millisecond, Delay: 100 * time.Millisecond})
			if !r.OK() {
				t.Errorf("calls failed: %+v, %+v", r.Clients, r.Probes)
			}
			if got := r.After > r.Before; got != c.newLife {
				t.Errorf("generation %d, then %d", r.Before, r.After)
			}
			if r.Clients.Longest < c.longest || r.Probes.Longest < c.longest {
				t.Errorf("the longest took %v, %v; want %v at least", r.Clients.Longest, r.Probes.Longest, c.longest)
			}
			if lasts := r.Lasted > 0; lasts == c.newLife {
				t.Errorf("it lasted %v", r.Lasted)
			}
		})
	}
	_, err := hub.Drill(within(t), "a", everline.Drill{Fault: "404"})
	if !errors.Is(err, &fault.Fault{Kind: fault.Invalid}) {
		t.Errorf("404 for a process: %v", err)
	}
}

// TestDrillRecoveryIsThatOfTheNextLife: what was killed may answer once more
// before it dies, and that is no recovery.
func TestDrillRecoveryIsThatOfTheNextLife(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{})}, everline.Options{})
	ready(t, hub, "a", 0)
	events := hub.Watch(within(t))
	r, err := hub.Drill(within(t), "a", everline.Drill{Fault: "kill", For: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if up, ok := e.(event.Connected); ok && up.Gen == r.Before+1 {
			// It serves a moment before the event is made, but not in half of
			// the time that its start has taken.
			if r.Recovery < up.Took/2 {
				t.Errorf("it was well after %v, and the next generation took %v to start", r.Recovery, up.Took)
			}
			return
		}
	}
	t.Error("no next generation")
}

// TestDrillHTTP is the same for a URL. A server whose bodies are garbage cannot
// answer: its generations end, and calls wait for the one that can.
func TestDrillHTTP(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	quick := map[string]any{"retry": map[string]any{"firstDelay": "20ms", "maxDelay": "50ms", "fastFor": "1h"}}
	hub := open(t, servers{"a": with(web(mcptest.Web(t, s)), quick)}, everline.Options{})
	ready(t, hub, "a", 0)
	for _, what := range []string{"kill", "404", "drop", "slow", "hang", "garbage"} {
		t.Run(what, func(t *testing.T) {
			s.Await(t, "the standing stream", func() bool { return s.Listeners() > 0 })
			r := drilled(t, hub, everline.Drill{Fault: what, For: 300 * time.Millisecond, Delay: 100 * time.Millisecond})
			if what == "garbage" {
				if r.After == r.Before || r.Probes.Resent+r.Clients.Resent == 0 {
					t.Errorf("garbage was as good as an answer: %+v", r)
				}
			} else if !r.OK() {
				t.Errorf("clients %+v, probes %+v", r.Clients, r.Probes)
			}
			if what == "404" && r.After != r.Before+1 {
				t.Errorf("generation %d, then %d: one lost session is one new generation", r.Before, r.After)
			}
			mustCall(t, hub, "echo", `{"n":1}`)
		})
	}
}

// TestDrillSSE is the same for HTTP+SSE.
func TestDrillSSE(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	site := mcptest.Web(t, s)
	hub := open(t, servers{"a": {"type": "sse", "url": site.URL + "/sse"}}, everline.Options{})
	ready(t, hub, "a", 0)
	for _, what := range everline.DrillFaults() {
		t.Run(what, func(t *testing.T) {
			r := drilled(t, hub, everline.Drill{Fault: what, For: 300 * time.Millisecond, Delay: 100 * time.Millisecond})
			if !r.OK() {
				t.Errorf("clients %+v, probes %+v", r.Clients, r.Probes)
			}
		})
	}
}

// TestDrillModern: a server without sessions has none to lose.
func TestDrillModern(t *testing.T) {
	hub := open(t, servers{"a": web(mcptest.Web(t, mcptest.New(mcptest.Config{Era: mcptest.Modern})))}, everline.Options{})
	ready(t, hub, "a", 0)
	if r := drilled(t, hub, everline.Drill{Fault: "kill", For: 200 * time.Millisecond}); !r.OK() {
		t.Errorf("clients %+v, probes %+v", r.Clients, r.Probes)
	}
	_, err := hub.Drill(within(t), "a", everline.Drill{Fault: "404"})
	if !errors.Is(err, &fault.Fault{Kind: fault.Invalid}) {
		t.Errorf("404 for a server without sessions: %v", err)
	}
}

// TestDrillCounts: a call that must not run twice, and was cut, failed, and
// the report says why.
func TestDrillCounts(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	hub := open(t, servers{"a": child(mcptest.Config{Journal: journal})}, everline.Options{})
	ready(t, hub, "a", 0)
	broken := make(chan struct{})
	failed := make(chan error, 1)
	go func() { // ends with its call
		_, err := call(t, hub, "work", `{"id":"once","ms":15000}`)
		failed <- err
	}()
	for late, tick := within(t), time.NewTicker(time.Millisecond); ; <-tick.C { // nothing tells of it
		if mcptest.JournalCount(journal, "exec once") == 1 {
			tick.Stop()
			break
		}
		if late.Err() != nil {
			t.Fatal("the server does not have the call")
		}
	}
	r, err := hub.Drill(within(t), "a", everline.Drill{Fault: "kill", For: 100 * time.Millisecond, Broken: func() { close(broken) }})
	if err != nil {
		t.Fatal(err)
	}
	<-broken
	if err := <-failed; fault.From("", err).Outcome != fault.Unknown {
		t.Errorf("the call: %v", err)
	}
	if r.OK() || r.Clients.Calls != 1 || r.Clients.Failed[fault.Exited] != 1 || r.Clients.Longest > 10*time.Second {
		t.Errorf("clients %+v", r.Clients)
	}
	if !r.Probes.OK() || r.Probes.Calls == 0 { // its own, until the server was well
		t.Errorf("probes %+v", r.Probes)
	}
}

// TestDrillShortCatalog: a tool that is gone for a moment is told.
func TestDrillShortCatalog(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	ready(t, hub, "a", 0)
	r, err := hub.Drill(within(t), "a", everline.Drill{Fault: "404", For: 50 * time.Millisecond, Broken: func() { s.SetTools(mcptest.DefaultTools[0]) }})
	if err != nil || !r.Short || r.OK() || !r.Recovered {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDrillLeavesNoLongWait: a server that used up its attempts meanwhile is
// told to connect, and does not stay away until the slow retry.
func TestDrillLeavesNoLongWait(t *testing.T) {
	once := map[string]any{"parkFor": "50ms", "retry": map[string]any{"fastFor": "1ms", "strikes": 1, "firstDelay": "1ms"}}
	hub := open(t, servers{"a": with(web(mcptest.Web(t, mcptest.New(mcptest.Config{}))), once)}, everline.Options{})
	ready(t, hub, "a", 0)
	r := drilled(t, hub, everline.Drill{Fault: "garbage", For: 500 * time.Millisecond, Recovery: 300 * time.Millisecond})
	if r.OK() || !r.Woken || r.Recovery < 300*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

// TestDrillEndsWithItsCaller: who interrupts a drill ends the fault.
func TestDrillEndsWithItsCaller(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{})}, everline.Options{})
	ready(t, hub, "a", 0)
	ctx, cancel := context.WithCancel(within(t))
	_, err := hub.Drill(ctx, "a", everline.Drill{Fault: "hang", For: 10 * time.Minute, Broken: func() {
		if st, _ := hub.Server("a"); !slices.Contains(st.Warnings, "a drill breaks it on purpose: hang") {
			t.Errorf("status does not say it: %q", st.Warnings)
		}
		if _, err := hub.Drill(within(t), "a", everline.Drill{Fault: "slow"}); !errors.Is(err, &fault.Fault{Kind: fault.Conflict}) {
			t.Errorf("a second drill: %v", err)
		}
		cancel()
	}})
	if !errors.Is(err, &fault.Fault{Kind: fault.Canceled}) {
		t.Errorf("the drill: %v", err)
	}
	mustCall(t, hub, "echo", `{"n":1}`)
}

func TestDrillRefuses(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{}), "off": {"command": "x", "disabled": true}}, everline.Options{})
	ready(t, hub, "a", 0)
	for _, c := range []struct {
		server string
		drill  everline.Drill
		want   fault.Kind
	}{
		{"nobody", everline.Drill{Fault: "kill"}, fault.NotFound},
		{"off", everline.Drill{Fault: "kill"}, fault.Conflict},
		{"a", everline.Drill{Fault: "explode"}, fault.Invalid},
		{"a", everline.Drill{Fault: "hang", For: time.Hour}, fault.Invalid},
	} {
		if _, err := hub.Drill(within(t), c.server, c.drill); !errors.Is(err, &fault.Fault{Kind: c.want}) {
			t.Errorf("%s, %+v: %v, want %v", c.server, c.drill, err, c.want)
		}
	}
	if err := hub.Ping(within(t), "nobody"); !errors.Is(err, &fault.Fault{Kind: fault.NotFound}) {
		t.Errorf("a ping of nobody: %v", err)
	}
	if st, _ := hub.Server("a"); st.Generation != 1 {
		t.Errorf("generation %d: something was broken", st.Generation)
	}
}
