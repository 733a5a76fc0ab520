package everline_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/mcptest/authserver"
)

// guarded is a scripted server that wants a login, and who gives it.
func guarded(t *testing.T, script authserver.Script) (cfg *config.Config, issuer *authserver.Server, resource *authserver.Resource) {
	t.Helper()
	// Who connects to a port that was another's a moment ago must find all of it.
	site, server := httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil)
	issuer = authserver.New("http://"+site.Listener.Addr().String(), script)
	resource = authserver.NewResource("http://"+server.Listener.Addr().String()+"/mcp", issuer)
	resource.SetBehind(mcptest.New(mcptest.Config{}).Handler())
	site.Config.Handler, server.Config.Handler = issuer, resource
	for _, each := range []*httptest.Server{site, server} {
		each.Start()
		t.Cleanup(each.Close)
	}
	s := config.NewServer("notes")
	s.URL, s.Transport, s.Overlap = server.URL+"/mcp", config.TransportAuto, true
	cfg = config.New()
	cfg.Servers = []config.Server{s}
	return cfg, issuer, resource
}

func approve(ctx context.Context, page string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// awaitState waits for a generation behind gen that ends up in a state. A call may
// have brought one forward that ends elsewhere.
func awaitState(t *testing.T, h *everline.Hub, gen uint64, want string) everline.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		st, err := h.Await(ctx, "notes", gen)
		switch {
		case err != nil:
			t.Fatalf("%s, %v: %v", st.State, err, st.Cause)
		case string(st.State) == want:
			return st
		}
		gen = st.Generation
	}
}

// Ten calls meet one token that is refused before its time: there is one refresh,
// each call is sent once more, and the connection stays.
func TestFaultL1OverTheWire(t *testing.T) {
	t.Parallel()
	cfg, issuer, _ := guarded(t, authserver.Script{})
	h, err := everline.Open(t.Context(), cfg, everline.Options{StateDir: filepath.Join(t.TempDir(), "state"), Browser: approve})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	st := awaitState(t, h, 0, "connected")
	if st.Auth == nil || st.Auth.Phase.String() != "ok" || st.Auth.Issuer != issuer.Issuer {
		t.Fatalf("%+v", st.Auth)
	}
	tool := ""
	for l := range h.Catalog().Items(everline.Tools) {
		tool = l.Exposed
	}
	issuer.Revoke()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := h.CallTool(t.Context(), tool, map[string]any{}); err != nil && fault.KindOf(err) != fault.RPC {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(issuer.Grants("refresh_token")); n != 1 {
		t.Errorf("%d refreshes", n)
	}
	if now, _ := h.Server("notes"); now.Generation != st.Generation {
		t.Errorf("generation %d became %d", st.Generation, now.Generation)
	}
	if n := len(issuer.Grants("authorization_code")); n != 1 {
		t.Errorf("%d logins", n)
	}
}

// Without a browser a server that wants a login says so, its calls fail at once,
// and a login starts it.
func TestLoginStartsTheServer(t *testing.T) {
	t.Parallel()
	cfg, issuer, _ := guarded(t, authserver.Script{})
	h, err := everline.Open(t.Context(), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	st := awaitState(t, h, 0, "auth_required")
	if st.Auth.Phase.String() != "needs_login" || st.Remedy != "run: everline auth login notes" {
		t.Errorf("%s, %q", st.Auth.Phase, st.Remedy)
	}
	_, err = h.Call(t.Context(), &everline.Call{Method: "tools/call", Server: "notes", Name: "x", Params: []byte(`{"name":"x"}`)})
	if f := fault.From("", err); f.Outcome != fault.NotSent {
		t.Errorf("%v", f)
	}
	l, err := h.Login(t.Context(), "notes", everline.LoginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := approve(t.Context(), l.URL()); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	st = awaitState(t, h, st.Generation, "connected")

	// The issuer takes everything back: a probe finds that nobody is let in.
	issuer.Kill()
	for l := range h.Catalog().Items(everline.Tools) {
		_, err = h.CallTool(t.Context(), l.Exposed, map[string]any{})
	}
	if fault.KindOf(err) != fault.Unauthorized {
		t.Errorf("%v", err)
	}
	if st = awaitState(t, h, st.Generation, "auth_required"); st.Counts[everline.Tools] == 0 {
		t.Error("the catalog is gone")
	}
}
