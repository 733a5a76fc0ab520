package slot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/upstream"
)

func TestClose(t *testing.T) {
	t.Run("names what would not stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer("a")
			stuck := make(chan struct{})
			srv.close = func(context.Context, *fake) error { <-stuck; return nil }
			b := &bench{t: t, srv: srv, t0: time.Now()}
			b.Slot = New(Options{Server: spec(), Dial: srv.Dial})
			b.seen("connected")
			f := fault.From("", b.Close(b.within(5*second)))
			if f == nil || f.Kind != fault.Closed || time.Since(b.t0) != 5*second {
				t.Fatalf("after %s: %s", time.Since(b.t0), describe(f))
			}
			if want := "db: close: generation 1 would not stop in time: context deadline exceeded"; f.Error() != want {
				t.Errorf("it says %q, want %q", f.Error(), want)
			}
			close(stuck)
			b.must(b.Close(b.within(second)))
			b.must(b.Close(b.within(second)))
		})
	})
	t.Run("drains for half of its time", func(t *testing.T) {
		srv := newServer("a")
		play(t, Options{}, srv, 0, func(b *bench) {
			lease, err := b.Acquire(b.within(second))
			b.must(err)
			b.must(b.Close(b.within(4 * second)))
			if took := time.Since(b.t0); took != 2*second {
				t.Errorf("Close took %s", took)
			}
			lease.Release(nil)
		})
	})
	t.Run("answers everybody", func(t *testing.T) {
		srv := newServer("a")
		srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, time.Minute) }
		play(t, Options{}, srv, 0, func(b *bench) {
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					f, _ := b.callNow(true)
					b.wantKind(f, fault.Closed, fault.NotSent)
				})
			}
			synctest.Wait()
			b.must(b.Close(b.within(second)))
			wg.Wait()
			if f := fault.From("", b.Enable(b.within(second))); f == nil || f.Kind != fault.Closed {
				t.Errorf("an operation on a closed slot: %s", describe(f))
			}
			if time.Since(b.t0) != 0 {
				t.Errorf("it took %s", time.Since(b.t0))
			}
		})
	})
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		f    *fault.Fault
		want lifecycle.Verdict
	}{
		{errSession, lifecycle.SessionEnd},
		{errDied, lifecycle.Retry},
		{&fault.Fault{Kind: fault.Exited, Exit: "exit 0"}, lifecycle.CleanEnd},
		{&fault.Fault{Kind: fault.Broken, Err: errCleanEnd}, lifecycle.CleanEnd},
		{&fault.Fault{Kind: fault.Unauthorized}, lifecycle.NeedAuth},
		{&fault.Fault{Kind: fault.Missing}, lifecycle.NotThere},
		{&fault.Fault{Kind: fault.Invalid}, lifecycle.BadConfig},
		{&fault.Fault{Kind: fault.NoVersion}, lifecycle.BadConfig},
		{&fault.Fault{Kind: fault.Wedged}, lifecycle.Retry},
		{&fault.Fault{Kind: fault.RateLimited}, lifecycle.Retry},
		{&fault.Fault{Kind: fault.Unavailable}, lifecycle.Retry},
		{&fault.Fault{Kind: fault.Unavailable, Op: fault.OpAuthorize}, lifecycle.AwaitToken},
		{&fault.Fault{Kind: fault.Deadline, Op: fault.OpAuthorize}, lifecycle.AwaitToken},
	} {
		if got := verdictOf(c.f, nil); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.f.Kind, c.f.Exit, got, c.want)
		}
	}
	refused := &fault.Fault{Kind: fault.Unauthorized}
	for c, want := range map[Credential]lifecycle.Verdict{Foreign: lifecycle.NeedAuth, Living: lifecycle.NeedToken, Dead: lifecycle.NeedLogin} {
		if got := verdictOf(refused, func() Credential { return c }); got != want {
			t.Errorf("credential %d: %s, want %s", c, got, want)
		}
	}
}

func TestCauseSaysWhatTheProcessSaid(t *testing.T) {
	srv := newServer("a")
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for i := range 300 {
			srv.fake(1).hooks.Stderr(fmt.Sprintf("line %d", i))
		}
		srv.with(func() { srv.dial = func(context.Context, int) error { return errRefused } })
		srv.fake(1).end(errDied)
		synctest.Wait()
		l := lastOf[event.Lost](b)
		if len(l.Cause.Stderr) != lastLines || l.Cause.Stderr[lastLines-1] != "line 299" || l.Cause.Exit != "exit 1" {
			t.Errorf("cause %+v", l.Cause)
		}
		if lines := b.Logs(); len(lines) != logLines || lines[0].Text != "line 100" || lines[0].Gen != 1 {
			t.Errorf("%d lines, the first is %+v", len(lines), lines[0])
		}
	})
}

// What is secret in the configuration is secret in what the process writes.
func TestSecretsAreHidden(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Env = map[string]string{"TOKEN": "tok-12345678"}
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		srv.fake(1).hooks.Stderr("bad token tok-12345678!")
		f := *errDied
		f.Stderr = []string{"with tok-12345678"}
		srv.fake(1).end(&f)
		synctest.Wait()
		if got := b.Logs()[0].Text; got != "bad token ***!" {
			t.Errorf("the log says %q", got)
		}
		if got := lastOf[event.Lost](b).Cause.Stderr; len(got) != 1 || got[0] != "with ***" {
			t.Errorf("the cause says %q", got)
		}
	})
}

