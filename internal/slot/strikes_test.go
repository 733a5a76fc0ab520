package slot

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/upstream"
)

// A server that connects, then drops after 50 ms, for ever.
func TestFaultC3(t *testing.T) {
	srv := newServer("a")
	srv.list = func(_ context.Context, u *fake, _ int) (*catalogT, error) {
		time.AfterFunc(50*time.Millisecond, func() { u.end(errDied) })
		return srv.catalog, nil
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = b.Acquire(b.within(second)) })
		}
		b.at(time.Hour)
		wg.Wait()
		if dials, _, _ := srv.count(); dials > 6+27+34 { // the delay grows, then 22.5 s, then 90 s on the average
			t.Errorf("%d starts in an hour", dials)
		}
		if n := len(b.said()); n > 4*(6+27+34) {
			t.Errorf("%d events in an hour", n)
		}
		b.wantTools("a")
	})
}

// The retry counter is never reset, and after the cap nobody tries again.
func TestFaultC4(t *testing.T) {
	t.Run("each time after a good minute", func(t *testing.T) {
		srv := newServer("a")
		play(t, Options{}, srv, 0.5, func(b *bench) {
			for i := range 8 {
				b.at(time.Duration(i+1) * time.Minute)
				srv.fake(i + 1).end(errDied)
				b.seen("connected")
				if n := b.View().State.Attempt; n != 1 {
					t.Fatalf("after loss %d the attempt is %d", i+1, n)
				}
			}
		})
	})
	t.Run("after ten minutes of outage", func(t *testing.T) {
		srv := newServer("a")
		srv.dial = func(context.Context, int) error { return errRefused }
		play(t, Options{}, srv, 0.5, func(b *bench) {
			b.at(11 * time.Minute)
			b.seen("failed")
			srv.with(func() { srv.dial = nil })
			b.at(12 * time.Minute)
			b.seen("connected")
			if b.View().Cause == nil {
				t.Error("a handshake alone proves nothing, yet the cause is gone")
			}
			b.at(13 * time.Minute)
			if b.View().Cause != nil || b.View().State.Attempt != 0 {
				t.Error("a good minute should be proof")
			}
		})
	})
}

// Unhealthy servers stay dead: three failed listings in a row, then it works.
func TestFaultC5(t *testing.T) {
	srv := newServer("a")
	play(t, Options{}, srv, 0.5, func(b *bench) {
		b.at(second)
		srv.with(func() {
			srv.list = func(_ context.Context, u *fake, _ int) (*catalogT, error) {
				if u.gen == 1 {
					return nil, errCut
				}
				return srv.catalog, nil
			}
		})
		srv.fake(1).hooks.Changed(0)
		b.at(3 * second)
		b.seen("connected")
		if st := b.View().State; st.Gen != 2 || st.ListStrikes != 0 {
			t.Errorf("generation %d with %d strikes", st.Gen, st.ListStrikes)
		}
		if n := count[event.ListFailed](b); n != 3 {
			t.Errorf("%d listings failed, want 3", n)
		}
		b.wantTools("a")
	})
}

// The server limits the rate of the handshake itself.
func TestFaultC6(t *testing.T) {
	limited := func(after time.Duration) error {
		return &fault.Fault{Kind: fault.RateLimited, Op: "tools/list", Outcome: fault.NotSent, RetryAfter: after}
	}
	t.Run("first listing", func(t *testing.T) {
		srv := newServer("a")
		srv.list = func(_ context.Context, _ *fake, n int) (*catalogT, error) {
			if n == 1 {
				return nil, limited(15 * second)
			}
			return srv.catalog, nil
		}
		play(t, Options{}, srv, 0.5, func(b *bench) {
			b.at(15 * second)
			b.seen("connected")
			b.wantDials(0) // the session was kept
		})
	})
	t.Run("later listing", func(t *testing.T) {
		srv := newServer("a")
		srv.list = func(_ context.Context, _ *fake, n int) (*catalogT, error) {
			if n == 2 {
				return nil, limited(15 * second)
			}
			return srv.catalog, nil
		}
		play(t, Options{}, srv, 0.5, func(b *bench) {
			srv.fake(1).hooks.Changed(0)
			synctest.Wait()
			if n := b.View().State.ListStrikes; n != 0 {
				t.Errorf("a rate limit counted as %d strikes", n)
			}
			f, took := b.callNow(false)
			if f != nil || took != 15*second {
				t.Errorf("the call came back after %s: %s", took, describe(f))
			}
			synctest.Wait()
			if _, lists, _ := srv.count(); lists != 3 {
				t.Errorf("%d listings, want 3", lists)
			}
		})
	})
	t.Run("start", func(t *testing.T) {
		srv := newServer("a")
		srv.dial = func(_ context.Context, n int) error {
			if n == 1 {
				return limited(40 * second)
			}
			return nil
		}
		play(t, Options{}, srv, 0.5, func(b *bench) {
			b.at(time.Minute)
			b.wantDials(0, 40*second)
		})
	})
}

// Discovery and calls have separate strikes: good calls do not clear those of
// listings.
func TestListStrikes(t *testing.T) {
	srv := newServer("a")
	play(t, Options{}, srv, 0.5, func(b *bench) {
		srv.with(func() {
			srv.list = func(_ context.Context, u *fake, _ int) (*catalogT, error) {
				if u.gen == 1 {
					return nil, errCut
				}
				return srv.catalog, nil
			}
		})
		srv.fake(1).hooks.Changed(0)
		for i := range 20 {
			b.at(time.Duration(i) * second / 10)
			_, _ = b.callNow(true)
		}
		if b.View().State.Gen != 2 {
			t.Error("good calls kept a generation whose listings fail")
		}
	})
}

// Good listings do not clear the strikes of calls.
func TestCallStrikes(t *testing.T) {
	srv := newServer("a")
	srv.call = func(_ context.Context, _ *fake, c *upstream.Call) ([]byte, error) {
		if c.Name == "bad" {
			return nil, errCut
		}
		return []byte(`{}`), nil
	}
	srv.ping = func(context.Context, *fake) error { return errCut }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		do := func(name string) {
			_, _ = b.Call(b.within(second), &upstream.Call{Method: "tools/call", Name: name}, config.ReplayNever)
			srv.fake(1).hooks.Changed(0)
			b.at(time.Since(b.t0) + second)
		}
		for _, name := range []string{"bad", "bad", "good", "bad", "bad"} {
			do(name)
		}
		if b.View().State.Gen != 1 {
			t.Fatal("a good answer between did not count")
		}
		do("bad")
		b.seen("connected")
		if b.View().State.Gen != 2 {
			t.Fatal("three in a row did not recycle the generation")
		}
		if l := lastOf[event.Lost](b); l.Gen != 1 || l.Cause.Kind != fault.Broken {
			t.Errorf("told %v", l)
		}
	})
}

func TestWhatIsNoStrike(t *testing.T) {
	srv := newServer("a")
	// Protocol: a result that is none, such as null, came over a good link.
	kinds := []fault.Kind{fault.RPC, fault.Canceled, fault.Unsupported, fault.TooLarge, fault.Invalid, fault.Protocol}
	var kind fault.Kind
	srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) {
		return nil, &fault.Fault{Kind: kind, Outcome: fault.Answered}
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for range 3 {
			for _, kind = range kinds {
				_, _ = b.callNow(true)
			}
		}
		synctest.Wait()
		if st := b.View().State; st.Gen != 1 || st.CallStrikes != 0 {
			t.Errorf("%+v", st)
		}
	})
}
