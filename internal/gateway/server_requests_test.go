package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	words "github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// greet is a tool of go-sdk that asks who is calling, in the way of its era.
func greet(modern bool) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	ask := &mcp.ElicitParams{Message: "Who are you?"}
	mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(ctx context.Context, r *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		got, _ := r.Params.InputResponses["name"].(*mcp.ElicitResult)
		if modern && got == nil {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"name": ask}, RequestState: "s 1"}, nil, nil
		}
		if !modern {
			var err error
			if got, err = r.Session.Elicit(ctx, ask); err != nil {
				return nil, nil, err
			}
		} else if r.Params.RequestState != "s 1" {
			return nil, nil, fmt.Errorf("the state is %q", r.Params.RequestState)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(got.Action, " ", got.Content["name"])}}}, nil, nil
	})
	return s
}

// before serves s over Streamable HTTP, and everline in front of it.
func before(t *testing.T, s *mcp.Server, modern bool) *site {
	t.Helper()
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: modern}))
	t.Cleanup(up.Close)
	c := config.NewServer("up")
	c.Transport, c.URL = "http", up.URL
	return wholeOf(t, c)
}

// asked connects a client that answers questions with its name.
func asked(t *testing.T, s *site, version, name string, before func()) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			before()
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": name}}, nil
		},
	})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.web}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func greeting(t *testing.T, c *mcp.ClientSession) string {
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet"})
	if err != nil || res.IsError || len(res.Content) != 1 {
		t.Errorf("%+v %v", res, err)
		return ""
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// A question of a server of either era reaches a client of either, and the
// answer comes back.
func TestElicitationInEveryPairOfEras(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, modern server %t", version, modern), func(t *testing.T) {
				s := before(t, greet(modern), modern)
				if got := greeting(t, asked(t, s, version, "ann", func() {})); got != "accept ann" {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

// A hundred questions wait for a hundred clients at the same time, on one
// shared server; each reaches the client whose call it belongs to.
func TestAHundredElicitationsAtOnceReachTheirOwnClients(t *testing.T) {
	const clients = 100
	s := before(t, greet(false), false)
	var waiting atomic.Int32
	everybody := make(chan struct{}) // closed once every client has been asked
	var calls sync.WaitGroup
	for i := range clients {
		name, version := fmt.Sprint("client ", i), "2025-11-25"
		if i%2 == 0 {
			version = "2026-07-28"
		}
		calls.Go(func() {
			c := asked(t, s, version, name, func() {
				if waiting.Add(1) == clients {
					close(everybody)
				}
				select {
				case <-everybody:
				case <-time.After(patience):
					t.Errorf("%d of %d clients were asked at the same time", waiting.Load(), clients)
				}
			})
			if got := greeting(t, c); got != "accept "+name {
				t.Errorf("%s was greeted as %q", name, got)
			}
		})
	}
	calls.Wait()
}

// elicitor asks during each call, with an id of the test's choosing.
func elicitor(t *testing.T, id string) *mcptest.Server {
	up := mcptest.New(mcptest.Config{})
	up.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		r.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"message":"?","x":1.50}}`)
		up.Await(t, "the answer", func() bool { return len(up.Answers()) > 0 })
		return &mcptest.Reply{Result: `{"content":[],"isError":true}`}
	})
	return up
}

// open starts a session that declares capabilities.
func (s *site) declare(capabilities string) string {
	s.t.Helper()
	r := s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"clientInfo":{"name":"t","version":"1"}}}`)
	if r.status != 200 {
		s.t.Fatalf("initialize: %d %s", r.status, r.body)
	}
	return "Mcp-Session-Id: " + r.header.Get("Mcp-Session-Id")
}

func answerTo(up *mcptest.Server) string {
	if a := up.Answers(); len(a) == 1 {
		return string(a[0])
	}
	return fmt.Sprint(len(up.Answers()), " answers")
}

func TestFaultK2ServerRequestsAreRoutedOrRefused(t *testing.T) {
	t.Run("declared", func(t *testing.T) {
		up := elicitor(t, `"q 1"`)
		s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
		id := s.declare(`{"elicitation":{}}`)
		tp := s.tap("POST", "/mcp", call("1", "echo", ""), id)
		q, err := parse1(tp.next())
		if err != nil || !strings.Contains(q.body, `"params":{"message":"?","x":1.50}`) {
			t.Fatalf("%v %s", err, q.body)
		}
		want(t, s.post(`{"jsonrpc":"2.0","id":`+q.id+`,"result":{"action":"accept","n":9007199254740993}}`, id), 202)
		tp.next()
		if got := answerTo(up); got != `{"jsonrpc":"2.0","id":"q 1","result":{"action":"accept","n":9007199254740993}}` {
			t.Errorf("the server got %s", got)
		}
	})
	t.Run("the client's own error", func(t *testing.T) {
		up := elicitor(t, "7")
		s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
		id := s.declare(`{"elicitation":{}}`)
		tp := s.tap("POST", "/mcp", call("1", "echo", ""), id)
		q, _ := parse1(tp.next())
		s.post(`{"jsonrpc":"2.0","id":`+q.id+`,"error":{"code":-1,"message":"no","data":{"k":1}}}`, id)
		tp.next()
		if got := answerTo(up); got != `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no","data":{"k":1}}}` {
			t.Errorf("the server got %s", got)
		}
	})
	for what, capabilities := range map[string]string{"nothing": `{}`, "another mode": `{"elicitation":{"url":{}}}`, "another request": `{"sampling":{},"roots":{}}`} {
		t.Run("declared "+what, func(t *testing.T) {
			up := elicitor(t, "7")
			s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
			want(t, s.post(call("1", "echo", ""), s.declare(capabilities)), 200, `"isError":true`)
			if got := answerTo(up); !strings.Contains(got, `"id":7,"error":{"code":-32601`) {
				t.Errorf("the server got %s", got)
			}
		})
	}
	t.Run("a modern client that declared nothing", func(t *testing.T) {
		up := elicitor(t, "7")
		s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
		r := s.modern("1", "tools/call", "echo", `,"name":"echo","arguments":{}`)
		want(t, r, 400, `"code":-32021`, `"data":{"requiredCapabilities":{"elicitation":{"form":{}}}}`)
	})
	for _, how := range []string{"its connection", "its session"} {
		t.Run("a client that ends "+how, func(t *testing.T) {
			up := elicitor(t, "7")
			s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
			id := s.declare(`{"elicitation":{}}`)
			tp := s.tap("POST", "/mcp", call("1", "echo", ""), id)
			tp.next()
			if how == "its session" {
				want(t, s.do("DELETE", "/mcp", "", id), 204)
			} else {
				tp.cancel()
			}
			up.Await(t, "an answer", func() bool { return len(up.Answers()) == 1 })
			if got := answerTo(up); !strings.Contains(got, `"id":7,"error":{"code":-32603`) {
				t.Errorf("the server got %s", got)
			}
		})
	}
}

type asking1 struct{ id, body string }

// parse1 reads a request that the gateway sent.
func parse1(frame string) (asking1, error) {
	rq, bad := message.ParseLegacy([]byte(frame))
	if bad != nil || !rq.IsRequest() {
		return asking1{body: frame}, fmt.Errorf("no request: %s", frame)
	}
	return asking1{string(rq.ID), frame}, nil
}

// On a connection without streams of its own a client is asked on that.
func TestFaultK2StdioClientsAreAsked(t *testing.T) {
	h := newHub()
	h.onCall = func(ctx context.Context, c *everline.Call) ([]byte, error) {
		got, err := c.Client.Ask(ctx, words.SamplingCreateMessage, []byte(`{"maxTokens":1}`))
		if err != nil {
			return []byte(fmt.Sprintf(`{"content":[],"kind":%q}`, fault.KindOf(err))), nil
		}
		return []byte(fmt.Sprintf(`{"content":[],"got":%q}`, got)), nil
	}
	c, _ := stdio(t, h, Options{})
	c.say(strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"sampling":{}}`, 1))
	c.next()
	c.say(call("1", "echo", ""))
	q, err := parse1(c.next())
	if err != nil {
		t.Fatal(err)
	}
	c.say(`{"jsonrpc":"2.0","id":` + q.id + `,"result":{"model":"m"}}`)
	if got := c.next(); !strings.Contains(got, `{\"model\":\"m\"}`) {
		t.Errorf("got %s", got)
	}
	c.say(call("2", "echo", ""))
	c.next()
	c.in.Close() // the client leaves in the middle
	if got := c.next(); !strings.Contains(got, `"kind":"closed"`) {
		t.Errorf("got %s", got)
	}
}

// What a server logs during a call reaches the client whose call it is, at its
// own level, across the eras.
func TestLogsOfACallReachItsClientInEveryPairOfEras(t *testing.T) {
	for name, era := range map[string]mcptest.Era{"legacy": mcptest.Legacy, "modern": mcptest.Modern} {
		t.Run(name, func(t *testing.T) {
			up := mcptest.New(mcptest.Config{Era: era})
			var levels []string
			up.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
				levels = append(levels, string(readLevel(r.Params)))
				r.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"low"}}`)
				r.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"high"}}`)
				return nil
			})
			s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
			wants, quiet := s.initialize("2025-11-25"), s.initialize("2025-11-25")
			want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`, wants), 200)
			standing := s.tap("GET", "/mcp", "", quiet)
			for _, r := range []reply{
				s.post(call("2", "echo", ""), wants),
				s.post(modernLevel("error"), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo"),
			} {
				if strings.Contains(r.body, "low") || !strings.Contains(r.body, "high") {
					t.Errorf("the client heard %s", r.body)
				}
			}
			if r := s.post(call("3", "echo", ""), quiet); strings.Contains(r.body, "notifications/message") {
				t.Errorf("a client that asked for nothing heard %s", r.body)
			}
			standing.cancel()
			if all := standing.end(); len(all) != 0 {
				t.Errorf("a client that asked for nothing heard %s", all)
			}
			if era == mcptest.Modern && fmt.Sprint(levels) != `["info" "error" ]` {
				t.Errorf("the server was told of the levels %s", levels)
			}
		})
	}
}

func readLevel(params []byte) []byte {
	return wire.Get(params, "_meta", "io.modelcontextprotocol/logLevel")
}

func modernLevel(level string) string {
	return strings.Replace(modernBody("4", "tools/call", `,"name":"echo","arguments":{}`),
		`"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"`+level+`",`, 1)
}

