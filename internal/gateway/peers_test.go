package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/bridge"
	words "github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
)

// asker runs a shared stdio server of go-sdk, in the legacy era, behind a hub.
func asker(t *testing.T) *site {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := config.NewServer("srv")
	c.Command, c.Env = exe, map[string]string{matrixEnv: "2025-11-25", "GORACE": "atexit_sleep_ms=0"}
	return wholeOf(t, c)
}

// elicited connects a modern client of go-sdk that serves elicitation, and
// counts how often it was asked.
func elicited(t *testing.T, tr mcp.Transport, asked *atomic.Int32) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "oracle", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked.Add(1)
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
	s, err := client.Connect(t.Context(), tr, &mcp.ClientSessionOptions{ProtocolVersion: words.ModernVersion})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return s
}

// waits is what the tool that waits says on stderr when it begins.
const waits = "waits"

// waiting returns once the server runs the tool that waits: a call that is only on
// its way there is nobody's that the server may ask.
func waiting(t *testing.T, s *site) {
	t.Helper()
	eventually(t, "the call that waits", func() bool {
		lines, _ := s.real.Logs("srv")
		return slices.ContainsFunc(lines, func(l everline.LogLine) bool { return l.Text == waits })
	})
}

// callAtOnce calls the tool that asks, several times at once, and returns how
// many calls succeeded.
func callAtOnce(t *testing.T, s *mcp.ClientSession, n int) int {
	t.Helper()
	var good atomic.Int32
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "elicitation"})
			if err != nil {
				t.Error(err)
				return
			}
			if !res.IsError {
				good.Add(1)
			}
		})
	}
	calls.Wait()
	return int(good.Load())
}

// W2: over the bridge the connection is the session: several calls of one modern
// client at once are served all their questions.
func TestFaultW2OneModernClientOnTheBridgeIsOneClient(t *testing.T) {
	s := asker(t)
	var asked atomic.Int32
	tr, wait := piped(t, func(ctx context.Context, in io.Reader, out io.Writer) error {
		return bridge.Run(ctx, in, out, s.url+"/mcp", http.DefaultTransport)
	})
	c := elicited(t, tr, &asked)
	if good := callAtOnce(t, c, 4); good != 4 || asked.Load() < 4 {
		t.Errorf("%d of 4 calls succeeded, and the client was asked %d times", good, asked.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan error, 1)
	go func() { // ends with its context
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "wait"})
		out <- err
	}()
	waiting(t, s)
	cancel()
	<-out
	if good := callAtOnce(t, c, 1); good != 1 {
		t.Error("after a cancel its question was refused")
	}
	c.Close()
	wait()
	eventually(t, "the session ends with the bridge", func() bool { return s.g.sessions.Len() == 0 })
}

// Two bridges are two clients: neither gets what the other is asked.
func TestFaultW2TwoBridgesAreTwoClients(t *testing.T) {
	s := asker(t)
	var ann, bob atomic.Int32
	bridge := func(asked *atomic.Int32) *mcp.ClientSession {
		tr, wait := piped(t, func(ctx context.Context, in io.Reader, out io.Writer) error {
			return bridge.Run(ctx, in, out, s.url+"/mcp", http.DefaultTransport)
		})
		c := elicited(t, tr, asked)
		t.Cleanup(func() {
			c.Close()
			wait()
		})
		return c
	}
	a, b := bridge(&ann), bridge(&bob)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with its context
		defer close(done)
		_, _ = b.CallTool(ctx, &mcp.CallToolParams{Name: "wait"})
	}()
	waiting(t, s)
	if good := callAtOnce(t, a, 1); good != 0 || ann.Load()+bob.Load() != 0 {
		t.Errorf("%d succeeded, ann was asked %d times, bob %d", good, ann.Load(), bob.Load())
	}
	cancel()
	<-done
	eventually(t, "the end of bob's call", func() bool { st, _ := s.real.Server("srv"); return st.Out == 0 })
}

// A modern client over HTTP can name its session in a header, too.
func TestFaultW2AHeaderNamesTheSession(t *testing.T) {
	s := asker(t)
	var asked atomic.Int32
	web := &http.Client{Transport: naming{s.web.Transport, strings.Repeat("n", 22)}}
	c := elicited(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: web}, &asked)
	defer c.Close()
	if good := callAtOnce(t, c, 4); good != 4 {
		t.Errorf("%d of 4 calls succeeded", good)
	}
}

type naming struct {
	http.RoundTripper
	name string
}

func (n naming) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Everline-Session", n.name)
	return n.RoundTripper.RoundTrip(r)
}

