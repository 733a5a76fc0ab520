package upstream

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

const maxPending = 256 // requests of one server that wait for clients

// serverRequests are what a server asks of clients: each request goes to the
// client whose call caused it, and to no other. What it logs goes the same way.
type serverRequests struct {
	*core
	callers *callers
	modern  atomic.Bool // the server is of the modern era; set once the handshake is over
	mute    atomic.Bool // requests of the server cannot be answered: modern Streamable HTTP

	mu              sync.Mutex                    // guards the rest; nothing waits under it
	pending         map[string]context.CancelFunc // by raw id
	urlElicitations map[string]Client             // who was sent to a URL, by elicitation id
}

// begin is the end of the handshake.
func (s *serverRequests) begin() {
	s.modern.Store(s.era.Modern)
	s.mute.Store(s.era.Modern && s.era.Transport == transport.HTTP)
}

// handle answers every request of the server: a ping with a sign of
// life, what a client may serve by way of the client whose call caused it, those of
// extensions included. Modern servers have no requests.
func (s *serverRequests) handle(l *link, stream int64, m *wire.Message) {
	if s.mute.Load() {
		s.ignored.Add(1)
		return
	}
	switch m.Method {
	case mcp.Ping:
		s.send(l, wire.AppendResult(nil, m.ID, nil))
	case mcp.ElicitationCreate, mcp.SamplingCreateMessage, mcp.RootsList:
		if !s.modern.Load() {
			s.forward(l, stream, m)
			return
		}
		if s.opts.Asked != nil {
			s.opts.Asked()
		}
		s.refuse(l, m, "protocol version 2026-07-28 has no requests of servers: answer with input_required")
	default:
		if s.modern.Load() || strings.HasPrefix(m.Method, "tasks/") { // everline declares no tasks of clients
			s.refuse(l, m, "this client does not serve "+m.Method)
			return
		}
		s.forward(l, stream, m)
	}
}

func (s *serverRequests) refuse(l *link, m *wire.Message, text string) {
	s.send(l, wire.AppendError(nil, m.ID, mcp.CodeMethodNotFound, text, nil))
}

