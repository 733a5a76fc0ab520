package slot

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

// remote is spec for a URL.
func remote() config.Server {
	s := config.NewServer("db")
	s.Transport, s.URL, s.Overlap, s.Retry.MaxDelay = "http", "http://127.0.0.1:9/mcp", true, 10*time.Second
	return s
}

// outage lets a server serve for a while, then be away for so long, and return
// after that.
func (b *bench) outage(away time.Duration, err *fault.Fault) (lost time.Time) {
	b.at(time.Minute)
	b.srv.with(func() { b.srv.dial = func(context.Context, int) error { return err } })
	b.srv.fake(1).end(errDied)
	lost = time.Now()
	time.AfterFunc(away, func() { b.srv.with(func() { b.srv.dial = nil }) })
	return lost
}

// TestFaultW3 has a server away for n seconds, without anybody calling. A process
// is back within 30 s after that, a URL within 10 s, whatever the draws.
func TestFaultW3(t *testing.T) {
	for _, c := range []struct {
		server config.Server
		bound  time.Duration
	}{{spec(), 30 * second}, {remote(), 10 * second}} {
		for _, n := range []time.Duration{1, 5, 15, 40, 120, 400, 599, 600} {
			for _, chance := range []float64{0, 0.3, 0.999} {
				t.Run(fmt.Sprintf("%s/%ds/%g", c.server.Transport, n, chance), func(t *testing.T) {
					play(t, Options{Server: c.server}, newServer("a"), chance, func(b *bench) {
						lost := b.outage(n*second, errRefused)
						b.at(time.Minute + n*second + c.bound)
						b.seen("connected")
						if n := most(b.srv.dials, time.Minute); n > 16 {
							t.Errorf("%d starts within a minute", n)
						}
						if cause := b.View().Cause; time.Since(lost) < n*second || cause == nil {
							t.Errorf("it was not away: %v", cause)
						}
					})
				})
			}
		}
	}
}

// TestFaultW3FalseHope: what is watched comes and goes all the time, as a file
// that something else writes to. Starts that it brings forward in vain make
// nobody wait longer than without it: the bounds of TestFaultW3 and of waiting
// calls hold.
func TestFaultW3FalseHope(t *testing.T) {
	for _, n := range []time.Duration{5, 15, 40, 400} {
		for _, chance := range []float64{0, 0.5, 0.999} {
			t.Run(fmt.Sprintf("%ds/%g", n, chance), func(t *testing.T) {
				w := &watcher{}
				w.back.Store(true)
				play(t, Options{Watch: w.watch}, newServer("a"), chance, func(b *bench) {
					lost := b.outage(n*second, errRefused)
					w.watched.Store(0)
					for time.Since(lost) < n*second {
						if next := b.View().Next; !next.IsZero() && time.Until(next) > max(2*time.Since(lost), second) {
							t.Fatalf("%s after the loss the next attempt is due in %s", time.Since(lost), time.Until(next))
						}
						time.Sleep(second / 4)
					}
					b.at(time.Minute + (n+30)*second)
					b.seen("connected")
					if n := most(srvDials(b), time.Minute); n > 24 {
						t.Errorf("%d starts within a minute", n)
					}
				})
			})
		}
	}
}

func srvDials(b *bench) []time.Time {
	b.srv.mu.Lock()
	defer b.srv.mu.Unlock()
	return append([]time.Time{}, b.srv.dials...)
}

// TestFaultW3Calls: twenty calls a second meet an outage that is shorter than
// parkFor. None fails.
func TestFaultW3Calls(t *testing.T) {
	for _, server := range []config.Server{spec(), remote()} {
		for _, n := range []time.Duration{1, 5, 15} {
			t.Run(fmt.Sprintf("%s/%ds", server.Transport, n), func(t *testing.T) {
				play(t, Options{Server: server}, newServer("a"), 0.5, func(b *bench) {
					b.outage(n*second, errRefused)
					var calls sync.WaitGroup
					for range 20 * (n + 30) {
						calls.Go(func() {
							if f, _ := b.callNow(true); f != nil {
								t.Errorf("a call failed: %s", describe(f))
							}
						})
						time.Sleep(second / 20)
					}
					calls.Wait()
				})
			})
		}
	}
}

