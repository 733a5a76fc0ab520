package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// A Client is who a call is made for. What the server asks and logs during the
// call goes there, and nowhere else. Its methods are called by many goroutines
// at once.
type Client interface {
	// ID tells clients apart: see NewClientID.
	ID() uint64
	// Ask puts a request of the server to the client and returns the raw
	// result. Every error is a *fault.Fault: kind RPC is the client's own
	// error, Unsupported a request that the client has not declared to serve.
	// It returns when ctx ends.
	Ask(ctx context.Context, method string, params []byte) ([]byte, error)
	// Notify gets notifications that belong to the call: notifications/message,
	// and notifications/elicitation/complete, which may come later. It must not
	// block.
	Notify(method string, params []byte)
}

var clients atomic.Uint64

// NewClientID returns a number that no other client of this process has.
func NewClientID() uint64 { return clients.Add(1) }

const (
	maxAsks = 256 // requests of one server that wait for clients
)

// sharedCapabilities are what a connection for all clients is offered by
// initialize. Over Streamable HTTP the stream tells whose call a request
// belongs to. Elsewhere it is certain only while one client has calls in
// flight; roots, which servers ask for at their start and keep, are not
// offered there at all.
const (
	httpCapabilities  = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`
	otherCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}}}`
)

func (u *Upstream) capabilities() []byte {
	if u.opts.Owner != nil {
		if wire.IsObject(u.opts.Capabilities) {
			return u.opts.Capabilities
		}
		return []byte("{}")
	}
	if u.era.Transport == transport.HTTP {
		return []byte(httpCapabilities)
	}
	return []byte(otherCapabilities)
}

// serverRequest answers every request of the server: a ping with a sign of
// life, what a client can serve by way of the client whose call caused it, all
// others with a refusal. Modern servers have no requests.
func (u *Upstream) serverRequest(l *link, of int64, m *wire.Message) {
	if u.mute.Load() {
		u.ignored.Add(1)
		return
	}
	switch m.Method {
	case mcp.Ping:
		u.send(l, wire.AppendResult(nil, m.ID, nil))
	case mcp.ElicitationCreate, mcp.SamplingCreateMessage, mcp.RootsList:
		if !u.modern.Load() {
			u.forward(l, of, m)
			return
		}
		u.refuse(l, m, "protocol version 2026-07-28 has no requests of servers: answer with input_required")
	default:
		u.refuse(l, m, "this client does not serve "+m.Method)
	}
}

func (u *Upstream) refuse(l *link, m *wire.Message, text string) {
	u.send(l, wire.AppendError(nil, m.ID, mcp.CodeMethodNotFound, text, nil))
}

// forward puts a request to the client whose call it belongs to, in the
// background, and sends back what the client says.
func (u *Upstream) forward(l *link, of int64, m *wire.Message) {
	c, why := u.owner(of, m.Params)
	var listings []<-chan struct{}
	if c == nil && why == errNotTold {
		listings = u.listings()
	}
	if c == nil && len(listings) == 0 {
		u.refuse(l, m, why)
		return
	}
	ctx, cancel := context.WithCancel(u.life)
	key := string(m.ID)
	if !u.beginAsk(key, cancel) {
		cancel()
		u.refuse(l, m, "too many requests of this server wait for clients already, or one with this id does")
		return
	}
	msg := *m
	started := u.spawn(func() { // ends with the client's answer, its calls, or the upstream
		defer cancel()
		if c == nil {
			until(ctx, listings, listingWait)
			c, why = u.owner(of, msg.Params)
		}
		frame := wire.AppendError(nil, msg.ID, mcp.CodeMethodNotFound, why, nil)
		if c != nil {
			frame = u.put(ctx, c, of, &msg)
		}
		u.endAsk(key) // first: who reads the answer may use the id at once
		u.answer(l, frame)
	})
	if !started {
		cancel()
		u.endAsk(key)
	}
}

// until waits for all of these, at most for d.
func until(ctx context.Context, all []<-chan struct{}, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, over := range all {
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
	}
}

