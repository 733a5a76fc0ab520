package slot

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/upstream"
)

func TestMayWait(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * second) }
	var none time.Time
	const off, idle, starting, ready = lifecycle.Off, lifecycle.Idle, lifecycle.Starting, lifecycle.Ready
	const draining, backoff, stopped = lifecycle.Draining, lifecycle.Backoff, lifecycle.Stopped
	for _, c := range []struct {
		name                 string
		p                    prospects
		now, limit, deadline time.Time
		until                time.Time
		ok                   bool
	}{
		{"off", prospects{phase: off}, at(0), at(30), at(60), none, false},
		{"unwanted, still draining", prospects{phase: draining}, at(0), at(30), at(60), none, false},
		{"idle: an attempt follows", prospects{want: true, phase: idle}, at(0), at(30), at(60), at(30), true},
		{"starting: to the deadline", prospects{want: true, phase: starting, began: at(-5)}, at(0), at(30), at(60), at(60), true},
		{"starting, no deadline", prospects{want: true, phase: starting, began: at(-5)}, at(0), at(30), none, none, true},
		{"starting when parkFor ends", prospects{want: true, phase: starting, began: at(29)}, at(30), at(30), at(60), at(60), true},
		{"starting, begun after parkFor", prospects{want: true, phase: starting, began: at(31)}, at(31), at(30), at(60), none, false},
		{"starting, deadline over", prospects{want: true, phase: starting, began: at(29)}, at(60), at(30), at(60), none, false},
		{"due in time", prospects{want: true, phase: backoff, next: at(20)}, at(0), at(30), at(60), at(30), true},
		{"due exactly when parkFor ends", prospects{want: true, phase: backoff, next: at(30)}, at(0), at(30), at(60), at(30), true},
		{"due a moment later", prospects{want: true, phase: backoff, next: at(30).Add(1)}, at(0), at(30), at(60), none, false},
		{"due after the deadline", prospects{want: true, phase: backoff, next: at(20)}, at(0), at(30), at(10), none, false},
		{"slow retry in time", prospects{want: true, phase: stopped, next: at(20)}, at(0), at(30), none, at(30), true},
		{"slow retry later", prospects{want: true, phase: stopped, next: at(200)}, at(0), at(30), none, none, false},
		{"stopped for good", prospects{want: true, phase: stopped}, at(0), at(30), none, none, false},
		{"draining: the next one follows", prospects{want: true, phase: draining}, at(0), at(30), at(20), at(20), true},
		{"draining when parkFor ends", prospects{want: true, phase: draining}, at(30), at(30), at(60), none, false},
		{"ready, but the generation is of no use", prospects{want: true, phase: ready}, at(0), at(30), at(60), at(30), true},
	} {
		until, ok := mayWait(c.p, c.now, c.limit, c.deadline)
		if ok != c.ok || !until.Equal(c.until) {
			t.Errorf("%s: until %v, %v; want %v, %v", c.name, until.Sub(t0), ok, c.until.Sub(t0), c.ok)
		}
	}
}

// Whatever the prospects, a call that may wait is given a reason that lies
// ahead, never waits for what comes after its limits, and never gives up one
// moment before an attempt that runs.
func TestMayWaitProperties(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		at := func(label string) time.Time {
			s := rapid.IntRange(-100, 100).Draw(t, label)
			if s == -100 {
				return time.Time{}
			}
			return t0.Add(time.Duration(s) * second)
		}
		p := prospects{
			want:  rapid.Bool().Draw(t, "want"),
			phase: lifecycle.Phase(rapid.IntRange(0, int(lifecycle.Stopped)).Draw(t, "phase")),
			next:  at("next"), began: at("began"),
		}
		now, limit, deadline := t0, at("limit"), at("deadline")
		until, ok := mayWait(p, now, limit, deadline)
		over := !deadline.IsZero() && !now.Before(deadline)
		switch {
		case ok && (!p.want || p.phase == lifecycle.Off):
			t.Fatal("waits for a server that is not wanted")
		case ok && over:
			t.Fatal("waits beyond the deadline")
		case ok && !until.IsZero() && !until.After(now):
			t.Fatal("waits until a time that is over")
		case ok && !until.IsZero() && !deadline.IsZero() && until.After(deadline):
			t.Fatal("waits beyond the deadline")
		case ok && p.phase != lifecycle.Starting && (until.IsZero() || until.After(limit)):
			t.Fatal("waits beyond parkFor with no attempt running")
		case ok && (p.phase == lifecycle.Backoff || p.phase == lifecycle.Stopped) && (p.next.IsZero() || p.next.After(until)):
			t.Fatal("waits for an attempt that comes too late")
		case !ok && p.want && !over && p.phase == lifecycle.Starting && !p.began.After(limit):
			t.Fatal("gives up a moment before success")
		}
	})
}

// The next attempt is due too late: the call fails immediately and says when.
func TestFailsAtOnceWithTheCause(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(context.Context, int) error { return errDied }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		const late = 11 * time.Minute // the fast time is over
		b.at(late)
		b.seen("failed")
		b.must(b.Reconnect(b.within(second)))
		b.seen("failed")
		f, took := b.callNow(true) // brings the slow retry forward, which fails
		b.wantKind(f, fault.Unavailable, fault.NotSent)
		if took != 0 || f.Exit != "exit 1" || f.RetryAfter != 10*second {
			t.Errorf("after %s: exit %q, retry after %s", took, f.Exit, f.RetryAfter)
		}
		dials, _, _ := srv.count()
		for range 50 {
			_, _ = b.callNow(true)
		}
		if n, _, _ := srv.count(); n != dials {
			t.Errorf("%d more starts: steady calls are a storm", n-dials)
		}
		b.at(late + 10*second)
		_, _ = b.callNow(true)
		if n, _, _ := srv.count(); n != dials+1 {
			t.Errorf("%d starts after 10 s, want one more than %d", n, dials)
		}
		srv.with(func() { srv.dial = nil })
		b.at(late + 20*second)
		if f, took := b.callNow(false); f != nil || took != 0 {
			t.Errorf("the slow retry of a call would have helped: %s", describe(f))
		}
	})
}

