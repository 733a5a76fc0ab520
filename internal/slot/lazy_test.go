package slot

import (
	"context"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

// TestLazyIsStartedOnceToBeKnown has a lazy server that nobody has ever seen:
// it is listed without a call, then idles like any other, and enabling it
// again does not start it again.
func TestLazyIsStartedOnceToBeKnown(t *testing.T) {
	srv := newServer("a")
	s := spec()
	s.Lazy, s.IdleTimeout, s.RefreshInterval = true, time.Minute, 0
	play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
		b.seen("connected")
		b.wantTools("a")
		b.wantDials(0)
		b.at(time.Minute)
		b.seen("idle")
		b.wantTools("a")
		b.must(b.Disable(b.within(second)))
		b.must(b.Enable(b.within(second)))
		b.seen("idle")
		b.wantDials(0)
	})
}

// TestOneCallIsNoStorm: a call that waits for a lazy server which does not come
// up starts it again no faster than retries would, whatever restart says, and
// is told when it cannot help any more.
func TestOneCallIsNoStorm(t *testing.T) {
	for _, restart := range []config.Restart{config.RestartAlways, config.RestartOnFailure, config.RestartNever} {
		for _, cause := range []*fault.Fault{errRefused, {Kind: fault.Exited, Op: "start", Exit: cleanExit, Outcome: fault.NotSent}} {
			t.Run(string(restart)+"/"+cause.Kind.String(), func(t *testing.T) {
				s := spec()
				s.Lazy, s.Retry.Restart = true, restart
				srv := newServer("a")
				srv.dial = func(context.Context, int) error {
					time.Sleep(20 * time.Millisecond)
					return cause
				}
				play(t, Options{Server: s, Last: tools2catalog("a")}, srv, 0.5, func(b *bench) {
					f, took := b.callNow(false)
					if f == nil || f.Outcome != fault.NotSent || f.RetryAfter == 0 || took > 30*second {
						t.Errorf("after %v: %s", took, describe(f))
					}
					// At once, then after three quarters of 1, 2, 4, 8 and 16
					// s; the next is due when the call may not wait any more.
					const ms = time.Millisecond
					b.wantDials(0, 20*ms, 790*ms, 2310*ms, 5330*ms, 11350*ms, 23370*ms)
				})
			})
		}
	}
}
