package slot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

const second = time.Second

func TestRetryTimes(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(context.Context, int) error { return errRefused }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		b.wantDials(0, 0) // the first retry is immediately
		b.seen("disconnected")
		const ms = time.Millisecond
		if next := b.View().Next.Sub(b.t0); next != 750*ms {
			t.Errorf("the view says next attempt at %s, want 750ms", next)
		}
		b.at(23250 * ms)
		b.wantDials(0, 0, 750*ms, 2250*ms, 5250*ms, 11250*ms, 23250*ms)
		b.at(608 * second) // every 22.5 s, and the first that fails ten minutes after the loss is the last
		b.seen("disconnected")
		b.at(609 * second)
		b.seen("failed")
		last, slow := 608250*ms, 90*second // 60 s certain, and half of the other 60 s
		if next := b.View().Next.Sub(b.t0); next != last+slow {
			t.Errorf("the slow retry is due at %s, want %s", next, last+slow)
		}
		before, _, _ := srv.count()
		b.at(last + 3*slow)
		if dials, _, _ := srv.count(); dials != before+3 {
			t.Errorf("%d starts after three slow retries, want %d", dials, before+3)
		}
	})
}

func TestStopped(t *testing.T) {
	for _, c := range []struct {
		kind   fault.Kind
		seen   event.State
		remedy string
		probes bool
	}{
		{fault.Unauthorized, "auth_required", "everline auth login db", true},
		{fault.Invalid, "misconfigured", "everline doctor db", false},
		{fault.NoVersion, "misconfigured", "everline doctor db", false},
		{fault.Missing, "misconfigured", "install the command, or run: everline doctor db", true},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			srv := newServer("a")
			srv.dial = func(context.Context, int) error { return fault.New(c.kind, "start", "no use") }
			play(t, Options{}, srv, 0.5, func(b *bench) {
				b.wantDials(0)
				b.seen(c.seen)
				if got := b.View().Remedy(); got != c.remedy {
					t.Errorf("remedy %q, want %q", got, c.remedy)
				}
				if p := lastOf[event.Stopped](b); p.Remedy != c.remedy || p.Cause == nil {
					t.Errorf("told %+v", p)
				}
				b.at(10 * time.Minute)
				if dials, _, _ := srv.count(); (dials > 1) != c.probes {
					t.Errorf("%d starts in ten minutes, probes wanted: %v", dials, c.probes)
				}
				srv.with(func() { srv.dial = nil })
				b.must(b.Reconnect(b.within(second)))
				b.seen("connected")
			})
		})
	}
}

func TestMisconfiguredIsNotDialed(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Err = fault.New(fault.Invalid, "config", "everline.json:7: TOKEN is not set")
	play(t, Options{Server: s}, srv, 0, func(b *bench) {
		b.wantDials()
		b.seen("misconfigured")
		f, took := b.callNow(true)
		b.wantKind(f, fault.Unavailable, fault.NotSent)
		if took != 0 || !errors.Is(f, s.Err.Err) {
			t.Errorf("after %s: %v", took, f)
		}
		b.must(b.Apply(b.within(second), spec()))
		b.seen("connected")
	})
}

// Two code paths connect the same server at the same time.
func TestFaultE3(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, 2*second) }
	play(t, Options{}, srv, 0, func(b *bench) {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				l, err := b.Acquire(b.within(time.Minute))
				if err != nil {
					t.Error(err)
					return
				}
				l.Release(nil)
			})
			wg.Go(func() { _ = b.Wake(b.within(second)) })
		}
		wg.Wait()
		b.wantDials(0)
		b.at(2 * second)
		b.must(b.Reconnect(b.within(second))) // and one that health asks for
		b.at(10 * second)
		if srv.peak() != 1 {
			t.Errorf("%d generations at the same time", srv.peak())
		}
	})
}

