package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/everlinetest"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcptest/authserver"
	"github.com/everline/everline/internal/web"
)

// actingRoutes are the requests of the page that are not GET, as the sources of the
// page and of the admin API behind it have them.
func actingRoutes(t *testing.T) (routes []string) {
	t.Helper()
	source := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	api := source("../admin/api.go")
	pattern := regexp.MustCompile(`"(?:POST|PUT|PATCH|DELETE) (?:/api)?/v1/([^"]+)"`)
	for _, m := range pattern.FindAllStringSubmatch(source("../web/web.go"), -1) {
		if m[1] != "servers/{name}/{op}" {
			routes = append(routes, m[1])
			continue
		}
		for _, o := range regexp.MustCompile(`"(\w+)":\s+a\.opts\.Hub\.`).FindAllStringSubmatch(api, -1) {
			routes = append(routes, "servers/{name}/"+o[1])
		}
		for _, o := range pattern.FindAllStringSubmatch(api, -1) {
			if op, ok := strings.CutPrefix(o[1], "servers/{name}/"); ok && op != "{op}" {
				routes = append(routes, "servers/{name}/"+op)
			}
		}
	}
	if len(routes) < 15 {
		t.Fatalf("the routes are not found any more: %q", routes)
	}
	return routes
}

// pageDoings says of each of them what it does on the stand of the test below: the
// event, the record, and what is asked. What does nothing says why.
var pageDoings = map[string]struct{ event, record, body, nothing string }{
	"servers/{name}/restart":     {"up restart", "admin restart up", "", ""},
	"servers/{name}/reconnect":   {"up reconnect", "admin reconnect up", "", ""},
	"servers/{name}/disable":     {"up disable", "admin disable up", "", ""},
	"servers/{name}/enable":      {"up enable", "admin enable up", "", ""},
	"servers/{name}/drill":       {"up drill", "admin drill up", `{"fault":"kill","forMs":1}`, ""},
	"servers/{name}/login":       {"notes login", "auth login notes", "", ""},
	"servers/{name}/logout":      {"notes logout", "auth logout notes", "", ""},
	"servers/{name}/ping":        {nothing: "it asks whether the server answers"},
	"servers/{name}/capture":     {"up capture", "admin capture up", "", ""},
	"servers/{name}/capture-end": {"up capture-end", "admin capture-end up", "", ""},
	"call":                       {"up call", "call tools/call up", `{"server":"up","tool":"echo","arguments":{}}`, ""},
	"answer":                     {nothing: "it is a part of a call"},
	"pins/approve":               {" approve", "admin approve ", "{}", ""},
	"reload":                     {" reload", "config reload ", "", ""},
	"unlock":                     {" unlock", "admin unlock ", "", ""},
	"renew":                      {nothing: "whoever has the right keeps it"},
	"validate":                   {nothing: "it reads what was pasted"},
}

