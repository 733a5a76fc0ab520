package session

import (
	"bytes"
	"context"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A session is also a client: servers with a generation for it alone speak to it
// outside of its calls.

// ID is that of the client; see everline.Client.
func (s *Session) ID() uint64 { return s.client }

// Ask puts a request of a server to the client, on its standing stream or the
// stream of its newest request.
func (s *Session) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	s.mu.Lock()
	serves := s.serves
	s.mu.Unlock()
	if lacking := serves.Lacks(method, params); lacking != "" && lacking != Unnamed {
		return nil, Undeclared(method, lacking)
	}
	return s.Requests.Put(ctx, s.reachable(), nil, method, params)
}

// StandingOutlet is where the client hears what must not be lost, outside the stream of
// any request; nil if there is nothing now.
func (s *Session) StandingOutlet() Outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standingLocked()
}

func (s *Session) standingLocked() Outlet {
	if s.outbox == nil || !s.Standing.IsOpen() {
		return nil
	}
	return s.outbox
}

// reachable is where the client can be asked something now: its standing stream,
// or the stream of its newest legacy request; nil if there is none.
func (s *Session) reachable() Outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out := s.standingLocked(); out != nil {
		return out
	}
	for i := len(s.pending) - 1; i >= 0; i-- {
		if p := s.pending[i]; p.Out != nil && !p.Modern {
			return p.Out
		}
	}
	return nil
}

// Outlet is where a log message for this client goes now: its standing stream or
// connection, else the stream of its newest request; nil if it can hear nothing. Where
// the session was put away it is that of the one which goes on with it.
func (s *Session) Outlet() Outlet {
	if s.Over() {
		if now := s.store.now(s.Key); now != nil {
			return now.Outlet()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if out := s.standingLocked(); out != nil {
		return out
	}
	if n := len(s.pending); n > 0 {
		return s.pending[n-1].Out
	}
	return nil
}

// Notify passes on what a server says outside of calls: log messages from the
// level on that the client wants, and everything else.
func (s *Session) Notify(method string, params []byte) {
	if method == mcp.NotifyMessage {
		s.mu.Lock()
		level := s.level
		s.mu.Unlock()
		if rank := mcp.LevelRank(wire.Get(params, "level")); rank == 0 || level == 0 || rank < level {
			return
		}
	}
	if out := s.Outlet(); out != nil {
		out.Log(wire.AppendNotification(nil, method, params))
	}
}

// declaration is what a generation for this client alone is told that it serves.
func (s *Session) declaration() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Declared{s.offers, s.more}.Declaration()
}

// older is what the client's handshake has declared; nil for one that has shaken no
// hands, or cannot be asked.
func (s *Session) older() []byte {
	declared, _ := s.Declared()
	if declared.Asks() == 0 {
		return nil
	}
	return declared.Declaration()
}

// ListsOf are the lists that kinds of items are in, for clients.
func ListsOf(kinds []everline.Kind) (lists stream.Lists) {
	for _, k := range kinds {
		switch k {
		case everline.Tools:
			lists |= stream.Tools
		case everline.Prompts:
			lists |= stream.Prompts
		default:
			lists |= stream.Resources
		}
	}
	return lists
}

// listsChanged tells the client that lists of generations of its own have changed.
func (s *Session) listsChanged(kinds []everline.Kind) { s.Out().SendChanged(ListsOf(kinds)) }

// Offer notes what a modern request has declared, for generations of the client's own.
func (s *Session) Offer(serves Served, capabilities []byte) {
	s.mu.Lock()
	s.offers |= serves
	again := bytes.Equal(s.offered, capabilities) // each request says it
	s.mu.Unlock()
	if again {
		return
	}
	if more := moreOf(capabilities); more != nil {
		s.declareMore(more, capabilities)
		return
	}
	s.mu.Lock()
	s.offeredLocked(capabilities)
	s.mu.Unlock()
}