// TestFaultW3TimeNotTries: a server that comes and goes uses up time, not tries:
// fifty short losses in a row within the ten minutes do not stop it, and the
// clock begins anew once a call was answered.
func TestFaultW3TimeNotTries(t *testing.T) {
	srv := newServer("a")
	srv.list = func(_ context.Context, u *fake, _ int) (*catalogT, error) {
		time.AfterFunc(50*time.Millisecond, func() { u.end(errDied) })
		return srv.catalog, nil
	}
	s := remote()
	s.Retry.MaxDelay = 10 * second
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		b.at(595 * second)
		if st := b.View().State; st.Attempt < 50 || b.View().Seen() == "failed" {
			t.Errorf("after %d losses it is seen as %s", st.Attempt, b.View().Seen())
		}
		b.at(620 * second)
		b.seen("failed")
		srv.with(func() { srv.list = nil })
		if f, _ := b.callNow(true); f != nil {
			t.Fatal(describe(f))
		}
		b.srv.with(func() { srv.dial = func(context.Context, int) error { return errRefused } })
		srv.fakes[len(srv.fakes)-1].end(errDied)
		time.Sleep(590 * second)
		b.seen("disconnected")
		time.Sleep(20 * second)
		b.seen("failed")
	})
}

// TestFaultW3IdleIsNoOutage: what a lazy server is not asked for is no outage:
// the time between two calls is not counted against the next start.
func TestFaultW3IdleIsNoOutage(t *testing.T) {
	for _, restart := range []config.Restart{config.RestartAlways, config.RestartNever} {
		t.Run(string(restart), func(t *testing.T) {
			s := spec()
			s.Lazy, s.Retry.Restart, s.IdleTimeout = true, restart, 5*second
			srv := newServer("a")
			srv.dial = func(_ context.Context, n int) error {
				if n == 1 {
					return errRefused
				}
				return nil
			}
			play(t, Options{Server: s, Last: tools2catalog("a")}, srv, 0.5, func(b *bench) {
				b.must(b.Wake(b.within(second)))
				b.at(second)
				if restart == "never" {
					b.must(b.Wake(b.within(second)))
				}
				b.at(10 * second)
				b.seen("idle")
				if b.View().State.Attempt == 0 {
					t.Error("nothing has proved its health")
				}
				b.at(2 * time.Hour)
				srv.with(func() { srv.dial = func(context.Context, int) error { return errRefused } })
				b.must(b.Wake(b.within(second)))
				b.at(2*time.Hour + second/2)
				b.seen("disconnected") // and not failed: the loss is a moment old
			})
		})
	}
}

// TestFaultS18Demand: a server that has been away for long is repaired, and is
// wanted. Steady calls bring an attempt each ten seconds and no more, and never
// shorten a wait of the fast time.
func TestFaultS18Demand(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(context.Context, int) error { return errRefused }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		call := func(until time.Duration) (n int) {
			from, _, _ := srv.count()
			for time.Since(b.t0) < until {
				f, took := b.callNow(true)
				if b.View().Seen() == "failed" && (took != 0 || f.RetryAfter > 10*second || f.RetryAfter <= 0) {
					t.Fatalf("after %s: %s, again in %s", took, describe(f), f.RetryAfter)
				}
				time.Sleep(100 * time.Millisecond)
			}
			to, _, _ := srv.count()
			return to - from
		}
		if n := call(9 * time.Minute); n > 30 {
			t.Errorf("%d starts in nine minutes of calls: they shorten the delay", n)
		}
		b.at(11 * time.Minute)
		b.seen("failed")
		if n := call(21 * time.Minute); n < 55 || n > 70 {
			t.Errorf("%d starts in ten minutes of calls, and 60 are due", n)
		}
		srv.with(func() { srv.dial = nil })
		repaired := time.Now()
		for time.Since(repaired) < time.Minute {
			if f, _ := b.callNow(true); f == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(repaired); took > 11*second {
			t.Errorf("it was back after %s", took)
		}
	})
}

// A watcher is an Options.Watch that a test answers.
type watcher struct {
	back    atomic.Bool
	waits   atomic.Int64 // that are out
	since   atomic.Pointer[time.Time]
	watched atomic.Int64
}

