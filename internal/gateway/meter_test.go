package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	facts "github.com/everline/everline/event"
	"github.com/everline/everline/internal/access"
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

// So is whoever does not come in, and whoever keeps a connection open for nothing.
func TestWhoDoesNotComeInIsCounted(t *testing.T) {
	m := meter.NewEndpoint()
	g := New(newHub(), Options{Meter: m, Entrance: nobody{}})
	defer g.Close(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Server(g.Handler())
	s.IdleTimeout = 20 * time.Millisecond
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(g.Listener(l)) }) // ends with Close
	defer served.Wait()
	defer s.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
	text, err := io.ReadAll(conn)
	if n := m.Read(); err != nil || !strings.Contains(string(text), "401") || n.Refused["auth"] != 1 || n.Cut["idle"] != 1 || n.Cut["slow"] != 0 {
		t.Errorf("%q, %v, refused %v, cut %v", text, err, n.Refused, n.Cut)
	}
	conn, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	if n := m.Read(); n.Refused["auth"] != 2 || n.Cut["idle"] != 1 { // the client wanted it closed
		t.Errorf("refused %v, cut %v", n.Refused, n.Cut)
	}
}

type nobody struct{}

func (nobody) Enter(w http.ResponseWriter, _ *http.Request) *access.Identity {
	w.WriteHeader(http.StatusUnauthorized)
	return nil
}
func (nobody) Admits(*access.Identity) bool                                { return false }
func (nobody) NothingGranted(http.Header, *http.Request, *access.Identity) {}

// What cannot be read is counted in each way in, and so is a version that is not spoken.
func TestMalformedIsCounted(t *testing.T) {
	m := meter.NewEndpoint()
	g := New(newHub(), Options{Meter: m})
	defer g.Close(t.Context())
	modern := func(version string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `"}}}`
	}
	var out strings.Builder
	in := strings.Join([]string{"}{", "[]", modern("2099-01-01"), modern("2026-07-28")}, "\n") + "\n"
	if err := g.ServeStdio(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if n := m.Read().Refused; n["parse"] != 3 || n["version"] != 1 {
		t.Errorf("%v\n%s", n, out.String())
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
