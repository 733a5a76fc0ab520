package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
)

// Requests that the modern era does not have are put into its words.
func TestLegacyMethodsTowardAModernServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		u, h := inMemory(t, s)
		for _, c := range []*Call{
			{Method: "logging/setLevel", Params: []byte(`{"level":"debug"}`)},
			{Method: "resources/subscribe", Name: "file:///a", Params: []byte(`{"uri":"file:///a"}`)},
		} {
			out, err := u.Call(t.Context(), c)
			if err != nil || string(out.Raw) != "{}" {
				t.Errorf("%s: %s, %v", c.Method, out.Raw, err)
			}
		}
		s.Notify("notifications/resources/updated", `{"uri":"file:///a"}`)
		synctest.Wait()
		if len(h.updated) == 0 {
			t.Error("no update")
		}
		if _, err := u.Call(t.Context(), &Call{Method: "resources/unsubscribe", Params: []byte(`{"uri":"file:///a"}`)}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if standing(s) != 1 || s.Count("resources/subscribe")+s.Count("logging/setLevel") != 0 {
			t.Errorf("%d streams", standing(s))
		}
	})
}

// The schema of a tool got a header parameter since it was listed.
func TestFaultR5_HeaderMismatchListsAgain(t *testing.T) {
	s := mcptest.New(mcptest.Config{Era: mcptest.Modern, Tools: []string{`{"name":"q","inputSchema":{"type":"object"}}`}})
	opts, h := options(overWeb(t, s))
	u := start(t, opts)
	old := listAll(t, u, nil)
	s.SetTools(`{"name":"q","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}`)
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		if r.Header.Get("Mcp-Param-Region") == "" {
			return &mcptest.Reply{Status: 400, Error: `{"code":-32020,"message":"Header mismatch"}`}
		}
		return nil
	})
	c := &Call{Method: "tools/call", Name: "q", Headers: old.Items[0][0].Headers, Params: []byte(`{"name":"q","arguments":{"r":"eu"}}`)}
	if _, err := u.Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if s.Count("tools/call") != 2 || h.count(catalog.Tools) != 1 || len(c.Headers) != 0 {
		t.Errorf("%d calls, %d changes, the caller's headers %v", s.Count("tools/call"), h.count(catalog.Tools), c.Headers)
	}
	// Once only.
	s.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Status: 400, Error: `{"code":-32020,"message":"Header mismatch"}`}
	})
	_, err := u.Call(t.Context(), c)
	if f := faultOf(t, err); f.Kind != fault.RPC || f.RPC.Code != -32020 || s.Count("tools/call") != 4 {
		t.Errorf("%v after %d calls", f, s.Count("tools/call"))
	}
}

// Another server answers at the URL by now: what was remembered is no longer
// true. A modern server refuses every request of the legacy era, the ping that
// asks about it, too; the code alone may be a legacy server's own.
func TestEraChangesWhileConnected(t *testing.T) {
	for era, refusal := range map[mcptest.Era]string{
		mcptest.Legacy: `{"code":-32020,"message":"Header mismatch"}`,
		mcptest.Modern: `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2027-01-01"]}}`,
	} {
		s := mcptest.New(mcptest.Config{Era: era})
		opts, _ := options(overWeb(t, s))
		u := start(t, opts)
		s.Next("tools/call", 9, mcptest.Reply{Status: 400, Error: refusal})
		s.Next("ping", 9, mcptest.Reply{Status: 400, Error: refusal})
		_, err := u.Call(t.Context(), workCall())
		if f := faultOf(t, err); f.Kind != fault.SessionLost || f.Outcome != fault.NotSent {
			t.Errorf("era %d: %v (%v, %v)", era, f, f.Kind, f.Outcome)
		}
		<-u.Done()
	}
}

// Everything that goes to a modern server carries the envelope of its era.
func TestModernRequestsCarryTheirMeta(t *testing.T) {
	s := mcptest.New(mcptest.Config{Era: mcptest.Modern})
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	listAll(t, u, nil)
	call(t, u, `{"name":"echo"}`)
	s.Await(t, "the stream", func() bool { return s.Listeners() == 1 })
	if err := u.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := s.Requests("")
	if len(all) != 5 {
		t.Errorf("%d requests", len(all))
	}
	for _, r := range all {
		for _, want := range []string{
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`,
			`"io.modelcontextprotocol/clientInfo":{"name":"everline","version":"1.2.3"}`, `"io.modelcontextprotocol/clientCapabilities":{}`,
		} {
			if !strings.Contains(string(r.Params), want) {
				t.Errorf("%s: no %s in %s", r.Method, want, r.Params)
			}
		}
		if r.Header.Get("Mcp-Protocol-Version") != "2026-07-28" || r.Header.Get("Mcp-Method") != r.Method || r.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: headers %v", r.Method, r.Header)
		}
	}
}

// Every legacy HTTP request after initialize names version and session.
func TestLegacyRequestsCarryTheirHeaders(t *testing.T) {
	s := mcptest.New(mcptest.Config{Versions: []string{"2025-06-18"}})
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	call(t, u, `{"name":"echo"}`)
	for _, r := range s.Requests("tools/call") {
		if r.Header.Get("Mcp-Protocol-Version") != "2025-06-18" || r.Header.Get("Mcp-Session-Id") == "" || r.Header.Get("Mcp-Method") != "" {
			t.Errorf("headers %v", r.Header)
		}
		if strings.Contains(string(r.Params), "io.modelcontextprotocol") {
			t.Errorf("params %s", r.Params)
		}
	}
	if n := s.Count("notifications/initialized"); n != 1 {
		t.Errorf("%d notifications/initialized", n)
	}
}

// How a client's cancel reaches the server: legacy by a notice with our own
// id, modern HTTP by the end of the exchange alone.
func TestFaultJ3_CancelOverHTTP(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		s := mcptest.New(mcptest.Config{Era: era})
		opts, _ := options(overWeb(t, s))
		u := start(t, opts)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { // ends with its call
			_, err := u.Call(ctx, &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"id":"1","ms":600000}}`)})
			done <- err
		}()
		s.Await(t, "the call", func() bool { return s.Executions("1") == 1 })
		cancel()
		if f := faultOf(t, <-done); f.Kind != fault.Canceled || f.Outcome != fault.Unknown {
			t.Errorf("era %d: %v (%v, %v)", era, f, f.Kind, f.Outcome)
		}
		s.Await(t, "the end of the exchange", func() bool { return s.Closings() == 1 })
		if era == mcptest.Modern {
			if n := len(s.Cancelled()); n != 0 {
				t.Errorf("%d notices toward a modern server", n)
			}
			continue
		}
		id := string(s.Requests("tools/call")[0].ID)
		s.Await(t, "the notice", func() bool { return len(s.Cancelled()) == 1 && s.Cancelled()[0] == id })
	}
}
