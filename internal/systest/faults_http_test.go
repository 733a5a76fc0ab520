package systest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// A place is an address on loopback that a server can leave and come back to. It
// notes which session each request carried.
type place struct {
	t    *testing.T
	addr string

	mu      sync.Mutex
	handler http.Handler
	srv     *http.Server
	ended   chan struct{}
	seen    map[string]int // requests by session
}

// serveAt opens a place with a handler behind it until the test ends.
func serveAt(t *testing.T, handler http.Handler) *place {
	t.Helper()
	f := &place{t: t, addr: "127.0.0.1:0", handler: handler, seen: map[string]int{}}
	f.open()
	t.Cleanup(f.shut)
	return f
}

func (f *place) open() {
	f.t.Helper()
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	srv := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan struct{})
	f.mu.Lock()
	f.addr, f.srv, f.ended = listener.Addr().String(), srv, ended
	f.mu.Unlock()
	go func() { // ends with shut, which waits for it
		defer close(ended)
		_ = srv.Serve(listener)
	}()
}

// shut closes the port and every connection, as the end of a process does.
func (f *place) shut() {
	f.mu.Lock()
	srv, ended := f.srv, f.ended
	f.mu.Unlock()
	_ = srv.Close()
	<-ended
}

// put changes what is served there.
func (f *place) put(h http.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handler = h
}

func (f *place) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.seen[r.Header.Get("Mcp-Session-Id")]++
	h := f.handler
	f.mu.Unlock()
	h.ServeHTTP(w, r)
}

// carried tells how many requests carried a session.
func (f *place) carried(session string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[session]
}

func (f *place) web() map[string]any {
	return map[string]any{"type": "http", "url": "http://" + f.addr + "/mcp"}
}

// quick makes retries fast, and so many that a slow machine never uses them
// up: the slow retry would come when the test is long over.
func quick(server map[string]any) map[string]any {
	return with(server, map[string]any{"retry": map[string]any{"firstDelay": "20ms", "maxDelay": "100ms", "fastFor": "1h"}})
}

// together makes n calls of the work tool at once; each must be answered, and
// must have run once on one of the servers.
func together(t *testing.T, hub *everline.Hub, n int, name string, on ...*mcptest.Server) {
	t.Helper()
	batch := batches.Add(1)
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			id := fmt.Sprintf("b%d-%d", batch, i)
			if err := once(hub, "work", `{"id":"`+id+`"}`); err != nil {
				t.Errorf("%s: call %s: %v", name, id, err)
			}
			ran := 0
			for _, s := range on {
				ran += s.Executions(id)
			}
			if ran != 1 {
				t.Errorf("%s: call %s ran %d times", name, id, ran)
			}
		})
	}
	callers.Wait()
}

var batches atomic.Int64

// dead is the id that a server gave its first session.
const dead = "mcptest-session-1"

// A1: a restart with the port closed for half a second. Fifty calls come
// meanwhile, all are answered, on one new session, and nothing disappears from
// the list.
func TestFaultA1RestartWithClosedPort(t *testing.T) {
	// Idempotent: a call may be written to a connection whose end is not seen yet.
	s := mcptest.New(mcptest.Config{Tools: []string{
		`{"name":"work","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}`,
	}})
	f := serveAt(t, s.Handler())
	hub := open(t, servers{"a": with(f.web(), map[string]any{"retry": map[string]any{"firstDelay": "300ms", "fastFor": "1h"}})}, everline.Options{})
	st := ready(t, hub, "a", 0)
	untilNames(t, hub, "work")
	var short atomic.Int64
	defer hub.OnChange(func([]everline.Kind) {
		if len(toolNames(hub)) != 1 {
			short.Add(1)
		}
	})()

	f.shut()
	s.DropSessions()
	back := make(chan struct{})
	time.AfterFunc(500*time.Millisecond, func() {
		defer close(back)
		f.open()
	})
	together(t, hub, 50, "while the port is closed", s)
	<-back
	ready(t, hub, "a", st.Generation)
	if n := s.Count("initialize"); n != 2 {
		t.Errorf("%d initializes, want 2", n)
	}
	if names := toolNames(hub); !slices.Equal(names, []string{"work"}) || short.Load() != 0 {
		t.Errorf("tools %v, and %d lists without them", names, short.Load())
	}
}