// A single call spawns over a hundred containers.
func TestFaultE6(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Lazy = true
	srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, 3*second) }
	play(t, Options{Server: s, Last: tools2catalog("a")}, srv, 0, func(b *bench) {
		b.seen("idle")
		var wg sync.WaitGroup
		for range 15 {
			wg.Go(func() { _, _ = b.callNow(false) })
			time.Sleep(200 * time.Millisecond)
		}
		wg.Wait()
		b.wantDials(0)
		if _, _, calls := srv.count(); calls != 15 {
			t.Errorf("%d calls arrived, want 15", calls)
		}
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A reconnect that was under way brings a disabled server back to life. The
// start here does not even notice that it was ended.
func TestFaultO3(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(context.Context, int) error { return sleep(context.Background(), 2*second) }
	play(t, Options{}, srv, 0, func(b *bench) {
		b.at(second)
		b.must(b.Disable(b.within(second)))
		if b.View().Published() || b.View().Seen() != "disabling" {
			t.Errorf("right after Disable it is %s", b.View().Seen())
		}
		f, took := b.callNow(true)
		b.wantKind(f, fault.Disabled, fault.NotSent)
		if took != 0 {
			t.Errorf("the call waited %s for a disabled server", took)
		}
		b.at(3 * second)
		b.seen("disabled")
		if srv.living() != 0 || b.View().Catalog != nil || count[event.Connected](b) != 0 {
			t.Errorf("the start was not discarded: %d alive, catalog %v", srv.living(), b.View().Catalog)
		}
		b.must(b.Disable(b.within(second)))
		b.at(time.Minute)
		b.wantDials(0)
	})
}

func TestDisableWhileStarting(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, 20*second) }
	play(t, Options{}, srv, 0, func(b *bench) {
		b.at(second)
		b.must(b.Disable(b.within(second)))
		b.seen("disabled") // the start ended with its context
		if count[event.StartFailed](b) != 0 || b.View().Cause != nil {
			t.Errorf("a start that was not wanted any more is told as failed: %v", b.View().Cause)
		}
		b.must(b.Enable(b.within(second)))
		b.at(21 * second)
		b.seen("connected")
		b.wantDials(0, second)
	})
}

func TestReconnectOfDisabledIsRefused(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Disabled = true
	play(t, Options{Server: s}, srv, 0, func(b *bench) {
		b.seen("disabled")
		f := fault.From("", b.Reconnect(b.within(second)))
		if f == nil || f.Kind != fault.Conflict || f.Remedy == "" {
			t.Errorf("got %s", describe(f))
		}
		b.must(b.Wake(b.within(second)))
		b.wantDials()
	})
}

// A generation that will not end in order costs nothing but a line.
func TestCloseFailure(t *testing.T) {
	srv := newServer("a")
	srv.close = func(context.Context, *fake) error { return fault.New(fault.Wedged, "close", "pid 7 would not die") }
	play(t, Options{}, srv, 0, func(b *bench) {
		b.must(b.Reconnect(b.within(second)))
		b.seen("connected")
		if st := b.View().State; st.Attempt != 0 || st.Gen != 2 {
			t.Errorf("the failed close cost %d attempts (generation %d)", st.Attempt, st.Gen)
		}
		if c := lastOf[event.CloseFailed](b); c.Gen != 1 || b.View().CloseCause == nil {
			t.Errorf("told %v, view says %v", c, b.View().CloseCause)
		}
		b.must(b.Disable(b.within(second)))
		b.seen("disabled")
	})
}

func TestDrain(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.DrainTimeout = 10 * second
	play(t, Options{Server: s}, srv, 0, func(b *bench) {
		lease, err := b.Acquire(b.within(second))
		b.must(err)
		b.must(b.Reconnect(b.within(second)))
		b.at(4 * second)
		if len(srv.gone()) != 0 {
			t.Fatal("the generation was closed under a lease")
		}
		lease.Release(nil)
		b.seen("connected")
		b.wantDials(0, 4*second)
		lease, err = b.Acquire(b.within(second))
		b.must(err)
		b.must(b.Disable(b.within(second)))
		b.at(13999 * time.Millisecond)
		if len(srv.gone()) != 1 {
			t.Fatal("the drain deadline came early")
		}
		b.at(14 * second)
		b.seen("disabled")
		lease.Release(nil)
	})
}

