package gateway

import (
	"context"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A session is also a client: servers with a generation for it alone speak to it
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
	return s.requests.put(ctx, s.reachable(), nil, method, params)
}

// standingOutlet is where the client hears what must not be lost, outside the stream of
// any request; nil if there is nothing now.
func (s *session) standingOutlet() outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standingLocked()
}

func (s *session) standingLocked() outlet {
	if s.outbox == nil || !s.standing.IsOpen() {
		return nil
	}
	return s.outbox
}

// reachable is where the client can be asked something now: its standing stream,
// or the stream of its newest legacy request; nil if there is none.
func (s *session) reachable() outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out := s.standingLocked(); out != nil {
		return out
	}
	for i := len(s.pending) - 1; i >= 0; i-- {
		if p := s.pending[i]; p.out != nil && !p.modern {
			return p.out
		}
	}
	return nil
}

// outlet is where a log message for this client goes now: its standing stream or
// connection, else the stream of its newest request; nil if it can hear nothing.
func (s *session) outlet() outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out := s.standingLocked(); out != nil {
		return out
	}
	if n := len(s.pending); n > 0 {
		return s.pending[n-1].out
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
	if out := s.outlet(); out != nil {
		out.Log(wire.AppendNotification(nil, method, params))
	}
}

// declaration is what a generation for this client alone is told that it serves.
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
