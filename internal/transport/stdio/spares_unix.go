//go:build unix

package stdio

import (
	"errors"
	"os"
	"time"
)

// A spare is a shim that has no order yet. One goroutine watches it, and ends
// when the spare is taken or has died.
type spare struct {
	link    *shimLink
	watched chan struct{} // closed when the goroutine has ended
	dead    bool          // valid then
}

// newSpare starts a shim; nil if there is none to be had.
func newSpare() *spare {
	program := shimProgram()
	if program == "" {
		return nil
	}
	link, err := startShim(program)
	if err != nil {
		return nil
	}
	s := &spare{link: link, watched: make(chan struct{})}
	go s.watch()
	return s
}

// watch reaps the spare if somebody ends it. A shim without an order reports
// nothing, so that the read ends with the shim, or at its deadline.
func (s *spare) watch() {
	defer close(s.watched)
	_, err := s.link.status.Read(make([]byte, 1))
	if s.dead = !errors.Is(err, os.ErrDeadlineExceeded); s.dead {
		s.link.giveUp()
	}
}

// take ends the watching and returns the shim; nil if it has died.
func (s *spare) take() *shimLink {
	_ = s.link.status.SetReadDeadline(time.Now()) // fails where the spare is dead
	<-s.watched
	if s.dead {
		return nil
	}
	return s.link
}

// end ends the spare and reaps it.
func (s *spare) end() {
	if link := s.take(); link != nil {
		link.giveUp()
	}
}