// A result, error, notification or exit of an older generation changes nothing.
func TestStaleMeansNothing(t *testing.T) {
	srv := newServer("a")
	play(t, Options{}, srv, 0.5, func(b *bench) {
		release := make(chan struct{})
		srv.with(func() {
			srv.list = func(_ context.Context, u *fake, _ int) (*catalogT, error) {
				if u.gen == 1 {
					<-release // a listing that does not notice its generation's end
					return tools2catalog("stale"), nil
				}
				return tools2catalog("new"), nil
			}
		})
		old := srv.fake(1)
		old.hooks.Changed(0)
		synctest.Wait()
		lease, err := b.Acquire(b.within(second))
		b.must(err)
		old.end(errDied)
		b.seen("connected")
		b.wantTools("new")
		before := *b.View()
		close(release)
		old.hooks.Changed(0)
		for range 3 {
			lease.gen.noteResult(errCut)
		}
		lease.Release(errCut)
		b.inbox.post(lost{lease.gen, errSession})
		synctest.Wait()
		after := b.View()
		if after.State != before.State || after.Catalog != before.Catalog || after.Cause != before.Cause {
			t.Errorf("before %+v\nafter  %+v", before.State, after.State)
		}
	})
}

// What a call on a generation that is being replaced finds out is no news.
func TestLossOfADrainingLife(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Overlap = true
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		lease, err := b.Acquire(b.within(second))
		b.must(err)
		b.must(b.Reconnect(b.within(second)))
		b.seen("connected")
		b.inbox.post(lost{lease.gen, errSession})
		srv.fake(1).end(errDied)
		synctest.Wait()
		if count[event.Lost](b) != 0 || b.View().Cause != nil || b.View().State.Gen != 2 {
			t.Errorf("%v, %+v", b.View().Cause, b.View().State)
		}
		lease.Release(nil)
	})
}

// A good answer and a strike that the loop reads together both count.
func TestMailIsReadInOrder(t *testing.T) {
	srv := newServer("a")
	srv.ping = func(context.Context, *fake) error { return errCut }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		g := b.View().serving
		g.lastBad.Store(errCut)
		g.feedback.good()
		g.feedback.doubt()
		g.nudge()
		synctest.Wait()
		if st := b.View().State; !st.Proven || st.CallStrikes != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestLastGoodSurvives(t *testing.T) {
	srv := newServer("a", "b")
	last := tools2catalog("old")
	down := true
	srv.dial = func(context.Context, int) error {
		if down {
			return errRefused
		}
		return nil
	}
	play(t, Options{Last: last, Gen: 41}, srv, 0.5, func(b *bench) {
		b.wantTools("old")
		if b.View().State.Gen != 43 {
			t.Errorf("generation %d does not follow those of the last run", b.View().State.Gen)
		}
		srv.with(func() { down = false })
		b.must(b.Reconnect(b.within(second)))
		b.wantTools("a", "b")
		srv.with(func() { down = true })
		srv.fake(1).end(errDied)
		b.at(time.Hour)
		b.wantTools("a", "b")
		if !b.View().Published() || !b.View().Away() {
			t.Error("an outage must leave the tools listed, marked away")
		}
	})
}

// An operation returns once the view that shows it is out.
func TestPublishAfterApply(t *testing.T) {
	srv := newServer("a")
	play(t, Options{}, srv, 0.5, func(b *bench) {
		ctx := b.within(time.Minute)
		for i := range 50 {
			b.must(b.Disable(ctx))
			if b.View().State.Want {
				t.Fatal("Disable returned before its view was out")
			}
			b.must(b.Enable(ctx))
			if !b.View().State.Want {
				t.Fatal("Enable returned before its view was out")
			}
			s := spec()
			s.Env = map[string]string{"N": fmt.Sprint(i)}
			b.must(b.Apply(ctx, s))
			if b.View().Server.Env["N"] != s.Env["N"] || b.View().State.Spec != s.Revision() {
				t.Fatal("Apply returned before its view was out")
			}
		}
	})
}

func TestApply(t *testing.T) {
	srv := newServer("a")
	play(t, Options{}, srv, 0.5, func(b *bench) {
		s := spec()
		s.ParkFor, s.MaxConcurrent = second, 2
		for range 10 {
			b.must(b.Apply(b.within(second), s))
		}
		b.wantDials(0)
		s.Args = []string{"-v"}
		b.at(second)
		b.must(b.Apply(b.within(second), s))
		b.seen("connected")
		b.wantDials(0, second)
		if srv.peak() != 1 {
			t.Error("two generations of a server that may not overlap")
		}
		s.Disabled = true
		b.must(b.Apply(b.within(second), s))
		b.seen("disabled")
		b.must(b.Enable(b.within(second)))
		s.ParkFor = 2 * second
		b.must(b.Apply(b.within(second), s))
		b.seen("connected") // the file says what it said before, so the operator's word stands
	})
}

func TestOverlap(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Overlap = true
	srv.dial = func(ctx context.Context, n int) error { return sleep(ctx, 2*second) }
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		b.at(2 * second)
		lease, err := b.Acquire(b.within(second))
		b.must(err)
		s.Args = []string{"-v"}
		b.must(b.Apply(b.within(second), s))
		b.at(3 * second)
		if f, took := b.callNow(false); f != nil || took != 0 {
			t.Fatalf("a call waited %s during make before break: %s", took, describe(f))
		}
		b.at(4 * second)
		if st := b.View().State; st.Serving != 2 || len(srv.gone()) != 0 {
			t.Errorf("%+v", st)
		}
		lease.Release(nil)
		b.at(5 * second)
		if len(srv.gone()) != 1 || srv.peak() != 2 {
			t.Errorf("closed %v, at most %d alive", srv.gone(), srv.peak())
		}
	})
}

