package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
)

const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`

// curious asks on the way of every request of a method, and answers the request
// when it was answered.
func curious(t *testing.T, s *mcptest.Server, method string) *mcptest.Server {
	s.On(method, func(r *mcptest.Request) *mcptest.Reply {
		if method == mcp.ToolsCall && !strings.Contains(string(r.Params), `"ask`) {
			return nil
		}
		n := len(s.Answers())
		r.Send(question)
		s.Await(t, "the answer", func() bool { return len(s.Answers()) > n })
		if method == mcp.ToolsCall {
			return &mcptest.Reply{Result: `{"content":[]}`}
		}
		return &mcptest.Reply{Run: true}
	})
	return s
}

// onlyAnswer is what the server was answered.
func onlyAnswer(t *testing.T, s *mcptest.Server) string {
	t.Helper()
	all := s.Answers()
	if len(all) != 1 {
		t.Fatalf("the server got %d answers: %s", len(all), all)
	}
	return string(all[0])
}

// holdCall begins a call of ann's that takes an hour.
func holdCall(t *testing.T, u *Upstream) *person {
	ann := &person{id: door.NewClientID(), answer: `{"action":"accept"}`}
	go u.Call(t.Context(), asking(ann, "other")) // ends with the upstream
	synctest.Wait()
	return ann
}

// U1: what everline asks for itself, and what programs ask without a client,
// owns the questions that it causes: they are refused, and nobody else is asked.
func TestFaultU1WhatNobodyCausedReachesNobody(t *testing.T) {
	everything := mcptest.Config{
		Prompts:   []string{`{"name":"p"}`},
		Resources: []string{`{"uri":"r://1","name":"r"}`},
	}
	for method, act := range map[string]func(context.Context, *Upstream) error{
		"tools/call": func(ctx context.Context, u *Upstream) error {
			_, err := u.Call(ctx, asking(nil, "ask"))
			return err
		},
		"tools/list": func(ctx context.Context, u *Upstream) error {
			_, err := u.List(ctx, nil, catalog.Tools)
			return err
		},
		"prompts/get": func(ctx context.Context, u *Upstream) error {
			_, err := u.Call(ctx, &Call{Method: "prompts/get", Name: "p", Params: []byte(`{"name":"p"}`)})
			return err
		},
		"resources/read": func(ctx context.Context, u *Upstream) error {
			_, err := u.Call(ctx, &Call{Method: "resources/read", Name: "r://1", Params: []byte(`{"uri":"r://1"}`)})
			return err
		},
		"completion/complete": func(ctx context.Context, u *Upstream) error {
			_, _ = u.Call(ctx, &Call{Method: "completion/complete", Params: []byte(`{"ref":{"type":"ref/prompt","name":"p"}}`)})
			return nil
		},
		"resources/subscribe": func(ctx context.Context, u *Upstream) error {
			_, err := u.Call(ctx, &Call{Method: "resources/subscribe", Name: "r://1", Params: []byte(`{"uri":"r://1"}`)})
			return err
		},
		"logging/setLevel": func(ctx context.Context, u *Upstream) error {
			_, err := u.Call(ctx, &Call{Method: "logging/setLevel", Internal: true, Params: []byte(`{"level":"info"}`)})
			return err
		},
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.New(everything)
				u, _ := inMemory(t, s)
				curious(t, s, method)
				ann := holdCall(t, u)
				if err := act(t.Context(), u); err != nil {
					t.Fatal(err)
				}
				if a := onlyAnswer(t, s); !strings.Contains(a, errNotTold) || len(ann.asked) != 0 {
					t.Errorf("the server was told %s, and ann asked %v", a, ann.asked)
				}
				s.On(method, nil) // what is over owns nothing more
				curious(t, s, mcp.ToolsCall)
				if _, err := u.Call(t.Context(), asking(ann, "ask")); err != nil || len(ann.asked) != 1 {
					t.Errorf("then: %v, ann was asked %v", err, ann.asked)
				}
			})
		})
	}
}

