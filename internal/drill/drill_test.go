package drill

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A gateway plays the admin API of an everline whose one server is drilled.
type gateway struct {
	broken atomic.Bool
	pings  atomic.Int64
	calls  atomic.Int64
	body   atomic.Value   // of the drill's request
	wait   func(*gateway) // while the fault is on
	fail   *fault.Fault   // what pings are answered meanwhile
	report admin.DrillReport
}

func serveGateway(t *testing.T, g *gateway) *admin.Client {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	l, err := admin.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/servers/a/drill", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		g.body.Store(string(body))
		step := func(s admin.DrillStep) {
			_ = json.NewEncoder(w).Encode(s)
			_ = http.NewResponseController(w).Flush()
		}
		g.broken.Store(true)
		step(admin.DrillStep{What: "broken"})
		if g.wait != nil {
			g.wait(g)
		}
		g.broken.Store(false)
		step(admin.DrillStep{What: "over"})
		step(admin.DrillStep{What: "done", Report: &g.report})
	})
	mux.HandleFunc("POST /v1/servers/a/ping", func(w http.ResponseWriter, _ *http.Request) {
		g.pings.Add(1)
		if f := g.fail; f != nil && g.broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
			_ = json.NewEncoder(w).Encode(admin.Error{Error: admin.ErrorBody{Kind: f.Kind.String(), Message: "x"}})
			return
		}
		_, _ = io.WriteString(w, "{}")
	})
	mux.HandleFunc("POST /v1/call", func(w http.ResponseWriter, r *http.Request) {
		var req admin.CallRequest
		_ = json.NewDecoder(r.Body).Decode(&req)
		if req.Probe && req.Tool == "look" {
			g.calls.Add(1)
		}
		_, _ = io.WriteString(w, `{"content":[]}`)
	})
	mux.HandleFunc("GET /v1/tools", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"name":"x"},{"name":"secret","hidden":true}]`)
	})
	srv := &http.Server{Handler: mux}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }() // ends with the cleanup
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
		_ = l.Close()
	})
	return admin.NewClient(dir, 0)
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// more waits until a number has grown by n.
func more(v *atomic.Int64, n int64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for until := v.Load() + n; v.Load() < until; {
		<-tick.C
	}
}

func TestRun(t *testing.T) {
	g := &gateway{
		wait:   func(g *gateway) { more(&g.pings, 5) },
		report: admin.DrillReport{Server: "a", Fault: "kill", Recovered: true, Probes: admin.DrillCalls{Calls: 99, Waited: 2, Resent: 1}},
	}
	told := 0
	site := mcptest.Web(t, mcptest.New(mcptest.Config{}))
	r, err := Run(bounded(t), Options{
		Client: serveGateway(t, g), Endpoint: site.URL + "/mcp", Server: "a", Every: 5 * time.Millisecond,
		Request: admin.DrillRequest{Fault: "kill", ForMS: 7}, Broken: func() { told++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if g.body.Load() != `{"fault":"kill","forMs":7}` || told != 1 {
		t.Errorf("asked for %s, told %d times", g.body.Load(), told)
	}
	p := r.Probes
	if !r.OK || p.Calls != int(g.pings.Load()) || p.Answered != p.Calls || p.Waited != 2 || p.Resent != 1 || p.LongestMS <= 0 || p.MedianMS <= 0 {
		t.Errorf("ok %v, probes %+v of %d", r.OK, p, g.pings.Load())
	}
	if r.Lists.Via != "endpoint" || r.Lists.Tools != 3 {
		t.Errorf("lists %+v", r.Lists)
	}
}

// TestRunTellsWhatFailed has each thing that makes a drill not OK.
func TestRunTellsWhatFailed(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	site := mcptest.Web(t, s)
	well := admin.DrillReport{Server: "a", Recovered: true}
	run := func(g *gateway) Report {
		t.Helper()
		r, err := Run(bounded(t), Options{Client: serveGateway(t, g), Endpoint: site.URL + "/mcp", Server: "a", Every: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run(&gateway{report: well}); !r.OK {
		t.Errorf("nothing failed, and it is not OK: %+v", r)
	}
	r := run(&gateway{report: well, fail: &fault.Fault{Kind: fault.Exited}, wait: func(g *gateway) { more(&g.pings, 5) }})
	if n := r.Probes.Failed["exited"]; r.OK || n == 0 || n+r.Probes.Answered != r.Probes.Calls {
		t.Errorf("failed calls: ok %v, %+v", r.OK, r.Probes)
	}
	for name, seen := range map[string]admin.DrillReport{
		"not well":       {},
		"a short list":   {Recovered: true, CatalogShort: true},
		"failed clients": {Recovered: true, Clients: admin.DrillCalls{Failed: map[string]int{"exited": 1}}},
	} {
		if r := run(&gateway{report: seen}); r.OK {
			t.Errorf("%s: it is OK", name)
		}
	}
	r = run(&gateway{report: well, wait: func(*gateway) {
		s.SetTools(mcptest.DefaultTools[:2]...)
		lists := s.Count("tools/list")
		s.Await(t, "another list", func() bool { return s.Count("tools/list") > lists+1 })
	}})
	if r.OK || r.Lists.Short == 0 || r.Lists.Failed > 0 {
		t.Errorf("a tool was gone: %+v", r.Lists)
	}
	r = run(&gateway{report: well, wait: func(*gateway) {
		lists := s.Count("tools/list")
		s.Next("tools/list", 1, mcptest.Reply{Status: 500})
		s.Await(t, "another list", func() bool { return s.Count("tools/list") > lists+1 })
	}})
	if r.OK || r.Lists.Failed != 1 {
		t.Errorf("a list failed: %+v", r.Lists)
	}
}

// TestRunWithoutEndpoint lists by the admin API, and calls a tool.
func TestRunWithoutEndpoint(t *testing.T) {
	for _, endpoint := range []string{"", "http://127.0.0.1:1/mcp"} {
		g := &gateway{report: admin.DrillReport{Recovered: true}, wait: func(g *gateway) { more(&g.calls, 2) }}
		r, err := Run(bounded(t), Options{
			Client: serveGateway(t, g), Endpoint: endpoint, Server: "a", Every: 5 * time.Millisecond,
			Call: &admin.CallRequest{Server: "a", Tool: "look", Probe: true},
		})
		if err != nil || !r.OK || r.Lists.Via != "admin" || r.Lists.Tools != 1 || r.Probes.Calls != int(g.calls.Load()) || g.pings.Load() != 0 {
			t.Errorf("endpoint %q: %+v, %v", endpoint, r, err)
		}
	}
}

// TestRunEndsWithItsContext: an interrupt waits for nothing.
func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(bounded(t))
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	g := &gateway{wait: func(*gateway) { cancel(); <-released }}
	_, err := Run(ctx, Options{Client: serveGateway(t, g), Server: "a", Every: 5 * time.Millisecond})
	if fault.KindOf(err) != fault.Canceled {
		t.Error(err)
	}
}

// TestLive is what a person sees meanwhile.
func TestLive(t *testing.T) {
	seen := make(chan Live, 100)
	g := &gateway{report: admin.DrillReport{Recovered: true}, wait: func(*gateway) {
		for l := range seen {
			if l.Step == "broken" && l.Calls > 0 && l.Elapsed > 0 {
				return
			}
		}
	}}
	_, err := Run(bounded(t), Options{
		Client: serveGateway(t, g), Server: "a", Every: 5 * time.Millisecond,
		Live: func(l Live) {
			select {
			case seen <- l:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
