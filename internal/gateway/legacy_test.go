package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
)

func TestInitializeNegotiates(t *testing.T) {
	s := serve(t, newHub(), Options{Version: "1.2"})
	for asked, agreed := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25", "": "2025-11-25",
	} {
		r := s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":%q}}`, asked))
		wantJSON(t, r.body, `{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"`+agreed+`","capabilities":`+legacyCapabilities+
			`,"serverInfo":{"name":"everline","version":"1.2"},"instructions":`+fmt.Sprintf("%q", s.hub.Catalog().Instructions())+`}}`)
		id := r.header.Get("Mcp-Session-Id")
		if len(id) < 26 || strings.ContainsFunc(id, func(c rune) bool { return c < 0x21 || c > 0x7e }) {
			t.Errorf("session id %q", id)
		}
	}
	if n := s.g.sessions.Len(); n != 7 {
		t.Errorf("%d sessions, want 7", n)
	}
}

func TestSessionRules(t *testing.T) {
	s := serve(t, newHub(), Options{})
	id := s.initialize("2025-11-25")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	want(t, s.post(ping, id), 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	want(t, s.post(ping, id, "MCP-Protocol-Version: 2025-11-25"), 200)
	want(t, s.post(ping, id, "MCP-Protocol-Version: 1999-01-01"), 400, `"supported":["2026-07-28","2025-11-25"`)
	want(t, s.post(ping), 400, `"id":null`)
	want(t, s.post(ping, "Mcp-Session-Id: made-up"), 404, `"id":null`)
	want(t, s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, id), 202)
	want(t, s.post(`{"jsonrpc":"2.0","id":9,"result":{}}`, id), 202)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/such"}`, id), 200, `-32601`)
	want(t, s.do("GET", "/mcp", ""), 400)
	want(t, s.do("GET", "/mcp", "", id, "Accept: application/json"), 406)
	want(t, s.do("PUT", "/mcp", ""), 405)
	want(t, s.do("DELETE", "/mcp", "", id), 204)
	want(t, s.post(ping, id), 404)
	want(t, s.do("DELETE", "/mcp", "", id), 404)
}

func TestMalformedFrames(t *testing.T) {
	s := serve(t, newHub(), Options{MaxBody: 1000})
	id := s.initialize("2025-11-25")
	want(t, s.post(`{"jsonrpc":`, id), 400, `"id":null`, `-32700`)
	want(t, s.post(``, id), 400, `-32700`)
	want(t, s.post(`"x"`, id), 400, `"id":null`, `-32600`)
	want(t, s.post(`{"jsonrpc":"2.0","id":{},"method":"ping"}`, id), 400, `"id":null`, `-32600`)
	want(t, s.post(`{"jsonrpc":"2.0","id":null,"method":"ping"}`, id), 400, `"id":null`, `-32600`)
	want(t, s.post(`{"jsonrpc":"2.0","id":1}`, id), 400, `"id":null`, `-32600`)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, id), 400, `"id":1`, `-32602`)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, id), 200, `"id":1`, `-32602`)
	want(t, s.post(strings.Repeat(" ", 1001), id), 413)
	want(t, s.post(`{}`, id, "Content-Type: text/plain"), 415)
	want(t, s.post(`{}`, id, "Accept: image/png"), 406)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, id, "Content-Type: application/json; charset=utf-8", "Accept: */*"), 200)
}

func TestChunkedBodyOverTheLimit(t *testing.T) {
	s := serve(t, newHub(), Options{MaxBody: 1000})
	req, err := http.NewRequest("POST", s.url+"/mcp", struct{ *strings.Reader }{strings.NewReader(strings.Repeat(" ", 5000))})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestIDsAreEchoed(t *testing.T) {
	s := serve(t, newHub(), Options{})
	sess := s.initialize("2025-11-25")
	for _, id := range []string{`1`, `"a\u00e9\/"`, `1.50`, `9007199254740993`, `-0`, `""`, `1e3`} {
		want(t, s.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, sess), 200, `"id":`+id+`,`)
	}
}

func TestListsLegacy(t *testing.T) {
	s := serve(t, newHub(), Options{})
	id := s.initialize("2025-11-25")
	for method, want := range map[string]string{
		"tools/list":               `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`,
		"prompts/list":             `{"prompts":[{"name":"hello"}]}`,
		"resources/list":           `{"resources":[{"uri":"file:///a","name":"a"}]}`,
		"resources/templates/list": `{"resourceTemplates":[]}`,
	} {
		r := s.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`, id)
		if r.body != `{"jsonrpc":"2.0","id":1,"result":`+want+`}` || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", method, r.body)
		}
	}
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, id), 200, `-32602`, "Invalid cursor")
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null}}`, id), 200, `"tools"`)
	if s.hub.waits != 5 {
		t.Errorf("%d lists waited for the first catalogs, want 5", s.hub.waits)
	}
}

