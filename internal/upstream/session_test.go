package upstream

import (
	"sync"
	"testing"

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
		"503":         {Status: 503},
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
