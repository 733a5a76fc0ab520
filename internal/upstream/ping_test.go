package upstream

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

func hang(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} }

// A server that answers neither the call nor three pings is wedged, at
// 30 s of silence plus three times 10 s.
func TestFaultP1_ThreeMissesAreWedged(t *testing.T) {
	for era, method := range map[mcptest.Era]string{mcptest.Legacy: "ping", mcptest.Modern: "server/discover"} {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{Era: era})
			u, _ := inMemory(t, s)
			s.On("tools/call", hang)
			s.On(method, hang)
			before := s.Count(method)
			begun := time.Now()
			_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{}}`)})
			f := faultOf(t, err)
			if f.Kind != fault.Wedged || f.Outcome != fault.Unknown {
				t.Errorf("the call: %v (%v, %v)", f, f.Kind, f.Outcome)
			}
			if d := time.Since(begun); d != time.Minute {
				t.Errorf("wedged after %v, want 1m", d)
			}
			if n := s.Count(method) - before; n != 3 {
				t.Errorf("%d pings, want 3", n)
			}
			<-u.Done()
			if k := faultOf(t, u.Err()).Kind; k != fault.Wedged {
				t.Errorf("Err is of kind %v", k)
			}
			_, err = u.Call(t.Context(), &Call{Method: "tools/call"})
			if f := faultOf(t, err); f.Kind != fault.Wedged || f.Outcome != fault.NotSent {
				t.Errorf("a call after the end: %v %v", f.Kind, f.Outcome)
			}
		})
	}
}

// Busy is not wedged: any answer to a ping keeps the call.
func TestFaultP1_AnswersThatMeanBusy(t *testing.T) {
	for name, rep := range map[string]mcptest.Reply{
		"pong":            {Result: "{}"},
		"-32601":          {Error: `{"code":-32601,"message":"Method not found"}`},
		"after 3 s":       {Result: "{}", Delay: 3 * time.Second},
		"after 9 s":       {Result: "{}", Delay: 9 * time.Second},
		"internal error":  {Error: `{"code":-32603,"message":"?"}`},
		"a null result":   {Result: "null"},
		"a string result": {Result: `"pong"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.New(mcptest.Config{})
				u, _ := inMemory(t, s)
				s.On("ping", func(*mcptest.Request) *mcptest.Reply { return &rep })
				begun := time.Now()
				call(t, u, `{"name":"work","arguments":{"ms":420000}}`)
				if d := time.Since(begun); d != 7*time.Minute {
					t.Errorf("answered after %v", d)
				}
				if n := s.Count("ping"); n < 10 || n > 14 {
					t.Errorf("%d pings in 7 minutes", n)
				}
				if s.Count("initialize") != 1 {
					t.Error("a live connection was initialized again")
				}
			})
		})
	}
}

// Misses must be in a row.
func TestFaultP2_TwoMissesAreNotDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		var n atomic.Int64
		s.On("ping", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Hang: n.Add(1)%3 != 0, Result: "{}"}
		})
		call(t, u, `{"name":"work","arguments":{"ms":540000}}`)
		if u.Err() != nil {
			t.Errorf("ended: %v", u.Err())
		}
	})
}

// No pings while other traffic flows: progress, other answers, notifications.
func TestFaultP1_NoPingWhileTheServerTalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		s.On("ping", hang)
		done := make(chan error, 1)
		go func() { // ends with its call
			_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"ms":300000}}`)})
			done <- err
		}()
		for range 7 {
			time.Sleep(20 * time.Second) // fake time
			s.Notify("notifications/message", `{"level":"info","data":1}`)
		}
		for range 7 {
			time.Sleep(20 * time.Second)
			call(t, u, `{"name":"echo"}`)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := s.Count("ping"); n != 0 {
			t.Errorf("%d pings", n)
		}
	})
}

// A ping that is not answered is no miss if the server says something else meanwhile.
func TestFaultP1_OtherTrafficDuringAPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		s.On("ping", hang)
		stop := make(chan struct{})
		defer close(stop)
		go func() { // ends with the test
			for {
				select {
				case <-time.After(35 * time.Second):
					s.Notify("notifications/message", `{"level":"info","data":1}`)
				case <-stop:
					return
				}
			}
		}()
		call(t, u, `{"name":"work","arguments":{"ms":300000}}`)
		if n := s.Count("ping"); n < 4 {
			t.Errorf("%d pings", n)
		}
	})
}

// One pinger, however many calls are silent.
func TestFaultP1_OnePingerForAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		done := make(chan error, 50)
		for range 50 {
			go func() { // ends with its call
				_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"ms":95000}}`)})
				done <- err
			}()
		}
		for range 50 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := s.Count("ping"); n != 3 {
			t.Errorf("%d pings in 95 s, want 3", n)
		}
		time.Sleep(time.Hour)
		if n := s.Count("ping"); n != 3 {
			t.Errorf("%d pings although nothing is in flight", n-3)
		}
	})
}

func TestFaultP3_PingIsARequest(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	s.Next("GET", 99, mcptest.Reply{Status: 405})
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	if err := u.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	s.On("ping", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Status: 400} })
	for range 3 {
		if err := u.Ping(t.Context()); err != nil {
			t.Errorf("Ping of a server that refuses ping alone: %v", err)
		}
	}
	if n := s.Count("ping"); n != 2 {
		t.Errorf("%d pings; a server that refuses them is asked otherwise", n)
	}
}

