package gateway

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/meter"
)

const (
	maxHeader  = 32 << 10         // bytes of a request's header
	headerTime = 10 * time.Second // what a client may take to send it
	quietTime  = 2 * time.Minute  // after which a connection without a request is closed
)

// Server returns a server for h with the bounds that every endpoint needs.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: quietTime,
		MaxHeaderBytes: maxHeader - 4<<10, // net/http takes so much more
	}
}

// Listener returns l with two bounds: one on the connections of one peer, and one
// on every write to a connection, whoever writes: a client that does not read
// loses its connection after WriteTimeout, at the latest after twice that. It is
// what the Handler's server must accept from. Setting a deadline for each answer
// would cost more than looking at the clock does, so one is moved only when it
// comes near.
func (g *Gateway) Listener(l net.Listener) net.Listener {
	return &boundListener{Listener: l, patience: g.opts.WriteTimeout, limit: g.opts.MaxPeer, meter: g.opts.Meter, byPeer: map[string]int{}}
}

type boundListener struct {
	net.Listener
	patience time.Duration
	limit    int
	meter    *meter.Endpoint

	mu     sync.Mutex // guards the rest; nothing waits under it
	byPeer map[string]int
}

// Accept turns those away that have too many connections already.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerOf(c)
		if l.enter(peer) {
			return &boundConn{Conn: c, patience: l.patience, born: time.Now(), meter: l.meter, leave: sync.OnceFunc(func() { l.leave(peer) })}, nil
		}
		turnAway(c)
	}
}

// peerOf is the address without the port.
func peerOf(c net.Conn) string {
	text := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return text
}

func (l *boundListener) enter(peer string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byPeer[peer] >= l.limit {
		return false
	}
	l.byPeer[peer]++
	return true
}

func (l *boundListener) leave(peer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byPeer[peer]--; l.byPeer[peer] == 0 {
		delete(l.byPeer, peer)
	}
}

var crowdedPeer = []byte("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n" +
	"Content-Type: text/plain\r\nContent-Length: 41\r\n\r\nToo many connections from this address.\r\n")

// turnAway closes a connection with a word of why, which takes no time: it fits
// into the buffer of a new connection. A client that is sending may not see it.
func turnAway(c net.Conn) {
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	_, _ = c.Write(crowdedPeer)
	_ = c.Close()
}

// A boundConn always has a write deadline when it is written to.
type boundConn struct {
	net.Conn
	patience time.Duration
	leave    func() // idempotent
	born     time.Time
	meter    *meter.Endpoint
	cut      atomic.Bool  // the client did not read
	awaiting atomic.Bool  // reads have a deadline that is not over
	quiet    atomic.Bool  // the client has sent nothing until such a deadline
	until    atomic.Int64 // the write deadline, since born; named for one that a writer has set itself
}

const named = 1<<63 - 1

func (c *boundConn) Write(b []byte) (int, error) {
	if need := time.Since(c.born) + c.patience; c.until.Load() < int64(need) {
		until := need + c.patience
		c.until.Store(int64(until))
		_ = c.Conn.SetWriteDeadline(c.born.Add(until)) // a connection that cannot is of no network
	}
	n, err := c.Conn.Write(b)
	c.meter.Sent.Add(uint64(n))
	if errors.Is(err, os.ErrDeadlineExceeded) && c.cut.CompareAndSwap(false, true) {
		c.meter.Slow.Add(1)
	}
	return n, err
}

func (c *boundConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.meter.Received.Add(uint64(n))
	if err != nil && c.awaiting.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		c.quiet.Store(true)
	}
	return n, err
}

// SetReadDeadline sets one, as net/http does for a request that is to come. One that
// is over already, by which it takes a read back, says nothing of the client.
func (c *boundConn) SetReadDeadline(t time.Time) error {
	c.awaiting.Store(t.After(c.born))
	return c.Conn.SetReadDeadline(t)
}

// NetConn is what is bounded.
func (c *boundConn) NetConn() net.Conn { return c.Conn }

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

func (c *boundConn) Close() error {
	c.leave()
	if c.quiet.Swap(false) {
		c.meter.Quiet.Add(1)
	}
	return c.Conn.Close()
}

// CloseWrite lets net/http end a connection so that its last answer is read.
func (c *boundConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
