package upstream

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
)

func TestEraOverHTTP(t *testing.T) {
	for _, c := range []struct {
		name    string
		era     mcptest.Era
		version string
		modern  bool
	}{
		{"legacy", mcptest.Legacy, "2025-11-25", false},
		{"modern", mcptest.Modern, "2026-07-28", true},
		{"dual", mcptest.Dual, "2026-07-28", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{Era: c.era, Instructions: "use it well"})
			opts, _ := options(overWeb(t, s))
			u := start(t, opts)
			want := Era{Transport: transport.HTTP, Version: c.version, Modern: c.modern, Answered: true, Older: c.era == mcptest.Dual}
			if got := u.Info().Era; got != want {
				t.Errorf("era %+v, want %+v", got, want)
			}
			cat, err := u.List(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(cat.Items[0]) != 3 || cat.Instructions != "use it well" || !strings.Contains(string(cat.ServerInfo), "mcptest") {
				t.Errorf("catalog %+v", cat)
			}
			got := call(t, u, `{"name":"echo","arguments":{"n":9007199254740993}}`)
			if !strings.Contains(got, `"structuredContent":{"n":9007199254740993}`) {
				t.Errorf("result %s", got)
			}
			if n := s.Count("initialize"); n != map[bool]int{true: 0, false: 1}[c.modern] {
				t.Errorf("%d initialize", n)
			}
			// What was found is the way of the next generation, without a probe.
			opts.Era = u.Info().Era
			probes := s.Count("server/discover")
			next := start(t, opts)
			if next.Info().Era != want {
				t.Errorf("era of the next life %+v", next.Info().Era)
			}
			if n := s.Count("server/discover") - probes; !c.modern && n != 0 {
				t.Errorf("%d probes although the era was known", n)
			}
		})
	}
}

// The server was upgraded, or downgraded, since its era was remembered.
func TestRememberedEraIsFoundAnew(t *testing.T) {
	for _, c := range []struct {
		name string
		now  mcptest.Era
		was  Era
	}{
		{"was legacy", mcptest.Modern, Era{Transport: transport.HTTP, Version: "2025-06-18"}},
		{"was modern", mcptest.Legacy, Era{Transport: transport.HTTP, Version: "2026-07-28", Modern: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts, _ := options(overWeb(t, mcptest.New(mcptest.Config{Era: c.now})))
			opts.Era = c.was
			if u := start(t, opts); u.Info().Era.Modern == c.was.Modern {
				t.Errorf("era %+v", u.Info().Era)
			}
		})
	}
}

// A server that agreed and then forgot the session is no other server than
// before: the start that it fails asks for no second session.
func TestFaultA7_OneSessionPerStart(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") != "" && r.Method == http.MethodPost {
			http.Error(w, "no such session", http.StatusNotFound)
			return
		}
		s.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	opts, _ := options(config.Server{URL: front.URL + "/mcp"})
	opts.Era = Era{Transport: transport.HTTP, Version: "2025-11-25"}
	u := start(t, opts) // what is said to a notification decides nothing
	if _, err := u.List(t.Context(), nil); fault.KindOf(err) != fault.SessionLost {
		t.Error(err)
	}
	if n := s.Count("initialize"); n != 1 {
		t.Errorf("%d initializes", n)
	}
}

// The answers of deployed legacy servers to the modern probe.
func TestFaultR1_ProbeAnswersOverHTTP(t *testing.T) {
	for name, rep := range map[string]mcptest.Reply{
		"400 -32000":       {Status: 400, Error: `{"code":-32000,"message":"Server not initialized"}`},
		"400 -32600":       {Status: 400, Error: `{"code":-32600,"message":"Invalid Request"}`},
		"400 -32602":       {Status: 400, Error: `{"code":-32602,"message":"Invalid params"}`},
		"400 empty":        {Status: 400},
		"400 null id":      {Status: 400, Body: `{"jsonrpc":"2.0","error":{"code":-32000,"message":"missing session id"},"id":null}`},
		"404 HTML":         {Status: 404, Body: "<html>not here</html>", Header: map[string]string{"Content-Type": "text/html"}},
		"405":              {Status: 405},
		"200 -32601":       {Error: `{"code":-32601,"message":"Method not found"}`},
		"500":              {Status: 500, Body: "panic"},
		"200 yes to all":   {Result: `{}`},
		"200 and a string": {Result: `"what?"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			s.Next("server/discover", 1, rep)
			opts, _ := options(overWeb(t, s))
			u := start(t, opts)
			if e := u.Info().Era; e.Modern || e.Version != "2025-11-25" {
				t.Errorf("era %+v", e)
			}
			call(t, u, `{"name":"echo"}`)
		})
	}
}

func TestFaultR2_UnsupportedVersionIsModern(t *testing.T) {
	bad := func(supported string) mcptest.Reply {
		return mcptest.Reply{Status: 400, Error: `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":` + supported + `}}`}
	}
	t.Run("none of ours", func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Era: mcptest.Modern, Versions: []string{"2026-10-01"}})
		opts, _ := options(overWeb(t, s))
		f := refused(t, opts)
		if f.Kind != fault.NoVersion || !strings.Contains(f.Error(), "2026-10-01") {
			t.Errorf("fault %v %v", f.Kind, f)
		}
		if s.Count("initialize") != 0 {
			t.Error("initialize was sent to a modern server")
		}
	})
	t.Run("one of ours", func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Era: mcptest.Modern})
		s.Next("server/discover", 1, bad(`["2026-10-01","2026-07-28"]`))
		opts, _ := options(overWeb(t, s))
		if e := start(t, opts).Info().Era; !e.Modern {
			t.Errorf("era %+v", e)
		}
		if s.Count("server/discover") != 2 || s.Count("initialize") != 0 {
			t.Errorf("%d probes, %d initialize", s.Count("server/discover"), s.Count("initialize"))
		}
	})
	t.Run("never the one it names", func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Era: mcptest.Modern})
		s.Next("server/discover", 9, bad(`["2026-07-28"]`))
		opts, _ := options(overWeb(t, s))
		if f := refused(t, opts); f.Kind != fault.NoVersion || s.Count("server/discover") != 2 {
			t.Errorf("fault %v after %d probes", f, s.Count("server/discover"))
		}
	})
	t.Run("a legacy one of ours", func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.Next("server/discover", 1, bad(`["2025-06-18","2025-03-26"]`))
		opts, _ := options(overWeb(t, s))
		if e := start(t, opts).Info().Era; e.Modern || e.Version != "2025-06-18" {
			t.Errorf("era %+v", e)
		}
	})
}