// Over HTTP without a name the calls of a client come on several connections,
// and could be those of several: nobody is asked for another.
func TestFaultW2ConnectionsThatNobodyNamesAreNotOneClient(t *testing.T) {
	s := asker(t)
	var ann, bob atomic.Int32
	tr := func() mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.web}
	}
	a, b := elicited(t, tr(), &ann), elicited(t, tr(), &bob)
	defer a.Close()
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with its context
		defer close(done)
		_, _ = b.CallTool(ctx, &mcp.CallToolParams{Name: "wait"})
	}()
	waiting(t, s)
	if good := callAtOnce(t, a, 1); good != 0 || ann.Load()+bob.Load() != 0 {
		t.Errorf("%d succeeded, ann was asked %d times, bob %d", good, ann.Load(), bob.Load())
	}
	cancel()
	<-done
	eventually(t, "the cancel was read", func() bool { return callAtOnce(t, a, 1) == 1 })
	if bob.Load() != 0 {
		t.Errorf("bob was asked %d times", bob.Load())
	}
}

// Servers are told one client for the calls of one connection, and another one
// for those of another.
func TestFaultW2CallsOfOneConnectionAreOfOneClient(t *testing.T) {
	h := newHub()
	ids := make(chan uint64, 1)
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		ids <- c.Client.ID()
		return []byte(`{"content":[]}`), nil
	}
	s := serve(t, h, Options{})
	dial := func() func(id string) uint64 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		in := bufio.NewReader(conn)
		return func(id string) uint64 {
			body := strings.Replace(modernBody(id, words.ToolsCall, `,"name":"echo"`), `"_meta":{`, `"_meta":{"`+words.MetaClientInfo+`":{"name":"t"},`, 1)
			_, _ = fmt.Fprintf(conn, posted+"Content-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"+
				"Content-Length: %d\r\n\r\n%s", len(body), body)
			client := within(t, "the call", ids)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			return client
		}
	}
	one, other := dial(), dial()
	if first, second, third := one("1"), one("2"), other("3"); first != second || first == third {
		t.Errorf("two calls of one connection are of %d and %d, one of another is of %d", first, second, third)
	}
}

// What makes requests of one connection those of one client, and what does not.
func TestFaultW2WhatOneConnectionTells(t *testing.T) {
	one, two := &net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 1} // equal, and not the same
	type req struct {
		conn     net.Addr
		id, info string
		header   string
		who      *access.Identity
	}
	here, token := access.Local(), access.Anonymous
	for name, c := range map[string]struct {
		reqs []req
		same bool
	}{
		"one client":            {[]req{{one, "1", "a", "", here}, {one, "2", "a", "", here}}, true},
		"ids that are texts":    {[]req{{one, `"x"`, "a", "", here}, {one, `"y"`, "a", "", here}}, true},
		"two connections":       {[]req{{one, "1", "a", "", here}, {two, "2", "a", "", here}}, false},
		"another client":        {[]req{{one, "1", "a", "", here}, {one, "2", "b", "", here}}, false},
		"a third one":           {[]req{{one, "1", "a", "", here}, {one, "2", "b", "", here}, {one, "3", "a", "", here}}, false},
		"an id that comes back": {[]req{{one, "1", "a", "", here}, {one, "1", "a", "", here}}, false},
		"no clientInfo":         {[]req{{one, "1", "", "", here}, {one, "2", "", "", here}}, false},
		"another identity":      {[]req{{one, "1", "a", "", here}, {one, "2", "a", "", token}, {one, "3", "a", "", here}}, false},
		"a proxy":               {[]req{{one, "1", "a", "X-Forwarded-For", here}, {one, "2", "a", "X-Forwarded-For", here}}, false},
		"a proxy, later":        {[]req{{one, "1", "a", "", here}, {one, "2", "a", "Via", here}}, false},
		"addresses by value":    {[]req{{pipeAddr{}, "1", "a", "", here}, {pipeAddr{}, "2", "a", "", here}}, false},
		"no address":            {[]req{{nil, "1", "a", "", here}, {nil, "2", "a", "", here}}, false},
	} {
		var p peers
		var got []uint64
		for _, q := range c.reqs {
			meta := "{}"
			if q.info != "" {
				meta = fmt.Sprintf(`{%q:{"name":%q}}`, words.MetaClientInfo, q.info)
			}
			rq, bad := message.ParseLegacy([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"_meta":%s}}`, q.id, meta)))
			if bad != nil {
				t.Fatal(string(bad.Frame()))
			}
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, q.conn))
			if q.header != "" {
				r.Header.Set(q.header, "x")
			}
			got = append(got, p.clientOf(r, &exchange{Message: rq}, q.who))
		}
		if same := got[0] != 0 && got[0] == got[len(got)-1]; same != c.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
