package systest

import (
	"encoding/base64"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// The server behind an address is replaced by one of another era while
// everline runs, with a restart that nobody announces. The era is found anew,
// the tools are the new ones, and every call is answered.
func TestEraChangesWhileRunning(t *testing.T) {
	for _, c := range []struct {
		name     string
		was, now mcptest.Era
		refusal  *mcptest.Reply // how the new server refuses what it does not know; nil: as mcptest does
	}{
		{"upgrade", mcptest.Legacy, mcptest.Modern, nil},
		{"upgrade of a server without sessions", stateless, mcptest.Modern, nil},
		{"downgrade", mcptest.Modern, mcptest.Legacy, nil},
		{
			"downgrade, refused with our id", mcptest.Modern, mcptest.Legacy,
			&mcptest.Reply{Status: 400, Error: `{"code":-32000,"message":"Server not initialized"}`},
		},
		{"downgrade, refused with a text", mcptest.Modern, mcptest.Legacy, &mcptest.Reply{Status: 400, Body: "what?"}},
		{"downgrade, refused by 404", mcptest.Modern, mcptest.Legacy, &mcptest.Reply{Status: 404, Body: "what?"}},
		{"to both eras", mcptest.Legacy, mcptest.Dual, nil},
	} {
		for _, asked := range []string{"by calls", "by nobody"} {
			if c.was == stateless && asked == "by nobody" {
				continue // such a server has no stream that could tell: the next listing does
			}
			t.Run(c.name+", found "+asked, func(t *testing.T) {
				t.Parallel()
				before := mcptest.New(mcptest.Config{Era: max(c.was, mcptest.Legacy), Stateless: c.was == stateless})
				after := mcptest.New(mcptest.Config{Era: c.now, Tools: []string{mcptest.DefaultTools[1], safeTool}})
				if c.refusal != nil {
					refuseModern(after, c.refusal)
				}
				f := serveAt(t, before.Handler())
				hub := open(t, servers{"a": f.web()}, everline.Options{})
				st := ready(t, hub, "a", 0)
				before.Await(t, "its stream", func() bool { return before.Listeners() == 1 || c.was == stateless })
				f.put(after.Handler())
				before.Close()
				if asked == "by calls" {
					together(t, hub, 20, "after the change", after)
				}
				now := ready(t, hub, "a", st.Generation)
				untilNames(t, hub, "work", "safe")
				if wantModern := c.now == mcptest.Modern; wantModern != (now.Era == "modern") {
					t.Errorf("era %s", now.Era)
				}
				together(t, hub, 5, "later", after)
			})
		}
	}
}

const stateless mcptest.Era = -1 // legacy, without session ids and streams

// refuseModern has a legacy server refuse everything that comes without a session.
func refuseModern(s *mcptest.Server, rep *mcptest.Reply) {
	for _, method := range []string{"server/discover", "tools/list", "tools/call", "subscriptions/listen", "ping"} {
		s.On(method, func(r *mcptest.Request) *mcptest.Reply {
			if r.Session == "" {
				return rep
			}
			return nil
		})
	}
}

// R1: a server that was modern, and is a legacy one now that answers the probe
// in a way which says nothing of the era. The memory of it is wrong; it is
// doubted after one start, and over a restart of everline as well.
func TestFaultR1AWrongMemoryIsNotForEver(t *testing.T) {
	before, after := mcptest.New(mcptest.Config{Era: mcptest.Modern}), mcptest.New(mcptest.Config{})
	refuseModern(after, &mcptest.Reply{Status: 500, Body: "what?"})
	f := serveAt(t, before.Handler())
	set, opts := servers{"a": quick(f.web())}, everline.Options{StateDir: t.TempDir()}
	hub := open(t, set, opts)
	st := ready(t, hub, "a", 0)
	f.put(after.Handler())
	for range 3 { // strikes
		_ = once(hub, "work", `{"id":"x"}`)
	}
	now := ready(t, hub, "a", st.Generation)
	if n := after.Count("initialize"); now.Era != "legacy" || n != 1 || now.Generation > st.Generation+2 {
		t.Errorf("era %s, %d initializes, generation %d after %d", now.Era, n, now.Generation, st.Generation)
	}
	mustCall(t, hub, "echo", `{}`)

	f.put(before.Handler())
	mustCall(t, hub, "echo", `{}`)
	if st = ready(t, hub, "a", now.Generation); st.Era != "modern" {
		t.Fatalf("era %s", st.Era)
	}
	if err := hub.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	f.put(after.Handler())
	hub = open(t, set, opts)
	if st := ready(t, hub, "a", st.Generation); st.Era != "legacy" {
		t.Errorf("era %s after a restart", st.Era)
	}
}

// The era is remembered over a restart of everline, which then needs no probe,
// and found anew where it is not true any more.
func TestEraOverARestart(t *testing.T) {
	legacy, modern := mcptest.New(mcptest.Config{}), mcptest.New(mcptest.Config{Era: mcptest.Modern})
	f := serveAt(t, legacy.Handler())
	set, opts := servers{"a": f.web()}, everline.Options{StateDir: t.TempDir()}
	run := func(want everline.Era) {
		t.Helper()
		hub := open(t, set, opts)
		defer hub.Close(within(t))
		if st := ready(t, hub, "a", 0); st.Era != want {
			t.Errorf("era %s, want %s", st.Era, want)
		}
		mustCall(t, hub, "echo", `{}`)
	}
	run("legacy")
	if n := legacy.Count("server/discover"); n != 1 {
		t.Errorf("%d probes of an unknown server", n)
	}
	run("legacy")
	if n := legacy.Count("server/discover"); n != 1 {
		t.Errorf("%d probes although the era was known", n)
	}
	f.put(modern.Handler())
	run("modern")
	run("modern")
	if n := modern.Count("initialize"); n != 1 {
		t.Errorf("%d initializes at the modern server, want the one of the first try", n)
	}
	f.put(legacy.Handler())
	run("legacy")
}

// M1: what a server did not declare is not asked for, and -32601 on something
// optional is not a failure, nor is silence, nor a cut.
func TestFaultM1OnlyWhatIsDeclaredIsAskedFor(t *testing.T) {
	others := []string{"prompts/list", "resources/list", "resources/templates/list"}
	for name, rep := range map[string]mcptest.Reply{
		"-32601": {Error: `{"code":-32601,"message":"Method not found"}`}, "silence": {Hang: true}, "cut": {Cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{Capabilities: `{"tools":{}}`})
			for _, method := range others {
				s.On(method, func(*mcptest.Request) *mcptest.Reply { return &rep })
			}
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			ready(t, hub, "a", 0)
			untilNames(t, hub, "echo", "work", "fail")
			for _, method := range others {
				if s.Count(method) != 0 {
					t.Errorf("%s was asked for", method)
				}
			}
			for _, k := range []everline.Kind{everline.Prompts, everline.Resources, everline.Templates} {
				if list := string(hub.Catalog().Array(k)); list != "[]" {
					t.Errorf("%v: %s", k, list)
				}
			}
		})
	}
	s := mcptest.New(mcptest.Config{Capabilities: `{"tools":{},"prompts":{},"resources":{}}`})
	for _, method := range others {
		s.On(method, func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Error: `{"code":-32601,"message":"Method not found"}`}
		})
	}
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	ready(t, hub, "a", 0)
	untilNames(t, hub, "echo", "work", "fail")
}

