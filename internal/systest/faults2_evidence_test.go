package systest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// answering serves s with rep as the answer to calls of "work" whose argument
// id is bad; all other requests get the server's own.
func answering(s *mcptest.Server, rep func(r *mcptest.Request) *mcptest.Reply) {
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		if bytes.Contains(r.Params, []byte(`"bad"`)) {
			return rep(r)
		}
		return nil
	})
}

// slowly sends a call that is answered when free is called, and reports how it
// ended when wait is.
func slowly(t *testing.T, s *mcptest.Server, hub *everline.Hub, rep func(r *mcptest.Request) *mcptest.Reply) (free func(), wait func()) {
	t.Helper()
	gate, begun := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		switch {
		case bytes.Contains(r.Params, []byte(`"slow"`)):
			once.Do(func() { close(begun) })
			<-gate
			return nil
		case bytes.Contains(r.Params, []byte(`"bad"`)):
			return rep(r)
		}
		return nil
	})
	var out sync.WaitGroup
	out.Go(func() {
		if _, err := call(t, hub, "work", `{"id":"slow"}`); err != nil {
			t.Errorf("the call beside it: %v", err)
		}
	})
	<-begun
	return sync.OnceFunc(func() { close(gate) }), out.Wait
}

func nan(r *mcptest.Request) *mcptest.Reply {
	return &mcptest.Reply{Raw: `{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":{"content":[],"structuredContent":{"v":NaN}}}`}
}