// A new generation that cannot be made is told of, though the old one serves and is well.
func TestFailedSuccessorKeepsItsCause(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Overlap = true
	srv.dial = func(_ context.Context, n int) error {
		if n > 1 {
			return errRefused
		}
		return nil
	}
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		b.seen("connected")
		s.Args = []string{"-v"}
		b.must(b.Apply(b.within(second), s))
		b.at(20 * second)
		if f, took := b.callNow(false); f != nil || took != 0 {
			t.Errorf("after %s: %s", took, describe(f))
		}
		synctest.Wait()
		if st := b.View().State; st.Serving != 1 || !st.Proven || st.Gen == 1 {
			t.Errorf("%+v", st)
		}
		if b.View().Cause == nil {
			t.Error("nothing tells that the new generation cannot be made")
		}
	})
}

func TestIdle(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Lazy, s.IdleTimeout, s.RefreshInterval = true, time.Minute, 0
	play(t, Options{Server: s, Last: tools2catalog("a")}, srv, 0.5, func(b *bench) {
		b.seen("idle")
		b.wantDials()
		if f, took := b.callNow(false); f != nil || took != 0 {
			t.Fatalf("after %s: %s", took, describe(f))
		}
		b.at(50 * second)
		lease, err := b.Acquire(b.within(second))
		b.must(err)
		b.at(5 * time.Minute)
		b.seen("connected") // a lease is out
		lease.Release(nil)
		b.at(6*time.Minute - 1)
		b.seen("connected")
		b.at(6 * time.Minute)
		b.seen("idle")
		b.wantTools("a")
		if count[event.Idled](b) != 1 || count[event.Lost](b) != 0 {
			t.Error("idling is told as what it is")
		}
		b.at(7 * time.Minute)
		if f, _ := b.callNow(false); f != nil {
			t.Fatal(f)
		}
		b.wantDials(0, 7*time.Minute)
	})
}

func TestStartingIsBounded(t *testing.T) {
	srv := newServer("a")
	gate := make(chan struct{}, 1)
	synctest.Test(t, func(t *testing.T) {
		gate = make(chan struct{}, 1)
		gate <- struct{}{}
		b := &bench{t: t, srv: srv, t0: time.Now()}
		b.Slot = New(Options{Server: spec(), Dial: srv.Dial, Starting: gate})
		b.at(second)
		b.wantDials()
		<-gate
		b.at(2 * second)
		b.wantDials(second)
		b.seen("connected")
		gate <- struct{}{} // the start gave it back
		b.must(b.Reconnect(b.within(second)))
		b.must(b.Disable(b.within(second)))
		b.seen("disabled") // waiting for a place ends with the wish
		b.must(b.Close(b.within(second)))
	})
}