// M2: an empty object declares tools, null does not; a server that declares
// nothing at all is asked once.
func TestFaultM2WhatDeclaresTools(t *testing.T) {
	for capabilities, want := range map[string]int{
		`{"tools":{}}`: 1, `{"tools":null,"prompts":{}}`: 0, `{}`: 1, `{"tools":{"listChanged":false}}`: 1,
	} {
		t.Run(capabilities, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{Capabilities: capabilities, Tools: []string{safeTool}})
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			if st := ready(t, hub, "a", 0); st.Counts[everline.Tools] != want {
				t.Errorf("%d tools, want %d", st.Counts[everline.Tools], want)
			}
		})
	}
}

// M3: HTTP+SSE is tried only where the refusal says so, and it is the first
// error that is shown.
func TestFaultM3FallbackAndTheFirstError(t *testing.T) {
	t.Run("falls back, and remembers", func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		var posts atomic.Int64
		f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost && r.URL.Path == "/sse":
				posts.Add(1)
				http.Error(w, "no", http.StatusMethodNotAllowed)
			default:
				s.Handler().ServeHTTP(w, r)
			}
		}))
		hub := open(t, servers{"a": quick(map[string]any{"url": "http://" + f.addr + "/sse"})}, everline.Options{})
		st := ready(t, hub, "a", 0)
		if st.Transport != "sse" {
			t.Errorf("transport %s", st.Transport)
		}
		tried := posts.Load()
		s.CutStreams()
		ready(t, hub, "a", st.Generation)
		if posts.Load() != tried {
			t.Error("the transport that worked was not remembered")
		}
	})
	for status, kind := range map[int]fault.Kind{401: fault.Unauthorized, 500: fault.HTTPStatus, 502: fault.HTTPStatus, 403: fault.Forbidden} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var gets atomic.Int64
			f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/.well-known/") { // where a login would be described
					gets.Add(1)
				}
				http.Error(w, "the reason", status)
			}))
			hub := open(t, servers{"a": with(map[string]any{"url": "http://" + f.addr + "/mcp"},
				map[string]any{"retry": map[string]any{"fastFor": "1ms", "firstDelay": "5ms"}})}, everline.Options{})
			st, err := hub.Await(within(t), "a", 0)
			if err != nil || st.Cause == nil || st.Cause.Kind != kind || st.Cause.Status != status ||
				!strings.Contains(st.Cause.Error(), "the reason") {
				t.Errorf("cause %v, %v", st.Cause, err)
			}
			if gets.Load() != 0 {
				t.Error("HTTP+SSE was tried")
			}
		})
	}
}

