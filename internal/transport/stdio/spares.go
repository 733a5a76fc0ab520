package stdio

import (
	"sync"
	"time"
)

// refillAfter is how long after a start the next spare is made, so that it
// takes nothing from the server that has just been started.
const refillAfter = 500 * time.Millisecond

// Spares keep one shim started and waiting, so that a server whose process was
// killed need not wait for a shim as well. There is none before the first
// start of a process, and never one where shims are not used. The caller must
// Close it. A nil *Spares has none.
type Spares struct {
	mu     sync.Mutex // guards the rest; nothing waits under it
	closed bool
	ready  *spare
	refill *time.Timer // nil before the first start
	filler sync.WaitGroup
}

// NewSpares returns Spares without a shim.
func NewSpares() *Spares { return &Spares{} }

// take returns the spare, which is the caller's then; nil if there is none.
// It is asked once for each start, and sees to the next spare.
func (s *Spares) take() *shimLink {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	sp := s.ready
	s.ready = nil
	switch {
	case s.closed:
	case s.refill == nil:
		s.refill = time.AfterFunc(refillAfter, s.fill)
	default:
		s.refill.Reset(refillAfter)
	}
	s.mu.Unlock()
	if sp == nil {
		return nil
	}
	return sp.take()
}

// fill makes a spare, on the timer's goroutine. One that cannot be made is
// missed by nobody: the next start says why.
func (s *Spares) fill() {
	s.mu.Lock()
	if s.closed || s.ready != nil {
		s.mu.Unlock()
		return
	}
	s.filler.Add(1) // under the lock: Close has not begun to wait
	s.mu.Unlock()
	defer s.filler.Done()
	sp := newSpare()
	if sp == nil {
		return
	}
	s.mu.Lock()
	closed := s.closed || s.ready != nil
	if !closed {
		s.ready = sp
	}
	s.mu.Unlock()
	if closed {
		sp.end()
	}
}

// Close ends the spare and makes no more.
func (s *Spares) Close() {
	s.mu.Lock()
	s.closed = true
	sp := s.ready
	s.ready = nil
	if s.refill != nil {
		s.refill.Stop()
	}
	s.mu.Unlock()
	s.filler.Wait() // it starts a process, which the system bounds
	if sp != nil {
		sp.end()
	}
}