// Unreadable answers, wrong content types, 500s and refused logins of one
// client's calls cost nothing but these calls: another client's call that is
// out is answered on the same connection.
func TestFaultS4(t *testing.T) {
	for name, rep := range map[string]func(r *mcptest.Request) *mcptest.Reply{
		"NaN": nan,
		"HTML": func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Status: 200, Header: map[string]string{"Content-Type": "text/html"}, Body: "<p>"}
		},
		"500": func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Status: 500, Body: "oops"} },
		"502": func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Status: 502, Body: "bad gateway"} },
		"401": func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Status: 401, Header: map[string]string{"Www-Authenticate": "Bearer"}}
		},
		"empty": func(r *mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Raw: `{"jsonrpc":"2.0","id":` + string(r.ID) + `}`}
		},
	} {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			t.Run(fmt.Sprintf("%s-%d", name, era), func(t *testing.T) {
				s := mcptest.New(mcptest.Config{Era: era})
				hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
				ready(t, hub, "a", 0)
				free, wait := slowly(t, s, hub, rep)
				defer wait()
				defer free()
				for range 6 {
					if _, err := call(t, hub, "work", `{"id":"bad"}`); err == nil || fault.KindOf(err) == fault.RPC {
						t.Fatalf("a bad answer gave %v", err)
					}
				}
				if st, _ := hub.Server("a"); st.State != "connected" || st.Generation != 1 {
					t.Errorf("it is %s, generation %d, cause %v", st.State, st.Generation, st.Cause)
				}
				if _, err := call(t, hub, "work", `{"id":"good"}`); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Over a pipe as well, by a real process: the call that gets NaN fails at once,
// and says so.
func TestFaultS3(t *testing.T) {
	r := newRound(t, stages()[0], map[string]any{})
	d := &deed{id: "x", limit: soon}
	r.do(d, "NaN")
	good := &deed{id: "y", limit: soon}
	r.do(good, "")
	if d.outcome != "unknown" || d.kind != fault.Protocol || good.outcome != "ok" {
		t.Errorf("%s, %s; %s", d.outcome, d.kind, good.outcome)
	}
	if st, _ := r.hub.Server("a"); st.Generation != 1 {
		t.Errorf("generation %d", st.Generation)
	}
	r.count([]*deed{d, good})
}

// A session that a server has forgotten, and denies in an ordinary answer, is
// replaced once for all calls, and each of them is sent again once.
func TestFaultS17(t *testing.T) {
	for name, gone := range map[string]mcptest.Reply{
		"200": {Error: `{"code":-32600,"message":"Server not initialized"}`},
		"400": {Status: 400, Error: `{"code":-32000,"message":"Bad Request: Server not initialized"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			ready(t, hub, "a", 0)
			s.SetGone(gone)
			s.DropSessions()
			var calls sync.WaitGroup
			for i := range 20 {
				calls.Go(func() {
					if _, err := call(t, hub, "work", fmt.Sprintf(`{"id":"c%d"}`, i)); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			for i := range 20 {
				if n := s.Executions(fmt.Sprintf("c%d", i)); n != 1 {
					t.Errorf("c%d was executed %d times", i, n)
				}
			}
			if n := s.Count("initialize"); n != 2 {
				t.Errorf("%d initialize", n)
			}
			answering(s, func(*mcptest.Request) *mcptest.Reply { rep := gone; rep.Status = 0; return &rep })
			for range 3 {
				if _, err := call(t, hub, "work", `{"id":"bad"}`); fault.KindOf(err) != fault.RPC {
					t.Errorf("a tool's own error: %v", err)
				}
			}
			if n := s.Count("initialize"); n != 2 {
				t.Errorf("%d initialize after a tool's own error", n)
			}
		})
	}
}

// A server that refuses everything without an id is used like any other.
func TestFaultS7(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	site := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost && !bytes.Contains(body, []byte(`"id":`)) {
			http.Error(w, "Bad Request", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.Handler().ServeHTTP(w, r)
	}))
	hub := open(t, servers{"a": {"type": "http", "url": "http://" + site.addr + "/mcp"}}, everline.Options{})
	ready(t, hub, "a", 0)
	if _, err := call(t, hub, "work", `{"id":"x"}`); err != nil {
		t.Error(err)
	}
	if st, _ := hub.Server("a"); st.Generation != 1 || s.Count("initialize") != 1 {
		t.Errorf("generation %d, %d initialize", st.Generation, s.Count("initialize"))
	}
}

// What fails in a start is named, in the server's own words.
func TestFaultW12(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	s.On("tools/list", func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Error: `{"code":-32603,"message":"fetch failed"}`}
	})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	for e := range hub.Watch(within(t)) { // begins with what has happened
		if f, ok := e.(event.StartFailed); ok {
			st, _ := hub.Server("a")
			if !strings.Contains(f.Cause.Reason(), "tools/list failed: fetch failed (-32603)") || strings.Contains(st.Remedy, "logs") {
				t.Errorf("cause %q, remedy %q", f.Cause.Reason(), st.Remedy)
			}
			return
		}
	}
	t.Error("nothing failed")
}

// A listing that cannot be read later on costs nothing but itself: the tools
// stay, calls go on, and status says what is wrong until it is not.
func TestFaultS3_LaterListings(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	tools := ready(t, hub, "a", 0).Counts[0]
	events := hub.Watch(within(t))
	s.Await(t, "the stream that the news goes over", func() bool { return s.Listeners() == 1 })
	s.On("tools/list", nan)
	s.Notify("notifications/tools/list_changed", "{}")
	for e := range events {
		if f, ok := e.(event.ListFailed); ok {
			if !strings.Contains(f.Cause.Reason(), "the answer is not JSON: ") {
				t.Error(f.Cause)
			}
			break
		}
	}
	if _, err := call(t, hub, "work", `{"id":"x"}`); err != nil {
		t.Error(err)
	}
	st, _ := hub.Server("a")
	if st.State != "connected" || st.Generation != 1 || st.Counts[0] != tools {
		t.Errorf("it is %s, generation %d, with %d tools", st.State, st.Generation, st.Counts[0])
	}
	if !strings.Contains(strings.Join(st.Warnings, "\n"), "its newest listing failed, and the last good one is kept: tools/list: HTTP 200 OK: the answer is not JSON: ") {
		t.Errorf("warnings %q", st.Warnings)
	}
}