// M4: a server behind a path prefix announces a message URL that does not
// work; the configuration overrides it. Another origin is refused.
func TestFaultM4MessageURL(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	f := serveAt(t, http.StripPrefix("/gw/srv", s.Handler()))
	server := map[string]any{"type": "sse", "url": "http://" + f.addr + "/gw/srv/sse"}
	never := map[string]any{"restart": "never"}
	hub := open(t, servers{"a": with(server, map[string]any{"retry": never})}, everline.Options{})
	st, err := hub.Await(within(t), "a", 0)
	if err != nil || st.State == "connected" || st.Cause == nil || st.Cause.Status != http.StatusNotFound {
		t.Errorf("%+v, %v", st, err)
	}
	fixed := with(server, map[string]any{"messageUrl": "/gw/srv/messages"})
	if _, err := hub.Apply(within(t), servers{"a": fixed}.config(t)); err != nil {
		t.Fatal(err)
	}
	ready(t, hub, "a", st.Generation)
	mustCall(t, hub, "echo", `{}`)
}

// M5: a server that refuses versions it does not know at the HTTP layer is
// offered older ones, and the one that works is remembered.
func TestFaultM5StepsDownThroughVersions(t *testing.T) {
	s := mcptest.New(mcptest.Config{Versions: []string{"2025-06-18"}})
	s.On("initialize", func(r *mcptest.Request) *mcptest.Reply {
		if r.Header.Get("Mcp-Protocol-Version") != "" || !strings.Contains(string(r.Params), "2025-06-18") {
			return &mcptest.Reply{Status: 400, Body: "Unsupported protocol version (supported: 2025-06-18)"}
		}
		return nil
	})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	st := ready(t, hub, "a", 0)
	if st.Version != "2025-06-18" {
		t.Errorf("version %s", st.Version)
	}
	tried := s.Count("initialize")
	s.DropSessions()
	together(t, hub, 5, "after a loss", s)
	if n := s.Count("initialize") - tried; n != 1 {
		t.Errorf("%d initializes although the version was known", n)
	}
}