// A3: the session is lost while nobody calls. The standing stream finds out,
// in whatever way the server refuses it, and a new session is there before the
// next call.
func TestFaultA3LossIsNoticedWithoutACall(t *testing.T) {
	for name, refusal := range map[string]*mcptest.Reply{
		"404": nil,
		"400": {Status: 400, Body: `{"jsonrpc":"2.0","error":{"code":-32000,"message":"no valid session"},"id":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			if refusal != nil {
				s.SetGone(*refusal)
			}
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			st := ready(t, hub, "a", 0)
			s.Await(t, "the standing stream", func() bool { return s.Listeners() == 1 })
			if refusal != nil {
				s.On("GET", func(r *mcptest.Request) *mcptest.Reply {
					if r.Session == dead {
						return refusal
					}
					return nil
				})
			}
			s.DropSessions()
			s.Await(t, "a new session", func() bool { return s.Count("initialize") == 2 })
			ready(t, hub, "a", st.Generation)
			gone := s.Count("gone")
			together(t, hub, 5, "after it", s)
			if s.Count("gone") != gone {
				t.Error("a call met the lost session")
			}
		})
	}
}

// A4, A5, A6: every form in which servers say that a session is gone costs one
// new session, shared by all calls, and no call runs twice. The dead id is not
// sent any more, not even to delete it.
func TestFaultA4A5A6EveryFormOfALostSession(t *testing.T) {
	rpc := func(id string) string {
		return `{"jsonrpc":"2.0","error":{"code":-32000,"message":"whatever it says"},"id":` + id + `}`
	}
	for name, gone := range map[string]mcptest.Reply{
		"404 text":            {Status: 404, Body: "session not found"},
		"404 empty":           {Status: 404},
		"404 null id":         {Status: 404, Body: rpc("null")},
		"404 server-error id": {Status: 404, Body: rpc(`"server-error"`)},
		"404 our id":          {Status: 404, Error: `{"code":-32001,"message":"Session not found"}`},
		"400 null id":         {Status: 400, Body: rpc("null")},
		"400 text":            {Status: 400, Body: "Bad Request"},
		"401 (A5)":            {Status: 401, Body: "session not found"},
		"410":                 {Status: 410},
		"200 null id":         {Body: rpc("null")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			s.SetGone(gone)
			f := serveAt(t, s.Handler())
			hub := open(t, servers{"a": f.web()}, everline.Options{})
			st := ready(t, hub, "a", 0)
			together(t, hub, 5, "before", s)
			s.DropSessions()
			together(t, hub, 20, "after the loss", s)
			ready(t, hub, "a", st.Generation)
			if n := s.Count("initialize"); n != 2 {
				t.Errorf("%d initializes, want 2", n)
			}
			was := f.carried(dead)
			together(t, hub, 5, "later", s)
			if err := hub.Close(within(t)); err != nil {
				t.Error(err)
			}
			if n := f.carried(dead) - was; n != 0 {
				t.Errorf("%d more requests with the dead session", n)
			}
			if n := s.Sessions(); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}

// A6, in the form of a 503: the session is replaced once, and safe calls do not
// notice. A 503 is also what a proxy says whose server died over a call, so it
// proves nothing about one: what is not safe is not sent again, and says that
// its outcome is unknown.
func TestFaultA6A503ReplacesTheSessionAndRepeatsNothing(t *testing.T) {
	for name, gone := range map[string]mcptest.Reply{"and then 503": {Status: 503}, "and then 404": {Status: 404}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			s.SetGone(gone)
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			st := ready(t, hub, "a", 0)
			s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
				if !strings.Contains(string(r.Params), `"died"`) {
					return nil
				}
				s.DropSessions()
				return &mcptest.Reply{Run: true, Status: 503, Body: "upstream connect error: connection termination"}
			})
			err := once(hub, "work", `{"id":"died"}`)
			if f := fault.From("", err); f == nil || f.Outcome != fault.Unknown || s.Executions("died") != 1 {
				t.Errorf("%v; executed %d times", err, s.Executions("died"))
			}
			st = ready(t, hub, "a", st.Generation)
			s.DropSessions()
			mustCall(t, hub, "echo", `{}`)
			ready(t, hub, "a", st.Generation)
			together(t, hub, 5, "later", s)
			if n := s.Count("initialize"); n != 3 {
				t.Errorf("%d initializes for 2 losses", n)
			}
		})
	}
}

// A4, control: a server's own errors with codes that the newer era has for
// itself. The tool has run, so nothing is sent again and nothing restarted.
func TestFaultA4CodesOfAnotherEraAreTheServersOwn(t *testing.T) {
	const text = "the order was placed, the receipt could not be printed"
	for _, code := range []int64{-32020, -32021, -32022} {
		t.Run(strconv.FormatInt(code, 10), func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			s.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
				return &mcptest.Reply{Run: true, Error: fmt.Sprintf(`{"code":%d,"message":%q}`, code, text)}
			})
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			st := ready(t, hub, "a", 0)
			err := once(hub, "work", `{"id":"1"}`)
			if f := fault.From("", err); f == nil || f.Kind != fault.RPC || f.RPC.Code != code || f.RPC.Message != text {
				t.Errorf("%v", err)
			}
			if now, _ := hub.Server("a"); s.Executions("1") != 1 || now.Generation != st.Generation || s.Count("initialize") != 1 {
				t.Errorf("executed %d times; generation %d; %d initializes", s.Executions("1"), now.Generation, s.Count("initialize"))
			}
		})
	}
}

// C6: a pause that the server asked for holds for listings, too, however often
// it announces changes meanwhile. They are made up for at its end.
func TestFaultC6APauseHoldsForListings(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	ready(t, hub, "a", 0)
	s.Await(t, "the standing stream", func() bool { return s.Listeners() == 1 })
	s.Next("tools/call", 1, mcptest.Reply{Status: 429, Header: map[string]string{"Retry-After": "3"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // it cannot wait for the end of the pause
	defer cancel()
	_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: "work", Params: []byte(`{"name":"work"}`)})
	if fault.KindOf(err) != fault.RateLimited {
		t.Fatal(err)
	}
	said := time.Now()
	listed := s.Count("tools/list")
	s.SetTools(mcptest.DefaultTools[1], safeTool)
	for range 5 {
		s.Notify("notifications/tools/list_changed", "")
	}
	untilNames(t, hub, "work", "safe")
	all := s.Requests("tools/list")
	if at := all[listed].At.Sub(said); at < 2900*time.Millisecond {
		t.Errorf("listed %v after it asked for 3 s", at)
	}
}

// A4, control: what a live server says about one call costs no session.
func TestFaultA4LiveSessionCostsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		rep  mcptest.Reply
		kind fault.Kind
	}{
		"400 bad arguments":   {mcptest.Reply{Status: 400, Error: `{"code":-32602,"message":"session id is not a number"}`}, fault.RPC},
		"404 unknown tool":    {mcptest.Reply{Status: 404, Error: `{"code":-32602,"message":"Session not found"}`}, fault.RPC},
		"200 with that text":  {mcptest.Reply{Error: `{"code":-32001,"message":"Session not found"}`}, fault.RPC},
		"400 of a proxy":      {mcptest.Reply{Status: 400, Body: "no"}, fault.HTTPStatus},
		"500 with an our id":  {mcptest.Reply{Status: 500, Error: `{"code":-32603,"message":"boom"}`}, fault.RPC},
		"413 of a proxy":      {mcptest.Reply{Status: 413, Body: "<html>"}, fault.TooLarge},
		"a tool's own result": {mcptest.Reply{Result: `{"content":[{"type":"text","text":"Session not found"}],"isError":true}`}, fault.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			st := ready(t, hub, "a", 0)
			s.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return &c.rep })
			for range 2 {
				_, err := call(t, hub, "work", `{"id":"x"}`)
				if err != nil && fault.KindOf(err) != c.kind || err == nil && c.kind != fault.Internal {
					t.Errorf("%v", err)
				}
			}
			s.On("tools/call", nil)
			together(t, hub, 3, "after it", s)
			if now, _ := hub.Server("a"); now.Generation != st.Generation || s.Count("initialize") != 1 || s.Sessions() != 1 {
				t.Errorf("generation %d, was %d; %d initializes", now.Generation, st.Generation, s.Count("initialize"))
			}
		})
	}
}

// A3: the session is forgotten while the first standing stream is being
// opened, which is refused then. A listing finds out, and no call has to.
func TestFaultA3LossDuringTheFirstStream(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	var refused atomic.Bool
	s.On("GET", func(*mcptest.Request) *mcptest.Reply {
		if !refused.CompareAndSwap(false, true) {
			return nil
		}
		s.Await(t, "the listing", func() bool { return s.Count("tools/list") > 0 })
		s.DropSessions()
		return &mcptest.Reply{Status: http.StatusNotFound}
	})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	ready(t, hub, "a", 1)
	s.Await(t, "the new stream", func() bool { return s.Listeners() == 1 })
}

// A6: a session that the server forgets while it idles, and a server that
// refuses an initialize with the old id for ever.
func TestFaultA6InitializeGoesWithoutTheOldSession(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"initialize"`) && r.Header.Get("Mcp-Session-Id") != "" {
			http.Error(w, "no such session", http.StatusNotFound)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		s.Handler().ServeHTTP(w, r)
	}))
	hub := open(t, servers{"a": f.web()}, everline.Options{})
	ready(t, hub, "a", 0)
	for range 3 {
		s.DropSessions()
		together(t, hub, 10, "after an eviction", s)
	}
	if n := s.Count("initialize"); n != 4 {
		t.Errorf("%d initializes for 3 evictions", n)
	}
}

