package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/mcp"
)

// call is a tools/call with an optional progress token.
func call(id, tool, token string) string {
	meta := ""
	if token != "" {
		meta = `,"_meta":{"progressToken":` + token + `}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}` + meta + `}}`
}

// A slowHub holds each call until the test releases it, or its context ends.
type slowHub struct {
	*hub
	started chan *everline.Call
	ended   chan error // why each call that was given up ended
	release chan struct{}
}

func newSlowHub() *slowHub {
	h := &slowHub{hub: newHub(), started: make(chan *everline.Call, 64), ended: make(chan error, 64), release: make(chan struct{})}
	h.onCall = func(ctx context.Context, c *everline.Call) ([]byte, error) {
		h.started <- c
		select {
		case <-h.release:
			return []byte(`{"content":[],"name":"` + c.Name + `"}`), nil
		case <-ctx.Done():
			h.ended <- context.Cause(ctx)
			return nil, &fault.Fault{Kind: fault.Canceled, Op: c.Method, Err: ctx.Err()}
		}
	}
	return h
}

func within[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

// later sends a request beside the test and returns where its reply comes.
func (s *site) later(body string, headers ...string) <-chan reply {
	ch := make(chan reply, 1)
	go func() { // ends with the reply, which the test waits for
		resp, err := s.try(context.Background(), "POST", "/mcp", body, headers...)
		if err != nil {
			ch <- reply{body: err.Error()}
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		ch <- reply{resp.StatusCode, resp.Header, string(b)}
	}()
	return ch
}

func TestFaultQ1ResultsPassByteForByte(t *testing.T) {
	const odd = `{ "zeta" : 1152921504606846976 , "content" : [ {"type":"hologram","x":1.50} ] , "a" : "\u00e9<>&" , "_meta" : {"k":9007199254740993} }`
	h := newHub()
	var params string
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		params = string(c.Params)
		return []byte(odd), nil
	}
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	const sent = `{ "name" : "echo", "future":{"b":1,"a":2}, "arguments":{"n":1.0} }`
	r := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+sent+`}`, id)
	if r.body != `{"jsonrpc":"2.0","id":1,"result":`+odd+`}` || params != sent {
		t.Errorf("result %s\nparams %s", r.body, params)
	}
	r = s.modern(`"m"`, "tools/call", "echo", `,"name":"echo"`)
	if r.body != `{"jsonrpc":"2.0","id":"m","result":{"resultType":"complete",`+odd[2:]+`}` {
		t.Errorf("modern result %s", r.body)
	}
}

func TestLargeResultsAndBodies(t *testing.T) {
	h := newHub()
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) { return c.Params, nil }
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	for _, n := range []int{10, joinBelow, 32 << 10, 3 << 20} {
		params := `{"name":"echo","x":"` + strings.Repeat("y", n) + `"}`
		r := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`, id)
		if r.body != `{"jsonrpc":"2.0","id":1,"result":`+params+`}` || r.header.Get("Content-Length") == "" {
			t.Errorf("%d bytes: %d came back, length %q", n, len(r.body), r.header.Get("Content-Length"))
		}
	}
}

func TestFaultJ3CancelReachesTheCall(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{})
	id, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	answer := s.later(call(`"c"`, "echo", ""), id)
	within(t, "the call starts", h.started)
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}`
	want(t, s.post(cancel, other), 202) // another session's id is not ours
	want(t, s.post(strings.Replace(cancel, `"c"`, `"d"`, 1), id), 202)
	select {
	case err := <-h.ended:
		t.Fatalf("ended by a cancel that was not its own: %v", err)
	default:
	}
	want(t, s.post(cancel, id), 202)
	if err := within(t, "the call ends", h.ended); !errors.Is(err, session.ErrCanceled) {
		t.Errorf("ended by %v", err)
	}
	if r := within(t, "the end", answer); r.status != 200 || strings.Contains(r.body, "data") {
		t.Errorf("a request that was canceled is answered: %d %s", r.status, r.body)
	}
}

func TestFaultJ3LegacyDisconnectIsNoCancel(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{})
	id := s.initialize("2025-11-25")
	ctx, drop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { // ends with the request, which drop ends
		defer close(gone)
		if resp, err := s.try(ctx, "POST", "/mcp", call("1", "echo", ""), id); err == nil {
			resp.Body.Close()
		}
	}()
	within(t, "the call starts", h.started)
	drop()
	<-gone
	want(t, s.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, id), 200)
	select {
	case err := <-h.ended:
		t.Errorf("the call was canceled: %v", err)
	case <-time.After(50 * time.Millisecond): // a cancel would have come by now
	}
	close(h.release)
}