// Nor does everline repeat it from what the server answered, in whatever words
// it speaks of a failure; the server's own JSON-RPC error is not its words.
func TestSecretsAreHiddenInFailures(t *testing.T) {
	const secret = "tok-12345678"
	denied := &fault.Fault{Kind: fault.HTTPStatus, Op: "tools/call", Status: 500, Err: errors.New("500: denied for " + secret)}
	own := &fault.Fault{Kind: fault.RPC, Op: "tools/call", Outcome: fault.Answered, RPC: &fault.RPCError{Code: -32000, Message: "denied for " + secret}}
	srv := newServer("a")
	s := spec()
	s.Env = map[string]string{"TOKEN": secret}
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		for _, f := range []*fault.Fault{denied, {Kind: fault.Protocol, Err: denied.Err}, {Kind: fault.Forbidden, Remedy: "type " + secret}} {
			srv.with(func() { srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) { return nil, f } })
			if got, _ := b.callNow(false); got == nil || strings.Contains(got.Error()+got.Remedy, secret) || got.Kind != f.Kind || got.Status != f.Status {
				t.Errorf("%s: the call says %v, %q", f.Kind, got, got.Remedy)
			}
		}
		srv.with(func() { srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) { return nil, own } })
		if got, _ := b.callNow(false); got == nil || got.RPC == nil || got.RPC.Message != own.RPC.Message {
			t.Errorf("its own error became %v", got)
		}
		srv.with(func() {
			srv.list = func(context.Context, *fake, int) (*catalog.Catalog, error) { return nil, denied }
			srv.dial = func(context.Context, int) error { return own }
		})
		srv.fake(1).hooks.Changed(catalog.Tools)
		time.Sleep(time.Minute) // the strikes end the generation, and the next do not start
		for _, e := range b.said() {
			if strings.Contains(e.String(), secret) {
				t.Errorf("an event says %s", e)
			}
		}
		if count[event.ListFailed](b) == 0 || count[event.StartFailed](b) == 0 || count[event.CallFailed](b) == 0 {
			t.Errorf("%d listings, %d starts and %d calls failed", count[event.ListFailed](b), count[event.StartFailed](b), count[event.CallFailed](b))
		}
	})
}

func TestLongLinesAreCut(t *testing.T) {
	line := strings.Repeat("a", logWidth-1) + "\u00e9" + "rest"
	if got, want := cut(line), line[:logWidth-1]+cutMark; got != want {
		t.Errorf("it ends in %q", got[len(got)-20:])
	}
	if got := cut("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}

func TestRestart(t *testing.T) {
	for _, c := range []struct {
		restart config.Restart
		lazy    bool
		end     error
		seen    event.State
	}{
		{"always", false, nil, "connected"},
		{"on-failure", false, nil, "disconnected"},
		{"on-failure", false, errDied, "connected"},
		{"never", false, errDied, "disconnected"},
		{"never", true, errDied, "idle"},
	} {
		srv := newServer("a")
		s := spec()
		s.Retry.Restart, s.Lazy = c.restart, c.lazy
		play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
			b.must(b.Wake(b.within(second)))
			b.seen("connected")
			srv.fake(1).end(c.end)
			b.seen(c.seen)
			f, took := b.callNow(false)
			if c.seen == "disconnected" {
				b.wantKind(f, fault.Unavailable, fault.NotSent)
				if took != 0 || f.Remedy != "everline reconnect db" {
					t.Errorf("after %s: %q", took, f.Remedy)
				}
			} else if f != nil {
				t.Error(f)
			}
		})
	}
}

// A start that stays silent fails at its own deadline, with the reason.
func TestFaultD3(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(ctx context.Context, n int) error { <-ctx.Done(); return ctx.Err() }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		b.at(time.Minute)
		f := lastOf[event.StartFailed](b)
		if f.Time.Sub(b.t0) != time.Minute || f.Cause.Kind != fault.Deadline {
			t.Errorf("at %s: %s", f.Time.Sub(b.t0), describe(f.Cause))
		}
		want := "start failed (generation 1): it was not up within its startupTimeout of 1m0s: context deadline exceeded"
		if f.String() != want {
			t.Errorf("it says %q, want %q", f, want)
		}
	})
}

// A slow first start is not killed because a call gave up waiting.
func TestFaultD4(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, 20*second) }
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for range 5 {
			_, _ = b.Acquire(b.within(second))
		}
		b.at(20 * second)
		b.seen("connected")
		b.wantDials(0)
	})
}

// The command is not there at first.
func TestFaultD5(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(context.Context, int) error {
		return fault.New(fault.Missing, "start", "npx was not found")
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		b.at(5 * second)
		srv.with(func() { srv.dial = nil })
		if f, _ := b.callNow(false); f != nil {
			t.Errorf("on demand: %v", f)
		}
		b.wantTools("a")
	})
}

// One transient error poisons nothing.
func TestFaultC7(t *testing.T) {
	srv := newServer("a")
	n := 0
	srv.call = func(context.Context, *fake, *upstream.Call) ([]byte, error) {
		if n++; n == 2 {
			return nil, &fault.Fault{Kind: fault.HTTPStatus, Status: 503}
		}
		return []byte(`{}`), nil
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for i := range 3 {
			f, took := b.callNow(false)
			if (f != nil) != (i == 1) || took != 0 {
				t.Errorf("call %d after %s: %s", i+1, took, describe(f))
			}
		}
		b.wantDials(0)
	})
}

func TestPolicy(t *testing.T) {
	if got, want := policyOf(config.NewServer("a")), lifecycle.DefaultPolicy(); got != want {
		t.Errorf("the defaults of the configuration are %+v, and of the lifecycle %+v", got, want)
	}
	got := policyOf(config.Server{Retry: config.Retry{Restart: "never", FastFor: 2 * time.Minute, SlowProbe: time.Hour}}.WithDefaults())
	want := lifecycle.DefaultPolicy()
	want.Restart, want.FastFor, want.SlowProbe = lifecycle.Never, 2*time.Minute, time.Hour
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
