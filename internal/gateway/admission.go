package gateway

import (
	"context"
	"sync"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
)

// An admission counts what is in flight on one connection that answers out of order,
// where two requests with one id could not be told apart by the client.
type admission struct {
	limit int

	mu     sync.Mutex // guards the rest; nothing waits under it
	ids    map[string]struct{}
	closed bool
	work   sync.WaitGroup // one for each of ids, and for each batch
}

// enter admits a request, or returns the answer that refuses it. That has no
// id: one with the id would be taken for the answer of the other request.
func (ad *admission) enter(m *message) *answer {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	id := string(m.msg.ID)
	if _, dup := ad.ids[id]; dup {
		return refuse(nil, mcp.CodeInvalidRequest, "Invalid request: a request with this id is in flight")
	}
	if ad.closed {
		return m.errorAnswer(mcp.CodeShuttingDown, "everline is shutting down", nil)
	}
	if len(ad.ids) >= ad.limit {
		return m.errorAnswer(mcp.CodeOverloaded, "Too many requests are in flight on this connection", nil)
	}
	if ad.ids == nil {
		ad.ids = map[string]struct{}{}
	}
	ad.ids[id] = struct{}{}
	ad.work.Add(1)
	return nil
}

// admit admits work that has no id of its own; its end is work.Done.
func (ad *admission) admit() bool {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	if !ad.closed {
		ad.work.Add(1)
	}
	return !ad.closed
}

func (ad *admission) leave(m *message) {
	ad.free(m)
	ad.work.Done()
}

func (ad *admission) free(m *message) {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	delete(ad.ids, string(m.msg.ID))
}

// drain admits nothing more and waits for what is in flight.
func (ad *admission) drain() {
	ad.mu.Lock()
	ad.closed = true
	ad.mu.Unlock()
	ad.work.Wait()
}

// serveOn serves a request whose answer goes out on its connection's stream,
// or returns the answer that refuses it.
func (g *Gateway) serveOn(ctx context.Context, x *exchange, ad *admission, out *stream.Outbox) *answer {
	if x.sess != nil && !x.modern {
		x.sess.heard(x.msg.Method, true)
	}
	if bad := ad.enter(x.message); bad != nil {
		return bad
	}
	x.out, x.tracked = out, true
	// Registered here, so that a cancel that comes right behind finds it.
	ctx, p, err := g.inflight.begin(ctx, x)
	if err != nil {
		ad.leave(x.message)
		a := x.failure(fault.From(x.msg.Method, err))
		return &a
	}
	x.held.keep()
	go func() { // ends with its request; the admission's drain waits for it
		defer x.held.release()
		defer ad.work.Done()
		defer g.inflight.end(p)
		a := g.serve(ctx, x)
		ad.free(x.message) // first: who reads the answer may use the id at once
		if !a.silent {
			out.Send(a.frame())
		}
	}()
	return nil
}
