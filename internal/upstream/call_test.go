package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
)

func TestFaultH4_ResultsWithoutContent(t *testing.T) {
	for sent, want := range map[string]string{
		`{}`:                                `{"content":[]}`,
		`{"content":null}`:                  `{"content":[]}`,
		`{"toolResult":{"content":[]}}`:     `{"toolResult":{"content":[]},"content":[]}`,
		`{"content":[{"type":"new_kind"}]}`: `{"content":[{"type":"new_kind"}]}`,
		`{ "isError" : true ,"n":1.0, "content":[ ] }`: `{ "isError" : true ,"n":1.0, "content":[ ] }`,
		`{"resultType":"task","taskId":"1"}`:           `{"resultType":"task","taskId":"1"}`,
		`{"resultType":"complete","x":1}`:              `{"resultType":"complete","x":1,"content":[]}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			s.Next("tools/call", 1, mcptest.Reply{Result: sent})
			u, _ := inMemory(t, s)
			if got := call(t, u, `{"name":"x"}`); got != want {
				t.Errorf("%s became %s, want %s", sent, got, want)
			}
		})
	}
	for _, sent := range []string{`null`, `7`, `"text"`, `[]`} {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			s.Next("tools/call", 1, mcptest.Reply{Result: sent})
			u, _ := inMemory(t, s)
			_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"x"}`)})
			if f := faultOf(t, err); f.Kind != fault.Protocol || f.Outcome != fault.Answered || f.Gen != 7 {
				t.Errorf("%s: %v (%v, %v)", sent, f, f.Kind, f.Outcome)
			}
			call(t, u, `{"name":"echo"}`) // the connection is as good as before
		})
	}
}

func TestFaultJ2_AnswersAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		raw := `{"code":-32602,"message":"connection closed, 404","data":{"n":9007199254740993}}`
		s.Next("tools/call", 1, mcptest.Reply{Error: raw})
		s.Next("tools/call", 1, mcptest.Reply{Result: `{"isError":true,"content":[{"type":"text","text":"404 connection closed"}]}`})
		u, _ := inMemory(t, s)
		_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"x"}`)})
		f := faultOf(t, err)
		if f.Kind != fault.RPC || f.Outcome != fault.Answered || string(f.RPC.Raw) != raw || f.RPC.Code != -32602 || f.Server != "test" {
			t.Errorf("%+v", f)
		}
		if got := call(t, u, `{"name":"x"}`); !strings.Contains(got, `"isError":true`) {
			t.Errorf("result %s", got)
		}
		if u.Err() != nil || s.Count("tools/call") != 2 {
			t.Errorf("ended: %v, %d calls", u.Err(), s.Count("tools/call"))
		}
	})
}

func TestFaultJ4_StrayProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
			r.ProgressAs(`"made up"`, 1)
			r.ProgressAs(`12345`, 1)
			r.Progress(1)
			r.Progress(3)
			r.Progress(2) // not increasing: still in order
			r.Send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
			return nil
		})
		u, _ := inMemory(t, s)
		var got []string
		_, err := u.Call(t.Context(), &Call{
			Method: "tools/call", Params: []byte(`{"name":"echo","_meta":{"progressToken":"mine"}}`),
			Progress: func(p []byte) { got = append(got, string(p)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		token := s.Requests("tools/call")[0].Token()
		want := fmt.Sprint([]string{
			`{"progressToken":"mine","progress":1}`, `{"progressToken":"mine","progress":3}`, `{"progressToken":"mine","progress":2}`,
		})
		if fmt.Sprint(got) != want {
			t.Errorf("progress %v, want %v", got, want)
		}
		// Progress of a request that is over goes nowhere.
		ignored := u.Info().Ignored
		s.SendAll(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":9}}`)
		synctest.Wait()
		if len(got) != 3 || u.Info().Ignored != ignored+1 {
			t.Errorf("late progress: %v, %d ignored", got, u.Info().Ignored-ignored)
		}
		// Nor does that of a call whose client wants none.
		s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
			r.ProgressAs(string(r.ID), 1)
			return nil
		})
		call(t, u, `{"name":"echo"}`)
	})
}