// newPageStand is an everline with a server, and one that wants a login, and the
// page in a browser that has the right to act.
func newPageStand(t *testing.T) (d *daemon, site string) {
	t.Helper()
	unstarted := func() *httptest.Server { return httptest.NewUnstartedServer(nil) }
	issuing, asking, page := unstarted(), unstarted(), unstarted()
	issuer := authserver.New("http://"+issuing.Listener.Addr().String(), authserver.Script{})
	issuing.Config.Handler = issuer
	asking.Config.Handler = authserver.NewResource("http://"+asking.Listener.Addr().String()+"/mcp", issuer)
	up := everlinetest.New(everlinetest.Tool{Name: "echo"})
	t.Cleanup(up.Close)
	notes := config.NewServer("notes")
	notes.Transport, notes.URL = config.TransportHTTP, "http://"+asking.Listener.Addr().String()+"/mcp"
	cfg := config.New()
	cfg.Servers, cfg.Audit.Level, cfg.Pins = []config.Server{up.Config("up"), notes}, config.AuditCalls, config.PinsWarn
	cfg.PinsFile = filepath.Join(t.TempDir(), "pins.json")
	state := t.TempDir()
	if err := os.Chmod(state, 0o700); err != nil { // tokens are kept there
		t.Fatal(err)
	}
	base := "http://" + page.Listener.Addr().String()
	d, err := start(t.Context(), parts{
		Options: quiet, found: Loaded{Config: cfg}, stateDir: state, endpoint: base + "/mcp", redirect: base + callbackPath, local: true, gateway: gateway.Options{},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.load = func() (*config.Config, error) { return cfg, nil }
	page.Config.Handler = d.site
	for _, s := range []*httptest.Server{issuing, asking, page} {
		s.Start()
		t.Cleanup(s.Close)
	}
	t.Cleanup(func() { _ = d.close(context.Background()) }) // the test is over
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := d.hub.Await(ctx, "up", 0); err != nil {
		t.Fatal(err)
	}
	return d, base
}

// Whatever the page does is an event that says that the page did it, and a record of
// who it was. A route that is added is added above.
func TestWhatThePageDoesIsTold(t *testing.T) {
	t.Parallel()
	d, site := newPageStand(t)
	link, err := d.site.Link()
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(link, "#code=")
	var token web.Token
	ask := func(path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site+"/api/v1/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token.Token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, resp.StatusCode, text, err)
		}
		if path == "unlock" {
			if err := json.Unmarshal(text, &token); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	routes := actingRoutes(t)
	done := map[string]bool{}
	act := func(route string) {
		t.Helper()
		want, known := pageDoings[route]
		if done[route] = true; !known || want.nothing != "" {
			if !known {
				t.Errorf("%s: nobody says which event and which record it is", route)
			}
			return
		}
		server, _, _ := strings.Cut(want.event, " ")
		body := want.body
		if route == "unlock" {
			body = fmt.Sprintf(`{"code":%q}`, code)
		}
		if _, err := d.hub.Await(ctx, "up", 0); err != nil {
			t.Fatal(err)
		}
		before, records := d.journal.Last(), len(d.recordedSoFar(t))
		ask(strings.Replace(route, "{name}", server, 1), body)
		events, _ := d.api.Since(before)
		if got := told(events); got != want.event+" by web" {
			t.Errorf("%s is the event %q, want %q", route, got, want.event)
		}
		if got := written(d.recordedSoFar(t)[records:]); got != want.record+" by web 127.0.0.1" {
			t.Errorf("%s is the record %q, want %q", route, got, want.record)
		}
	}
	act("unlock")
	const last = "servers/{name}/disable"
	for _, route := range routes {
		if !done[route] && route != last {
			act(route)
		}
	}
	act(last)
	for route := range pageDoings {
		if !done[route] {
			t.Errorf("%s is no route any more", route)
		}
	}
}

// told is what was operated, by the one event of it.
func told(events []admin.Event) string {
	var all []string
	for _, e := range events {
		if e.Kind == "operated" {
			all = append(all, fmt.Sprintf("%s %s by %s", e.Server, e.Data["action"], e.Data["by"]))
		}
	}
	return strings.Join(all, ", ")
}

// written is what was recorded, but for what everline does itself.
func written(records []*audit.Record) string {
	var all []string
	for _, r := range records {
		if r.Actor.Kind == audit.System {
			continue
		}
		server := ""
		if r.Target != nil {
			server = r.Target.Server
		}
		all = append(all, fmt.Sprintf("%s %s %s by %s %s", r.Type, r.Action, server, r.Actor.Kind, r.Actor.Addr))
	}
	return strings.Join(all, ", ")
}

func (d *daemon) recordedSoFar(t *testing.T) (all []*audit.Record) {
	t.Helper()
	if err := d.audit.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := audit.Read(t.Context(), filepath.Join(d.parts.stateDir, admin.AuditFolder), audit.Filter{}, false, func(r *audit.Record, _ []byte) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
