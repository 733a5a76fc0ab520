package authserver

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipe returns the ends of a connection whose writes never wait, so that nobody
// holds a lock while it waits for a reader: a bubble could not tell that nothing
// goes on.
func pipe(addr string) (a, b net.Conn) {
	one, two := newStream(), newStream()
	return &end{in: one, out: two, addr: name(addr)}, &end{in: two, out: one, addr: name(addr)}
}

// stream is one direction.
type stream struct {
	mu       sync.Mutex // guards the rest
	buf      []byte
	closed   bool
	deadline time.Time
	changed  chan struct{} // closed and replaced by whoever changes something
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

func (s *stream) change(f func()) {
	s.mu.Lock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

func (s *stream) read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n := copy(p, s.buf)
		s.buf = s.buf[n:]
		closed, deadline, changed := s.closed, s.deadline, s.changed
		s.mu.Unlock()
		var limit <-chan time.Time
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, io.EOF
		case !deadline.IsZero():
			left := time.Until(deadline)
			if left <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			limit = time.After(left)
		}
		select {
		case <-changed:
		case <-limit:
		}
	}
}

// end is one end of a connection.
type end struct {
	in, out *stream
	addr    name
}

func (e *end) Read(p []byte) (int, error) { return e.in.read(p) }

func (e *end) Write(p []byte) (n int, err error) {
	e.out.change(func() {
		if e.out.closed {
			err = io.ErrClosedPipe
			return
		}
		e.out.buf = append(e.out.buf, p...)
		n = len(p)
	})
	return n, err
}

func (e *end) Close() error {
	for _, s := range []*stream{e.in, e.out} {
		s.change(func() { s.closed = true })
	}
	return nil
}

func (e *end) LocalAddr() net.Addr  { return e.addr }
func (e *end) RemoteAddr() net.Addr { return e.addr }

func (e *end) SetReadDeadline(t time.Time) error {
	e.in.change(func() { e.in.deadline = t })
	return nil
}

func (e *end) SetDeadline(t time.Time) error    { return e.SetReadDeadline(t) }
func (e *end) SetWriteDeadline(time.Time) error { return nil }
