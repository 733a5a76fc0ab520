package daemon

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/gateway"
)

// quiet is a daemon without a log.
var quiet = Options{Log: slog.New(slog.DiscardHandler)}

// TestEveryRouteIsGuarded is DNS rebinding: a page of another site makes the
// browser ask this machine under that site's name, or its own page asks here.
func TestEveryRouteIsGuarded(t *testing.T) {
	t.Parallel()
	d, err := start(t.Context(), parts{
		Options: quiet, found: Loaded{Config: &config.Config{}}, stateDir: t.TempDir(), gateway: gateway.Options{Hosts: []string{"gw.example"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close(t.Context())
	h := d.endpoint()
	ask := func(path, host, origin string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, path := range []string{"/healthz", "/readyz", "/mcp", "/mcp/x", "/sse", "/messages", "/nothing"} {
		if code := ask(path, "evil.example:1", ""); code != http.StatusForbidden {
			t.Errorf("%s under another name: %d", path, code)
		}
		if code := ask(path, "localhost", "https://evil.example"); code != http.StatusForbidden {
			t.Errorf("%s from another page: %d", path, code)
		}
	}
	for _, host := range []string{"127.0.0.1:1", "localhost", "[::1]:1", "a.localhost", "gw.example:7433"} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if code := ask(path, host, ""); code != http.StatusOK {
				t.Errorf("%s under %s: %d", path, host, code)
			}
		}
	}
}

// What the endpoint cannot keep is in the log.
func TestTheEndpointWarnsInTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d, err := start(t.Context(), parts{Options: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, found: Loaded{Config: config.New()}, stateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"extensions":{"com.example/thing":{"s":"`+strings.Repeat("x", 5000)+`"}}},"clientInfo":{"name":"much","version":"1"}}}`))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	d.endpoint().ServeHTTP(w, r)
	if err := d.close(t.Context()); err != nil { // nothing is written to the log any more
		t.Error(err)
	}
	if text := log.String(); w.Code != http.StatusOK || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "much") {
		t.Errorf("%d, and the log is %s", w.Code, text)
	}
}

func TestPortOwner(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got, want := PortOwner(l.Addr().(*net.TCPAddr).Port), os.Getpid()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		want = 0 // no way to tell here
	}
	if got != want {
		t.Errorf("PortOwner = %d, want %d", got, want)
	}
}