func TestFaultM3_NoFallbackButOnRefusal(t *testing.T) {
	for _, c := range []struct {
		name string
		rep  mcptest.Reply
		kind fault.Kind
		sse  bool
	}{
		{"401", mcptest.Reply{Status: 401, Header: map[string]string{"Www-Authenticate": "Bearer"}}, fault.Unauthorized, false},
		{"401 without a challenge", mcptest.Reply{Status: 401}, fault.HTTPStatus, false},
		{"500", mcptest.Reply{Status: 500}, fault.HTTPStatus, false},
		{"503", mcptest.Reply{Status: 503}, fault.HTTPStatus, false},
		{"400 with a reason", mcptest.Reply{Status: 400, Error: `{"code":-32600,"message":"tenant is missing"}`}, fault.RPC, false},
		{"400", mcptest.Reply{Status: 400}, fault.HTTPStatus, true},
		{"404", mcptest.Reply{Status: 404}, fault.HTTPStatus, true},
		{"405", mcptest.Reply{Status: 405}, fault.HTTPStatus, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			s.Next("server/discover", 9, c.rep)
			s.Next("initialize", 9, c.rep)
			server := overWeb(t, s)
			server.Transport = "auto"
			opts, _ := options(server)
			f := refused(t, opts)
			if f.Kind != c.kind || f.Kind == fault.HTTPStatus && f.Status != c.rep.Status {
				t.Errorf("fault %v (%v, status %d), want %v", f, f.Kind, f.Status, c.kind)
			}
			if got := s.Count("GET") > 0; got != c.sse {
				t.Errorf("GET was tried: %v, want %v", got, c.sse)
			}
		})
	}
	t.Run("refused connection", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		opts, _ := options(config.Server{Transport: "auto", URL: "http://" + addr + "/mcp"})
		if f := refused(t, opts); f.Kind != fault.Dial {
			t.Errorf("fault %v (%v)", f, f.Kind)
		}
	})
}

func TestFaultM3_FallsBackToSSE(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	server := config.Server{Transport: "auto", URL: mcptest.Web(t, s).URL + "/sse"}
	opts, _ := options(server)
	u := start(t, opts)
	if e := u.Info().Era; e.Transport != transport.SSE {
		t.Fatalf("era %+v", e)
	}
	call(t, u, `{"name":"echo"}`)
	opts.Era = u.Info().Era
	probes := s.Count("server/discover")
	next := start(t, opts)
	if next.Info().Era.Transport != transport.SSE || s.Count("server/discover") != probes {
		t.Errorf("the next life: %+v, %d probes", next.Info().Era, s.Count("server/discover")-probes)
	}
	server.Transport = "http"
	opts, _ = options(server)
	if f := refused(t, opts); f.Status != 405 && f.Status != 404 {
		t.Errorf("http alone: %v", f)
	}
}

func TestFaultM5_StepsDownThroughVersions(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	s.On("initialize", func(r *mcptest.Request) *mcptest.Reply {
		if v := r.Header.Get("Mcp-Protocol-Version"); v != "" {
			t.Errorf("initialize with version header %q", v)
		}
		if strings.Contains(string(r.Params), "2025-06-18") {
			return nil
		}
		return &mcptest.Reply{Status: 400, Body: "supported: 2025-06-18, 2025-03-26"}
	})
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	if e := u.Info().Era; e.Version != "2025-06-18" || s.Count("initialize") != 2 {
		t.Errorf("era %+v after %d initialize", e, s.Count("initialize"))
	}
	// What worked is tried first in the next generation.
	opts.Era = u.Info().Era
	start(t, opts)
	if s.Count("initialize") != 3 {
		t.Errorf("%d initialize in all", s.Count("initialize"))
	}
}

func TestFaultM5_AcceptsWhatWeSpeakOnly(t *testing.T) {
	for version, good := range map[string]bool{"2024-11-05": true, "2025-03-26": true, "2024-10-07": false, "2099-01-01": false} {
		s := mcptest.New(mcptest.Config{Versions: []string{version}})
		opts, _ := options(overWeb(t, s))
		if !good {
			if f := refused(t, opts); f.Kind != fault.NoVersion || !strings.Contains(f.Error(), version) {
				t.Errorf("%s: %v", version, f)
			}
			s.Await(t, "the session's DELETE", func() bool { return s.Sessions() == 0 })
			continue
		}
		if e := start(t, opts).Info().Era; e.Version != version {
			t.Errorf("%s: era %+v", version, e)
		}
	}
	s := mcptest.New(mcptest.Config{})
	s.Next("initialize", 99, mcptest.Reply{Status: 400})
	opts, _ := options(overWeb(t, s))
	if f := refused(t, opts); f.Status != 400 || s.Count("initialize") != 4 {
		t.Errorf("%v after %d initialize, want 4", f, s.Count("initialize"))
	}
}
