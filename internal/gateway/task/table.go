// Package task remembers the tasks that servers have begun for clients. It asks
// no server about one.
package task

import (
	"bytes"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline"
)

// Bounds of what is remembered of tasks.
const (
	mostTasks    = 16_384 // of a table
	mostOfClient = 1024   // of one client; of all clients without a session together, the first bound alone
	grace        = time.Minute
	unlimited    = 24 * time.Hour      // for a task that its server keeps for ever, from its last use
	longest      = 30 * 24 * time.Hour // for one with a time to live
	sweepEvery   = time.Minute
)

// A Table has the tasks of all clients of one identity, each under an id of our own: two
// servers, or two generations of one, may use the same one. An id of ours cannot
// be guessed, and where the client has a session it is good there alone. The
// zero value is ready.
type Table struct {
	Changed func() // what Export returns is another now; may be nil. It is set before any task is there, and must not wait

	mu      sync.Mutex // guards the rest, and what a Task says that it guards; nothing waits under it
	byID    map[string]*Task
	byOwner map[string][]*Task // in the order in which they were begun; "": of clients without a session
	serial  uint64
	bytes   int         // of kept results
	timer   *time.Timer // set while there are tasks
	closed  bool
}

// A Task is one that a server has begun. Its exported fields do not change once
// it is in a Table.
type Task struct {
	ID       string          // ours; Add makes it
	ServerID string          // the server's
	Kind     Kind            // in which words its server tells of it
	Holder   everline.Answer // who has it; without the result
	Tool     everline.Target // whose call began it; the zero value if that is not known
	Owner    string          // the session that it is for; "": whoever knows the id
	Client   uint64          // who its server was told that the call is for; 0 after a restart
	Begun    time.Time

	serial uint64 // in the order of Add

	// Guarded by Table.mu.
	session *everline.Session // see Session
	watch   *Watch            // nil while nobody sees to it that its client of 2025-11-25 hears its news
	until   time.Time         // forgotten then
	told    time.Time         // until, when Changed was called
	seen    []byte            // its newest state, in words of 2025-11-25, raw, with our id; nil if it was not told so
	end     *ending           // nil while its server has it
	gone    bool
	onDrop  []func() // to be called when it is forgotten
}

// Serial orders the tasks of a client; see After.
func (t *Task) Serial() uint64 { return t.serial }

// Add puts a task in, with an id of its own. session is the one whose generations of
// servers may have it; onDrop is called when it is forgotten.
func (s *Table) Add(t *Task, session *everline.Session, ttl time.Duration, onDrop ...func()) {
	t.ID, t.session, t.onDrop, t.Begun = rand.Text(), session, onDrop, time.Now()
	s.put(t, t.Begun.Add(ttl))
}

// put puts a task in that has its id.
func (s *Table) put(t *Task, until time.Time) {
	s.mu.Lock()
	if s.byID == nil {
		s.byID, s.byOwner = map[string]*Task{}, map[string][]*Task{}
	}
	s.serial++
	t.serial, t.until = s.serial, until
	var out []func()
	if theirs := s.byOwner[t.Owner]; t.Owner != "" && len(theirs) >= mostOfClient {
		out = s.dropLocked(theirs[0])
	}
	if len(s.byID) >= mostTasks {
		out = append(out, s.dropLocked(s.soonestLocked())...)
	}
	if s.closed {
		out = append(out, s.dropLocked(t)...)
	} else {
		s.byID[t.ID] = t
		s.byOwner[t.Owner] = append(s.byOwner[t.Owner], t)
		s.changedLocked(t)
	}
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(sweepEvery, s.sweep)
	}
	s.mu.Unlock()
	callAll(out)
}

// OnDrop adds what is to be called when the task is forgotten; it is called now
// if that has happened.
func (s *Table) OnDrop(t *Task, fn func()) {
	s.mu.Lock()
	gone := t.gone
	if !gone {
		t.onDrop = append(t.onDrop, fn)
	}
	s.mu.Unlock()
	if gone {
		fn()
	}
}

// Find returns a task of this session, or of none; nil if there is no such task.
func (s *Table) Find(id, owner string) *Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.byID[id]
	if t == nil || t.Owner != "" && t.Owner != owner || !time.Now().Before(t.until) {
		return nil
	}
	return t
}

// After returns the tasks of a session that were begun behind the one with this
// serial number, the oldest first.
func (s *Table) After(owner string, after uint64) []*Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byOwner[owner]
	i, _ := slices.BinarySearchFunc(all, after+1, func(t *Task, n uint64) int { return int(int64(t.serial - n)) })
	return slices.Clone(all[i:])
}

// Note takes what a server has said of a task.
func (s *Table) Note(t *Task, ttl time.Duration, seen []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.until = time.Now().Add(ttl)
	news := seen != nil && !bytes.Equal(seen, t.seen)
	if news {
		t.seen = seen
	}
	if news || t.until.Sub(t.told).Abs() > grace {
		s.changedLocked(t)
	}
}

func (s *Table) changedLocked(t *Task) {
	t.told = t.until
	if s.Changed != nil && !s.closed {
		s.Changed()
	}
}

// State is the newest state that Note was given; nil if there is none.
func (s *Table) State(t *Task) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.seen
}

// Drop forgets a task.
func (s *Table) Drop(t *Task) {
	s.mu.Lock()
	out := s.dropLocked(t)
	s.mu.Unlock()
	callAll(out)
}

// Forget drops the tasks of a session that has ended.
func (s *Table) Forget(owner string) {
	s.mu.Lock()
	var out []func()
	for _, t := range slices.Clone(s.byOwner[owner]) {
		out = append(out, s.dropLocked(t)...)
	}
	s.mu.Unlock()
	callAll(out)
}

// dropLocked returns what is to be called without the lock.
func (s *Table) dropLocked(t *Task) []func() {
	if t.gone {
		return nil
	}
	t.gone = true
	s.changedLocked(t)
	if t.end != nil {
		s.bytes -= len(t.end.result)
	}
	delete(s.byID, t.ID)
	left := slices.DeleteFunc(s.byOwner[t.Owner], func(o *Task) bool { return o == t })
	if s.byOwner[t.Owner] = left; len(left) == 0 {
		delete(s.byOwner, t.Owner)
	}
	out := append(t.onDrop, t.unwatchLocked()...)
	t.onDrop = nil
	return out
}

func (s *Table) soonestLocked() *Task {
	var first *Task
	for _, t := range s.byID {
		if first == nil || t.until.Before(first.until) {
			first = t
		}
	}
	return first
}

// sweep forgets the tasks whose time is over. It runs on the timer's goroutine.
func (s *Table) sweep() {
	s.mu.Lock()
	now := time.Now()
	var out []func()
	for _, t := range s.byID {
		if !now.Before(t.until) {
			out = append(out, s.dropLocked(t)...)
		}
	}
	s.timer = nil
	if len(s.byID) > 0 && !s.closed {
		s.timer = time.AfterFunc(sweepEvery, s.sweep)
	}
	s.mu.Unlock()
	callAll(out)
}

// Close forgets all tasks and takes no more.
func (s *Table) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	var out []func()
	for _, t := range s.byID {
		out = append(out, s.dropLocked(t)...)
	}
	s.mu.Unlock()
	callAll(out)
}

// Len is how many tasks are remembered.
func (s *Table) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

func callAll(fns []func()) {
	for _, fn := range fns {
		fn()
	}
}
