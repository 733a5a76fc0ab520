package gateway

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Sizes of bodies, in bytes.
const (
	bodyFree   = 16 << 10  // of each one: as much as a connection costs anyway
	bodySmall  = 64 << 10  // one that is larger leaves a quarter of the budget to those that are not
	bodyBudget = 256 << 20 // of all together
	bodyUnread = 24 << 20  // of those together that are still on their way; one that is larger comes alone
	bodyAlone  = 4 << 20   // and alone is a body beside others of so much together
	bodyGrowth = 4         // how many times more than what has arrived is claimed for the rest

	// sessionless is how large a message may be that names neither a session nor
	// the revision that has none: initialize is the only one.
	sessionless = 1 << 20
)

// bodyWait is how long a body waits for others to have come. Those of a client that
// sends come within milliseconds; who declares much and sends nothing is in nobody's
// way for longer.
const bodyWait = 5 * time.Second

// A budget bounds the memory of the bodies that are being read or served, over
// all connections. Nothing waits for what is served.
type budget struct {
	limit int64
	used  atomic.Int64

	mu     sync.Mutex    // guards the rest; nothing waits under it
	unread int64         // of the bodies that are still being read
	came   chan struct{} // closed, and another one made, when that has become less; nil before somebody waits
}

// enter makes room for n bytes of a body that is being read beside own ones of it;
// else it returns what to wait for.
func (b *budget) enter(own, n int64) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if others := b.unread - own; b.unread+n <= bodyUnread || others <= bodyAlone {
		b.unread += n
		return nil
	}
	if b.came == nil {
		b.came = make(chan struct{})
	}
	return b.came
}

// leave gives back what enter has made room for.
func (b *budget) leave(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unread -= n
	if b.came != nil && n > 0 {
		close(b.came)
		b.came = nil
	}
}

// A claim is what one body holds of the budget. One that is nil holds nothing.
type claim struct {
	budget *budget
	held   int64
	unread int64        // of held, until the body has come
	owners atomic.Int32 // besides the first
}

// grow makes room for n bytes of a body that is being read, beside what is held
// already. It waits within bodyWait for other bodies to have come.
func (c *claim) grow(n int64) bool {
	limit := c.budget.limit
	if n > bodySmall {
		limit -= limit / 4
	}
	c.held += n
	if c.budget.used.Add(n) > limit || !c.await(n) {
		c.held -= n
		c.budget.used.Add(-n)
		return false
	}
	c.unread += n
	return true
}

func (c *claim) await(n int64) bool {
	came := c.budget.enter(c.unread, n)
	if came == nil {
		return true
	}
	patience := time.NewTimer(bodyWait)
	defer patience.Stop()
	for came != nil {
		select {
		case <-came:
			came = c.budget.enter(c.unread, n)
		case <-patience.C:
			return false
		}
	}
	return true
}

// shrink gives n bytes of a body that is being read back.
func (c *claim) shrink(n int64) {
	c.held -= n
	c.budget.used.Add(-n)
	c.unread -= n
	c.budget.leave(n)
}

// read notes that the body has come, or comes no more. A nil claim holds nothing.
func (c *claim) read() {
	if c != nil {
		c.budget.leave(c.unread)
		c.unread = 0
	}
}

// keep makes the caller another owner: of a message that is served beyond its
// exchange.
func (c *claim) keep() {
	if c != nil {
		c.owners.Add(1)
	}
}

// release is the end of one owner. The last one gives all back.
func (c *claim) release() {
	if c != nil && c.owners.Add(-1) < 0 {
		c.budget.used.Add(-c.held)
		c.held = 0
	}
}

// errCrowded is why a body is not read to its end.
var errCrowded = errors.New("no room for the body")

// readBody reads a body of the declared length, -1 if none was declared; r ends
// at the limit. The buffer grows with what really arrives, and the claim with it.
// A body of at most bodyFree needs none.
func readBody(r io.Reader, length, limit int64, c *claim) ([]byte, error) {
	if length >= 0 && length <= bodyFree {
		buf := make([]byte, length)
		_, err := io.ReadFull(r, buf)
		return buf, err
	}
	most := length
	if length < 0 {
		most = limit + 1 // so that a full buffer is not the end
	}
	buf := make([]byte, 0, bodyFree)
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) == length:
			return buf, nil
		case err == nil: // the buffer is full
		case length < 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			return buf, nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
		old := int64(cap(buf))
		size := min(old*bodyGrowth, most)
		if !c.grow(size) {
			return nil, errCrowded
		}
		buf = append(make([]byte, 0, size), buf...)
		if old > bodyFree {
			c.shrink(old)
		}
	}
}
