package slot

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/upstream"
)

// A balancer that alternates strictly: no handshake ever gets to its end. The
// starts are those of the growing delay and of the slow retry, and what is shown
// and answered says what is wrong.
func TestFaultA7StrictAlternation(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(context.Context, int) error { return errSession }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for start := time.Now(); time.Since(start) < 11*time.Minute; { // a call each second
			if f, _ := b.callNow(true); f == nil || f.Outcome != fault.NotSent {
				t.Fatal(describe(f))
			}
			time.Sleep(time.Second)
		}
		b.seen("failed")
		v := b.View()
		if v.Cause == nil || v.Cause.Remedy != affinityRemedy || v.Remedy() != affinityRemedy {
			t.Errorf("cause %s, remedy %q", describe(v.Cause), v.Remedy())
		}
		f, _ := b.callNow(true)
		b.wantKind(f, fault.Unavailable, fault.NotSent)
		if f.Remedy != affinityRemedy || f.RetryAfter <= 0 {
			t.Errorf("the call says %s, remedy %q, after %s", describe(f), f.Remedy, f.RetryAfter)
		}
		// Six while the delay grows, one each 15 s at most for ten minutes, and
		// what calls may bring forward: one each 10 s.
		if dials, _, _ := srv.count(); dials > 6+40+7 {
			t.Errorf("%d starts within eleven minutes", dials)
		}
	})
}

// A balancer that draws one of two servers for each request, under load: the
// sessions within any minute are bounded over all calls, whatever the calls
// that get through prove, and the cause says what is wrong.
func TestFaultA7RandomBalancerUnderLoad(t *testing.T) {
	for seed := range uint64(4) {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(seed, 7))
		heads := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return random.Uint64()&1 == 0
		}
		srv := newServer("a")
		srv.dial = func(context.Context, int) error {
			if one, other := heads(), heads(); one || other {
				return errSession
			}
			return nil
		}
		srv.call = func(ctx context.Context, _ *fake, _ *upstream.Call) ([]byte, error) {
			_ = sleep(ctx, 5*time.Millisecond)
			if heads() {
				return nil, errSession
			}
			return []byte(`{}`), nil
		}
		play(t, Options{}, srv, 0.5, func(b *bench) {
			end := time.Now().Add(90 * time.Second)
			var callers sync.WaitGroup
			for range 20 {
				callers.Go(func() {
					for time.Now().Before(end) {
						f, _ := b.callNow(false)
						if f != nil && f.Outcome != fault.NotSent {
							t.Errorf("seed %d: %s", seed, describe(f))
						}
						time.Sleep(50 * time.Millisecond)
					}
				})
			}
			callers.Wait()
			synctest.Wait() // no start and no view is on its way any more
			if n := most(srv.dials, time.Minute); n > 70 {
				t.Errorf("seed %d: %d starts within a minute", seed, n)
			}
			told := slices.ContainsFunc(b.views, func(v *View) bool { return v.Cause != nil && v.Cause.Remedy == affinityRemedy })
			if !told {
				t.Errorf("seed %d: nobody was told what is wrong", seed)
			}
		})
	}
}

// most is how many of the times fall into one window.
func most(times []time.Time, window time.Duration) (n int) {
	from := 0
	for i, at := range times {
		for at.Sub(times[from]) > window {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}

// A restart costs one session, and is no reason to suspect a balancer.
func TestFaultA7RestartIsNoBalancer(t *testing.T) {
	srv := newServer("a")
	srv.call = func(_ context.Context, u *fake, _ *upstream.Call) ([]byte, error) {
		if u.gen == 1 {
			return nil, errSession
		}
		return []byte(`{}`), nil
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		if f, _ := b.callNow(false); f != nil {
			t.Error(describe(f))
		}
		synctest.Wait() // no view is on its way any more
		for _, v := range b.views {
			if v.Cause != nil && v.Cause.Remedy != "" {
				t.Errorf("cause %s, remedy %q", describe(v.Cause), v.Cause.Remedy)
			}
		}
	})
}
