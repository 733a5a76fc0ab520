package stdio

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/transport"
)

// A injectedOut is a child's stdout behind the injector. Reads are the
// reader's alone.
type injectedOut struct {
	src      *os.File
	injector *transport.Injector
	gone     <-chan struct{} // the link has ended

	closed  atomic.Bool // the injector has ended the stream
	midLine bool        // what was read last did not end a line
	left    []byte      // read, and not handed on
}

// Read implements io.Reader.
func (r *injectedOut) Read(p []byte) (int, error) {
	if len(r.left) > 0 {
		n := copy(p, r.left)
		r.left = r.left[n:]
		return n, nil
	}
	n, err := r.src.Read(p)
	if err != nil && r.closed.Load() {
		return 0, io.EOF // as from a server that has closed it
	}
	begins := !r.midLine
	if n > 0 {
		r.midLine = p[n-1] != '\n'
	}
	t := r.injector.Now()
	switch {
	case t == nil || n == 0:
	case t.Kind == transport.BreakHang:
		select {
		case <-t.Over():
		case <-r.gone:
		}
	case t.Kind == transport.BreakGarbage && begins:
		r.left = append([]byte(transport.Garbage+"\n"), p[:n]...)
		n = copy(p, r.left)
		r.left = r.left[n:]
	}
	return n, err
}

// end ends the stream: a read that waits returns at once.
func (r *injectedOut) end() {
	r.closed.Store(true)
	if r.src.SetReadDeadline(time.Unix(1, 0)) != nil {
		_ = r.src.Close() // there are no deadlines here
	}
}

// output puts stdout behind the injector, if there is one.
func (c *conn) output() {
	c.out = c.stdout
	if c.injector != nil {
		c.injected = &injectedOut{src: c.stdout, injector: c.injector, gone: c.mux.Done()}
		c.out = c.injected
	}
}

func (c *conn) Fits(b transport.Breakage) error {
	if b == transport.BreakForget {
		return fmt.Errorf("%w, and this server speaks over its standard streams", transport.ErrNoSessions)
	}
	return nil
}

// Inject is met when the link ends.
func (c *conn) Inject(b transport.Breakage) (observed <-chan struct{}, hit bool) {
	if closed(c.proc.exited) {
		return nil, false // its number may be another's by now
	}
	switch b {
	case transport.BreakKill:
		c.proc.group.kill()
	case transport.BreakDrop:
		c.injected.end()
	default:
		return nil, false
	}
	return c.mux.Done(), true
}