// P1, P4: a server that works on a call and has no ping, or is slow with it,
// is healthy. Health asks over the session that is there.
func TestFaultP1P4SlowIsNotSick(t *testing.T) {
	for name, rep := range map[string]*mcptest.Reply{
		"no ping":                  {Error: `{"code":-32601,"message":"Method not found"}`},
		"404 for ping":             {Status: 404, Error: `{"code":-32601,"message":"Method not found"}`},
		"400 for ping":             {Status: 400, Body: "no"},
		"slow ping":                {Delay: 40 * time.Millisecond, Result: "{}"},
		"ping":                     nil,
		"404 of a router for ping": {Status: 404, Body: "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			s.On("ping", func(*mcptest.Request) *mcptest.Reply { return rep })
			hub := open(t, servers{"a": with(web(mcptest.Web(t, s)), map[string]any{"pingAfter": "300ms"})}, everline.Options{})
			st := ready(t, hub, "a", 0)
			mustCall(t, hub, "work", `{"id":"slow","ms":1200}`)
			if n := s.Count("ping"); n == 0 || n > 6 {
				t.Errorf("%d pings", n)
			}
			if now, _ := hub.Server("a"); now.Generation != st.Generation || s.Count("initialize") != 1 || s.Executions("slow") != 1 {
				t.Errorf("generation %d, was %d; %d initializes", now.Generation, st.Generation, s.Count("initialize"))
			}
		})
	}
}

// P1: a server that answers neither calls nor so many pings is recycled.
func TestFaultP1SilenceIsSick(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	s.Next("tools/call", 1, mcptest.Reply{Hang: true})
	s.On("ping", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} })
	hub := open(t, servers{"a": with(web(mcptest.Web(t, s)), map[string]any{"pingAfter": "150ms", "pingMisses": 2})}, everline.Options{})
	st := ready(t, hub, "a", 0)
	_, err := call(t, hub, "work", `{"id":"x"}`)
	if f := fault.From("", err); f == nil || f.Outcome != fault.Unknown || f.Kind != fault.Wedged {
		t.Errorf("%v", err)
	}
	ready(t, hub, "a", st.Generation)
	if n := s.Count("ping"); n == 0 || n > 2 { // one may have been given up before it arrived
		t.Errorf("%d pings, want 2", n)
	}
	together(t, hub, 5, "on the new life", s)
}

// R2: a server that names only versions which nobody here speaks is modern all
// the same: no initialize, and a clear word.
func TestFaultR2UnknownVersionIsNoFallback(t *testing.T) {
	s := mcptest.New(mcptest.Config{Era: mcptest.Modern, Versions: []string{"2026-10-01"}})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	st, err := hub.Await(within(t), "a", 0)
	if err != nil || st.State != "misconfigured" || st.Cause == nil || st.Cause.Kind != fault.NoVersion ||
		!strings.Contains(st.Cause.Error(), "2026-10-01") {
		t.Errorf("%+v, %v", st, err)
	}
	if s.Count("initialize") != 0 {
		t.Error("initialize was sent to a modern server")
	}
}

// R5: modern headers are everline's own, whatever the name: the upstream's
// tool name in base64 where it is not plain, the annotated parameters; and a
// definition that changed behind our back costs one listing and no call.
func TestFaultR5HeadersOfEveryCall(t *testing.T) {
	const name = "größe"
	tool := func(header string) string {
		return `{"name":"` + name + `","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"` + header + `"}}}}`
	}
	s := mcptest.New(mcptest.Config{Era: mcptest.Modern, Tools: []string{tool("Region")}})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	ready(t, hub, "a", 0)
	exposed := toolNames(hub)[0]
	mustCall(t, hub, exposed, `{"region":"übersee"}`)
	encoded := func(v string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?=" }
	calls := s.Requests("tools/call")
	h := calls[len(calls)-1].Header
	if h.Get("Mcp-Method") != "tools/call" || h.Get("Mcp-Name") != encoded(name) || h.Get("Mcp-Param-Region") != encoded("übersee") {
		t.Errorf("headers %v", h)
	}
	s.SetTools(tool("Zone"))
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		if r.Header.Get("Mcp-Param-Zone") == "" {
			return &mcptest.Reply{Status: 400, Error: `{"code":-32020,"message":"Header mismatch"}`}
		}
		return nil
	})
	mustCall(t, hub, exposed, `{"region":"eu"}`)
	if n := s.Count("initialize"); n != 0 {
		t.Errorf("%d initializes: a silent downgrade", n)
	}
}
