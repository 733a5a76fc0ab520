package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/message"
)

const madeUpID = "kJ8sQ2mZxV4tR7pL0nW5yA"

// keepAll is for a gateway whose only server wants its outcomes kept.
func keepAll(server string) time.Duration {
	if server == "only" {
		return time.Minute
	}
	return 0
}

// lose sends a request and drops the connection once its call has started.
func (s *site) lose(h *slowHub, body string, headers ...string) {
	s.t.Helper()
	ctx, drop := context.WithCancel(s.t.Context())
	gone := make(chan struct{})
	go func() { // ends with the request, which drop ends
		defer close(gone)
		if resp, err := s.try(ctx, "POST", "/mcp", body, headers...); err == nil {
			resp.Body.Close()
		}
	}()
	within(s.t, "the call starts", h.started)
	drop()
	<-gone
}

const fetchByRequest = `{"jsonrpc":"2.0","id":9,"method":"everline/result","params":{"requestId":1}}`

// A legacy client that lost its connection fetches the outcome by the id of
// its request. Nobody else's session has that id.
func TestKeptResultOfALegacyClient(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{Keep: keepAll})
	id, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	s.lose(h, call("1", "echo", ""), id)
	waits := s.later(fetchByRequest, id) // it has not ended yet
	want(t, s.post(fetchByRequest, other), 200, `-32602`, "nothing is kept")
	close(h.release)
	want(t, within(t, "the outcome", waits), 200, `"id":9`, `"result":{`)
	want(t, s.post(fetchByRequest, id), 200, `"id":9`, `"result":{`)
	if n := len(h.started); n != 0 {
		t.Errorf("%d more calls were sent", n)
	}
}

// A modern client that names an id of its own is not canceled by the loss of
// its connection; its retry gets the outcome, and nothing is sent again.
func TestKeptResultOfAModernClient(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{Keep: keepAll})
	params := `,"name":"echo","arguments":{"n":1}`
	body := strings.Replace(modernBody("1", "tools/call", params), `"_meta":{`, `"_meta":{"everline/resultId":"`+madeUpID+`",`, 1)
	header := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo"}
	s.lose(h, body, header...)
	close(h.release)
	r := s.post(body, header...)
	want(t, r, 200, `"resultType":"complete"`)
	fetch := s.modern("2", "everline/result", "", `,"resultId":"`+madeUpID+`"`)
	want(t, fetch, 200, `"id":2`, `"resultType":"complete"`)
	if n := len(h.started); n != 0 {
		t.Errorf("the retry was sent to the server: %d more calls", n)
	}
	want(t, s.post(strings.Replace(body, `"n":1`, `"n":2`, 1), header...), 400, "another call has this")
	want(t, s.post(strings.Replace(body, madeUpID, "guess", 1), header...), 400, "unguessable")
	want(t, s.modern("2", "everline/result", "", `,"resultId":"`+strings.ToLower(madeUpID)+`"`), 400, "nothing is kept")
}

