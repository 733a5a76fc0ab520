package gateway

import (
	"context"
	"sync/atomic"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/wire"
)

// A caller is the client of one request to a server, as the server sees it: it is
// the request's everline.Client.
type caller struct {
	*exchange
	id     uint64
	serves session.Declared // of a modern client what servers may ask it for: its requests say the rest
	level  int              // log messages from this severity on are wanted; 0 none

	late    atomic.Bool            // the answer was a task: what belongs to the request may come later
	missing atomic.Pointer[string] // of a modern client: what was asked for first and is not declared
}

// caller says who a request is made for. uses is the session whose generations of
// servers may serve it; nil for none.
func (x *exchange) caller(uses *session.Session) *caller {
	c := &caller{exchange: x}
	if !x.Modern && x.sess != nil {
		c.id = x.sess.ID()
		c.serves, c.level = x.sess.Declared()
		return c
	}
	c.serves.Served = session.ReadServed(x.Fields.Meta.Capabilities)
	if x.Modern {
		c.level = mcp.LevelRank(x.Fields.Meta.LogLevel)
	}
	switch {
	case uses != nil:
		c.id = uses.ID()
		uses.Offer(c.serves.Served, x.Fields.Meta.Capabilities)
	case x.client != 0:
		c.id = x.client
	default: // its connection does not tell
		c.id = door.NewClientID()
	}
	return c
}

// ID tells the clients of calls apart; see everline.Client.
func (c *caller) ID() uint64 { return c.id }

// Ask puts a request of a server to the client; one of an extension as well, which a
// client that does not know it refuses. A modern client is not asked: what it would
// have to declare is noted.
func (c *caller) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	lacking := c.serves.Lacks(method, params)
	if c.Modern || lacking != "" && lacking != session.Unnamed {
		c.miss(lacking)
		return nil, session.Undeclared(method, lacking)
	}
	out := c.out
	if out == nil {
		out = c.sess.StandingOutlet()
	}
	span, params := askSpan(ctx, method, params)
	if span != nil {
		ctx = tracing.With(ctx, span)
	}
	answer, err := c.sess.Requests.Put(ctx, out, c.gone, method, params)
	if span != nil {
		span.Peer = c.asker()
		span.Done(err)
	}
	return answer, err
}

// miss notes what a modern client was asked for first and has not declared.
func (c *caller) miss(lacking string) {
	if lacking != session.Unnamed {
		c.missing.CompareAndSwap(nil, &lacking)
	}
}

// Notify passes on what a server says during the call: log messages from the
// level on that the client wants, and everything else.
func (c *caller) Notify(method string, params []byte) {
	if method == mcp.NotifyMessage {
		if rank := mcp.LevelRank(wire.Get(params, "level")); rank == 0 || c.level == 0 || rank < c.level {
			return
		}
	}
	out := c.out
	if !c.Modern && (out == nil || method != mcp.NotifyMessage) {
		if now := c.sess.Outlet(); now != nil {
			out = now // it may come when the request is over
		}
	}
	if out != nil {
		out.Log(wire.AppendNotification(nil, method, params))
	}
}

// progress forwards one progress notification. It carries the client's own
// token, whatever is in params: two clients may have chosen the same one.
func (c *caller) progress(params []byte) {
	params = wire.Set(params, c.Fields.Meta.ProgressToken, "progressToken")
	out := c.out
	if c.late.Load() && c.sess != nil {
		if out = c.sess.Outlet(); out == nil {
			return
		}
	}
	out.Log(wire.AppendNotification(nil, mcp.NotifyProgress, params))
}

// fill fills in what a server is told of the caller's wishes.
func (c *caller) fill(out *everline.Call) {
	out.LogLevel = mcp.Levels[c.level]
	if c.wantsProgress() {
		out.Progress = c.progress
	}
}
