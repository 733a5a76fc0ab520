package fleet

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/upstream"
)

// mortal runs a fleet of one server whose generations end half a second after their
// start, the first one after first, and returns how often it was started.
func mortal(t *testing.T, cfg mcptest.Config, first time.Duration, body func(t *testing.T, f *Fleet)) int {
	var starts atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		o := p.options()
		o.Start = func(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
			srv, lives := p.add("a", cfg), 500*time.Millisecond
			if starts.Add(1) == 1 {
				lives = first
			}
			u, err := p.start(ctx, o)
			if err == nil {
				time.AfterFunc(lives, srv.Close)
			}
			return u, err
		}
		f := start(t, configOf("a"), o)
		defer stop(t, f)
		body(t, f)
		time.Sleep(11 * time.Minute)
		if seen := f.Slot("a").View().Seen(); seen != "failed" {
			t.Errorf("after ten minutes of crashes it is seen as %s", seen)
		}
	})
	return int(starts.Load())
}

// TestOwnRequestsProveNothing: a server that dies after each start ends in the
// slow retry, whatever everline has to tell each of its generations by itself.
func TestOwnRequestsProveNothing(t *testing.T) {
	const few = 45 // starts in eleven minutes, most of them half a minute apart
	resources := []string{`{"uri":"file:///r","name":"r"}`}
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		n := mortal(t, mcptest.Config{Era: era}, time.Second, func(_ *testing.T, f *Fleet) { f.SetLevel("info") })
		if n > few {
			t.Errorf("era %v: told of the log level it is started %d times", era, n)
		}
		n = mortal(t, mcptest.Config{Era: era, Resources: resources}, 5*time.Second, func(t *testing.T, f *Fleet) {
			if _, err := f.Subscribe(t.Context(), nil, "a", "file:///r", func([]byte) {}); err != nil {
				t.Error(err)
			}
		})
		if n > few {
			t.Errorf("era %v: subscribed to it is started %d times", era, n)
		}
	}
}
