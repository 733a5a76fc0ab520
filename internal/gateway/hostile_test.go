package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
)

// An array of very many elements costs what its bytes cost, whoever sends it.
func TestLargeBatchIsNotCollected(t *testing.T) {
	s := serve(t, newHub(), Options{})
	session := s.initialize(mcp.BatchVersion)
	body := "[" + strings.Repeat("1,", 4<<20) + "1]"
	allocated := func(headers ...string) (reply, uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := s.post(body, headers...)
		runtime.ReadMemStats(&after)
		return r, after.TotalAlloc - before.TotalAlloc
	}
	for name, c := range map[string]struct {
		headers []string
		text    string
	}{
		"no session": {nil, "send initialize first"},
		"session":    {[]string{session}, "the batch is too large"},
	} {
		r, n := allocated(c.headers...)
		want(t, r, http.StatusBadRequest, c.text)
		if most := uint64(8 * len(body)); n > most { // the body, its buffer that grows, and the client's own
			t.Errorf("%s: %d bytes for a body of %d", name, n, len(body))
		}
	}
	want(t, s.post(`[]`, session), http.StatusBadRequest, "-32600")
	want(t, s.post(`[1,`, session), http.StatusBadRequest, "-32700")
	want(t, s.post(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, session), http.StatusOK, `[{"jsonrpc":"2.0","id":1,"result":{}}]`)
}

// Text that is not UTF-8 would end a strict server that all clients share.
func TestFramesAreUTF8(t *testing.T) {
	h := newHub()
	var calls atomic.Int64
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		calls.Add(1)
		return []byte(`{"content":[]}`), nil
	}
	s := serve(t, h, Options{})
	session := s.initialize(mcp.BatchVersion)
	bad := strings.Replace(call("1", "echo", ""), `{}`, `{"a":"`+"\xff"+`"}`, 1)
	want(t, s.post(bad, session), http.StatusBadRequest, `"id":1,`, "-32700")
	want(t, s.post(strings.Replace(bad, `"id":1`, `"id":"`+"\xff"+`"`, 1), session), http.StatusBadRequest, `"id":null`, "-32700")
	want(t, s.modern("1", "tools/call", "echo", `,"name":"echo","x":"`+"\xc3("+`"`), http.StatusBadRequest, "-32700")
	r := s.post("["+bad+","+call("2", "echo", "")+"]", session)
	want(t, r, http.StatusOK, `"id":1,"error":{"code":-32700`, `"id":2,"result":`)
	if !utf8.ValidString(r.body) {
		t.Errorf("answered with %q", r.body)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls went on, want the good one", n)
	}
}

// A client that sends requests and does not read is cut off, whatever the size
// of the answers: where they fit into net/http's buffers, the handler is
// through long before.
func TestClientThatNeverReadsIsCutOff(t *testing.T) {
	for _, size := range []int{0, 3 << 10, 20 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			h := newHub()
			h.publish(item("echo", `{"name":"echo","description":"`+strings.Repeat("x", size)+`","inputSchema":{"type":"object"}}`))
			s := serve(t, h, Options{WriteTimeout: 50 * time.Millisecond})
			session := s.initialize(mcp.LatestLegacy)
			c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
			one := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\nContent-Length: %d\r\n\r\n%s", session, len(body), body)
			_ = c.SetWriteDeadline(time.Now().Add(patience))
			for {
				if _, err = io.WriteString(c, one); err != nil {
					break
				}
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open")
			}
		})
	}
}

// A connection that was quiet, or busy with one long call, for longer than
// WriteTimeout answers as before; so does one that carried a stream.
func TestQuietConnectionsAreKept(t *testing.T) {
	h := newHub()
	slow := make(chan struct{})
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		<-slow
		return []byte(`{"content":[]}`), nil
	}
	const timeout = 20 * time.Millisecond
	s := serve(t, h, Options{WriteTimeout: timeout})
	var conns atomic.Int64
	dial := &net.Dialer{}
	s.web.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conns.Add(1)
		return dial.DialContext(ctx, network, addr)
	}
	session := s.initialize(mcp.LatestLegacy)
	for range 3 {
		time.AfterFunc(4*timeout, func() { slow <- struct{}{} })
		want(t, s.post(call("1", "echo", ""), session), http.StatusOK, `"result":`)
		time.AfterFunc(4*timeout, func() { slow <- struct{}{} })
		r := s.post(call("2", "echo", "1"), session, "Accept: text/event-stream")
		want(t, r, http.StatusOK, "event: message")
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A panicky backend panics where a request has goroutines of its own.
type panicky struct{ *hub }

func (panicky) SubscribeFor(context.Context, *everline.Session, string, func([]byte)) (func(), error) {
	panic("planted")
}

func (p panicky) Do(ctx context.Context, c *everline.Call) (everline.Answer, error) {
	if c.Method == mcp.TasksGet {
		panic("planted")
	}
	return p.hub.Do(ctx, c)
}

// A panic ends the request that it is of, wherever it happens.
func TestPanicsEndOneRequest(t *testing.T) {
	h := newHub()
	var seen []everline.Call
	h.declare([]byte(mcptest.TaskCapabilities(mcptest.Legacy)))
	h.onCall, h.by = answers(&seen), everline.Answer{Server: "only", Generation: 1}
	var warned atomic.Int64
	s := serve(t, h, Options{Warn: func(string) { warned.Add(1) }})
	session := s.initialize(mcp.LatestLegacy)
	want(t, s.post(slow("1", "echo"), session), http.StatusOK, `"taskId"`)
	s.g.backend = panicky{h}

	tp := s.tap("POST", "/mcp", modernBody("1", mcp.SubscriptionsListen, `,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`),
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+mcp.SubscriptionsListen)
	if ack := tp.next(); strings.Contains(ack, "file:///a") || !strings.Contains(ack, `"toolsListChanged":true`) {
		t.Errorf("acknowledged: %s", ack)
	}
	want(t, s.post(`{"jsonrpc":"2.0","id":2,"method":"tasks/list"}`, session), http.StatusOK, `"result":{"tasks":[`)
	if warned.Load() != 2 {
		t.Errorf("%d panics were told of", warned.Load())
	}
	want(t, s.post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`, session), http.StatusOK, `"result":{}`)
}

// HEAD is no GET: it would open a session and hold it.
func TestHeadOpensNothing(t *testing.T) {
	s := serve(t, newHub(), Options{})
	for _, path := range []string{"/sse", "/mcp"} {
		if r := s.do("HEAD", path, ""); r.status != http.StatusMethodNotAllowed || !strings.Contains(r.header.Get("Allow"), "GET") {
			t.Errorf("%s: %d, allow %q", path, r.status, r.header.Get("Allow"))
		}
	}
	if n := s.g.sessions.Len(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}
