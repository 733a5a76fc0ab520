package fleet

import (
	"sync"
	"time"
)

// headStartTime is how long after the start of the fleet servers are not started
// whose last good catalog is listed from the disk: the first clients are
// served before ten processes ask for the same processors. A server that has
// never been listed is started at once, as that is what clients wait for.
const headStartTime = 100 * time.Millisecond

// A headStart is that of the clients. It ends by time, with the first
// call, or with the fleet.
type headStart struct {
	over  chan struct{} // closed at its end
	once  sync.Once
	timer *time.Timer // ends it
}

func newHeadStart() *headStart {
	h := &headStart{over: make(chan struct{})}
	h.timer = time.AfterFunc(headStartTime, h.end)
	return h
}

func (h *headStart) end() { h.once.Do(func() { close(h.over) }) }

// stop ends it and leaves no timer behind.
func (h *headStart) stop() {
	h.timer.Stop()
	h.end()
}