func (w *watcher) watch(ctx context.Context, _ config.Server, lost time.Time) bool {
	w.waits.Add(1)
	w.watched.Add(1)
	w.since.Store(&lost)
	defer w.waits.Add(-1)
	for sleep(ctx, 100*time.Millisecond) == nil {
		if w.back.Load() {
			return true
		}
	}
	return false
}

// TestFaultS21: what the start failed for is seen to be back, and is used within
// 150 ms. Nothing is watched while a start runs or a generation serves.
func TestFaultS21(t *testing.T) {
	for _, away := range []time.Duration{second, 3 * second, 8 * second, 29 * second, 250 * second} {
		t.Run(away.String(), func(t *testing.T) {
			w := &watcher{}
			srv := newServer("a")
			play(t, Options{Server: remote(), Watch: w.watch}, srv, 0.999, func(b *bench) {
				lost := b.outage(away, errRefused)
				time.AfterFunc(away, func() { w.back.Store(true) })
				b.at(time.Minute + away + 150*time.Millisecond)
				b.seen("connected")
				if since := w.since.Load(); since == nil || !since.Equal(lost) {
					t.Errorf("the watch is told that it was lost at %v", since)
				}
				if w.waits.Load() != 0 {
					t.Error("it is watched and serves")
				}
			})
		})
	}
}

// TestFaultS21NoStorm: a port that comes and goes, and fails each start, is tried
// no more often than the growing delay allows twice over.
func TestFaultS21NoStorm(t *testing.T) {
	w := &watcher{}
	w.back.Store(true)
	srv := newServer("a")
	srv.dial = func(context.Context, int) error { return errRefused }
	play(t, Options{Server: remote(), Watch: w.watch}, srv, 0.5, func(b *bench) {
		b.at(10 * time.Minute)
		if n := most(srv.dials, time.Minute); n > 20 {
			t.Errorf("%d starts within a minute", n)
		}
		b.must(b.Disable(b.within(second)))
		b.seen("disabled")
		if w.waits.Load() != 0 {
			t.Error("it is watched and disabled")
		}
	})
}

// TestFaultS21ServersWish: a Retry-After stands, and nothing is watched meanwhile.
func TestFaultS21ServersWish(t *testing.T) {
	w := &watcher{}
	w.back.Store(true)
	srv := newServer("a")
	srv.dial = func(context.Context, int) error {
		return &fault.Fault{Kind: fault.RateLimited, Op: "start", RetryAfter: time.Minute, Outcome: fault.NotSent}
	}
	play(t, Options{Server: remote(), Watch: w.watch}, srv, 0.5, func(b *bench) {
		b.at(59 * second)
		b.wantDials(0)
		if w.watched.Load() != 0 {
			t.Error("it is watched")
		}
	})
}

// TestFaultS18Watch: a command that is missing, or has ended at its start for
// longer than the fast time, is watched for as long as it takes.
func TestFaultS18Watch(t *testing.T) {
	for _, err := range []*fault.Fault{errDied, fault.New(fault.Missing, "start", "not there")} {
		t.Run(err.Kind.String(), func(t *testing.T) {
			w := &watcher{}
			srv := newServer("a")
			srv.dial = func(context.Context, int) error { return err }
			play(t, Options{Watch: w.watch}, srv, 0.5, func(b *bench) {
				b.at(time.Hour + 7*second)
				srv.with(func() { srv.dial = nil })
				w.back.Store(true)
				b.at(time.Hour + 8*second)
				b.seen("connected")
			})
		})
	}
}

// TestFaultW11: a refused call says one time, in RetryAfter, and none in its text.
func TestFaultW11(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(context.Context, int) error { return errRefused }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		late := []time.Duration{0, 200 * second, 700 * second, 701 * second, 705 * second}
		for _, at := range late {
			b.at(max(at, time.Since(b.t0)))
			f, _ := b.callNow(true)
			b.wantKind(f, fault.Unavailable, fault.NotSent)
			if f.RetryAfter <= 0 || strings.Contains(f.Err.Error(), " in ") {
				t.Errorf("at %s: %s, again in %s", at, f.Err, f.RetryAfter)
			}
			if b.View().Seen() == "failed" && f.RetryAfter > 10*second {
				t.Errorf("at %s: again in %s, and a call may bring it forward sooner", at, f.RetryAfter)
			}
		}
	})
}