// A call that is out without a client makes the owner of a question uncertain,
// whoever caused it; alone it is told how the question could be answered.
func TestFaultU1ACallWithoutAClientIsAParty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := curious(t, mcptest.New(mcptest.Config{}), mcp.ToolsCall)
		u, _ := inMemory(t, s)
		go u.Call(t.Context(), asking(nil, "other")) // ends with the upstream
		synctest.Wait()
		if _, err := u.Call(t.Context(), asking(nil, "ask")); err != nil || !strings.Contains(onlyAnswer(t, s), errNobody) {
			t.Errorf("%v: %s", err, s.Answers())
		}
		ann := &person{id: door.NewClientID(), answer: `{}`}
		if _, err := u.Call(t.Context(), asking(ann, "ask")); err != nil || len(ann.asked) != 0 || !strings.Contains(string(s.Answers()[1]), errNotTold) {
			t.Errorf("%v: ann was asked %v, the server told %s", err, ann.asked, s.Answers())
		}
	})
}

// Over Streamable HTTP the stream says that it is nobody's, or ann's.
func TestFaultU1OverHTTPTheStreamTellsNobodysRequests(t *testing.T) {
	s := curious(t, mcptest.New(mcptest.Config{}), mcp.ToolsCall)
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	ann := &person{id: door.NewClientID(), answer: `{"action":"accept"}`}
	for i, c := range []*Call{asking(nil, "ask"), asking(ann, "ask")} {
		if _, err := u.Call(t.Context(), c); err != nil || len(ann.asked) != i {
			t.Errorf("call %d: %v, ann was asked %v", i, err, ann.asked)
		}
	}
	if a := string(s.Answers()[0]); !strings.Contains(a, errNobody) {
		t.Errorf("the server was told %s", a)
	}
}

// Who gave a call up without a client is remembered like any other, on every
// transport that does not say whose a request is.
func TestFaultU1WhatNobodyGaveUpReachesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.On("ping", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} }) // busy
		u, _ := inMemory(t, s, func(o *Options) { o.Server.PingAfter = -1 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := u.Call(ctx, asking(nil, "other")); err == nil {
			t.Fatal("the call did not end")
		}
		ann := holdCall(t, u)
		s.SendAll(question)
		synctest.Wait()
		if a := onlyAnswer(t, s); !strings.Contains(a, errNotTold) || len(ann.asked) != 0 {
			t.Errorf("the server was told %s, and ann asked %v", a, ann.asked)
		}
	})
}

// On a connection for one client alone, a call of a program that serves no
// requests is nobody's as well; what everline asks there is the client's.
func TestFaultU1OnAConnectionOfItsOwn(t *testing.T) {
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := curious(t, mcptest.New(mcptest.Config{Resources: []string{`{"uri":"r://1","name":"r"}`}}), "resources/subscribe")
			ann := &person{id: door.NewClientID(), answer: `{"action":"accept"}`}
			u, _ := inMemory(t, s, func(o *Options) { o.Owner, o.Capabilities = ann, []byte(`{"elicitation":{}}`) })
			c := &Call{Method: "resources/subscribe", Name: "r://1", Internal: own, Params: []byte(`{"uri":"r://1"}`)}
			if _, err := u.Call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if a := onlyAnswer(t, s); (len(ann.asked) == 1) != own || strings.Contains(a, errNobody) == own {
				t.Errorf("own=%v: the server was told %s, and ann asked %v", own, a, ann.asked)
			}
		})
	}
}

