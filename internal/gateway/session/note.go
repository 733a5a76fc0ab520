package session

import (
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/sessions"
	"github.com/everline/everline/internal/wire"
)

// recall takes over what a note says that the client has declared, and is subscribed to,
// until the servers know it. Others do not see the session yet.
func (s *Session) recall(note sessions.Note) {
	if declared := []byte(note.Declared); wire.Valid(declared) {
		s.more = moreOf(declared)
	}
	if uris := note.Subscriptions; len(uris) > 0 {
		s.returning = map[string]bool{}
		for _, uri := range uris[:min(len(uris), stream.MaxSubscribed)] {
			s.returning[uri] = true
		}
	}
}

func (s *Session) stillReturning() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var uris []string
	for uri := range s.returning {
		uris = append(uris, uri)
	}
	return uris
}

// Remember notes what the client has asked for and declared by now.
func (s *Session) Remember() {
	if !s.outlives {
		return
	}
	s.noting.Lock()
	defer s.noting.Unlock()
	s.mu.Lock()
	note := sessions.Note{Level: mcp.Levels[s.level], Declared: string(s.more)}
	for uri := range s.subs {
		note.Subscriptions = append(note.Subscriptions, uri)
	}
	for uri := range s.returning {
		if s.subs[uri] == nil {
			note.Subscriptions = append(note.Subscriptions, uri)
		}
	}
	ended := s.ended
	s.mu.Unlock()
	if !ended {
		s.store.o.Kept.SetNote(s.kept, note)
	}
}

// conclude makes the end of the session one for good: its id opens nothing any
// more. It does not wait; keep writes that down.
func (s *Session) conclude() (keep func()) {
	if !s.outlives {
		return func() {}
	}
	written := s.store.o.Kept.End(s.kept)
	return func() {
		s.noting.Lock()
		defer s.noting.Unlock()
		written()
	}
}