func TestFaultJ3ModernDisconnectIsACancel(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{})
	ctx, drop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { // ends with the request, which drop ends
		defer close(gone)
		resp, err := s.try(ctx, "POST", "/mcp", modernBody("1", "tools/call", `,"name":"echo"`),
			"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo")
		if err == nil {
			resp.Body.Close()
		}
	}()
	within(t, "the call starts", h.started)
	drop()
	<-gone
	within(t, "the call ends", h.ended)
}

func TestProgressComesOnTheCallsOwnStream(t *testing.T) {
	h := newHub()
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		if c.Progress == nil {
			return []byte(`{"content":[]}`), nil
		}
		c.Progress([]byte(`{"progressToken":"p","progress":1}`))
		c.Progress([]byte("{\n\"progressToken\":17,\"progress\":2}")) // not the client's token
		return []byte("{\n \"content\": [ ]\n}"), nil
	}
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	r := s.post(call("7", "echo", `"p"`), id)
	const progress = `event: message` + "\n" + `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":`
	if r.body != ":\n\nid: "+postID(1, 7, 0)+"\nretry: 1000\ndata: \n\nid: "+postID(1, 7, 1)+"\n"+progress+"1}}\n\nid: "+postID(1, 7, 2)+"\n"+progress+"2}}\n\nid: "+postID(1, 7, 3)+"\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[]}}\n\n" {
		t.Errorf("got %q", r.body)
	}
	if r.header.Get("X-Accel-Buffering") != "no" {
		t.Error("the stream may be buffered")
	}
	want(t, s.post(call("8", "echo", ""), id), 200, `{"jsonrpc":"2.0","id":8,"result":{"content":[]}}`)
	r = s.post(call("9", "echo", `"p"`), id, "Accept: application/json")
	if r.header.Get("Content-Type") != "application/json" {
		t.Errorf("a client that takes no stream got %s", r.header.Get("Content-Type"))
	}
	r = s.post(call("9", "echo", ""), id, "Accept: text/event-stream")
	if r.header.Get("Content-Type") != "text/event-stream" || !strings.Contains(r.body, `"id":9`) {
		t.Errorf("a client that takes streams alone got %s", r.body)
	}
}

func TestFaultJ4LateProgressIsDropped(t *testing.T) {
	h := newHub()
	late := make(chan func([]byte), 1)
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		late <- c.Progress
		return []byte(`{"content":[]}`), nil
	}
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	r := s.post(call("1", "echo", "1"), id)
	(<-late)([]byte(`{"progressToken":1,"progress":1}`))
	if r.header.Get("Content-Type") != "application/json" || strings.Contains(r.body, "progress") {
		t.Errorf("got %s", r.body)
	}
}

func TestFaultJ5SameTokenOnTwoSessions(t *testing.T) {
	h := newHub()
	both := make(chan struct{}, 2)
	var ready sync.WaitGroup
	ready.Add(2)
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		ready.Done()
		ready.Wait() // both are in flight
		c.Progress([]byte(`{"progressToken":1,"progress":1,"message":"` + c.Name + `"}`))
		both <- struct{}{}
		return []byte(`{"content":[],"of":"` + c.Name + `"}`), nil
	}
	s := serve(t, h, Options{})
	x := s.later(call("1", "x", "1"), s.initialize("2025-11-25"))
	y := s.later(call("1", "y", "1"), s.initialize("2025-11-25"))
	for name, ch := range map[string]<-chan reply{"x": x, "y": y} {
		other := map[string]string{"x": `"y"`, "y": `"x"`}[name]
		r := within(t, "the answer", ch)
		if !strings.Contains(r.body, `"message":"`+name+`"`) || strings.Contains(r.body, other) {
			t.Errorf("%s got %s", name, r.body)
		}
	}
}

