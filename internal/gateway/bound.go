package gateway

import (
	"net"
	"sync/atomic"
	"time"
)

// Listener returns l with a bound on every write to a connection, whoever
// writes: a client that does not read loses its connection after WriteTimeout,
// at the latest after twice that. It is what the Handler's server must accept
// from. Setting a deadline for each answer would cost more than looking at the
// clock does, so one is moved only when it comes near.
func (g *Gateway) Listener(l net.Listener) net.Listener { return boundListener{l, g.opts.WriteTimeout} }

type boundListener struct {
	net.Listener
	patience time.Duration
}

func (l boundListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &boundConn{Conn: c, patience: l.patience, born: time.Now()}, nil
}

// A boundConn always has a write deadline when it is written to.
type boundConn struct {
	net.Conn
	patience time.Duration
	born     time.Time
	until    atomic.Int64 // the write deadline, since born; named for one that a writer has set itself
}

const named = 1<<63 - 1

func (c *boundConn) Write(b []byte) (int, error) {
	if need := time.Since(c.born) + c.patience; c.until.Load() < int64(need) {
		until := need + c.patience
		c.until.Store(int64(until))
		_ = c.Conn.SetWriteDeadline(c.born.Add(until)) // a connection that cannot is of no network
	}
	return c.Conn.Write(b)
}

// SetWriteDeadline sets a deadline that holds until it is taken back by a zero
// one, as net/http does behind each request.
func (c *boundConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.until.CompareAndSwap(named, 0) // the next write sets one
		return nil
	}
	c.until.Store(named)
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite lets net/http end a connection so that its last answer is read.
func (c *boundConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