// A kept failure says what it would have said; a panic is one.
func TestKeptFailures(t *testing.T) {
	h := newHub()
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		if strings.Contains(string(c.Params), "boom") {
			panic("boom")
		}
		return nil, refusal(fault.Broken, fault.Unknown)
	}
	s := serve(t, h, Options{Keep: keepAll})
	id := s.initialize("2025-11-25")
	want(t, s.post(call("1", "echo", ""), id), 200, `"outcome":"unknown"`)
	want(t, s.post(fetchByRequest, id), 200, `"isError":true`, `"outcome":"unknown"`)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"boom":1}}}`, id), 200, `"kind":"internal"`)
	want(t, s.post(fetchByRequest, id), 200, `"kind":"internal"`)
}

// Without the configuration, nothing is kept.
func TestNothingIsKeptUnasked(t *testing.T) {
	s := serve(t, newHub(), Options{})
	id := s.initialize("2025-11-25")
	want(t, s.post(call("1", "echo", ""), id), 200, `"result":`)
	want(t, s.post(fetchByRequest, id), 200, `-32602`)
}

// What is kept is bounded in time, number and bytes.
func TestKeptResultsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r results
		rq := &message.Message{}
		put := func(key string, size int) {
			k, first, clash := r.begin(key, rq, "echo", time.Minute)
			if !first || clash {
				t.Fatal("a new key is taken")
			}
			r.fulfil(k, make([]byte, size), nil)
		}
		put("old", 1)
		time.Sleep(time.Minute)
		if r.find("old") != nil || r.bytes != 0 || len(r.byKey) != 0 {
			t.Error("it is still there after its minute")
		}
		for i := range 2 * mostKept {
			put(string(rune('a'+i)), 1)
		}
		if len(r.byKey) != mostKept || r.order.Len() != mostKept {
			t.Errorf("%d are kept", len(r.byKey))
		}
		for range 5 {
			put("same", mostKeptBytes/2)
		}
		if r.bytes > mostKeptBytes || r.find("same") == nil {
			t.Errorf("%d bytes are kept", r.bytes)
		}
	})
}

// A question is the outcome of a call until the client comes back with the
// answer: then the promise is made anew, and every repetition gets what it ends
// with.
func TestKeptResultOfACallThatAsks(t *testing.T) {
	h := newHub()
	h.onCall = asksOnce
	s := serve(t, h, Options{Keep: keepAll})
	round := func(extra string) reply {
		body := strings.Replace(modernBody("1", "tools/call", `,"name":"echo","arguments":{}`+extra), `"_meta":{`, `"_meta":{"everline/resultId":"`+madeUpID+`",`, 1)
		body = strings.Replace(body, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
		return s.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo")
	}
	fetch := func() reply { return s.modern("2", "everline/result", "", `,"resultId":"`+madeUpID+`"`) }
	first := round("")
	state := (&booth{t: t}).state(first.body)
	want(t, fetch(), 200, state) // the question, for a client that lost it
	if again := round(""); again.body != first.body {
		t.Errorf("repeated: %s", again.body)
	}
	const final = `"got":{"action":"accept","n":1.0}`
	want(t, round(yes+state), 200, final)
	want(t, fetch(), 200, final)
	want(t, round(""), 200, final)
	want(t, round(yes+state), 200, final) // a retry that is repeated
	want(t, s.modern("3", "tools/call", "echo", `,"name":"echo","arguments":{}`+yes+state), 400, "start over")
}

// Outcomes that nobody has fetched yet are there after an orderly restart.
func TestKeptResultsOutliveAnOrderlyRestart(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir(), opts: Options{Keep: keepAll}}
	h := newSlowHub()
	s := l.start(h.hub)
	id, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	s.lose(h, call("1", "echo", ""), id)
	close(h.release)
	want(t, s.post(fetchByRequest, id), 200, `"result":{`) // it has ended
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		return nil, &fault.Fault{Kind: fault.Broken, Op: "tools/call", Server: "only", Gen: 7, Outcome: fault.Unknown, RetryAfter: time.Second}
	}
	failed := s.post(call("2", "echo", ""), id)
	l.stop(s)

	s = l.start(newHub())
	want(t, s.post(fetchByRequest, other), 200, `-32602`, "nothing is kept")
	want(t, s.post(fetchByRequest, id), 200, `"id":9`, `"result":{`)
	again := s.post(strings.Replace(fetchByRequest, `"requestId":1`, `"requestId":2`, 1), id)
	if again.status != 200 || strings.Replace(again.body, `"id":9`, `"id":2`, 1) != failed.body {
		t.Errorf("the failure was\n%s\nand is\n%s", failed.body, again.body)
	}
	l.store.Close()
	s = l.start(newHub())
	want(t, s.post(fetchByRequest, id), 200, `-32602`, "nothing is kept") // a killed one keeps nothing
}