func TestFaultK1ListDuringACallOverTheWholePath(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
	id := s.initialize("2025-11-25")
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, id), 200, "echo")
	listed := up.Count("tools/list")
	up.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		r.Send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		up.Await(t, "the list", func() bool { return up.Count("tools/list") > listed })
		return nil
	})
	want(t, s.post(call("2", "echo", ""), id), 200, `"result":`)
}

func TestFaultK3SubscriptionsOutliveSessions(t *testing.T) {
	up := mcptest.New(mcptest.Config{Resources: []string{`{"uri":"file:///a","name":"a"}`, `{"uri":"file:///b","name":"b"}`}})
	s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
	id := s.initialize("2025-11-25")
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, id), 200, "file:///b")
	tp := s.tap("GET", "/mcp", "", id)
	for _, uri := range []string{"file:///a", "file:///b"} {
		want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`, id), 200, `"result":{}`)
	}
	up.DropSessions()
	want(t, s.post(call("2", "echo", ""), id), 200, `"result":`)
	caught := map[string]bool{}
	for range 2 { // one catch-up for each
		e := tp.next()
		for _, uri := range []string{"file:///a", "file:///b"} {
			caught[uri] = caught[uri] || strings.Contains(e, uri)
		}
	}
	if !caught["file:///a"] || !caught["file:///b"] || up.Count("resources/subscribe") != 4 {
		t.Errorf("caught up %v, %d subscriptions", caught, up.Count("resources/subscribe"))
	}
	up.Await(t, "the new life's stream", func() bool { return up.Count("GET") >= 2 && up.Listeners() == 1 })
	up.Notify("notifications/resources/updated", `{"uri":"file:///b"}`)
	if e := tp.next(); !strings.Contains(e, "file:///b") {
		t.Errorf("got %s", e)
	}
}

// Whoever replaces a session also closes it: nothing is left over.
func TestFaultN2AndN4SessionsThatAreReplacedLeaveNothing(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
	id := s.initialize("2025-11-25")
	for i := range 20 {
		want(t, s.post(call(fmt.Sprint(i), "echo", ""), id), 200, `"result":`)
		up.DropSessions()
	}
	want(t, s.post(call("21", "echo", ""), id), 200, `"result":`)
	eventually(t, "one stream and one session are left", func() bool { return up.Listeners() == 1 && up.Sessions() == 1 })
}
