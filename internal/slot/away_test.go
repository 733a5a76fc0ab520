package slot

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
)

// TestAwaySince has a server that is lost, fails on every attempt, and comes
// back: when it went away is one fact over all attempts.
func TestAwaySince(t *testing.T) {
	srv := newServer("a")
	down := atomic.Bool{}
	srv.dial = func(context.Context, int) error {
		if down.Load() {
			return errRefused
		}
		return nil
	}
	play(t, Options{}, srv, 1, func(b *bench) {
		since := func(want time.Time) {
			t.Helper()
			if got := b.View().AwaySince; !got.Equal(want) {
				t.Errorf("at %s it is %s, away since %s, want %s", time.Since(b.t0), b.View().Seen(), got, want)
			}
		}
		since(time.Time{})
		b.at(10 * second)
		down.Store(true)
		b.srv.fake(1).end(errors.New("cut"))
		b.seen("disconnected")
		b.at(30 * second)
		if tries, _, _ := srv.count(); tries < 5 {
			t.Fatalf("only %d attempts", tries)
		}
		since(b.t0.Add(10 * second))
		down.Store(false)
		b.must(b.Reconnect(b.within(second)))
		b.seen("connected")
		since(time.Time{})
		if e := lastOf[event.Connected](b); e.After != 20*second {
			t.Errorf("it is told to have been away for %s", e.After)
		}
		b.must(b.Disable(b.within(second)))
		b.seen("disabled")
		since(time.Time{})
		down.Store(true)
		b.must(b.Enable(b.within(second)))
		b.at(32 * second)
		since(b.t0.Add(30 * second))
	})
}

// TestAwaySinceTheCall has an idle server, which is not away, and one that does
// not come up for a call.
func TestAwaySinceTheCall(t *testing.T) {
	srv := newServer("a")
	srv.dial = func(context.Context, int) error { return errRefused }
	s := spec()
	s.Lazy = true
	play(t, Options{Server: s, Last: tools2catalog("a")}, srv, 1, func(b *bench) {
		b.seen("idle")
		if at := b.View().AwaySince; !at.IsZero() {
			t.Errorf("an idle server is away since %s", at)
		}
		b.at(5 * second)
		b.must(b.Wake(b.within(second)))
		b.at(8 * second)
		if at := b.View().AwaySince; !at.Equal(b.t0.Add(5 * second)) {
			t.Errorf("away since %s", at)
		}
	})
}

// TestLinkOfAStart has a server whose start does not get through the
// handshake: what is known of its link shows while it starts and after it.
func TestLinkOfAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var noise atomic.Uint64
		fail := make(chan struct{})
		o := Options{Server: spec()}
		o.Server.Retry.Restart = "never"
		o.Dial = func(_ context.Context, _ config.Server, _ uint64, h Hooks) (Upstream, error) {
			h.Linked(func() transport.Info { return transport.Info{Noise: noise.Load(), StderrRate: 5} })
			<-fail
			return nil, fault.New(fault.Protocol, "initialize", "no answer")
		}
		s := New(o)
		defer func() { _ = s.Close(t.Context()) }()
		expect := func(state event.State, want transport.Info) {
			t.Helper()
			synctest.Wait()
			v := s.View()
			if l := v.Link(); v.Seen() != state || l.Noise != want.Noise || l.StderrRate != want.StderrRate {
				t.Errorf("it is %s with the link %+v, want %s with %+v", v.Seen(), l, state, want)
			}
		}
		expect("connecting", transport.Info{StderrRate: 5})
		noise.Store(7)
		expect("connecting", transport.Info{Noise: 7, StderrRate: 5})
		close(fail)
		expect("disconnected", transport.Info{Noise: 7})
		_ = s.Disable(t.Context())
		expect("disabled", transport.Info{})
	})
}
