package systest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/mcptest/authserver"
)

// A locked is the way to a server that wants a login.
type locked struct {
	url      string
	issuer   *authserver.Server
	refusals atomic.Int64 // reasons for a refresh that there were
}

// lock puts a server behind a login.
func lock(t *testing.T, h http.Handler) *locked {
	t.Helper()
	// Who connects to a port that was another's a moment ago must find all of it.
	site, server := httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil)
	l := &locked{url: "http://" + server.Listener.Addr().String() + "/mcp"}
	l.issuer = authserver.New("http://"+site.Listener.Addr().String(), authserver.Script{})
	resource := authserver.NewResource(l.url, l.issuer)
	resource.SetBehind(h)
	site.Config.Handler, server.Config.Handler = l.issuer, resource
	for _, each := range []*httptest.Server{site, server} {
		each.Start()
		t.Cleanup(func() { each.CloseClientConnections(); each.Close() })
	}
	return l
}

// browse is a person who approves of every login.
func browse(ctx context.Context, page string) error {
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

// revoke takes every token back.
func (l *locked) revoke() {
	l.refusals.Add(1)
	l.issuer.Revoke()
}

// check: whoever met a refusal shared one refresh, and nobody had to log in again.
func (l *locked) check(t *testing.T) {
	t.Helper()
	if n := len(l.issuer.Grants("refresh_token")); n > int(l.refusals.Load()) {
		t.Errorf("%d refreshes for %d refusals", n, l.refusals.Load())
	}
	if n := len(l.issuer.Grants("authorization_code")); n != 1 || l.issuer.Families() != 1 {
		t.Errorf("%d logins, %d alive", n, l.issuer.Families())
	}
}

// TestFaultX24: what a client shows to everline is for everline, and goes to no
// server.
func TestFaultX24(t *testing.T) {
	const secret = "of-the-client-alone"
	s := mcptest.New(mcptest.Config{Era: mcptest.Dual})
	var mu sync.Mutex
	var seen []string
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var head strings.Builder
		_ = r.Header.Write(&head)
		mu.Lock()
		seen = append(seen, r.URL.String()+"\n"+head.String())
		mu.Unlock()
		s.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.Close(); site.CloseClientConnections(); site.Close() })
	hub := open(t, servers{"a": {"type": "http", "url": site.URL + "/mcp"}}, everline.Options{})
	ready(t, hub, "a", 0)
	e := newEndpoint(t, hub)
	_, answer, err := e.post(within(t), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Authorization", "Bearer "+secret, "Cookie", "session="+secret, "Proxy-Authorization", "Basic "+secret, "X-Api-Key", secret,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo")
	if err != nil || !strings.Contains(answer, `"result"`) {
		t.Fatalf("%s %v", answer, err)
	}
	mu.Lock()
	defer mu.Unlock()
	calls := 0
	for _, request := range seen {
		if strings.Contains(request, secret) {
			t.Errorf("the server got\n%s", request)
		}
		if strings.Contains(request, "Mcp-Name: echo") {
			calls++
		}
	}
	if calls != 1 {
		t.Errorf("%d calls among %d requests", calls, len(seen))
	}
}
