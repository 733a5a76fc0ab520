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

func TestJudge(t *testing.T) {
	f := func(k fault.Kind, o fault.Outcome) *fault.Fault { return &fault.Fault{Kind: k, Outcome: o} }
	for _, c := range []struct {
		f            *fault.Fault
		plain, again action // without and with replay
	}{
		{f(fault.Dial, fault.NotSent), nextGeneration, nextGeneration},
		{f(fault.SessionLost, fault.NotSent), nextGeneration, nextGeneration},
		{f(fault.Broken, fault.NotSent), nextGeneration, nextGeneration},
		{f(fault.Closed, fault.NotSent), nextGeneration, nextGeneration},
		{f(fault.Broken, fault.Unknown), giveUp, nextGeneration},
		{f(fault.Exited, fault.Unknown), giveUp, nextGeneration},
		{f(fault.Wedged, fault.Unknown), giveUp, nextGeneration},
		{f(fault.HTTPStatus, fault.Unknown), giveUp, nextGeneration},
		{f(fault.RateLimited, fault.NotSent), afterPause, afterPause},
		{f(fault.Unauthorized, fault.NotSent), giveUp, giveUp},
		{f(fault.Forbidden, fault.NotSent), giveUp, giveUp},
		{f(fault.Invalid, fault.NotSent), giveUp, giveUp},
		{f(fault.TooLarge, fault.NotSent), giveUp, giveUp},
		{f(fault.Deadline, fault.Unknown), giveUp, giveUp},
		{f(fault.Canceled, fault.Unknown), giveUp, giveUp},
		{f(fault.Canceled, fault.NotSent), giveUp, giveUp},
		{f(fault.RPC, fault.Answered), giveUp, giveUp},
		{f(fault.Protocol, fault.Answered), giveUp, giveUp},
		{f(fault.Internal, fault.Unknown), giveUp, giveUp},
	} {
		for replay, want := range map[bool]action{false: c.plain, true: c.again} {
			if got := (&attempts{replay: replayIf(replay)}).judge(c.f); got != want {
				t.Errorf("%s, %s, replay %v: %d, want %d", c.f.Kind, c.f.Outcome, replay, got, want)
			}
		}
	}
	t.Run("bounds", func(t *testing.T) {
		for _, c := range []struct {
			f    *fault.Fault
			most int
		}{
			{f(fault.Dial, fault.NotSent), maxSends},
			{f(fault.Broken, fault.Unknown), maxUnknown + 1},
			{f(fault.SessionLost, fault.NotSent), maxSessions + 1},
		} {
			a, n := &attempts{replay: config.ReplayAlways}, 1
			for a.judge(c.f) == nextGeneration {
				n++
			}
			if n != c.most {
				t.Errorf("%s: %d sends, want %d", c.f.Kind, n, c.most)
			}
		}
	})
}

// A server restarts and forgets its sessions: fifty calls share one new one.
func TestFaultA1(t *testing.T) {
	for _, c := range []struct {
		name   string
		outage time.Duration
	}{{"at once", 0}, {"with the port closed for half a second", second / 2}} {
		t.Run(c.name, func(t *testing.T) {
			srv := newServer("a")
			executed := 0
			srv.call = func(ctx context.Context, u *fake, _ *upstream.Call) ([]byte, error) {
				if u.gen == 1 {
					_ = sleep(ctx, 10*time.Millisecond)
					return nil, errSession // the link itself stands
				}
				srv.with(func() { executed++ })
				return []byte(`{}`), nil
			}
			srv.dial = func(_ context.Context, n int) error {
				var up time.Time
				srv.with(func() {
					if n > 1 {
						up = srv.lists[0]
					}
				})
				if n > 1 && time.Since(up) < c.outage {
					return errRefused
				}
				return nil
			}
			play(t, Options{}, srv, 0.5, func(b *bench) {
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						if f, _ := b.callNow(false); f != nil {
							t.Error(f)
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				if c.outage == 0 {
					b.wantDials(0, 10*time.Millisecond)
				}
				if st := b.View().State; executed != 50 || st.Attempt != 0 {
					t.Errorf("%d executed, attempt %d", executed, st.Attempt)
				}
				b.wantTools("a")
				for _, v := range b.views {
					if v.State.Gen > 1 && v.Catalog == nil {
						t.Error("the catalog was not published all the time")
					}
				}
			})
		})
	}
}

// A balancer sends every second request to a replica that does not know the
// session: a bound and a diagnosis instead of a storm.
func TestFaultA7(t *testing.T) {
	srv := newServer("a")
	srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) { return nil, errSession }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for range 200 {
			f, _ := b.callNow(true)
			if f == nil || f.Outcome != fault.NotSent {
				t.Fatal(describe(f))
			}
		}
		if n := most(srv.dials, time.Minute); n > 15 {
			t.Errorf("%d sessions within a minute", n)
		}
		if dials, _, _ := srv.count(); dials > 60 {
			t.Errorf("%d sessions for 200 calls", dials)
		}
	})
}