// A7: a balancer without affinity. New sessions are few, and state, cause and
// the failing call say what is wrong and what to do.
func TestFaultA7BalancerWithoutAffinity(t *testing.T) {
	one, two := mcptest.New(mcptest.Config{Name: "one"}), mcptest.New(mcptest.Config{Name: "two"})
	f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Each request of a session meets the other server. Taking turns by the
		// request would let a listing pass by luck: what becomes of the
		// notification before it decides nothing.
		if r.Header.Get("Mcp-Session-Id") == "" {
			one.Handler().ServeHTTP(w, r)
			return
		}
		two.Handler().ServeHTTP(w, r)
	}))
	budget := map[string]any{"fastFor": "500ms", "firstDelay": "20ms", "maxDelay": "100ms"}
	hub := open(t, servers{"a": with(f.web(), map[string]any{"retry": budget})}, everline.Options{})
	st, err := hub.Await(within(t), "a", 0)
	if err != nil || st.State != "failed" || st.Next.IsZero() {
		t.Fatalf("%+v, %v", st, err)
	}
	if st.Cause == nil || !strings.Contains(st.Cause.Remedy, "sticky") || st.Remedy != st.Cause.Remedy {
		t.Errorf("cause %v, remedy %q", st.Cause, st.Remedy)
	}
	if n := one.Count("initialize") + two.Count("initialize"); n > 16 { // in half a second, most of them 75 ms apart
		t.Errorf("%d initializes", n)
	}
	_, err = hub.Call(within(t), &everline.Call{Method: "tools/call", Server: "a", Name: "work", Params: []byte(`{"name":"work"}`)})
	if err == nil || fault.From("", err).Outcome != fault.NotSent {
		t.Errorf("a call: %v", err)
	}
}

