package task

import (
	"slices"

	"github.com/everline/everline"
)

// A session that is put away keeps its tasks: they stand as they would after a restart
// until it comes back, or their time is over.

// PutAway is the end of a session that its client may come back to: nothing of its tasks
// is tied to it any more. What a process had that was started for it alone has ended with
// it, and has the result of lost.
func (s *Table) PutAway(owner string, lost func(t *Task) []byte) {
	s.mu.Lock()
	all := slices.Clone(s.byOwner[owner])
	var out []func()
	for _, t := range all {
		out = append(out, t.unwatchLocked()...)
		t.session = nil
	}
	s.mu.Unlock()
	callAll(out)
	for _, t := range all {
		if t.Holder.Mortal && t.Holder.Client != 0 {
			s.End(t, lost(t))
		}
	}
}

// Client is who servers were told that the newest tasks of a session are for; 0 if there
// are none of this everline.
func (s *Table) Client(owner string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range slices.Backward(s.byOwner[owner]) {
		if t.Client != 0 {
			return t.Client
		}
	}
	return 0
}

// Session is whose generation of the server has a task; nil: the shared one, or that
// session was put away, or was of an everline before this one.
func (s *Table) Session(t *Task) *everline.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.session
}

// A Watch is one asking of a server for the news of a task.
type Watch struct {
	end func() // nil before Watching; guarded by Table.mu
}

// Watch is for who sees to it that the task's client of 2025-11-25 hears its news; nil if
// somebody does, or the task is forgotten. Its end is Watching or Unwatch.
func (s *Table) Watch(t *Task) *Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.gone || t.watch != nil {
		return nil
	}
	t.watch = &Watch{}
	return t.watch
}

// Watching takes how the watch is ended. It is ended now if the task was forgotten, or
// its session put away, meanwhile.
func (s *Table) Watching(t *Task, w *Watch, end func()) {
	s.mu.Lock()
	mine := t.watch == w
	if mine {
		w.end = end
	}
	s.mu.Unlock()
	if !mine {
		end()
	}
}

// Unwatch is the end of a watch that did not come about: somebody else may try.
func (s *Table) Unwatch(t *Task, w *Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.watch == w {
		t.watch = nil
	}
}

// unwatchLocked returns what is to be called without the lock.
func (t *Task) unwatchLocked() []func() {
	w := t.watch
	t.watch = nil
	if w == nil || w.end == nil {
		return nil
	}
	return []func(){w.end}
}
