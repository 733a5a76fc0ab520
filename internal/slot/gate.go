package slot

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// A gate lets at most so many calls through at a time, in the order in which
// they came. With limit 0 it is not used. Its lock is a leaf: nothing else is
// locked, and nothing waits, while it is held.
type gate struct {
	limit atomic.Int64 // 0: no limit; set by the loop

	mu       sync.Mutex // guards the rest
	admitted int        // tickets that were let in and are not back
	queue    list.List  // of *ticket, those that wait
}

// A ticket is one call's place at the gate. admitted is closed when it is let in.
type ticket struct {
	admitted chan struct{}
	place    *list.Element // nil once it is let in
}

// join asks to be let in; the ticket's in may be closed already.
func (g *gate) join() *ticket {
	t := &ticket{admitted: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.place = g.queue.PushBack(t)
	g.admit()
	return t
}

// leave gives the ticket back, whether it was let in or not.
func (g *gate) leave(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.place != nil {
		g.queue.Remove(t.place)
		t.place = nil
		return
	}
	g.admitted--
	g.admit()
}

// set changes the limit; calls that are in stay in.
func (g *gate) set(limit int) {
	g.limit.Store(int64(limit))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admit()
}

// admit lets in whom the limit allows. g.mu is held.
func (g *gate) admit() {
	limit := int(g.limit.Load())
	for g.queue.Len() > 0 && (limit == 0 || g.admitted < limit) {
		t, _ := g.queue.Remove(g.queue.Front()).(*ticket)
		t.place = nil
		g.admitted++
		close(t.admitted)
	}
}

// open tells whether the ticket has been let in.
func (t *ticket) open() bool {
	select {
	case <-t.admitted:
		return true
	default:
		return false
	}
}