// A8: stickiness by cookie. The jar belongs to one session, and begins empty
// with the next.
func TestFaultA8CookiesBelongToTheSession(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	var minted atomic.Int64
	var strange atomic.Value
	f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("lb")
		switch session := r.Header.Get("Mcp-Session-Id"); {
		case session == "" && err == nil && r.Method == http.MethodPost && minted.Load() > 1:
			strange.Store("a new session began with the cookie of another: " + cookie.Value)
		case session == "":
			http.SetCookie(w, &http.Cookie{Name: "lb", Value: fmt.Sprintf("r%d", minted.Add(1))})
		case err != nil || cookie.Value != fmt.Sprintf("r%d", minted.Load()):
			http.Error(w, "wrong replica", http.StatusNotFound)
			return
		}
		s.Handler().ServeHTTP(w, r)
	}))
	hub := open(t, servers{"a": f.web()}, everline.Options{})
	ready(t, hub, "a", 0)
	for range 3 {
		together(t, hub, 10, "with the cookie", s)
		s.DropSessions()
	}
	together(t, hub, 10, "at the end", s)
	if n := s.Count("initialize"); n != 4 {
		t.Errorf("%d initializes for 3 losses", n)
	}
	if text := strange.Load(); text != nil {
		t.Error(text)
	}
}

// No session stays behind on a server: not by reconnects, not by starts that
// fail behind the handshake, and not where DELETE is refused or hangs.
func TestSessionsAreGivenBack(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": quick(web(mcptest.Web(t, s)))}, everline.Options{})
	gen := ready(t, hub, "a", 0).Generation
	for range 10 {
		if err := hub.Reconnect(within(t), "a"); err != nil {
			t.Fatal(err)
		}
		gen = ready(t, hub, "a", gen).Generation
	}
	s.Await(t, "the old sessions are deleted", func() bool { return s.Sessions() == 1 })

	s.On("tools/list", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Status: 500} })
	if err := hub.Reconnect(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	s.Await(t, "the session of a start that failed behind its handshake is deleted",
		func() bool { return s.Count("DELETE") == 11 && s.Sessions() == 1 })
	s.On("tools/list", nil)
	mustCall(t, hub, "echo", `{}`) // on the old generation
	if err := hub.Disable(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	s.Await(t, "every session is deleted", func() bool { return s.Sessions() == 0 })
}

// A server that does not know DELETE, or hangs on it, holds nothing up.
func TestCloseIsBoundedWhateverDeleteSays(t *testing.T) {
	for name, rep := range map[string]mcptest.Reply{
		"404": {Status: 404}, "405": {Status: 405}, "500": {Status: 500}, "cut": {Cut: true}, "hang": {Hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			s.On("DELETE", func(*mcptest.Request) *mcptest.Reply { return &rep })
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			ready(t, hub, "a", 0)
			begun := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			if err := hub.Close(ctx); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("closing took %s", took)
			}
		})
	}
}
