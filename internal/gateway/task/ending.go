package task

import (
	"strconv"
	"time"

	"github.com/everline/everline/internal/wire"
)

// An ending is the result of a task that no server has any more: one that its server
// has answered at once although the client wanted a task, or one that was lost.
type ending struct {
	result []byte // as of tools/call; not changed
	at     time.Time
}

// maxKeptBytes bounds the results that are kept, over all clients.
const maxKeptBytes = 64 << 20

// End gives a task its result, once. The oldest of too many are forgotten.
func (s *Table) End(t *Task, result []byte) {
	s.mu.Lock()
	var out []func()
	if t.end == nil && !t.gone {
		t.end = &ending{result, time.Now()}
		s.changedLocked(t)
		s.bytes += len(result)
		for s.bytes > maxKeptBytes {
			out = append(out, s.dropLocked(s.oldestEndLocked())...)
		}
	}
	s.mu.Unlock()
	callAll(out)
}

func (s *Table) oldestEndLocked() *Task {
	var first *Task
	for _, t := range s.byID {
		if t.end != nil && (first == nil || t.end.at.Before(first.end.at)) {
			first = t
		}
	}
	return first
}

// Result is what End has given; nil if a server has the task.
func (s *Table) Result(t *Task) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.end == nil {
		return nil
	}
	return t.end.result
}

// Ended is the state of a task that End has given a result, for clients of a kind.
func (s *Table) Ended(t *Task, to Kind) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := wire.AppendString([]byte(`{"taskId":`), t.ID)
	state = append(append(state, `,"status":"`+Completed+`","createdAt":"`...), t.Begun.UTC().Format(time.RFC3339)...)
	state = append(append(state, `","lastUpdatedAt":"`...), t.end.at.UTC().Format(time.RFC3339)...)
	state = strconv.AppendInt(append(state, `","ttlMs":`...), t.until.Sub(t.Begun).Milliseconds(), 10)
	state = append(append(append(state, `,"result":`...), t.end.result...), '}')
	return State(state, Extension, to)
}
