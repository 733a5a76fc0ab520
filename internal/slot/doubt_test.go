package slot

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/upstream"
)

var (
	errUnreadable = &fault.Fault{Kind: fault.Protocol, Op: "tools/call", Err: errors.New("the answer is not JSON")}
	errLogin      = &fault.Fault{Kind: fault.Unauthorized, Op: "tools/call", Outcome: fault.NotSent, Status: 401, Err: errors.New("HTTP 401")}
)

func (s *server) pinged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pings)
}

// send sends one call of a tool that must not be repeated.
func (b *bench) send(name string) *fault.Fault {
	_, err := b.Call(b.within(time.Minute), &upstream.Call{Method: "tools/call", Name: name}, config.ReplayNever)
	synctest.Wait()
	return fault.From("", err)
}

// What one call meets costs this call: neither an unreadable answer nor a 500
// or a cut stream ends a generation whose server answers, on which another
// call waits.
func TestFaultS4(t *testing.T) {
	for _, bad := range []*fault.Fault{
		errUnreadable, errCut, errRefused, {Kind: fault.HTTPStatus, Status: 500}, {Kind: fault.HTTPStatus, Status: 415, Outcome: fault.NotSent},
	} {
		srv := newServer("a")
		var free chan struct{} // of the bubble
		srv.call = func(_ context.Context, _ *fake, c *upstream.Call) ([]byte, error) {
			if c.Name == "slow" {
				<-free
				return []byte(`{}`), nil
			}
			return nil, bad
		}
		play(t, Options{}, srv, 0.5, func(b *bench) {
			free = make(chan struct{})
			var slow sync.WaitGroup
			slow.Go(func() {
				if _, err := b.Call(context.Background(), &upstream.Call{Method: "tools/call", Name: "slow"}, config.ReplayNever); err != nil {
					t.Errorf("%v: the call beside it: %v", bad, err)
				}
			})
			for range 30 {
				b.at(time.Since(b.t0) + time.Second/3)
				if f := b.send("bad"); f == nil || f.Kind != bad.Kind {
					t.Fatalf("%v: %v", bad, f)
				}
			}
			if st := b.View().State; st.Gen != 1 || st.CallStrikes != 0 || count[event.Lost](b) != 0 {
				t.Errorf("%v: %+v", bad, st)
			}
			if n, most := srv.pinged(), int(time.Since(b.t0)/vouched)+1; n < 1 || n > most {
				t.Errorf("%v: %d probes in %s of failing calls", bad, n, time.Since(b.t0))
			}
			close(free)
			slow.Wait()
		})
	}
}

// Where the probes fail as well, the calls that failed are strikes; what waits
// may finish.
func TestFaultS4_ProbesDecide(t *testing.T) {
	srv := newServer("a")
	var free chan struct{} // of the bubble
	srv.call = func(_ context.Context, u *fake, c *upstream.Call) ([]byte, error) {
		if c.Name == "slow" {
			<-free
			return []byte(`{}`), nil
		}
		if u.gen == 1 {
			return nil, errUnreadable
		}
		return []byte(`{}`), nil
	}
	srv.ping = func(context.Context, *fake) error { return &fault.Fault{Kind: fault.Protocol, Op: "ping"} }
	s := spec()
	s.Overlap = true
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		free = make(chan struct{})
		var slow sync.WaitGroup
		slow.Go(func() {
			if _, err := b.Call(context.Background(), &upstream.Call{Method: "tools/call", Name: "slow"}, config.ReplayNever); err != nil {
				t.Errorf("the call beside it: %v", err)
			}
		})
		for range 3 {
			if b.View().State.Gen != 1 {
				t.Fatal("replaced too early")
			}
			_ = b.send("bad")
		}
		if b.View().State.Gen != 2 || lastOf[event.Lost](b).Cause.Kind != fault.Protocol {
			t.Errorf("%+v", b.View().State)
		}
		if f := b.send("bad"); f != nil {
			t.Error(f)
		}
		close(free)
		slow.Wait()
	})
}

// A probe that is still out decides about what has failed meanwhile, and one
// whose generation is gone about nothing.
func TestOneProbeAtATime(t *testing.T) {
	srv := newServer("a")
	srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) { return nil, errCut }
	srv.ping = func(ctx context.Context, u *fake) error { <-ctx.Done(); return fault.From("ping", ctx.Err()) }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		_, _, _ = b.send("bad"), b.send("bad"), b.send("bad")
		if n := srv.pinged(); n != 1 || b.View().State.CallStrikes != 0 {
			t.Errorf("%d probes, %+v", n, b.View().State)
		}
		b.at(doubtWait)
		if b.View().State.Gen != 2 {
			t.Errorf("%+v", b.View().State)
		}
		_ = b.send("bad")
		b.must(b.Reconnect(b.within(second)))
		b.at(time.Minute)
		if st := b.View().State; st.Gen != 3 || st.CallStrikes != 0 {
			t.Errorf("a probe of an older generation counted: %+v", st)
		}
	})
}