// A 404 to ping may mean the method alone: what else the session is asked for
// decides, and decides against it where the session is gone.
func TestFaultP1_404ForPingAlone(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	s.On("ping", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Status: 404, Body: "not found"} })
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	for range 2 {
		if err := u.Ping(t.Context()); err != nil || u.Err() != nil {
			t.Fatalf("Ping: %v, ended: %v", err, u.Err())
		}
	}
	call(t, u, `{"name":"echo"}`)
	if n := s.Count("ping"); n != 1 {
		t.Errorf("%d pings", n)
	}
	s.DropSessions()
	if f := faultOf(t, u.Ping(t.Context())); f.Kind != fault.SessionLost {
		t.Errorf("Ping of a lost session: %v (%v)", f, f.Kind)
	}
	lost := start(t, opts)
	s.DropSessions()
	_ = lost.Ping(t.Context())
	<-lost.Done()
	if k := faultOf(t, lost.Err()).Kind; k != fault.SessionLost {
		t.Errorf("Err of kind %v", k)
	}
}

func TestFaultP4_HealthUsesTheSession(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	opts, _ := options(overWeb(t, s))
	u := start(t, opts)
	for range 5 {
		if err := u.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Count("initialize") != 1 || s.Sessions() != 1 {
		t.Errorf("%d initialize, %d sessions", s.Count("initialize"), s.Sessions())
	}
}

// The configured cap holds whatever the caller allows.
func TestCallTimeoutIsACap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s, func(o *Options) { o.Server.CallTimeout = 2 * time.Minute })
		begun := time.Now()
		_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"ms":3600000}}`)})
		if f := faultOf(t, err); f.Kind != fault.Deadline || time.Since(begun) != 2*time.Minute {
			t.Errorf("%v after %v", f, time.Since(begun))
		}
		synctest.Wait()
		if got := s.Cancelled(); len(got) != 1 {
			t.Errorf("cancelled: %v", got)
		}
	})
}

func TestCancelFreesTheCallerAndIsSentOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := u.Call(ctx, &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"id":"x","ms":60000}}`)})
		if f := faultOf(t, err); f.Kind != fault.Deadline || f.Outcome != fault.Unknown || time.Since(begun) != time.Second {
			t.Errorf("%v (%v) after %v", f, f.Outcome, time.Since(begun))
		}
		synctest.Wait()
		want := string(s.Requests("tools/call")[0].ID)
		if got := s.Cancelled(); len(got) != 1 || got[0] != want {
			t.Errorf("cancelled %v, want %s", got, want)
		}
	})
}

// short calls the work tool with a deadline of a second.
func short(t *testing.T, u *Upstream) *fault.Fault {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := u.Call(ctx, &Call{Method: "tools/call", Params: []byte(`{"name":"work","arguments":{"ms":60000}}`)})
	return faultOf(t, err)
}

// Clients whose deadlines are shorter than pingAfter find a hung server out:
// the pings begin with the first deadline that passes in silence.
func TestShortDeadlinesFindAHungServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		s.On("tools/call", hang)
		s.On("ping", hang)
		begun := time.Now()
		for range 40 { // one after the other: none waits when the next is sent
			if f := short(t, u); f.Kind == fault.Wedged {
				break
			}
		}
		<-u.Done()
		if d := time.Since(begun); d != 31*time.Second {
			t.Errorf("wedged after %v, want the deadline and three pings of 10 s", d)
		}
		if n := s.Count("ping"); n != 3 {
			t.Errorf("%d pings: one round is enough for all deadlines", n)
		}
		if k := faultOf(t, u.Err()).Kind; k != fault.Wedged {
			t.Errorf("Err is of kind %v", k)
		}
	})
}

// A server that does one thing at a time answers the pings when it is done,
// and stays, whatever deadlines its clients have.
func TestShortDeadlinesSpareABusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		begun := time.Now()
		s.On("ping", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Result: "{}", Delay: time.Until(begun.Add(25 * time.Second))}
		})
		for range 3 {
			if f := short(t, u); f.Kind != fault.Deadline || f.Outcome != fault.Unknown {
				t.Errorf("%v (%v)", f, f.Outcome)
			}
		}
		time.Sleep(10 * time.Minute)
		if u.Err() != nil {
			t.Errorf("ended: %v", u.Err())
		}
		if n := s.Count("ping"); n != 3 {
			t.Errorf("%d pings, want one round until the answer", n)
		}
		call(t, u, `{"name":"echo"}`)
	})
}

// What the server said since the call was sent proves that it is not wedged:
// the deadline pings nobody.
func TestDeadlineOfATalkingServerPingsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		time.AfterFunc(500*time.Millisecond, func() { s.Notify("notifications/message", `{"level":"info","data":1}`) })
		short(t, u)
		synctest.Wait()
		if n := s.Count("ping"); n != 0 {
			t.Errorf("%d pings", n)
		}
	})
}

// The cause of a refusal is named once.
func TestEndedUpstreamIsNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		s.Next("tools/call", 1, mcptest.Reply{Cut: true})
		_, _ = u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"x"}`)})
		<-u.Done()
		_, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"x"}`)})
		f := faultOf(t, err)
		if got := f.Error(); got != "test (gen 7): tools/call: "+faultOf(t, u.Err()).Reason() || f.Outcome != fault.NotSent {
			t.Errorf("%s (%s)", got, f.Outcome)
		}
	})
}
