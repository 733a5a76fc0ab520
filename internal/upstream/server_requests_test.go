package upstream

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcptest"
)

// A person is a client that answers everything, or nothing.
type person struct {
	id     uint64
	answer string // "": waits until it is not asked any more

	mu    sync.Mutex
	asked []string
	told  []string
	ended int // questions that were taken back
}

func (p *person) ID() uint64 { return p.id }

func (p *person) Ask(ctx context.Context, method string, _ []byte) ([]byte, error) {
	p.mu.Lock()
	p.asked = append(p.asked, method)
	p.mu.Unlock()
	if p.answer != "" {
		return []byte(p.answer), nil
	}
	<-ctx.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	return nil, fault.From(method, ctx.Err())
}

func (p *person) Notify(method string, params []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, method+" "+string(params))
}

// questioner asks during each call whose id argument begins with "ask", and
// answers it when the client has.
func questioner(t *testing.T, cfg mcptest.Config) *mcptest.Server {
	s := mcptest.New(cfg)
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		if !strings.Contains(string(r.Params), `"ask`) {
			return nil
		}
		r.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
		s.Await(t, "the answer", func() bool { return len(s.Answers()) > 0 })
		return &mcptest.Reply{Result: `{"content":[],"got":` + string(s.Answers()[0]) + `}`}
	})
	return s
}

func asking(c Client, id string) *Call {
	return &Call{Method: "tools/call", Name: "work", Client: c, Params: []byte(`{"name":"work","arguments":{"id":"` + id + `","ms":3600000}}`)}
}

func wantText(t *testing.T, got []byte, err error, part string) {
	t.Helper()
	if err != nil || !strings.Contains(string(got), part) {
		t.Errorf("got %s %v, which lacks %s", got, err, part)
	}
}

func TestRequestsOverAStreamWithoutOwnersReachTheOnlyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := inMemory(t, questioner(t, mcptest.Config{}))
		ann := &person{id: door.NewClientID(), answer: `{"action":"accept"}`}
		go u.Call(t.Context(), asking(ann, "other")) // a second call of the same client; ends with the upstream
		synctest.Wait()
		out, err := u.Call(t.Context(), asking(ann, "ask"))
		wantText(t, out.Raw, err, `"result":{"action":"accept"}`)
	})
}

func TestRequestsWhoseOwnerIsNotCertainAreRefusedWithTheRemedy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := inMemory(t, questioner(t, mcptest.Config{}))
		ann, bob := &person{id: door.NewClientID(), answer: `{}`}, &person{id: door.NewClientID(), answer: `{}`}
		go u.Call(t.Context(), asking(bob, "other")) // ends with the upstream
		synctest.Wait()
		out, err := u.Call(t.Context(), asking(ann, "ask"))
		wantText(t, out.Raw, err, `"code":-32601`)
		wantText(t, out.Raw, err, "whose call this request belongs to cannot be told")
		if len(ann.asked)+len(bob.asked) != 0 {
			t.Errorf("asked %v %v", ann.asked, bob.asked)
		}
	})
}

// The server may still work on a call that was given up, and ask for it.
func TestRequestsOfACallThatWasGivenUpReachNobodyElse(t *testing.T) {
	callTimeout := config.NewServer("a").CallTimeout
	for _, after := range []time.Duration{callTimeout - time.Second, callTimeout + time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := questioner(t, mcptest.Config{})
			s.On("ping", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} }) // busy: it has not read the cancel
			u, _ := inMemory(t, s, func(o *Options) { o.Server.PingAfter = -1 })
			ann, bob := &person{id: door.NewClientID(), answer: `{}`}, &person{id: door.NewClientID(), answer: `{}`}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := u.Call(ctx, asking(bob, "other")); err == nil {
				t.Fatal("the call did not end")
			}
			time.Sleep(after)
			_, err := u.Call(t.Context(), asking(ann, "ask"))
			if err != nil || (len(ann.asked) == 1) != (after > callTimeout) || len(bob.asked) != 0 {
				t.Errorf("after %s: %v, asked %v %v", after, err, ann.asked, bob.asked)
			}
		})
	}
}

func TestAServerCanWithdrawItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
			r.Send(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}`)
			r.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
			return nil
		})
		u, _ := inMemory(t, s)
		ann := &person{id: door.NewClientID()}
		if _, err := u.Call(t.Context(), &Call{Method: "tools/call", Name: "echo", Client: ann, Params: []byte(`{"name":"echo"}`)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if ann.ended != 1 {
			t.Errorf("%d questions were taken back", ann.ended)
		}
	})
}

func TestTheEndOfACallEndsItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := questioner(t, mcptest.Config{})
		u, _ := inMemory(t, s)
		ann := &person{id: door.NewClientID()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = u.Call(ctx, asking(ann, "ask")) // its end and that of the question are at the same moment: either may come first
		synctest.Wait()
		if a := s.Answers(); ann.ended != 1 || len(a) != 1 || !strings.Contains(string(a[0]), `"code":-32603`) {
			t.Errorf("ended %d, the server was told %s", ann.ended, a)
		}
	})
}

// Over Streamable HTTP the stream says whose call it is, whoever else calls.
func TestRequestsOverHTTPReachTheOwner(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		who := "ann"
		if strings.Contains(string(r.Params), `"bob"`) {
			who = "bob"
		}
		r.Send(`{"jsonrpc":"2.0","id":"` + who + `","method":"elicitation/create","params":{"message":"?"}}`)
		r.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + who + `"}}`)
		s.Await(t, "both answers", func() bool { return len(s.Answers()) == 2 })
		return nil
	})
	opts, h := options(overWeb(t, s))
	u := start(t, opts)
	people := map[string]*person{}
	var calls sync.WaitGroup
	for _, who := range []string{"ann", "bob"} {
		p := &person{id: door.NewClientID(), answer: `{"action":"accept","content":{"name":"` + who + `"}}`}
		people[who] = p
		calls.Go(func() {
			if _, err := u.Call(t.Context(), &Call{Method: "tools/call", Name: "echo", Client: p, Params: []byte(`{"name":"echo","arguments":{"text":"` + who + `"}}`)}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for _, a := range s.Answers() {
		for _, who := range []string{"ann", "bob"} {
			if strings.Contains(string(a), `"id":"`+who+`"`) && !strings.Contains(string(a), `"name":"`+who+`"`) {
				t.Errorf("the question to %s was answered by %s", who, a)
			}
		}
	}
	for who, p := range people {
		if len(p.asked) != 1 || len(p.told) != 1 || !strings.Contains(p.told[0], who) {
			t.Errorf("%s was asked %v and told %v", who, p.asked, p.told)
		}
	}
	h.await(t, "no log for everybody", func() bool { return len(h.logs) == 0 })
}