// A task goes on when its call was answered: what its server asks for it reaches
// the client that has it, while that waits for it, and no other ever.
func TestFaultU1WhatATaskAsksReachesItsClient(t *testing.T) {
	const asks = `{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"?"%s}}`
	const related = `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}`
	for name, client := range map[string]*person{"bob": {id: door.NewClientID(), answer: `{}`}, "nobody": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.New(mcptest.Config{})
				s.Next(mcp.ToolsCall, 1, mcptest.Reply{Result: `{"task":{"taskId":"t1","status":"working","ttl":60000}}`})
				u, _ := inMemory(t, s)
				begin := asking(nil, "task")
				if client != nil {
					begin.Client = client
				}
				if _, err := u.Call(t.Context(), begin); err != nil {
					t.Fatal(err)
				}
				ann := holdCall(t, u)
				ask := func(n int, meta string) {
					s.SendAll(fmt.Sprintf(asks, n, meta))
					synctest.Wait()
				}
				ask(1, related)
				ask(2, "")
				if len(ann.asked) != 0 || client != nil && len(client.asked) != 0 {
					t.Errorf("while nobody waits: %s", s.Answers())
				}
				s.On("tasks/result", func(*mcptest.Request) *mcptest.Reply {
					ask(3, related)
					return &mcptest.Reply{Result: `{"content":[]}`}
				})
				result := &Call{Method: "tasks/result", Name: "t1", Params: []byte(`{"taskId":"t1"}`), Client: begin.Client}
				if _, err := u.Call(t.Context(), result); err != nil {
					t.Fatal(err)
				}
				if len(ann.asked) != 0 || client != nil && len(client.asked) != 1 {
					t.Errorf("ann was asked %v, the task's client %+v", ann.asked, client)
				}
				ask(4, "") // the task is over
				if len(ann.asked) != 1 {
					t.Errorf("when it was over: %s", s.Answers())
				}
			})
		})
	}
}

// W2: a call that was given up stands in nobody's way once the server has read
// the cancel: it answers what was sent behind it.
func TestFaultW2ACanceledCallIsForgottenWhenTheCancelWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := curious(t, mcptest.New(mcptest.Config{}), mcp.ToolsCall)
		read := make(chan struct{})
		s.On("ping", func(*mcptest.Request) *mcptest.Reply {
			<-read
			return nil
		})
		u, _ := inMemory(t, s, func(o *Options) { o.Server.PingAfter = -1 })
		bob, ann := &person{id: door.NewClientID(), answer: `{}`}, &person{id: door.NewClientID(), answer: `{}`}
		for range 3 { // they share pings
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := u.Call(ctx, asking(bob, "other")); err == nil {
				t.Fatal("the call did not end")
			}
		}
		synctest.Wait()
		if _, err := u.Call(t.Context(), asking(ann, "ask")); err != nil || len(ann.asked) != 0 {
			t.Errorf("before: %v, ann was asked %v", err, ann.asked)
		}
		close(read)
		synctest.Wait()
		if _, err := u.Call(t.Context(), asking(ann, "ask")); err != nil || len(ann.asked) != 1 || len(bob.asked) != 0 {
			t.Errorf("after: %v, ann was asked %v, bob %v", err, ann.asked, bob.asked)
		}
		if n := s.Count("ping"); n > 2 {
			t.Errorf("%d pings for 3 cancels", n)
		}
	})
}