// One 401 refuses one call. A probe decides, at most one in 30 s, whether the
// login is what is missing.
func TestFaultV3(t *testing.T) {
	srv := newServer("a")
	srv.call = func(_ context.Context, _ *fake, c *upstream.Call) ([]byte, error) {
		if c.Name == "refused" {
			return nil, errLogin
		}
		return []byte(`{}`), nil
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for i := range 61 {
			b.at(time.Duration(i) * time.Second)
			b.wantKind(b.send("refused"), fault.Unauthorized, fault.NotSent)
			if f := b.send("good"); f != nil {
				t.Fatal(f)
			}
		}
		if n := srv.pinged(); n != 3 {
			t.Errorf("%d probes in a minute", n)
		}
		if st := b.View().State; st.Gen != 1 || count[event.Lost](b) != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Where the probe is refused too the server stops, and what is out may finish.
// A listing that is refused asks in the same way.
func TestFaultV3_ProbeRefused(t *testing.T) {
	for name, refuse := range map[string]func(srv *server, b *bench){
		"call": func(_ *server, b *bench) { _ = b.send("refused") },
		"list": func(srv *server, b *bench) {
			srv.with(func() {
				srv.list = func(context.Context, *fake, int) (*catalog.Catalog, error) { return nil, errLogin }
			})
			srv.fake(1).hooks.Changed(catalog.Tools)
			synctest.Wait()
		},
	} {
		srv := newServer("a")
		var free chan struct{} // of the bubble
		srv.call = func(_ context.Context, _ *fake, c *upstream.Call) ([]byte, error) {
			if c.Name == "slow" {
				<-free
				return []byte(`{}`), nil
			}
			return nil, errLogin
		}
		srv.ping = func(context.Context, *fake) error { return errLogin }
		play(t, Options{}, srv, 0.5, func(b *bench) {
			free = make(chan struct{})
			var slow sync.WaitGroup
			slow.Go(func() {
				if _, err := b.Call(context.Background(), &upstream.Call{Method: "tools/call", Name: "slow"}, config.ReplayNever); err != nil {
					t.Errorf("%s: the call beside it: %v", name, err)
				}
			})
			synctest.Wait()
			refuse(srv, b)
			b.seen("auth_required")
			if c := b.View().Cause; c == nil || c.Status != 401 {
				t.Errorf("%s: cause %v", name, c)
			}
			close(free)
			slow.Wait()
		})
	}
}

// A listing that cannot be read is shown until one can, and is no strike.
func TestListingsThatCannotBeRead(t *testing.T) {
	srv := newServer("a")
	play(t, Options{}, srv, 0.5, func(b *bench) {
		b.at(time.Minute)
		srv.with(func() {
			srv.list = func(context.Context, *fake, int) (*catalog.Catalog, error) { return nil, errUnreadable }
		})
		srv.fake(1).hooks.Changed(catalog.Tools)
		synctest.Wait()
		if f := b.send("q"); f != nil {
			t.Error(f)
		}
		if v := b.View(); v.Cause == nil || v.Cause.Kind != fault.Protocol || v.State.ListStrikes != 0 || v.State.Gen != 1 {
			t.Errorf("cause %v, %+v", v.Cause, v.State)
		}
		b.wantTools("a")
		srv.with(func() { srv.list = nil })
		b.at(2 * time.Minute)
		if v := b.View(); v.Cause != nil || v.State.Gen != 1 {
			t.Errorf("cause %v, %+v", v.Cause, v.State)
		}
	})
}

// A server that stopped for a login is looked at every few minutes, and when a
// call comes, at most every 30 s: the token may have been renewed elsewhere.
func TestFaultV3_StoppedIsLookedAt(t *testing.T) {
	for name, story := range map[string]func(srv *server, b *bench){
		"by itself": func(srv *server, b *bench) {
			b.at(10 * time.Minute)
			if dials, _, _ := srv.count(); dials < 3 || dials > 5 {
				t.Errorf("%d starts in 10 min", dials)
			}
			srv.with(func() { srv.dial = nil })
			b.at(15 * time.Minute)
			b.seen("connected")
		},
		"by a call": func(srv *server, b *bench) {
			for range 5 {
				if f := b.send("q"); f == nil || f.Outcome != fault.NotSent || f.Remedy == "" {
					t.Errorf("%v", f)
				}
			}
			if dials, _, _ := srv.count(); dials != 2 {
				t.Errorf("%d starts for five calls at once", dials)
			}
			b.at(29 * time.Second)
			srv.with(func() { srv.dial = nil })
			if f := b.send("q"); f == nil || f.RetryAfter != time.Second {
				t.Errorf("%v", f)
			}
			b.at(31 * time.Second)
			if f := b.send("q"); f != nil {
				t.Error(f)
			}
			b.seen("connected")
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer("a")
			srv.dial = func(context.Context, int) error { return errLogin }
			play(t, Options{}, srv, 0.5, func(b *bench) {
				b.seen("auth_required")
				story(srv, b)
			})
		})
	}
}