func TestBatches(t *testing.T) {
	s := serve(t, newHub(), Options{})
	old, now := s.initialize("2025-03-26"), s.initialize("2025-11-25")
	batch := `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}},7]`
	r := s.post(batch, old)
	wantJSON(t, r.body, `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{"content":[]}},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: not a JSON object"}}]`)
	want(t, s.post(`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, old), 202)
	want(t, s.post(`[]`, old), 400, `-32600`)
	want(t, s.post(batch, now), 400, `-32600`)
	want(t, s.post(batch), 400)
}

func TestCompletionIsRoutedByRef(t *testing.T) {
	h := newHub()
	var got []string
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		got = append(got, c.Method+" "+c.Name)
		return []byte(`{"completion":{"values":[]}}`), nil
	}
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	for _, ref := range []string{`{"type":"ref/prompt","name":"hello"}`, `{"uri":"file:///{x}","type":"ref/resource"}`} {
		want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":`+ref+`,"argument":{"name":"a","value":""}}}`, id), 200, `"completion"`)
	}
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/other","name":"x"}}}`, id), 200, `-32602`)
	if strings.Join(got, ",") != "completion/complete hello,completion/complete file:///{x}" {
		t.Errorf("routed to %v", got)
	}
}

func TestLogsOnlyToThoseWhoAsked(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	quiet, loud := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	quietTap, loudTap := s.tap("GET", "/mcp", "", quiet), s.tap("GET", "/mcp", "", loud)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warning"}}`, loud), 200, `"result":{}`)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"shout"}}`, loud), 200, `-32602`)
	h.log(`{"level":"info","data":"no"}`)
	h.log(`{"level":"error","data":{"n":12345678901234567890}}`)
	if got := loudTap.next(); got != `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":{"n":12345678901234567890}}}` {
		t.Errorf("got %s", got)
	}
	want(t, s.do("DELETE", "/mcp", "", loud), 204)
	want(t, s.do("DELETE", "/mcp", "", quiet), 204)
	if got := quietTap.end(); len(got) != 0 {
		t.Errorf("a client that did not ask heard %v", got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Join(h.levels, ",") != "warning," {
		t.Errorf("levels %q", h.levels)
	}
}

func TestResourceUpdatesAreCoalescedAndKept(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	for range 2 {
		want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`, id), 200, `"result":{}`)
	}
	if n := h.subscribers("file:///a"); n != 1 {
		t.Fatalf("%d subscriptions", n)
	}
	h.update("file:///a")
	h.update("file:///a")
	tp := s.tap("GET", "/mcp", "", id) // what came before the stream is not lost
	if got := tp.next(); got != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}` {
		t.Errorf("got %s", got)
	}
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"file:///a"}}`, id), 200)
	if n := h.subscribers("file:///a"); n != 0 {
		t.Errorf("%d subscriptions after unsubscribe", n)
	}
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`, id), 200)
	want(t, s.do("DELETE", "/mcp", "", id), 204)
	if got := tp.end(); len(got) != 0 {
		t.Errorf("told again: %v", got)
	}
	if n := h.subscribers("file:///a"); n != 0 {
		t.Errorf("%d subscriptions after the session's end", n)
	}
}

func TestFaultN1SessionsAreBoundedAndExpire(t *testing.T) {
	s := serve(t, newHub(), Options{MaxSessions: 100, SessionIdle: 200 * time.Millisecond})
	first := s.initialize("2025-11-25")
	tp := s.tap("GET", "/mcp", "", first) // in use: neither evicted nor expired
	for range 300 {
		s.initialize("2025-11-25")
	}
	if n := s.g.sessions.Len(); n > 100 {
		t.Errorf("%d sessions, the cap is 100", n)
	}
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, first), 200)
	eventually(t, "the idle sessions expire", func() bool { return s.g.sessions.Len() == 1 })
	tp.cancel()
	tp.end()
	eventually(t, "the session expires once its stream is gone", func() bool { return s.g.sessions.Len() == 0 })
}

func TestTooManySessionsInUse(t *testing.T) {
	s := serve(t, newHub(), Options{MaxSessions: 1})
	id := s.initialize("2025-11-25")
	s.tap("GET", "/mcp", "", id)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), 503, `"id":1`)
}

func TestFaultN6NewerStreamTakesOver(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	old := s.tap("GET", "/mcp", "", id)
	now := s.tap("GET", "/mcp", "", id)
	old.end()
	h.changed(everline.Tools)
	if got := now.next(); !strings.Contains(got, "tools/list_changed") {
		t.Errorf("got %s", got)
	}
}