// forward puts a request to the client whose call it belongs to, in the
// background, and sends back what the client says.
func (s *serverRequests) forward(l *link, stream int64, m *wire.Message) {
	c, why := s.callers.owner(stream, m.Params)
	var listings []<-chan struct{}
	if c == nil && why == errNotTold {
		listings = s.callers.listings()
	}
	if c == nil && len(listings) == 0 {
		s.refuse(l, m, why)
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	key := string(m.ID)
	if !s.track(key, cancel) {
		cancel()
		s.refuse(l, m, "too many requests of this server wait for clients already, or one with this id does")
		return
	}
	msg := *m
	started := s.spawn(func() { // ends with the client's answer, its calls, or the upstream
		defer cancel()
		if c == nil {
			until(ctx, listings, listingWait)
			c, why = s.callers.owner(stream, msg.Params)
		}
		frame := wire.AppendError(nil, msg.ID, mcp.CodeMethodNotFound, why, nil)
		if c != nil {
			frame = s.put(ctx, c, stream, &msg)
		}
		s.untrack(key) // first: who reads the answer may use the id at once
		s.answer(l, frame)
	})
	if !started {
		cancel()
		s.untrack(key)
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
func (s *serverRequests) put(ctx context.Context, c *inflight, stream int64, m *wire.Message) []byte {
	s.expectComplete(c.Client, m.Params)
	for {
		try, cancel := context.WithCancel(c.ctx)
		release := context.AfterFunc(ctx, cancel)
		ask, span := s.asked(try, c, m)
		result, err := c.Client.Ask(ask, m.Method, m.Params)
		if span != nil {
			span.Done(err)
		}
		release()
		ended := try.Err() != nil
		cancel()
		if err == nil || !ended || ctx.Err() != nil {
			return reply(ended, m, result, err)
		}
		next, _ := s.callers.owner(stream, m.Params)
		if next == nil || next.ctx.Err() != nil || next.Client.ID() != c.Client.ID() {
			return reply(ended, m, result, err)
		}
		c = next
	}
}

// asked begins the span of a request of the server, where its call has one: below
// what the server says that it stands below, if that is of the same trace.
func (s *serverRequests) asked(ctx context.Context, c *inflight, m *wire.Message) (context.Context, *tracing.Span) {
	if c.Span == nil {
		return ctx, nil
	}
	span := c.Span.Trace().Below(c.Span, tracing.Server)
	if text, ok := wire.Text(wire.Get(m.Params, "_meta", mcp.MetaTraceParent)); ok {
		if parent, ok := tracing.Parse([]byte(text)); ok {
			span.Follow(parent)
		}
	}
	span.Method, span.RequestID, span.Peer = m.Method, tracing.RequestID(m.ID), c.Span.Peer
	span.Server, span.Generation, span.Began = s.opts.Server.Name, s.opts.Gen, time.Now()
	return tracing.With(ctx, span), span
}

// answer sends the answer to a request of the server, within sendTimeout.
func (s *serverRequests) answer(l *link, frame []byte) {
	ctx, cancel := context.WithTimeout(s.ctx, sendTimeout)
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
		return wire.AppendError(nil, m.ID, mcp.CodeMethodNotFound, f.Reason(), nil)
	case ended:
		return wire.AppendError(nil, m.ID, mcp.CodeInternal, "the call that this request belongs to is over, or its client has gone", nil)
	default:
		return wire.AppendError(nil, m.ID, mcp.CodeInternal, f.Reason(), nil)
	}
}

func (s *serverRequests) track(id string, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, dup := s.pending[id]; dup || len(s.pending) >= maxPending {
		return false
	}
	if s.pending == nil {
		s.pending = map[string]context.CancelFunc{}
	}
	s.pending[id] = cancel
	return true
}

func (s *serverRequests) untrack(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

// withdrawn ends a request that the server has canceled; false if there is
// none with this id.
func (s *serverRequests) withdrawn(rawID []byte) bool {
	s.mu.Lock()
	cancel := s.pending[string(rawID)]
	s.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel()
	return true
}

// message hands a log message to the client whose call it belongs to. One that
// belongs to no certain call goes to everybody who listens to the server, but
// not from a modern server: there each message belongs to a request. On the one
// connection of an older server a call that names its level hears it as well.
func (s *serverRequests) message(stream int64, params []byte) {
	modern := s.modern.Load()
	if stream != 0 || modern {
		c, _ := s.callers.owner(stream, nil)
		switch {
		case c != nil:
			c.Client.Notify(mcp.NotifyMessage, params)
			return
		case modern && stream == 0 && s.callers.calledFor():
			s.ignored.Add(1)
			return
		}
	} else if c := s.callers.listener(); c != nil {
		c.Client.Notify(mcp.NotifyMessage, params)
	}
	if s.opts.Log != nil {
		s.opts.Log(params)
	}
}

// expectComplete remembers who is to hear of the end of an elicitation that
// goes on outside the protocol (2025-11-25 client/elicitation, "Completion
// Notifications for URL Mode Elicitation").
func (s *serverRequests) expectComplete(c Client, params []byte) {
	id, ok := wire.Text(wire.Get(params, "elicitationId"))
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.urlElicitations == nil {
		s.urlElicitations = map[string]Client{}
	}
	if len(s.urlElicitations) < maxPending {
		s.urlElicitations[id] = c
	}
}

// completed tells the client that was asked.
func (s *serverRequests) completed(params []byte) {
	id, _ := wire.Text(wire.Get(params, "elicitationId"))
	s.mu.Lock()
	c := s.urlElicitations[id]
	delete(s.urlElicitations, id)
	s.mu.Unlock()
	if c == nil {
		s.ignored.Add(1)
		return
	}
	c.Notify(mcp.NotifyElicitationDone, params)
}
