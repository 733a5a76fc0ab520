package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/everline/everline/internal/meter"
)

// What is refused before any server was meant is counted by why.
func TestRefusalsAreCounted(t *testing.T) {
	var m meter.Endpoint
	g := New(newHub(), Options{Meter: &m, MaxBody: 1000})
	defer g.Close(t.Context())
	h := g.Handler()
	send := func(host, origin, version, body string) {
		r, _ := http.NewRequest(http.MethodPost, "http://"+host+"/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for name, v := range map[string]string{"Origin": origin, "Mcp-Protocol-Version": version} {
			if v != "" {
				r.Header.Set(name, v)
			}
		}
		if version != "" {
			r.Header.Set("Mcp-Session-Id", "x")
		}
		h.ServeHTTP(&discard{http.Header{}}, r)
	}
	send("evil.test", "", "", "{}")
	send("localhost", "http://evil.test", "", "{}")
	send("localhost", "", "", "}{")
	send("localhost", "", "1999-01-01", "{}")
	send("localhost", "", "2026-07-28", strings.Repeat("x", 2000))
	n := m.Read().Refused
	for _, reason := range []string{"host", "origin", "parse", "size"} {
		if n[reason] == 0 {
			t.Errorf("%s is not counted: %v", reason, n)
		}
	}
}

type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