func TestFaultN5ClientsComeAndGo(t *testing.T) {
	s := serve(t, newHub(), Options{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 50 {
				ctx, cancel := context.WithCancel(context.Background())
				resp, err := s.try(ctx, "GET", "/sse", "")
				if err != nil {
					t.Error(err)
				} else {
					resp.Body.Read(make([]byte, 1))
				}
				cancel()
				if err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	all.Wait()
	eventually(t, "all sessions are gone", func() bool { return s.g.sessions.Len() == 0 })
	s.initialize("2025-11-25")
}

func TestFaultG10AndG13ChangesReachEveryLiveSession(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	a, b := s.initialize("2025-11-25"), s.initialize("2025-06-18")
	early := s.tap("GET", "/mcp", "", a)
	h.publish(item("echo", `{"name":"echo"}`), item("more", `{"name":"more"}`))
	h.changed(everline.Tools)
	late := s.tap("GET", "/mcp", "", b) // opened after the change, which is news to it all the same
	for _, tp := range []*tap{early, late} {
		if got := tp.next(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
			t.Errorf("got %s", got)
		}
	}
	for _, id := range []string{a, b} {
		want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, id), 200, `"more"`)
	}
	for range 50 {
		h.changed(everline.Prompts, everline.Templates)
	}
	for _, method := range []string{"prompts", "resources"} {
		if got := early.next(); !strings.Contains(got, method+"/list_changed") {
			t.Errorf("got %s", got)
		}
	}
	want(t, s.do("DELETE", "/mcp", "", a), 204)
	if rest := early.end(); len(rest) > 2 {
		t.Errorf("50 changes in a row were announced %d more times", len(rest))
	}
}

func TestFaultB7StreamsAreNotBuffered(t *testing.T) {
	s := serve(t, newHub(), Options{KeepAlive: 20 * time.Millisecond})
	id := s.initialize("2025-11-25")
	resp := s.open(t.Context(), "GET", "/mcp", "", id)
	defer resp.Body.Close()
	if resp.Header.Get("X-Accel-Buffering") != "no" || !strings.Contains(resp.Header.Get("Cache-Control"), "no-cache") || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("headers %v", resp.Header)
	}
	buf := make([]byte, 24)
	n := 0
	for n < len(buf) { // keep-alives arrive as they are written
		m, err := resp.Body.Read(buf[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if string(buf) != ":\n\nretry: 300\n\n:\n\n:\n\n:\n\n" {
		t.Errorf("got %q", buf)
	}
}

// A lateHub lets a subscription be accepted only when the test says so.
type lateHub struct {
	*hub
	asked, accept chan struct{}
}

func (h lateHub) SubscribeFor(ctx context.Context, of *everline.Session, uri string, fn func([]byte)) (func(), error) {
	h.asked <- struct{}{}
	<-h.accept
	return h.hub.SubscribeFor(ctx, of, uri, fn)
}

func TestUnsubscribedWhileItWasBeingMade(t *testing.T) {
	h := lateHub{newHub(), make(chan struct{}), make(chan struct{})}
	g := New(h, Options{})
	defer g.Close(context.Background())
	s := g.sessions.New(mcp.LatestLegacy)
	done := make(chan error, 1)
	go func() { // ends once the subscription is accepted
		_, err := s.Subscribe(context.Background(), "file:///a")
		done <- err
	}()
	within(t, "the server is asked", h.asked)
	s.Unsubscribe("file:///a")
	close(h.accept)
	if err := within(t, "the subscription", done); err != nil {
		t.Error(err)
	}
	if n := h.subscribers("file:///a"); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// A gatedHub asks the test what becomes of each subscription.
type gatedHub struct {
	*hub
	asked chan chan error
}

func (h gatedHub) SubscribeFor(ctx context.Context, of *everline.Session, uri string, fn func([]byte)) (func(), error) {
	outcome := make(chan error)
	h.asked <- outcome
	if err := <-outcome; err != nil {
		return nil, err
	}
	return h.hub.SubscribeFor(ctx, of, uri, fn)
}

// What was unsubscribed while it was being made is not taken for the one that
// is made in its place.
func TestSubscribedAgainWhileItWasBeingMade(t *testing.T) {
	for name, fails := range map[string]error{"both are made": nil, "the first fails": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			h := gatedHub{newHub(), make(chan chan error)}
			g := New(h, Options{})
			defer g.Close(context.Background())
			s := g.sessions.New(mcp.LatestLegacy)
			var both sync.WaitGroup
			defer both.Wait()
			subscribe := func() chan error {
				both.Go(func() { _, _ = s.Subscribe(context.Background(), "file:///a") })
				return within(t, "the server is asked", h.asked)
			}
			first := subscribe()
			s.Unsubscribe("file:///a")
			second := subscribe()
			second <- nil
			eventually(t, "the second is made", func() bool { return h.subscribers("file:///a") == 1 })
			first <- fails
			both.Wait()
			if n := h.subscribers("file:///a"); n != 1 {
				t.Errorf("%d subscriptions", n)
			}
			s.Unsubscribe("file:///a")
			h.update("file:///a")
			if frames, _ := s.Out().Take(); len(frames) > 0 {
				t.Errorf("told %q after unsubscribing", frames)
			}
			s.End()
			if n := h.subscribers("file:///a"); n != 0 {
				t.Errorf("%d subscriptions are left", n)
			}
		})
	}
}
