package history

import (
	"slices"
	"time"

	"github.com/everline/everline/event"
)

// A Mark is what happened to a server in one minute beside its states: calls by
// what became of them, and changes.
type Mark struct {
	Minute                           int32 // since 1970
	Saved, Unknown, Failed, Repeated uint16
	Catalog, Config, Drill           uint8
}

// At is when the minute begins.
func (m Mark) At() time.Time { return time.Unix(int64(m.Minute)*60, 0) }

// markLocked is the mark of a time, which may be one of the newest minutes.
func (s *server) markLocked(t time.Time) *Mark {
	minute := int32(t.Unix() / 60)
	i, found := slices.BinarySearchFunc(s.marks, minute, func(m Mark, at int32) int { return int(m.Minute - at) })
	if !found {
		if len(s.marks) == marksEach {
			s.marks = slices.Delete(s.marks, 0, 1)
			i = max(i-1, 0)
		}
		s.marks = slices.Insert(s.marks, i, Mark{Minute: minute})
	}
	return &s.marks[i]
}

func (s *server) countLocked(at time.Time, f *event.CallFacts) {
	switch {
	case f.Saved != event.NotSaved:
		bump(&s.markLocked(at).Saved)
	case f.Result == event.CallUnknown:
		bump(&s.markLocked(at).Unknown)
	case f.Result == event.CallNotSent:
		bump(&s.markLocked(at).Failed)
	}
}

// bump counts as far as the number goes.
func bump[N uint8 | uint16](n *N) {
	if *n+1 != 0 {
		*n++
	}
}

// Marks are those of a server from one time to another, oldest first.
func (h *History) Marks(server string, from, to time.Time) []Mark {
	h.mu.RLock()
	s := h.servers[server]
	h.mu.RUnlock()
	marks := []Mark{}
	if s == nil {
		return marks
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.marks {
		if m.At().Add(time.Minute).After(from) && m.At().Before(to) {
			marks = append(marks, m)
		}
	}
	return marks
}
