package fleet

import (
	"sync"
	"time"
)

// headStart is how long after the start of the fleet servers are not started
// whose last good catalog is listed from the disk: the first clients are
// served before ten processes ask for the same processors. A server that has
// never been listed is started at once, as that is what clients wait for.
const headStart = 100 * time.Millisecond

// A lead is the head start of the clients. It ends by time, with the first
// call, or with the fleet.
type lead struct {
	over  chan struct{} // closed at its end
	once  sync.Once
	timer *time.Timer // ends it
}

func newLead() *lead {
	l := &lead{over: make(chan struct{})}
	l.timer = time.AfterFunc(headStart, l.end)
	return l
}

func (l *lead) end() { l.once.Do(func() { close(l.over) }) }

// stop ends it and leaves no timer behind.
func (l *lead) stop() {
	l.timer.Stop()
	l.end()
}
