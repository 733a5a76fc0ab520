package upstream

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// sessionServer is a started upstream on a server with sessions.
func sessionServer(t *testing.T) (*mcptest.Server, *Upstream) {
	s := mcptest.New(mcptest.Config{})
	opts, _ := options(overWeb(t, s))
	return s, start(t, opts)
}

func workCall() *Call {
	return &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"id":"1"}}`)}
}

// Fifty calls that lose the same session: each says that it was not executed,
// and the upstream ends once.
func TestFaultA1_SessionLost(t *testing.T) {
	s, u := sessionServer(t)
	s.DropSessions()
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			_, err := u.Call(t.Context(), workCall())
			if f := faultOf(t, err); f.Kind != fault.SessionLost || f.Outcome != fault.NotSent {
				t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
			}
		})
	}
	calls.Wait()
	<-u.Done()
	if k := faultOf(t, u.Err()).Kind; k != fault.SessionLost {
		t.Errorf("Err of kind %v", k)
	}
	if s.Executions("1") != 0 || s.Count("initialize") != 1 {
		t.Errorf("%d executions, %d initialize", s.Executions("1"), s.Count("initialize"))
	}
}

// Answers that may mean a lost session are decided by one shared probe.
func TestFaultA4_SuspicionIsProbed(t *testing.T) {
	for name, gone := range map[string]mcptest.Reply{
		"400 null id": {Status: 400, Body: `{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session"},"id":null}`},
		"400 text":    {Status: 400, Body: "Bad Request: Session"},
		"200 null id": {Body: `{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session"},"id":null}`},
		// A5: no challenge, so no login can help.
		"401 (A5)": {Status: 401, Body: "session not found"},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := sessionServer(t)
			s.SetGone(gone)
			s.DropSessions()
			var calls sync.WaitGroup
			for range 20 {
				calls.Go(func() {
					_, err := u.Call(t.Context(), workCall())
					if f := faultOf(t, err); f.Kind != fault.SessionLost || f.Outcome != fault.NotSent {
						t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
					}
				})
			}
			calls.Wait()
			<-u.Done()
			if k := faultOf(t, u.Err()).Kind; k != fault.SessionLost {
				t.Errorf("Err of kind %v", k)
			}
			if s.Executions("1") != 0 {
				t.Error("executed")
			}
		})
	}
}

// A 503 ends the session that turns out to be gone, and proves nothing about
// the call: a proxy says it, too, when its server died over that very call.
func TestFaultA6_A503ProvesNothingAboutTheCall(t *testing.T) {
	for name, gone := range map[string]mcptest.Reply{
		"and then 503": {Status: 503},
		"and then 404": {Status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := sessionServer(t)
			s.SetGone(gone)
			s.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
				s.DropSessions()
				return &mcptest.Reply{Run: true, Status: 503, Body: "upstream connect error: connection termination"}
			})
			_, err := u.Call(t.Context(), workCall())
			if f := faultOf(t, err); f.Kind != fault.SessionLost || f.Outcome != fault.Unknown || f.Status != 503 {
				t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
			}
			<-u.Done()
			if k := faultOf(t, u.Err()).Kind; k != fault.SessionLost {
				t.Errorf("Err of kind %v", k)
			}
		})
	}
}

// A legacy server may use the codes of the modern era for errors of its own,
// about calls that it executed. They pass through, and cost nothing; not even
// where the session is lost at the same moment.
func TestFaultJ2_CodesThatLookLikeAnotherEra(t *testing.T) {
	for _, raw := range []string{
		`{"code":-32022,"message":"account is locked"}`,
		`{"code":-32022,"message":"version conflict","data":{"supported":["3"]}}`,
		`{"code":-32020,"message":"done, but the receipt could not be printed"}`,
	} {
		check := func(t *testing.T, u *Upstream) {
			t.Helper()
			_, err := u.Call(t.Context(), workCall())
			if f := faultOf(t, err); f.Kind != fault.RPC || f.Outcome != fault.Answered || string(f.RPC.Raw) != raw {
				t.Errorf("%v (%v, %v)", f, f.Kind, f.Outcome)
			}
		}
		own := &mcptest.Reply{Error: raw}
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			s.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return own })
			u, _ := inMemory(t, s)
			if check(t, u); u.Err() != nil || s.Count("ping") != 0 {
				t.Errorf("ended: %v, after %d pings", u.Err(), s.Count("ping"))
			}
		})
		s, u := sessionServer(t)
		s.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return own })
		if check(t, u); u.Err() != nil {
			t.Errorf("ended: %v", u.Err())
		}
		s.On("tools/call", func(*mcptest.Request) *mcptest.Reply { s.DropSessions(); return own })
		check(t, u)
	}
}

// The control case: the session lives, and the answer was about the call.
func TestFaultA4_LiveSessionStays(t *testing.T) {
	for name, c := range map[string]struct {
		rep  mcptest.Reply
		kind fault.Kind
		out  fault.Outcome
	}{
		"400 with our id": {mcptest.Reply{Status: 400, Error: `{"code":-32602,"message":"bad arguments"}`}, fault.RPC, fault.Answered},
		"400 without":     {mcptest.Reply{Status: 400, Body: "no"}, fault.HTTPStatus, fault.Unknown},
		"503":             {mcptest.Reply{Status: 503}, fault.HTTPStatus, fault.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := sessionServer(t)
			s.Next("tools/call", 1, c.rep)
			_, err := u.Call(t.Context(), workCall())
			if f := faultOf(t, err); f.Kind != c.kind || f.Outcome != c.out {
				t.Errorf("%v (%v, %v), want %v %v", f, f.Kind, f.Outcome, c.kind, c.out)
			}
			if _, err := u.Call(t.Context(), workCall()); err != nil {
				t.Errorf("the next call: %v", err)
			}
			if u.Err() != nil || s.Count("initialize") != 1 || s.Sessions() != 1 {
				t.Errorf("ended %v, %d initialize, %d sessions", u.Err(), s.Count("initialize"), s.Sessions())
			}
			if n := s.Count("ping"); n > 1 {
				t.Errorf("%d probes", n)
			}
		})
	}
}

// The session is given back when the upstream is closed (N2).
func TestFaultN2_SessionIsDeleted(t *testing.T) {
	s, u := sessionServer(t)
	if s.Sessions() != 1 {
		t.Fatalf("%d sessions", s.Sessions())
	}
	closeNow(t, u)
	if s.Sessions() != 0 {
		t.Errorf("%d sessions after Close", s.Sessions())
	}
}