// The same tools/call must not run twice.
func TestFaultJ1(t *testing.T) {
	ran := 0
	srv := newServer("a")
	srv.call = func(_ context.Context, u *fake, _ *upstream.Call) ([]byte, error) {
		srv.with(func() { ran++ })
		if u.gen == 1 {
			u.end(errDied)
			return nil, errCut
		}
		return []byte(`{}`), nil
	}
	t.Run("unknown", func(t *testing.T) {
		play(t, Options{}, srv, 0.5, func(b *bench) {
			f, _ := b.callNow(false)
			b.wantKind(f, fault.Broken, fault.Unknown)
			if ran != 1 {
				t.Errorf("it ran %d times", ran)
			}
			b.seen("connected")
			if c := lastOf[event.CallFailed](b); c.Gen != 1 {
				t.Errorf("told %v", c)
			}
		})
	})
	t.Run("harmless", func(t *testing.T) {
		ran = 0
		play(t, Options{}, srv, 0.5, func(b *bench) {
			if f, _ := b.callNow(true); f != nil || ran != 2 {
				t.Errorf("it ran %d times: %s", ran, describe(f))
			}
			synctest.Wait()
			if count[event.CallReplayed](b) != 1 || b.Counts().Repeated != 1 {
				t.Error("the replay was not told")
			}
		})
	})
	t.Run("harmless, but the server stays away", func(t *testing.T) {
		srv.dial = func(_ context.Context, n int) error {
			if n > 1 {
				return fault.New(fault.Invalid, "start", "bad argument")
			}
			return nil
		}
		srv.dials = nil
		play(t, Options{}, srv, 0.5, func(b *bench) {
			f, _ := b.callNow(true)
			b.wantKind(f, fault.Unavailable, fault.Unknown)
		})
	})
}

// A server's own error is an answer.
func TestFaultJ2(t *testing.T) {
	srv := newServer("a")
	srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) { return nil, errRPC }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for range 10 {
			f, _ := b.callNow(true)
			b.wantKind(f, fault.RPC, fault.Answered)
		}
		b.wantDials(0)
		if _, _, calls := srv.count(); calls != 10 {
			t.Errorf("%d were sent", calls)
		}
	})
}

// Calls while the link still stands: one refused connection of many.
func TestRefusedOnALivingLink(t *testing.T) {
	srv := newServer("a")
	n := 0
	srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) {
		if n++; n <= 2 {
			return nil, errRefused
		}
		return []byte(`{}`), nil
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		f, took := b.callNow(false)
		if f != nil || took != 50*time.Millisecond {
			t.Errorf("after %s: %s", took, describe(f))
		}
		b.wantDials(0)
	})
}

