package systest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// placeOrder calls a tool that must not run twice.
func placeOrder(t *testing.T, hub *everline.Hub, id string, limit time.Duration) *fault.Fault {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := hub.Call(ctx, &everline.Call{
		Method: "tools/call", Name: "work", Params: []byte(`{"name":"work","arguments":{"id":"` + id + `"}}`),
	})
	return fault.From("", err)
}

const sessionGone = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`

// A call whose answer is lost is sent again only where it was not executed for
// certain, or where the configuration says that repeating is harmless.
func TestFaultJ1NothingRunsTwice(t *testing.T) {
	challenge := map[string]string{"WWW-Authenticate": `Bearer resource_metadata="x"`}
	for _, c := range []struct {
		name   string
		ours   map[string]any
		reply  mcptest.Reply
		runs   int
		fails  bool
		what   fault.Outcome
		starts int // initializes, with the first
	}{
		{"executed, then cut", nil, mcptest.Reply{Run: true, Cut: true}, 1, true, fault.Unknown, 1},
		{"cut before it was read", nil, mcptest.Reply{Cut: true}, 0, true, fault.Unknown, 1},
		{"executed, then 502", nil, mcptest.Reply{Run: true, Status: 502}, 1, true, fault.Unknown, 1},
		{"executed, then garbage", nil, mcptest.Reply{Run: true, Raw: "no JSON"}, 1, true, fault.Unknown, 1},
		{"unknown session", nil, mcptest.Reply{Status: 404, Body: sessionGone}, 1, false, 0, 2},
		{"401", nil, mcptest.Reply{Status: 401, Header: challenge}, 0, true, fault.NotSent, 1},
		{"503 with Retry-After", nil, mcptest.Reply{Status: 503, Header: map[string]string{"Retry-After": "1"}}, 1, false, 0, 1},
		{"harmless by configuration", map[string]any{"replay": "always"}, mcptest.Reply{Run: true, Cut: true}, 2, false, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			server := web(mcptest.Web(t, s))
			if c.ours != nil {
				server = with(server, c.ours)
			}
			hub := open(t, servers{"a": server}, everline.Options{})
			ready(t, hub, "a", 0)
			s.Next("tools/call", 1, c.reply)
			f := placeOrder(t, hub, "x", soon)
			if (f != nil) != c.fails || f != nil && f.Outcome != c.what {
				t.Errorf("the call: %+v", f)
			}
			if n := s.Executions("x"); n != c.runs {
				t.Errorf("it ran %d times, want %d", n, c.runs)
			}
			if n := s.Count("initialize"); n != c.starts {
				t.Errorf("%d initializes, want %d", n, c.starts)
			}
		})
	}
	t.Run("process ends after execution", func(t *testing.T) {
		journal := t.TempDir() + "/journal"
		hub := open(t, servers{"a": child(mcptest.Config{Journal: journal})}, everline.Options{})
		st := ready(t, hub, "a", 0)
		_, err := call(t, hub, "work", `{"id":"x","exit":true}`)
		f := fault.From("", err)
		if f == nil || f.Outcome != fault.Unknown || f.State == "" {
			t.Errorf("the call: %+v", f)
		}
		ready(t, hub, "a", st.Generation)
		if n := mcptest.JournalCount(journal, "exec x"); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}

// An answer is no failure of the connection, whatever it says.
func TestFaultJ2AnswersReconnectNothing(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	st := ready(t, hub, "a", 0)
	raw := `{"code":-32602,"message":"connection closed: 404","data":{"n":12345678901234567890}}`
	s.Next("tools/call", 3, mcptest.Reply{Error: raw})
	s.Next("tools/call", 3, mcptest.Reply{Result: `{"isError":true,"content":[{"type":"text","text":"connection closed, 404"}]}`})
	for range 3 {
		f := placeOrder(t, hub, "x", soon)
		if f == nil || f.Kind != fault.RPC || f.Outcome != fault.Answered || string(f.RPC.Raw) != raw {
			t.Errorf("a server's own error became %+v", f)
		}
	}
	for range 3 {
		if r := mustCall(t, hub, "work", `{"id":"x"}`); !strings.Contains(r, `"isError":true`) {
			t.Errorf("a tool's own error became %s", r)
		}
	}
	if n := s.Count("tools/call"); n != 6 {
		t.Errorf("%d calls arrived, want 6", n)
	}
	if now := ready(t, hub, "a", 0).Generation; now != st.Generation || s.Count("initialize") != 1 {
		t.Errorf("generation %d after %d, %d initializes", now, st.Generation, s.Count("initialize"))
	}
}

// A cancel reaches the server that has the call, with that server's own id, at
// once: neither other calls nor the limit of calls at a time hold it up.
func TestFaultJ3CancelReachesTheServer(t *testing.T) {
	for name, era := range map[string]mcptest.Era{"legacy": mcptest.Legacy, "modern": mcptest.Modern} {
		t.Run(name, func(t *testing.T) {
			s, other := mcptest.New(mcptest.Config{Era: era}), mcptest.New(mcptest.Config{Era: era})
			hub := open(t, servers{
				"a": with(web(mcptest.Web(t, s)), map[string]any{"maxConcurrent": 1}),
				"b": web(mcptest.Web(t, other)),
			}, everline.Options{})
			gen := ready(t, hub, "a", 0).Generation
			ready(t, hub, "b", 0)
			s.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} })
			ctx, cancel := context.WithCancel(within(t))
			first := background(ctx, hub, "a__work")
			s.Await(t, "the call", func() bool { return s.Count("tools/call") == 1 })
			second := background(within(t), hub, "a__work") // waits for its turn
			s.On("tools/call", nil)
			cancel()
			if f := <-first; f == nil || f.Kind != fault.Canceled || f.Outcome != fault.Unknown {
				t.Errorf("the canceled call: %+v", f)
			}
			if f := <-second; f != nil {
				t.Errorf("the one behind it: %v", f)
			}
			s.Await(t, "the cancel", func() bool {
				if era == mcptest.Modern { // the end of the stream is the cancel
					return s.Closings() >= 1
				}
				return slices.Equal(s.Cancelled(), []string{string(s.Requests("tools/call")[0].ID)})
			})
			if len(other.Cancelled()) != 0 {
				t.Error("another server heard of the cancel")
			}
			if now := ready(t, hub, "a", 0).Generation; now != gen {
				t.Error("a cancel is no strike")
			}
		})
	}
}

// A cancel goes to the generation that has the call, though a newer one serves,
// and in its session.
func TestFaultJ3CancelGoesToTheLifeThatHasTheCall(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	var mu sync.Mutex
	var sessions []string // of the cancels
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil && strings.Contains(string(body), "notifications/cancelled") {
			mu.Lock()
			sessions = append(sessions, req.Header.Get("Mcp-Session-Id"))
			mu.Unlock()
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		s.Handler().ServeHTTP(w, req)
	}))
	t.Cleanup(site.Close)
	t.Cleanup(s.Close) // before the site: it ends what hangs
	hub := open(t, servers{"a": {"type": "http", "url": site.URL + "/mcp"}}, everline.Options{})
	gen := ready(t, hub, "a", 0).Generation
	s.Next("tools/call", 1, mcptest.Reply{Hang: true})
	ctx, cancel := context.WithCancel(within(t))
	held := background(ctx, hub, "work")
	s.Await(t, "the call", func() bool { return s.Count("tools/call") == 1 })
	if err := hub.Reconnect(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	ready(t, hub, "a", gen)
	mustCall(t, hub, "echo", `{}`) // the new generation serves
	calls := s.Requests("tools/call")
	if len(calls) != 2 || calls[0].Session == calls[1].Session {
		t.Fatalf("calls %+v", calls)
	}
	cancel()
	if f := <-held; f == nil || f.Kind != fault.Canceled || f.Gen != gen {
		t.Errorf("the canceled call: %+v", f)
	}
	s.Await(t, "the cancel", func() bool { return len(s.Cancelled()) == 1 })
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(sessions, []string{calls[0].Session}) || s.Cancelled()[0] != string(calls[0].ID) {
		t.Errorf("canceled %v in %v, want %s in %s", s.Cancelled(), sessions, calls[0].ID, calls[0].Session)
	}
}

// Our own deadline cancels, too; and what comes late goes nowhere.
func TestFaultJ3DeadlineCancels(t *testing.T) {
	journal := t.TempDir() + "/journal"
	hub := open(t, servers{"a": child(mcptest.Config{Journal: journal})}, everline.Options{})
	gen := ready(t, hub, "a", 0).Generation
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: "work", Params: []byte(`{"name":"work","arguments":{"id":"x","ms":60000}}`)})
	if f := fault.From("", err); f == nil || f.Kind != fault.Deadline || f.Outcome != fault.Unknown {
		t.Errorf("the call: %+v", f)
	}
	mustCall(t, hub, "echo", `{}`) // behind the cancel on the same pipe
	if st := ready(t, hub, "a", 0); st.Generation != gen {
		t.Error("a deadline recycled the server")
	}
	if n := mcptest.JournalCount(journal, "request tools/call"); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func background(ctx context.Context, hub *everline.Hub, name string) <-chan *fault.Fault {
	done := make(chan *fault.Fault, 1)
	go func() { // ends with its call
		_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: name, Params: []byte(`{"name":"x","arguments":{}}`)})
		done <- fault.From("", err)
	}()
	return done
}

// Progress for nobody, progress that comes late, and answers that nobody asked
// for are ignored; the connection stays.
func TestFaultJ4StraysAreIgnored(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	st := ready(t, hub, "a", 0)
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		r.ProgressAs(`"made up"`, 1)
		r.ProgressAs(`99999`, 1)
		r.Progress(5)
		r.Progress(2) // does not increase
		r.Send(`{"jsonrpc":"2.0","id":424242,"result":{}}`)
		return nil
	})
	var got []string
	_, err := hub.Call(within(t), &everline.Call{
		Method: "tools/call", Name: "work",
		Params:   []byte(`{"name":"work","arguments":{"id":"x"},"_meta":{"progressToken":"mine"}}`),
		Progress: func(p []byte) { got = append(got, string(p)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`{"progressToken":"mine","progress":5}`, `{"progressToken":"mine","progress":2}`}
	if !slices.Equal(got, want) {
		t.Errorf("progress %v, want %v", got, want)
	}
	s.SendAll(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + s.Requests("tools/call")[0].Token() + `,"progress":9}}`)
	s.On("tools/call", nil)
	mustCall(t, hub, "echo", `{}`)
	if len(got) != 2 || ready(t, hub, "a", 0).Generation != st.Generation {
		t.Errorf("late progress: %v", got)
	}
}

// Two clients with the same progress token at the same time.
func TestFaultJ5SameTokenTwice(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{})}, everline.Options{})
	ready(t, hub, "a", 0)
	var all sync.WaitGroup
	for _, steps := range []int{2, 7} {
		all.Go(func() {
			n, last := 0, ""
			_, err := hub.Call(within(t), &everline.Call{
				Method: "tools/call", Name: "work",
				Params:   fmt.Appendf(nil, `{"name":"work","arguments":{"id":"s%d","ms":50,"steps":%d},"_meta":{"progressToken":1}}`, steps, steps),
				Progress: func(p []byte) { n++; last = string(p) },
			})
			if want := fmt.Sprintf(`{"progressToken":1,"progress":%d}`, steps); err != nil || n != steps || last != want {
				t.Errorf("%d notifications, want %d; the last %s, want %s; %v", n, steps, last, want, err)
			}
		})
	}
	all.Wait()
}

// A server that gives ids in another form is understood; one that answers with
// a wrong id is told so instead of a bare timeout.
func TestFaultJ7IDsInOtherForms(t *testing.T) {
	for _, c := range []struct {
		name  string
		id    func(own string) string
		works bool
	}{
		{"as a string", func(own string) string { return `"` + own + `"` }, true},
		{"with a fraction", func(own string) string { return own + ".0" }, true},
		{"always 0", func(string) string { return "0" }, false},
		{"null", func(string) string { return "null" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			ready(t, hub, "a", 0)
			s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
				return &mcptest.Reply{ID: c.id(string(r.ID)), Result: `{"content":[]}`}
			})
			begun := time.Now()
			f := placeOrder(t, hub, "x", soon)
			switch {
			case c.works && f != nil:
				t.Error(f)
			case !c.works && (f == nil || f.Kind != fault.Protocol || f.Outcome == fault.NotSent):
				t.Errorf("a wrong id became %+v", f)
			case time.Since(begun) > soon/2:
				t.Error("it was waited for")
			}
		})
	}
}

// A slow call holds up neither fast ones nor lists, and where the calls at a
// time are limited they run in the order in which they came.
func TestFaultJ8NoHeadOfLineBlocking(t *testing.T) {
	for name, server := range map[string]map[string]any{
		"stdio": child(mcptest.Config{}),
		"http":  web(mcptest.Web(t, mcptest.New(mcptest.Config{}))),
	} {
		t.Run(name, func(t *testing.T) {
			hub := open(t, servers{"a": server}, everline.Options{})
			ready(t, hub, "a", 0)
			ctx, cancel := context.WithCancel(within(t))
			slow := make(chan *fault.Fault, 1)
			started := make(chan struct{}, 1) // holds one once there was progress
			go func() {                       // ends when it is canceled, below
				_, err := hub.Call(ctx, &everline.Call{
					Method: "tools/call", Name: "work",
					Params: []byte(`{"name":"work","arguments":{"id":"slow","ms":600000,"steps":60000},"_meta":{"progressToken":1}}`),
					Progress: func([]byte) {
						select {
						case started <- struct{}{}:
						default:
						}
					},
				})
				slow <- fault.From("", err)
			}()
			<-started
			var fast sync.WaitGroup
			for i := range 20 {
				fast.Go(func() { mustCall(t, hub, "echo", fmt.Sprintf(`{"n":%d}`, i)) })
			}
			fast.Wait()
			select {
			case f := <-slow:
				t.Fatalf("the slow call ended: %v", f)
			default:
			}
			cancel()
			if f := <-slow; f.Kind != fault.Canceled {
				t.Error(f)
			}
		})
	}
}

// A server that swallows two hundred calls costs its neighbour nothing.
func TestFaultJ9BlackHoleBesideAHealthyServer(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"hole": web(mcptest.Web(t, s)), "good": child(mcptest.Config{})}, everline.Options{})
	ready(t, hub, "hole", 0)
	ready(t, hub, "good", 0)
	alone := slowest(t, hub)
	s.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} })
	ctx, cancel := context.WithCancel(within(t))
	var swallowed []<-chan *fault.Fault
	for range 200 {
		swallowed = append(swallowed, background(ctx, hub, "hole__work"))
	}
	s.Await(t, "all calls", func() bool { return s.Count("tools/call") == 200 })
	if beside := slowest(t, hub); beside > 10*alone+time.Second {
		t.Errorf("the slowest of 100 calls took %s beside the black hole, %s without", beside, alone)
	}
	cancel()
	for _, done := range swallowed {
		if f := <-done; f.Kind != fault.Canceled {
			t.Error(f)
		}
	}
}

func slowest(t *testing.T, hub *everline.Hub) time.Duration {
	t.Helper()
	var worst time.Duration
	for i := range 100 {
		begun := time.Now()
		mustCall(t, hub, "good__echo", fmt.Sprintf(`{"n":%d}`, i))
		worst = max(worst, time.Since(begun))
	}
	return worst
}

// A result of many megabytes beside small ones: all arrive whole, and the
// small ones do not wait.
func TestHugeResultsBesideSmallOnes(t *testing.T) {
	hub := open(t, servers{"a": child(mcptest.Config{})}, everline.Options{})
	ready(t, hub, "a", 0)
	huge := strings.Repeat("x", 2<<20)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			r := mustCall(t, hub, "echo", `{"text":"`+huge+`"}`)
			var result struct {
				StructuredContent struct{ Text string }
			}
			if err := json.Unmarshal([]byte(r), &result); err != nil || result.StructuredContent.Text != huge {
				t.Errorf("the huge result is not what was sent (%d bytes, %v)", len(r), err)
			}
		})
	}
	for i := range 100 {
		all.Go(func() {
			if r, want := mustCall(t, hub, "echo", fmt.Sprintf(`{"n":%d}`, i)), fmt.Sprintf(`"structuredContent":{"n":%d}`, i); !strings.Contains(r, want) {
				t.Errorf("call %d got %s", i, r)
			}
		})
	}
	all.Wait()
}

// Where a server bounds its calls at a time, no more reach it.
func TestMaxConcurrentIsKept(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": with(web(mcptest.Web(t, s)), map[string]any{"maxConcurrent": 3})}, everline.Options{})
	ready(t, hub, "a", 0)
	var mu sync.Mutex
	now, most := 0, 0
	s.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		for range 100 {
			runtime.Gosched()
		}
		mu.Lock()
		now--
		mu.Unlock()
		return &mcptest.Reply{Result: `{"content":[]}`}
	})
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() { mustCall(t, hub, "work", `{}`) })
	}
	all.Wait()
	if most > 3 || most == 0 {
		t.Errorf("%d calls at a time, want at most 3", most)
	}
}
