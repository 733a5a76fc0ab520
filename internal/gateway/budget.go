package gateway

import (
	"errors"
	"io"
	"sync/atomic"
)

// Sizes of bodies, in bytes.
const (
	bodyFree   = 16 << 10  // of each one: as much as a connection costs anyway
	bodySmall  = 64 << 10  // one that is larger leaves a quarter of the budget to those that are not
	bodyBudget = 256 << 20 // of all together
	bodyGrowth = 4         // how many times more than what has arrived is claimed for the rest

	// sessionless is how large a message may be that names neither a session nor
	// the revision that has none: initialize is the only one.
	sessionless = 1 << 20
)

// A budget bounds the memory of the bodies that are being read or served, over
// all connections. Nothing waits for it.
type budget struct {
	limit int64
	used  atomic.Int64
}

// A claim is what one body holds of the budget. One that is nil holds nothing.
type claim struct {
	budget *budget
	held   int64
	owners atomic.Int32 // besides the first
}

// grow makes room for n bytes beside what is held already.
func (c *claim) grow(n int64) bool {
	limit := c.budget.limit
	if n > bodySmall {
		limit -= limit / 4
	}
	c.held += n
	if c.budget.used.Add(n) <= limit {
		return true
	}
	c.shrink(n)
	return false
}

// shrink gives n bytes back.
func (c *claim) shrink(n int64) {
	c.held -= n
	c.budget.used.Add(-n)
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
		c.shrink(c.held)
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
