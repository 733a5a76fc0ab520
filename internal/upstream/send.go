package upstream

import (
	"context"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

const (
	sendTimeout  = 10 * time.Second       // for a notification or an answer of ours
	farewellTime = 500 * time.Millisecond // for what is on its way when Close begins
	maxSends     = 512                    // notifications and answers that may be on their way at a time
)

// send writes a frame in the background, within sendTimeout. What is over the
// bound of sends on their way is dropped: the peer reads nothing then.
func (c *core) send(l *link, frame []byte) { c.sendThen(l, frame, func() {}) }

// sendThen is send, and calls then, which does not wait, when the frame was
// written.
func (c *core) sendThen(l *link, frame []byte, then func()) {
	c.mu.Lock()
	full := c.sends >= maxSends
	if !full {
		c.sends++
	}
	c.mu.Unlock()
	if full {
		c.ignored.Add(1)
		return
	}
	started := c.spawn(func() { // ends within sendTimeout, or when the upstream does
		defer c.sent()
		ctx, cancel := context.WithTimeout(c.ctx, sendTimeout)
		defer cancel()
		select {
		case <-l.ready:
			if l.conn.Send(ctx, frame) == nil { // a link that is broken says so by itself
				then()
			}
		case <-ctx.Done():
		}
	})
	if !started {
		c.sent()
	}
}

func (c *core) sent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sends--
	c.sentLocked()
}

// sentLocked tells Close when the last send is over.
func (c *core) sentLocked() {
	if c.unsent == nil || c.sends > 0 {
		return
	}
	select {
	case <-c.unsent:
	default:
		close(c.unsent)
	}
}

// farewell lets what is on its way be written before the link is closed: the
// cancel of the last call, which a server would else never hear of.
func (c *core) farewell(ctx context.Context) {
	limit := time.NewTimer(farewellTime)
	defer limit.Stop()
	select {
	case <-c.unsent:
	case <-limit.C:
	case <-ctx.Done():
	case <-c.ctx.Done(): // the server does not read
	case <-c.link.conn.Done():
	}
}

// shut begins the end: nothing is spawned any more.
func (c *core) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.unsent == nil {
		c.unsent = make(chan struct{})
		c.sentLocked()
	}
}

// Notify writes a notification of a client. A server of 2026-07-28 gets none: that revision
// has no notification of clients but the cancel.
func (u *Upstream) Notify(ctx context.Context, method string, params []byte) error {
	if u.era.Modern {
		f := fault.New(fault.Unsupported, method, "the server takes no such notification")
		f.Outcome = fault.NotSent
		return u.blame(method, f)
	}
	if err := u.link.conn.Send(ctx, wire.AppendNotification(nil, method, params)); err != nil {
		return u.blame(method, err)
	}
	return nil
}

// sendCancelled tells the server that a request of ours was given up, and calls
// then, which does not wait, when that was written.
func (c *core) sendCancelled(id int64, reason string, then func()) {
	params := wire.AppendInt([]byte(`{"requestId":`), id)
	params = wire.AppendString(append(params, `,"reason":`...), reason)
	c.sendThen(c.link, wire.AppendNotification(nil, mcp.NotifyCancelled, append(params, '}')), then)
}