// put puts a request to the client of c, and returns the answer for the server.
// The client may have several calls out, and the one that brings the request may
// not be the one that caused it: when it is over the next one brings it.
func (u *Upstream) put(ctx context.Context, c *flown, of int64, m *wire.Message) []byte {
	u.expectComplete(c.Client, m.Params)
	for {
		try, cancel := context.WithCancel(c.ctx)
		release := context.AfterFunc(ctx, cancel)
		result, err := c.Client.Ask(try, m.Method, m.Params)
		release()
		ended := try.Err() != nil
		cancel()
		if err == nil || !ended || ctx.Err() != nil {
			return reply(ended, m, result, err)
		}
		next, _ := u.owner(of, m.Params)
		if next == nil || next.ctx.Err() != nil || next.Client.ID() != c.Client.ID() {
			return reply(ended, m, result, err)
		}
		c = next
	}
}

// answer sends the answer to a request of the server, within sendTimeout.
func (u *Upstream) answer(l *link, frame []byte) {
	ctx, cancel := context.WithTimeout(u.life, sendTimeout)
	defer cancel()
	select {
	case <-l.ready:
		_ = l.conn.Send(ctx, frame) // a link that is broken says so by itself
	case <-ctx.Done():
	}
}

// reply is what the server is told of a request that a client has, or has not,
// answered.
func reply(ended bool, m *wire.Message, result []byte, err error) []byte {
	f := fault.From(m.Method, err)
	switch {
	case f == nil && wire.IsObject(result):
		return wire.AppendResult(nil, m.ID, result)
	case f == nil:
		return wire.AppendError(nil, m.ID, mcp.CodeInternal, "the client's answer is no object", nil)
	case f.RPC != nil:
		return wire.AppendRawError(nil, m.ID, f.RPC.Raw)
	case f.Kind == fault.Unsupported:
		return wire.AppendError(nil, m.ID, mcp.CodeMethodNotFound, f.Text(), nil)
	case ended:
		return wire.AppendError(nil, m.ID, mcp.CodeInternal, "the call that this request belongs to is over, or its client has gone", nil)
	default:
		return wire.AppendError(nil, m.ID, mcp.CodeInternal, f.Text(), nil)
	}
}

func (u *Upstream) beginAsk(id string, cancel context.CancelFunc) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, dup := u.asks[id]; dup || len(u.asks) >= maxAsks {
		return false
	}
	if u.asks == nil {
		u.asks = map[string]context.CancelFunc{}
	}
	u.asks[id] = cancel
	return true
}

func (u *Upstream) endAsk(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.asks, id)
}

// withdrawn ends a request that the server has canceled; false if there is
// none with this id.
func (u *Upstream) withdrawn(rawID []byte) bool {
	u.mu.Lock()
	cancel := u.asks[string(rawID)]
	u.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel()
	return true
}

// message hands a log message to the client whose call it belongs to. One that
// belongs to no certain call goes to everybody who listens to the server, but
// not from a modern server: there each message belongs to a request.
func (u *Upstream) message(of int64, params []byte) {
	modern := u.modern.Load()
	if of != 0 || modern {
		c, _ := u.owner(of, nil)
		switch {
		case c != nil:
			c.Client.Notify(mcp.NotifyMessage, params)
			return
		case modern && of == 0 && u.calledFor():
			u.ignored.Add(1)
			return
		}
	}
	if u.opts.Log != nil {
		u.opts.Log(params)
	}
}

// expectComplete remembers who is to hear of the end of an elicitation that
// goes on outside the protocol (2025-11-25 client/elicitation, "Completion
// Notifications for URL Mode Elicitation").
func (u *Upstream) expectComplete(c Client, params []byte) {
	id, ok := wire.Text(wire.Get(params, "elicitationId"))
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.visits == nil {
		u.visits = map[string]Client{}
	}
	if len(u.visits) < maxAsks {
		u.visits[id] = c
	}
}

// completed tells the client that was asked.
func (u *Upstream) completed(params []byte) {
	id, _ := wire.Text(wire.Get(params, "elicitationId"))
	u.mu.Lock()
	c := u.visits[id]
	delete(u.visits, id)
	u.mu.Unlock()
	if c == nil {
		u.ignored.Add(1)
		return
	}
	c.Notify(mcp.NotifyElicitationDone, params)
}

// errForeign is a retry toward a server that never asked for input.
var errForeign = errors.New("requestState is not known here, or has expired: start over without requestState and inputResponses")
