package transport

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/wire"
)

// A faultyOut is a child's stdout behind the fault layer. Reads are the
// reader's alone.
type faultyOut struct {
	src    *os.File
	faults *Faults
	gone   <-chan struct{} // the link has ended

	closed  atomic.Bool // the layer has ended the stream
	midLine bool        // what was read last did not end a line
	left    []byte      // read, and not handed on
}

// Read implements io.Reader.
func (r *faultyOut) Read(p []byte) (int, error) {
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
	t := r.faults.now()
	switch {
	case t == nil || n == 0:
	case t.kind == BreakHang:
		select {
		case <-t.over:
		case <-r.gone:
		}
	case t.kind == BreakGarbage && begins:
		r.left = append([]byte(garbage+"\n"), p[:n]...)
		n = copy(p, r.left)
		r.left = r.left[n:]
	}
	return n, err
}

// end ends the stream: a read that waits returns at once.
func (r *faultyOut) end() {
	r.closed.Store(true)
	if r.src.SetReadDeadline(time.Unix(1, 0)) != nil {
		_ = r.src.Close() // there are no deadlines here
	}
}

// output puts stdout behind the fault layer, if there is one.
func (c *stdioConn) output() {
	c.out = c.stdout
	if c.mux.faults != nil {
		c.faulty = &faultyOut{src: c.stdout, faults: c.mux.faults, gone: c.mux.done}
		c.out = c.faulty
	}
}

func (c *stdioConn) fits(b Breakage) error {
	if b == BreakForget {
		return fmt.Errorf("%w, and this server speaks over its standard streams", errNoSessions)
	}
	return nil
}

// strike is met when the link ends.
func (c *stdioConn) strike(b Breakage) (felt <-chan struct{}, hit bool) {
	if closed(c.proc.exited) {
		return nil, false // its number may be another's by now
	}
	switch b {
	case BreakKill:
		c.proc.group.kill()
	case BreakDrop:
		c.faulty.end()
	default:
		return nil, false
	}
	return c.mux.done, true
}

// answer is settle behind the fault layer: a slow server's answer comes later,
// whatever else the server says. An answer that comes after the end of the
// link finds nobody who waits.
func (m *linkMux) answer(msg wire.Message) {
	if t := m.faults.lasting(BreakSlow); t != nil {
		time.AfterFunc(t.delay, func() { m.settle(msg) })
		return
	}
	m.settle(msg)
}