// Two clients with the same token at the same time.
func TestFaultJ5_TokensAreOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		var mu sync.Mutex
		got := map[string]int{}
		var calls sync.WaitGroup
		for id, steps := range map[string]int{"x": 2, "y": 5} {
			calls.Go(func() {
				_, err := u.Call(t.Context(), &Call{
					Method:   "tools/call",
					Params:   fmt.Appendf(nil, `{"name":"work","arguments":{"id":%q,"ms":1000,"steps":%d},"_meta":{"progressToken":1}}`, id, steps),
					Progress: func([]byte) { mu.Lock(); got[id]++; mu.Unlock() },
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if got["x"] != 2 || got["y"] != 5 {
			t.Errorf("progress %v, want x:2 y:5", got)
		}
	})
}

// The server answers the call only after it was asked for its list: the
// reader must be free while Changed is being acted on.
func TestFaultK1_ListDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		listed := make(chan struct{})
		s.On("tools/list", func(*mcptest.Request) *mcptest.Reply { close(listed); return nil })
		s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
			r.Send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			<-listed
			return nil
		})
		u, h := inMemory(t, s)
		done := make(chan error, 1)
		go func() { // ends with its list
			for range h.news {
				if h.count(catalog.Tools) > 0 {
					_, err := u.List(t.Context(), nil, catalog.Tools)
					done <- err
					return
				}
			}
		}()
		call(t, u, `{"name":"echo"}`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFaultK2_ServerRequestsAreAnswered(t *testing.T) {
	requests := map[string]string{
		`{"jsonrpc":"2.0","id":"r1","method":"roots/list"}`:                           `"code":-32601`,
		`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{}}`:      `"code":-32601`,
		`{"jsonrpc":"2.0","id":"3","method":"elicitation/create","params":{"a":"b"}}`: `"code":-32601`,
		`{"jsonrpc":"2.0","id":4,"method":"ping"}`:                                    `"result":{}`,
	}
	check := func(t *testing.T, s *mcptest.Server, u *Upstream) {
		s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
			for raw := range requests {
				r.Send(raw)
			}
			return nil
		})
		call(t, u, `{"name":"echo"}`)
		s.Await(t, "four answers", func() bool { return len(s.Answers()) == len(requests) })
		for raw, want := range requests {
			id := raw[len(`{"jsonrpc":"2.0","id":`):strings.Index(raw, `,"method"`)]
			found := false
			for _, a := range s.Answers() {
				found = found || strings.Contains(string(a), `"id":`+id+`,`) && strings.Contains(string(a), want)
			}
			if !found {
				t.Errorf("no answer with %s to %s in %s", want, raw, s.Answers())
			}
		}
	}
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			u, _ := inMemory(t, s)
			check(t, s, u)
		})
	})
	t.Run("HTTP", func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		opts, _ := options(overWeb(t, s))
		check(t, s, start(t, opts))
	})
	t.Run("SSE", func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		server := overWeb(t, s)
		server.Transport, server.URL = "sse", strings.Replace(server.URL, "/mcp", "/sse", 1)
		opts, _ := options(server)
		check(t, s, start(t, opts))
	})
}

// Requests of the server during the handshake are answered too.
func TestFaultK2_PingBeforeTheHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.Next("initialize", 1, mcptest.Reply{Run: true, Before: []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`}})
		inMemory(t, s)
		synctest.Wait()
		if n := len(s.Answers()); n != 1 {
			t.Errorf("%d answers", n)
		}
	})
}

func TestNotificationsReachTheirListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, h := inMemory(t, s)
		s.Notify("notifications/prompts/list_changed", "")
		s.Notify("notifications/resources/list_changed", "{}")
		s.Notify("notifications/resources/updated", `{"uri":"file:///a"}`)
		s.Notify("notifications/message", `{"level":"info","data":"x"}`)
		s.Notify("notifications/unheard/of", `{}`)
		s.Notify("notifications/cancelled", `{"requestId":1}`)
		synctest.Wait()
		if !slices.Equal(h.changed, []catalog.Kind{catalog.Prompts, catalog.Resources, catalog.Templates}) {
			t.Errorf("changed %v", h.changed)
		}
		if fmt.Sprint(h.updated, h.logs) != `[file:///a] [{"level":"info","data":"x"}]` {
			t.Errorf("updated %v, logs %v", h.updated, h.logs)
		}
		if u.Info().Ignored != 2 {
			t.Errorf("%d ignored, want 2", u.Info().Ignored)
		}
	})
}

// Close ends what is in flight, once and for all.
func TestCloseEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		done := make(chan error, 1)
		go func() { // ends with its call
			_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"ms":100000}}`)})
			done <- err
		}()
		synctest.Wait()
		closeNow(t, u)
		if f := faultOf(t, <-done); f.Kind != fault.Closed || f.Outcome != fault.Unknown {
			t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
		}
		if u.Err() != nil {
			t.Errorf("Err after Close: %v", u.Err())
		}
		<-u.Done()
		_, err := u.Call(t.Context(), &Call{Method: "tools/call"})
		if f := faultOf(t, err); f.Kind != fault.Closed || f.Outcome != fault.NotSent {
			t.Errorf("after Close: %v (%v)", f, f.Outcome)
		}
		closeNow(t, u)
		if len(s.Cancelled()) != 0 {
			t.Error("a cancel was sent on a link that is being closed")
		}
	})
}

// A link that breaks ends the upstream, and tells the reason.
func TestLinkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		s.Next("tools/call", 1, mcptest.Reply{Run: true, Cut: true})
		_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"id":"1"}}`)})
		f := faultOf(t, err)
		if f.Outcome != fault.Unknown || !f.Kind.BlamesLink() || s.Executions("1") != 1 {
			t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
		}
		<-u.Done()
		if got := faultOf(t, u.Err()); got.Server != "test" || got.Gen != 7 {
			t.Errorf("Err %+v", got)
		}
	})
}

// A server that does not read gets no heap of cancel notices.
func TestCancelNoticesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		s.On("tools/call", hang)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for range 300 {
			calls.Go(func() { _, _ = u.Call(ctx, &Call{Method: "tools/call", Params: []byte(`{"name":"x"}`)}) })
		}
		calls.Wait()
		synctest.Wait()
		if n := len(s.Cancelled()); n == 0 || n > 300 {
			t.Errorf("%d notices", n)
		}
		if u.sends != 0 {
			t.Errorf("%d sends are still counted", u.sends)
		}
	})
}
