package slot

import (
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/lifecycle"
)

// checkIdle stops a lazy server that nobody has used for its idle timeout.
func (lp *loop) checkIdle() {
	g := lp.serving()
	if g == nil || !g.tracked.Load() {
		return
	}
	limit := lp.spec.IdleTimeout
	left := limit - (time.Since(g.begun) - time.Duration(g.used.Load()))
	if g.leases() > 0 {
		left = limit
	}
	if left > 0 {
		lp.idle.set(left)
		return
	}
	lp.step(lifecycle.Idled{Gen: g.gen})
	if lp.state.Serving != g.gen {
		lp.emit(event.Idled{Head: lp.slot.head(g.gen)})
	}
}

// watchIdle arms the idle timer where the configuration has one.
func (lp *loop) watchIdle() {
	lp.idle.off()
	g := lp.serving()
	if g == nil {
		return
	}
	on := lp.spec.Lazy && lp.spec.IdleTimeout > 0
	if on && !g.tracked.Swap(true) {
		g.used.Store(int64(time.Since(g.begun)))
	}
	if !on {
		g.tracked.Store(false)
		return
	}
	lp.idle.set(lp.spec.IdleTimeout)
}
