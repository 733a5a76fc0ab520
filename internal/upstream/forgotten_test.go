package upstream

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/wire"
)

// denials are how servers say in an ordinary answer that they do not know the
// session any more.
var denials = map[string]mcptest.Reply{
	"-32000":            {Error: `{"code":-32000,"message":"Bad Request: Server not initialized"}`},
	"-32600":            {Error: `{"code":-32600,"message":"Invalid Request"}`},
	"-32602":            {Error: `{"code":-32602,"message":"Received request before initialization was complete"}`},
	"-32002":            {Error: `{"code":-32002,"message":"Server not initialised"}`},
	"-32603":            {Error: `{"code":-32603,"message":"server is not initialized"}`},
	"0":                 {Error: `{"code":0,"message":"method is invalid during session initialization"}`},
	"-32001, a session": {Error: `{"code":-32001,"message":"Unknown session"}`},
	"400":               {Status: 400, Error: `{"code":-32000,"message":"Server not initialized"}`},
	"500":               {Status: 500, Error: `{"code":-32000,"message":"Server not initialized"}`},
}

// A server that answers as one that was not initialized, on a session that it
// has served, has forgotten it: what it refused was not executed.
func TestFaultS17(t *testing.T) {
	for name, gone := range denials {
		t.Run(name, func(t *testing.T) {
			s, u := sessionServer(t)
			if _, err := u.List(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			s.SetGone(gone)
			s.DropSessions()
			var calls sync.WaitGroup
			for range 10 {
				calls.Go(func() {
					_, err := u.Call(t.Context(), workCall())
					if f := faultOf(t, err); f.Kind != fault.SessionLost || f.Outcome != fault.NotSent {
						t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
					}
				})
			}
			calls.Wait()
			<-u.Done()
			if s.Executions("1") != 0 || s.Count("initialize") != 1 {
				t.Errorf("%d executions, %d initialize", s.Executions("1"), s.Count("initialize"))
			}
		})
	}
}

// Ping may be asked of a server that was not initialized: that it is answered
// says nothing.
func TestFaultS17_PingIsAnswered(t *testing.T) {
	s, u := sessionServer(t)
	if _, err := u.List(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	denied := mcptest.Reply{Error: `{"code":-32602,"message":"Received request before initialization was complete"}`}
	for _, method := range []string{"tools/call", "tools/list"} {
		s.On(method, func(*mcptest.Request) *mcptest.Reply { return &denied })
	}
	_, err := u.Call(t.Context(), workCall())
	if f := faultOf(t, err); f.Kind != fault.SessionLost || f.Outcome != fault.NotSent || !strings.Contains(f.Reason(), "not initialized") {
		t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
	}
	if f := faultOf(t, u.Err()); f.Kind != fault.SessionLost || !strings.Contains(f.Reason(), "before initialization was complete") {
		t.Error(f)
	}
}

// A tool's own error changes nothing, whatever its code and its words, and the
// same one again costs no second probe.
func TestFaultS17_OwnErrors(t *testing.T) {
	for name, own := range denials {
		if own.Status != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, u := sessionServer(t)
			if _, err := u.List(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			lists := s.Count("tools/list")
			s.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return &own })
			for range 5 {
				_, err := u.Call(t.Context(), workCall())
				if f := faultOf(t, err); f.Kind != fault.RPC || f.Outcome != fault.Answered || string(f.RPC.Raw) != own.Error {
					t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
				}
			}
			if n := s.Count("tools/list") - lists; n != 1 || u.Err() != nil {
				t.Errorf("%d probes, %v", n, u.Err())
			}
		})
	}
}

// Errors of the first listing are no sign of a lost session, nor are those that
// say nothing of one.
func TestFaultS17_NoSession(t *testing.T) {
	s, u := sessionServer(t)
	s.Next("tools/list", 1, mcptest.Reply{Error: `{"code":-32000,"message":"Server not initialized"}`})
	if _, err := u.List(t.Context(), nil); fault.KindOf(err) != fault.RPC || u.Err() != nil {
		t.Error(err, u.Err())
	}
	if _, err := u.List(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	lists := s.Count("tools/list")
	for _, own := range []string{`{"code":-32603,"message":"the database session has ended"}`, `{"code":-32602,"message":"Unknown tool"}`, `{"code":-32601,"message":"Method not found"}`} {
		s.Next("tools/call", 1, mcptest.Reply{Error: own})
		if _, err := u.Call(t.Context(), workCall()); fault.KindOf(err) != fault.RPC {
			t.Error(err)
		}
	}
	if s.Count("tools/list") != lists {
		t.Error("probed")
	}
}

// What the server says to notifications decides nothing, and is named where
// the first listing fails.
func TestFaultS7(t *testing.T) {
	for _, status := range []int{400, 401, 404, 410, 500, 503} {
		s := mcptest.New(mcptest.Config{})
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method == http.MethodPost && wire.Get(body, "id") == nil {
				http.Error(w, "no", status)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			s.Handler().ServeHTTP(w, r)
		}))
		t.Cleanup(front.Close)
		opts, _ := options(config.Server{Transport: "http", URL: front.URL + "/mcp"})
		u := start(t, opts)
		if _, err := u.List(t.Context(), nil); err != nil {
			t.Errorf("%d: %v", status, err)
		}
		u.sendCancelled(1, "a test", func() {})
		call(t, u, `{"name":"work","arguments":{"id":"1"}}`)
		if u.Err() != nil || s.Count("initialize") != 1 {
			t.Errorf("%d: %v", status, u.Err())
		}
		s.On("tools/list", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Error: `{"code":-32603,"message":"fetch failed"}`}
		})
		_, err := u.List(t.Context(), nil)
		if text := faultOf(t, err).Reason(); !strings.Contains(text, "notifications/initialized was answered: HTTP ") || !strings.Contains(text, "fetch failed") {
			t.Errorf("%d: %s", status, text)
		}
	}
}

// A ping that is refused for the login is told as such: the slot decides.
func TestFaultV3_PingTellsOfTheLogin(t *testing.T) {
	s, u := sessionServer(t)
	s.Next("ping", 1, mcptest.Reply{Status: 401, Header: map[string]string{"Www-Authenticate": "Bearer"}})
	if f := faultOf(t, u.Ping(t.Context())); f.Kind != fault.Unauthorized || u.Err() != nil {
		t.Errorf("%v, %v", f, u.Err())
	}
	if err := u.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A tool's own error stays one where the session is found to be gone in another
// way just then: the call was executed.
func TestFaultS17_OwnErrorAndALostSession(t *testing.T) {
	for name, gone := range map[string]mcptest.Reply{
		"404":          {Status: 404, Body: "gone"},
		"another code": {Error: `{"code":-32600,"message":"Server not initialized"}`},
	} {
		s, u := sessionServer(t)
		if _, err := u.List(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		s.SetGone(gone)
		s.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
			s.DropSessions()
			return &mcptest.Reply{Run: true, Error: `{"code":-32000,"message":"the robot is not initialized"}`}
		})
		_, err := u.Call(t.Context(), workCall())
		if f := faultOf(t, err); f.Kind != fault.RPC || f.Outcome != fault.Answered || s.Executions("1") != 1 {
			t.Errorf("%s: %v (%v, %v)", name, f, f.Kind, f.Outcome)
		}
	}
}
