package gateway

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// An eventSource reads /sse as browsers and their libraries do: the ids count.
type eventSource struct {
	t        *testing.T
	body     io.ReadCloser
	lines    *bufio.Scanner
	last     string // the id that it would come back with
	retry    string
	messages string
}

func (s *site) eventSource(last string) *eventSource {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	resp := s.open(ctx, "GET", "/sse", "", "Accept: text/event-stream", "Last-Event-ID: "+last)
	if resp.StatusCode != 200 {
		s.t.Fatalf("status %d", resp.StatusCode)
	}
	e := &eventSource{t: s.t, body: resp.Body, lines: bufio.NewScanner(resp.Body), last: last}
	s.t.Cleanup(func() { e.body.Close() })
	e.messages = "/" + e.next()
	return e
}

func (e *eventSource) next() string {
	e.t.Helper()
	for e.lines.Scan() {
		name, value, _ := strings.Cut(e.lines.Text(), ": ")
		switch name {
		case "id":
			e.last = value
		case "retry":
			e.retry = value
		case "data":
			return value
		}
	}
	e.t.Fatal("the stream ended")
	return ""
}

const sseHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`

func TestFaultW6AnEventSourceComesBackAfterARestart(t *testing.T) {
	h := newHub()
	h.onCall = func(ctx context.Context, c *everline.Call) ([]byte, error) {
		return c.Client.Ask(ctx, mcp.ElicitationCreate, []byte(`{"message":"?"}`))
	}
	before := serve(t, h, Options{})
	e := before.eventSource("")
	if e.retry != "300" || e.last != "" {
		t.Errorf("retry %q, id %q", e.retry, e.last)
	}
	want(t, before.do("POST", e.messages, sseHello), 202)
	e.next()
	want(t, before.do("POST", e.messages, initialized), 202)
	want(t, before.do("POST", e.messages, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`), 202)
	e.next()
	_ = before.g.Close(t.Context())

	after := serve(t, h, Options{})
	again := after.eventSource(e.last) // and no initialize
	told := again.next() + again.next() + again.next()
	for method := range stream.AllLists.Methods() {
		if !strings.Contains(told, method) {
			t.Errorf("%s is not announced: %s", method, told)
		}
	}
	h.changed(everline.Tools)
	if got := again.next(); !strings.Contains(got, "tools/list_changed") {
		t.Errorf("got %s", got)
	}
	want(t, after.do("POST", again.messages, call("2", "echo", "")), 202)
	asked := again.next()
	if !strings.Contains(asked, mcp.ElicitationCreate) {
		t.Fatalf("the client is not asked: %s", asked)
	}
	id := string(wire.Member([]byte(asked), "id"))
	want(t, after.do("POST", again.messages, `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept"}}`), 202)
	wantJSON(t, again.next(), `{"jsonrpc":"2.0","id":2,"result":{"action":"accept"}}`)
	h.log(`{"level":"info","data":"no"}`)
	h.log(`{"level":"error","data":"yes"}`)
	if got := again.next(); !strings.Contains(got, `"yes"`) {
		t.Errorf("got %s", got)
	}
	if again.last != e.last {
		t.Errorf("the id changed from %s to %s", e.last, again.last)
	}
}

func TestFaultW6ARequestIsEnoughToHearOfChanges(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	for _, last := range []string{"", "sse-1-2", "sse-999-0-2025-03-26", "sse-1-99-2025-03-26", "sse-1-0-2031-01-01", "standing-1"} {
		e := s.eventSource(last) // of an everline that gave no ids, or of something else
		h.changed(everline.Tools)
		want(t, s.do("POST", e.messages, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), 202)
		if got := e.next(); !strings.Contains(got, `"id":1`) {
			t.Errorf("with %q: a session that has said nothing yet hears %s", last, got)
		}
		want(t, s.do("POST", e.messages, listRequest("2")), 202)
		told := e.next() + e.next()
		if !strings.Contains(told, `"id":2,"result"`) || !strings.Contains(told, "tools/list_changed") {
			t.Errorf("with %q: got %s", last, told)
		}
		e.body.Close()
	}
}