func TestRateLimitPausesAllCalls(t *testing.T) {
	srv := newServer("a")
	n := 0
	srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) {
		first := false
		srv.with(func() { n++; first = n == 1 })
		if first {
			return nil, &fault.Fault{Kind: fault.RateLimited, Outcome: fault.NotSent, RetryAfter: 20 * second}
		}
		return []byte(`{}`), nil
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if f, took := b.callNow(false); f != nil || took != 20*second {
				t.Errorf("the first came back after %s: %s", took, describe(f))
			}
		})
		b.at(second)
		wg.Go(func() {
			if f, took := b.callNow(false); f != nil || took != 19*second {
				t.Errorf("the second came back after %s: %s", took, describe(f))
			}
		})
		_, err := b.Call(b.within(5*second), &upstream.Call{}, config.ReplayAlways)
		f := fault.From("", err)
		b.wantKind(f, fault.RateLimited, fault.NotSent)
		if f.RetryAfter != 19*second || time.Since(b.t0) != second {
			t.Errorf("at %s: retry after %s", time.Since(b.t0), f.RetryAfter)
		}
		wg.Wait()
		if st := b.View().State; st.CallStrikes != 0 || n != 3 {
			t.Errorf("%d strikes, %d sent", st.CallStrikes, n)
		}
		if f, took := b.callNow(false); f != nil || took != 0 {
			t.Errorf("the pause did not end: %s", describe(f))
		}
	})
}

func TestUnauthorizedParks(t *testing.T) {
	srv := newServer("a")
	refuse := &fault.Fault{Kind: fault.Unauthorized, Outcome: fault.NotSent, Status: 401}
	srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) { return nil, refuse }
	srv.ping = func(context.Context, *fake) error { return refuse }
	srv.dial = func(_ context.Context, n int) error {
		if n > 1 {
			return refuse
		}
		return nil
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		f, _ := b.callNow(true)
		b.wantKind(f, fault.Unauthorized, fault.NotSent)
		b.seen("auth_required")
		f, took := b.callNow(true)
		b.wantKind(f, fault.Unauthorized, fault.NotSent)
		if took != 0 || f.Remedy != "everline auth login db" || f.Status != 401 {
			t.Errorf("after %s: remedy %q, status %d", took, f.Remedy, f.Status)
		}
		b.wantTools("a")
	})
}

// A panic ends one request, and leaves its lease and its turn to others.
func TestPanicKeepsNoLease(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.MaxConcurrent = 1
	srv.call = func(_ context.Context, _ *fake, c *upstream.Call) ([]byte, error) {
		if c.Name == "boom" {
			panic("boom")
		}
		return []byte(`{}`), nil
	}
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = b.Call(b.within(second), &upstream.Call{Name: "boom"}, config.ReplayNever)
		}()
		if f, _ := b.callNow(false); f != nil || b.Counts().Out != 0 {
			t.Errorf("%d leases are out: %s", b.Counts().Out, describe(f))
		}
	})
}

func TestCallTimeoutCoversAllSends(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.CallTimeout = 3 * second
	srv.call = func(ctx context.Context, _ *fake, _ *upstream.Call) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		f, took := b.callNow(true)
		b.wantKind(f, fault.Deadline, fault.Unknown)
		if took != 3*second {
			t.Errorf("it took %s", took)
		}
		if _, _, calls := srv.count(); calls != 1 {
			t.Errorf("a call that met its deadline was sent %d times", calls)
		}
	})
}

// The process dies with a call in flight and the next generation serves the replay.
func TestFaultE4(t *testing.T) {
	srv := newServer("a")
	srv.call = func(ctx context.Context, u *fake, _ *upstream.Call) ([]byte, error) {
		if u.gen > 1 {
			return []byte(`{}`), nil
		}
		select {
		case <-u.done:
			return nil, errDied
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	srv.dial = func(ctx context.Context, n int) error { return sleep(ctx, 100*time.Millisecond) }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		b.at(second)
		var wg sync.WaitGroup
		wg.Go(func() {
			f, took := b.callNow(false)
			if f == nil || f.Outcome != fault.Unknown || f.Exit != "exit 1" || took != second {
				t.Errorf("after %s: %s", took, describe(f))
			}
		})
		wg.Go(func() {
			if f, took := b.callNow(true); f != nil || took != second+100*time.Millisecond {
				t.Errorf("after %s: %s", took, describe(f))
			}
		})
		b.at(2 * second)
		srv.fake(1).end(errDied)
		wg.Wait()
		b.seen("connected")
		if c := lastOf[event.Connected](b); c.After != 100*time.Millisecond || c.Took != 100*time.Millisecond {
			t.Errorf("told %v", c)
		}
	})
}
