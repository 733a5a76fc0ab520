package session

import (
	"sync"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// levels knows which sessions want log messages, and keeps the servers at the
// lowest level that any of them wants.
type levels struct {
	set func(level string) // Backend.SetLevel, which does not wait

	mu   sync.Mutex // guards the rest and the order of calls of set; ordered before session.mu
	want map[*Session]int
	now  int
}

// change takes up what s wants now: whoever comes last, of several that change
// it and the end of s, sees what the others have done.
func (l *levels) change(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := s.wantedLevel()
	if to == l.want[s] {
		return
	}
	if l.want == nil {
		l.want = map[*Session]int{}
	}
	if to == 0 {
		delete(l.want, s)
	} else {
		l.want[s] = to
	}
	lowest := 0
	for _, rank := range l.want {
		if lowest == 0 || rank < lowest {
			lowest = rank
		}
	}
	if lowest != l.now {
		l.now = lowest
		l.set(mcp.Levels[lowest])
	}
}

func (s *Session) wantedLevel() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// wanting are the sessions that want a message of this rank.
func (l *levels) wanting(rank int) []*Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*Session
	for s, from := range l.want {
		if rank >= from {
			all = append(all, s)
		}
	}
	return all
}

// ForwardLog hands a server's log message to the sessions that asked for its
// level, and to no other client.
func (st *Store) ForwardLog(_ string, params []byte) {
	rank := mcp.LevelRank(wire.Get(params, "level"))
	if rank == 0 {
		return
	}
	sessions := st.levels.wanting(rank)
	if len(sessions) == 0 {
		return
	}
	frame := wire.AppendNotification(nil, mcp.NotifyMessage, params)
	for _, s := range sessions {
		if out := s.Outlet(); out != nil {
			out.Log(frame)
		}
	}
}
