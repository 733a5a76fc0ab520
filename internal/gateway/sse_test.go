package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway/session"
)

func TestHTTPAndSSE(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	tp := s.tap("GET", "/sse", "")
	path, ok := strings.CutPrefix(tp.next(), "messages?sessionId=")
	if !ok || len(path) < 26 {
		t.Fatalf("endpoint %q", path)
	}
	path = "/messages?sessionId=" + path
	h.changed(everline.Tools) // before the handshake: told after it
	want(t, s.do("POST", path, strings.Replace(hello, "2025-06-18", "2024-11-05", 1)), 202)
	if got := tp.next(); !strings.Contains(got, `"protocolVersion":"2024-11-05"`) {
		t.Errorf("got %s", got)
	}
	want(t, s.do("POST", path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`), 202)
	if got := tp.next(); !strings.Contains(got, "tools/list_changed") {
		t.Errorf("got %s", got)
	}
	want(t, s.do("POST", path, call(`"c"`, "echo", "")), 202)
	wantJSON(t, tp.next(), `{"jsonrpc":"2.0","id":"c","result":{"content":[]}}`)
	want(t, s.do("POST", path, `nonsense`), 400, `-32700`)
	want(t, s.do("POST", "/messages?sessionId=made-up", `{}`), 404)
	id := s.initialize("2025-11-25")
	want(t, s.do("POST", "/messages?sessionId="+id[len("Mcp-Session-Id: "):], `{}`), 404)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id: "+path[len("/messages?sessionId="):]), 404)
	tp.cancel()
	tp.end()
	eventually(t, "the session ends with its stream", func() bool { return s.g.sessions.Len() == 1 })
	want(t, s.do("POST", path, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), 404)
}

func TestFaultJ3SSECancelAndDuplicate(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{})
	tp := s.tap("GET", "/sse", "")
	path := "/" + tp.next()
	want(t, s.do("POST", path, call("1", "echo", "")), 202)
	want(t, s.do("POST", path, call("1", "echo", "")), 400, `"id":null`)
	want(t, s.do("POST", path, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`), 202)
	if err := within(t, "the call ends", h.ended); !errors.Is(err, session.ErrCanceled) {
		t.Errorf("ended by %v", err)
	}
}

func TestSSEAnswersWhatIsInFlightOnClose(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{})
	tp := s.tap("GET", "/sse", "")
	path := "/" + tp.next()
	want(t, s.do("POST", path, call("1", "echo", "")), 202)
	within(t, "the call starts", h.started)
	closed := make(chan error, 1)
	go func() { closed <- s.g.Close(context.Background()) }() // ends with the call
	eventually(t, "closing", s.g.closing)
	close(h.release)
	if got := tp.end(); len(got) != 1 || !strings.Contains(got[0], `"id":1`) {
		t.Errorf("got %v", got)
	}
	if err := within(t, "close", closed); err != nil {
		t.Error(err)
	}
}

func TestSSERefusalsGoOutOnTheStream(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{MaxInFlight: 1})
	tp := s.tap("GET", "/sse", "")
	path := "/" + tp.next()
	want(t, s.do("POST", path, call("1", "echo", "")), 202)
	within(t, "the call starts", h.started)
	want(t, s.do("POST", path, call("2", "echo", "")), 202)
	if got := tp.next(); !strings.Contains(got, `"id":2,"error"`) || !strings.Contains(got, "Too many requests") {
		t.Errorf("got %s", got)
	}
	want(t, s.do("POST", path, `{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}`), 202)
	if got := tp.next(); !strings.Contains(got, `"id":3,"error"`) {
		t.Errorf("got %s", got)
	}
	close(h.release)
	if got := tp.next(); !strings.Contains(got, `"id":1,"result"`) {
		t.Errorf("got %s", got)
	}
}
