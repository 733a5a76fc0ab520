package slot

import (
	"testing"
	"time"
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
