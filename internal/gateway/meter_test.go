package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	facts "github.com/everline/everline/event"
	"github.com/everline/everline/internal/meter"
)

// What is refused before any server was meant is counted by why.
func TestRefusalsAreCounted(t *testing.T) {
	m := meter.NewEndpoint()
	g := New(newHub(), Options{Meter: m, MaxBody: 1000})
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

// Each request is counted once: here if no server is asked, else by the hub. Of calls
// that are answered it is known what everline itself took.
func TestOwnAnswersAreCounted(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		h, m := sdkHub(), meter.NewEndpoint()
		s := serve(t, h, Options{Meter: m})
		c := connect(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.web}, version)
		if _, err := c.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"echo", "away"} {
			if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"r": "x"}}); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		n := m.Read()
		var own [len(meter.Methods)]uint64
		for i := range own {
			own[i] = n.Own[i][facts.CallAnswered]
		}
		if own[0] != 0 || own[4] != 1 || own[len(own)-1] == 0 {
			t.Errorf("%s: of each method everline has answered %d itself", version, own)
		}
		if over := n.Overhead["http"]; over.Count() != 1 || over.Sum <= 0 || over.Sum > time.Minute {
			t.Errorf("%s: everline took %s in %d calls", version, over.Sum, over.Count())
		}
		if n.Streams["post"] != 0 {
			t.Errorf("%s: %d responses are open", version, n.Streams["post"])
		}
		if sessions := n.Lasted.Count(); version == "2025-11-25" && sessions != 1 {
			t.Errorf("%d sessions are over", sessions)
		}
	}
}