// The attempt that runs when parkFor ends is waited out; the one that would
// follow is not.
func TestParkForIsTiedToTheAttempt(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.ParkFor, s.CallTimeout = 30*second, 0
	works := true
	srv.dial = func(ctx context.Context, _ int) error {
		_ = sleep(ctx, 50*second)
		if works {
			return nil
		}
		return errRefused
	}
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		b.at(5 * second)
		f, took := b.callNow(false)
		if f != nil || took != 45*second {
			t.Errorf("after %s: %s", took, describe(f))
		}
		srv.with(func() { works = false })
		srv.fake(1).end(errDied) // at 50 s; attempts fail at 100 s and 150 s
		synctest.Wait()
		_, err := b.Call(b.within(10*time.Minute), &upstream.Call{Method: "tools/call"}, config.ReplayNever)
		if at := time.Since(b.t0); at != 100*second {
			t.Errorf("the call ended at %s, want 100s: %v", at, err)
		}
		b.wantKind(fault.From("", err), fault.Unavailable, fault.NotSent)
		if !errors.Is(err, &fault.Fault{Kind: fault.Dial}) {
			t.Errorf("the cause is missing: %v", err)
		}
	})
}

func TestDeadlineAndCancelWhileWaiting(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, 50*second) }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		_, err := b.Acquire(b.within(2 * second))
		b.wantKind(fault.From("", err), fault.Deadline, fault.NotSent)
		if time.Since(b.t0) != 2*second {
			t.Errorf("it came at %s", time.Since(b.t0))
		}
		ctx, cancel := context.WithCancel(b.t.Context())
		time.AfterFunc(second, cancel)
		_, err = b.Acquire(ctx)
		b.wantKind(fault.From("", err), fault.Canceled, fault.NotSent)
		if time.Since(b.t0) != 3*second || b.Counts().Waiting != 0 {
			t.Errorf("it came at %s, %d wait", time.Since(b.t0), b.Counts().Waiting)
		}
		if _, _, calls := srv.count(); calls != 0 {
			t.Error("something was sent")
		}
	})
}

func TestOverloaded(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.MaxWaiting = 10
	srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, 5*second) }
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if f, _ := b.callNow(false); f != nil {
					t.Error(f)
				}
			})
		}
		synctest.Wait()
		if n := b.Counts().Waiting; n != 10 {
			t.Errorf("%d wait, want 10", n)
		}
		f, took := b.callNow(false)
		b.wantKind(f, fault.Overloaded, fault.NotSent)
		if took != 0 {
			t.Errorf("it took %s to refuse", took)
		}
		wg.Wait()
		if c := b.Counts(); c.Waiting != 0 || c.Out != 0 {
			t.Errorf("%+v", c)
		}
	})
}

func TestGateIsFair(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.MaxConcurrent = 2
	busy, most := 0, 0
	var order []string
	srv.call = func(ctx context.Context, _ *fake, c *upstream.Call) ([]byte, error) {
		srv.with(func() { busy++; most = max(most, busy); order = append(order, c.Name) })
		_ = sleep(ctx, second)
		srv.with(func() { busy-- })
		return nil, nil
	}
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				_, _ = b.Call(b.within(time.Minute), &upstream.Call{Name: string(rune('a' + i))}, config.ReplayNever)
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(b.t.Context())
		wg.Go(func() { _, _ = b.Call(ctx, &upstream.Call{Name: "x"}, config.ReplayNever) })
		synctest.Wait()
		cancel() // one that gives up takes no turn
		wg.Wait()
		if time.Since(b.t0) != 5*second || most != 2 || b.gate.admitted != 0 {
			t.Errorf("ten calls two at a time took %s, at most %d, %d inside", time.Since(b.t0), most, b.gate.admitted)
		}
		if got := len(order); got != 10 || order[8]+order[9] != "ij" && order[8]+order[9] != "ji" {
			t.Errorf("order %v", order)
		}
		b.must(b.Disable(b.within(second)))
		if f, took := b.callNow(false); f.Kind != fault.Disabled || took != 0 {
			t.Errorf("after %s: %s", took, describe(f))
		}
	})
}

// Those who wait for their turn are refused like all others when the server
// is disabled.
func TestDisableRefusesTheQueue(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.MaxConcurrent = 1
	srv.call = func(ctx context.Context, u *fake, _ *upstream.Call) ([]byte, error) {
		return nil, sleep(ctx, 20*second)
	}
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		go func() { _, _ = b.callNow(false) }()
		synctest.Wait()
		done := make(chan *fault.Fault)
		go func() { f, _ := b.callNow(false); done <- f }()
		synctest.Wait()
		b.must(b.Disable(b.within(second)))
		b.wantKind(<-done, fault.Disabled, fault.NotSent)
		if time.Since(b.t0) != 0 {
			t.Errorf("it came at %s", time.Since(b.t0))
		}
	})
}