func TestFaultJ6DuplicateIDsDoNotCross(t *testing.T) {
	h := newHub()
	var ready sync.WaitGroup
	ready.Add(20)
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		ready.Done()
		ready.Wait()
		return []byte(`{"of":"` + c.Name + `"}`), nil
	}
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	var answers []<-chan reply
	for i := range 20 {
		answers = append(answers, s.later(call("1", fmt.Sprintf("tool-%d", i), ""), id))
	}
	for i, ch := range answers {
		if r := within(t, "the answer", ch); r.body != fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"of":"tool-%d"}}`, i) {
			t.Errorf("call %d got %s", i, r.body)
		}
	}
}

func TestKeepAliveTurnsASlowCallIntoAStream(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{KeepAlive: 10 * time.Millisecond})
	id := s.initialize("2025-06-18")
	resp := s.open(t.Context(), "POST", "/mcp", call("1", "echo", "5"), id) // returns with the header, before the answer
	defer resp.Body.Close()
	within(t, "the call starts", h.started)
	buf := make([]byte, 6)
	if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != ":\n\n:\n\n" {
		t.Fatalf("%q %v", buf, err)
	}
	close(h.release)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), `data: {"jsonrpc":"2.0","id":1,"result":`) {
		t.Errorf("%q %v", rest, err)
	}
}

func TestPanicEndsOneRequest(t *testing.T) {
	h := newHub()
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		if c.Name == "bad" {
			panic("secret detail")
		}
		return []byte(`{}`), nil
	}
	var warned string
	s := serve(t, h, Options{Warn: func(text string) { warned = text }})
	id := s.initialize("2025-11-25")
	r := s.post(call("1", "bad", ""), id)
	want(t, r, 200, `"id":1`, `"isError":true`, `"kind":"internal"`)
	if strings.Contains(r.body, "secret") || !strings.Contains(warned, "secret detail") || !strings.Contains(warned, "call_test.go") {
		t.Errorf("body %s, warned %q", r.body, warned)
	}
	want(t, s.post(call("2", "good", ""), id), 200, `"result":{}`)
}

func TestCloseFinishesOrFailsWhatIsInFlight(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{})
	id := s.initialize("2025-11-25")
	answer := s.later(call("1", "echo", ""), id)
	within(t, "the call starts", h.started)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.g.Close(ctx)
	if fault.KindOf(err) != fault.Deadline {
		t.Errorf("close: %v", err)
	}
	r := within(t, "the answer", answer)
	want(t, r, 200, `"isError":true`, `"outcome":"unknown"`, "shutting down")
	want(t, s.post(call("2", "echo", ""), id), 503) // and not 404: the next everline may know the session
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), 503)
	r = s.modern("3", "tools/call", "echo", `,"name":"echo"`)
	want(t, r, 503, `"outcome":"not_sent"`)
}

func TestCloseWaitsForWhatEndsInTime(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{})
	id := s.initialize("2025-11-25")
	answer := s.later(call("1", "echo", ""), id)
	within(t, "the call starts", h.started)
	closed := make(chan error, 1)
	go func() { // ends with the call
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		closed <- s.g.Close(ctx)
	}()
	eventually(t, "closing", s.g.closing)
	close(h.release)
	if err := within(t, "close", closed); err != nil {
		t.Error(err)
	}
	want(t, within(t, "the answer", answer), 200, `"result":{"content":[],"name":"echo"}`)
}

// FuzzFrames sends anything as a body: the gateway answers with JSON, or
// nothing, and never panics.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{call("1", "echo", "2"), modernBody("1", "server/discover", ""), `[]`, `[1,{}]`, `{"id":1,"method":"tools/list"}`, `{"method":"notifications/cancelled","params":{"requestId":1}}`} {
		f.Add(seed, true)
	}
	g := New(newHub(), Options{})
	f.Cleanup(func() { _ = g.Close(context.Background()) })
	sess := g.sessions.New("2025-03-26")
	g.sessions.Add(sess)
	f.Fuzz(func(t *testing.T, body string, modern bool) {
		if strings.Contains(body, mcp.SubscriptionsListen) {
			return // a stream has no end of its own
		}
		req, _ := http.NewRequest("POST", "http://localhost/mcp", strings.NewReader(body))
		req.Header.Set("Mcp-Session-Id", sess.Key)
		if modern {
			req.Header.Set("MCP-Protocol-Version", "2026-07-28")
		}
		w := &recorder{header: http.Header{}}
		g.Handler().ServeHTTP(w, req)
		if len(w.body) > 0 && w.header.Get("Content-Type") == "application/json" && !json.Valid(w.body) {
			t.Errorf("%s\nwas answered by %s", body, w.body)
		}
	})
}

// A recorder is a ResponseWriter in memory.
type recorder struct {
	header http.Header
	body   []byte
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { r.body = append(r.body, p...); return len(p), nil }
func (r *recorder) Flush()                      {}