// A server that was seen to work on after it had read a cancel is not believed
// again: its late answer is the end of such a call, or the time that calls take.
func TestFaultW2AServerThatIgnoresCancelsIsNotBelieved(t *testing.T) {
	for _, how := range []string{"a late result", "a question without a call"} {
		synctest.Test(t, func(t *testing.T) {
			s := curious(t, mcptest.New(mcptest.Config{}), mcp.ToolsCall)
			u, _ := inMemory(t, s)
			bob, ann := &person{id: door.NewClientID(), answer: `{}`}, &person{id: door.NewClientID(), answer: `{}`}
			giveUp := func() (id string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := u.Call(ctx, asking(bob, "other")); err == nil {
					t.Fatal("the call did not end")
				}
				synctest.Wait()
				all := s.Cancelled()
				return all[len(all)-1]
			}
			late := func(id string) {
				s.SendAll(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`)
				synctest.Wait()
			}
			first := giveUp()
			if how == "a late result" {
				late(first)
			} else {
				s.SendAll(`{"jsonrpc":"2.0","id":"late","method":"elicitation/create","params":{"message":"?"}}`)
				synctest.Wait()
			}
			second := giveUp()
			if _, err := u.Call(t.Context(), asking(ann, "ask")); err != nil || len(ann.asked) != 0 {
				t.Errorf("%s: %v, ann was asked %v", how, err, ann.asked)
			}
			late(second)
			if _, err := u.Call(t.Context(), asking(ann, "ask")); err != nil || len(ann.asked) != 1 {
				t.Errorf("%s, and the call is over: %v, ann was asked %v", how, err, ann.asked)
			}
		})
	}
}

// A call that ended without a verdict on a link that goes on may go on as well,
// and over HTTP the standing stream does not say whose request it is.
func TestFaultU1ACallOfUnknownOutcomeMayGoOn(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	s.Await(t, "the standing stream", func() bool { return s.Listeners() == 1 })
	s.Next(mcp.ToolsCall, 1, mcptest.Reply{Status: 502, Body: "bad gateway"})
	bob, ann := &person{id: door.NewClientID(), answer: `{}`}, &person{id: door.NewClientID(), answer: `{}`}
	if _, err := u.Call(t.Context(), asking(bob, "other")); err == nil {
		t.Fatal("the call did not fail")
	}
	s.On(mcp.ToolsCall, func(*mcptest.Request) *mcptest.Reply {
		s.SendAll(question)
		s.Await(t, "the answer", func() bool { return len(s.Answers()) > 0 })
		return &mcptest.Reply{Result: `{"content":[]}`}
	})
	if _, err := u.Call(t.Context(), asking(ann, "ask")); err != nil || len(ann.asked) != 0 {
		t.Errorf("%v, ann was asked %v: %s", err, ann.asked, s.Answers())
	}
}

// W2: of several calls of one client any may bring a question; when it ends, the
// next one does.
func TestFaultW2TheQuestionOutlivesTheCallThatBroughtIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		ann := &person{id: door.NewClientID()} // never answers
		short := asking(ann, "other")
		short.Params = []byte(strings.Replace(string(short.Params), "3600000", "1000", 1))
		go u.Call(t.Context(), short) // ends in a second
		synctest.Wait()
		go u.Call(t.Context(), asking(ann, "long")) // ends with the upstream
		synctest.Wait()
		s.SendAll(question)
		synctest.Wait()
		ann.mu.Lock()
		asked := slices.Clone(ann.asked)
		ann.mu.Unlock()
		if len(asked) != 1 {
			t.Fatalf("ann was asked %v", asked)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(ann.asked) != 2 || ann.ended != 1 || len(s.Answers()) != 0 {
			t.Errorf("ann was asked %v, of which %d ended, and the server was told %s", ann.asked, ann.ended, s.Answers())
		}
	})
}

// A server may use the id of a request again as soon as it was answered.
func TestFaultU12TheIDOfAQuestionIsFreeWithItsAnswer(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	s.On(mcp.ToolsCall, func(r *mcptest.Request) *mcptest.Reply {
		for n := range 20 {
			r.Send(question)
			s.Await(t, "the answer", func() bool { return len(s.Answers()) > n })
		}
		return &mcptest.Reply{Result: `{"content":[]}`}
	})
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	ann := &person{id: door.NewClientID(), answer: `{"action":"accept"}`}
	if _, err := u.Call(t.Context(), asking(ann, "ask")); err != nil || len(ann.asked) != 20 {
		t.Errorf("%v, asked %d times", err, len(ann.asked))
	}
}

// U1: a question that comes while everline lists by itself waits for the listing
// to be over: then it was the client's call that caused it.
func TestFaultU1AListingOfItsOwnIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		ann := holdCall(t, u)
		s.Next("tools/list", 1, mcptest.Reply{Run: true, Delay: time.Second})
		listed := make(chan error, 1)
		go func() { _, err := u.List(t.Context(), nil, catalog.Tools); listed <- err }() // ends with the answer
		synctest.Wait()
		s.SendAll(question)
		synctest.Wait()
		if n := len(s.Answers()); n != 0 {
			t.Errorf("%d answers while the listing was out", n)
		}
		if err := <-listed; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a := onlyAnswer(t, s); !strings.Contains(a, "accept") {
			t.Errorf("the server was told %s", a)
		}
		ann.mu.Lock()
		defer ann.mu.Unlock()
		if len(ann.asked) != 1 {
			t.Errorf("ann was asked %v", ann.asked)
		}
	})
}
