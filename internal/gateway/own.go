package gateway

import (
	"context"
	"strconv"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// namedPrefix begins the keys of named sessions in the table. No header can
// hold it at its begin, so no session id is one.
const namedPrefix = " "

// A stay is the use that one call makes of the lives that serve it.
type stay struct {
	sess *session // whose lives they are; nil: they are of this call alone
	end  func()
	kept bool // a task lives on, and ends it; valid where sess is nil
}

// over is the end of the call.
func (s *stay) over() {
	if !s.kept {
		s.end()
	}
}

// stay says whose lives serve a modern call.
func (g *Gateway) stay(rq *request, c *everline.Call) (*stay, error) {
	if rq.sess != nil {
		c.Session = &rq.sess.own
		return &stay{sess: rq.sess, end: func() {}}, nil
	}
	if rq.fields.meta.session == nil {
		c.Session = &everline.Session{Client: rq, Capabilities: rq.serves.declaration}
		return &stay{end: c.Session.End}, nil
	}
	s, err := g.named(rq)
	if err != nil {
		return nil, err
	}
	s.offer(rq.serves)
	rq.client, c.Session = s.client, &s.own
	c.Params = wire.Delete(c.Params, "_meta", mcp.MetaSession) // whoever knows it can use the lives
	return &stay{sess: s, end: func() { g.table.unpin(s) }}, nil
}

// named returns the pinned session that a modern request names, a new one where
// there is none.
func (g *Gateway) named(rq *request) (*session, error) {
	name, ok := wire.Text(rq.fields.meta.session)
	if !ok || len(name) < leastResultID || len(name) > mostResultID {
		f := fault.New(fault.Invalid, rq.msg.Method, mcp.MetaSession+" must be an unguessable string of "+
			strconv.Itoa(leastResultID)+" to "+strconv.Itoa(mostResultID)+" characters")
		f.Outcome = fault.NotSent
		return nil, f
	}
	if s := g.table.pin(namedPrefix + name); s != nil {
		return s, nil
	}
	s := g.newSession(mcp.ModernVersion)
	if s = g.table.addAs(s, namedPrefix+name); s == nil {
		f := fault.New(fault.Overloaded, rq.msg.Method, "too many sessions are in use")
		f.Outcome = fault.NotSent
		return nil, f
	}
	return s, nil
}

// pinNamed is named for a session that need not be there; nil if it is not.
func (g *Gateway) pinNamed(rq *request) *session {
	name, ok := wire.Text(rq.fields.meta.session)
	if !ok {
		return nil
	}
	return g.table.pin(namedPrefix + name)
}

// endNamed ends a named session: its client has said that it is gone.
func (g *Gateway) endNamed(name string) {
	s := g.table.pin(namedPrefix + name)
	if s == nil {
		return
	}
	defer g.table.unpin(s)
	g.table.remove(s)
	g.parks.forget(s.client)
}

// A session is also a client: servers with a life for it alone speak to it
// outside of its calls.

// ID is that of the client; see everline.Client.
func (s *session) ID() uint64 { return s.client }

// Ask puts a request of a server to the client, on its standing stream or the
// stream of its newest request.
func (s *session) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	s.mu.Lock()
	serves := s.serves
	s.mu.Unlock()
	if lacking := serves.lacks(method, params); lacking != "" {
		return nil, undeclared(method, lacking)
	}
	return s.put(ctx, s.anyTell(), nil, method, params)
}

// anyTell is a way to tell the client something now; nil if there is none.
func (s *session) anyTell() func(frame []byte) {
	if tell := s.standingTell(); tell != nil {
		return tell
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.flights) - 1; i >= 0; i-- {
		if s.flights[i].tell != nil {
			return s.flights[i].tell
		}
	}
	return nil
}

// Notify passes on what a server says outside of calls: log messages from the
// level on that the client wants, and everything else.
func (s *session) Notify(method string, params []byte) {
	if method == mcp.NotifyMessage {
		s.mu.Lock()
		level := s.level
		s.mu.Unlock()
		if rank := mcp.LevelRank(wire.Get(params, "level")); rank == 0 || level == 0 || rank < level {
			return
		}
	}
	if emit := s.logSink(); emit != nil {
		emit(wire.AppendNotification(nil, method, params))
	}
}

// declaration is what a life for this client alone is told that it serves.
func (s *session) declaration() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offers.declaration()
}

// offer notes what a modern request has declared.
func (s *session) offer(serves served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offers |= serves
}
