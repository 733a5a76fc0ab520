package gateway

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline"
)

// Bounds of what is remembered of tasks.
const (
	mostTasks      = 16_384 // over all clients
	mostOfClient   = 1024   // of one client; of all clients without a session together, the first bound alone
	taskGrace      = time.Minute
	taskUnlimited  = 24 * time.Hour      // for a task that its server keeps for ever, from its last use
	taskLongest    = 30 * 24 * time.Hour // for one with a time to live
	taskSweepEvery = time.Minute
)

// tasks are those that servers have begun for clients, each under an id of our
// own: two servers, or two lives of one, may use the same one. An id of ours
// cannot be guessed, and where the client has a session it is good there alone.
type tasks struct {
	mu      sync.Mutex // guards the rest, and what a task says that it guards; nothing waits under it
	byID    map[string]*task
	byOwner map[uint64][]*task // in the order in which they were begun; 0: of clients without a session
	serial  uint64
	timer   *time.Timer // set while there are tasks
	closed  bool
}

// A task is one that a server has begun.
type task struct {
	id     string // ours
	own    string // the server's
	serial uint64
	by     everline.Answer   // who has it
	owner  uint64            // the client with a session that it is for; 0: whoever knows the id
	lives  *everline.Session // whose life of the server has it

	// Guarded by tasks.mu.
	until time.Time // forgotten then
	seen  []byte    // its newest state, as of 2025-11-25, raw, with our id; nil for the extension's
	gone  bool
	ends  []func() // to be called when it is forgotten
}

// add puts a task in, with an id of its own.
func (s *tasks) add(t *task, ttl time.Duration) {
	t.id = rand.Text()
	s.mu.Lock()
	if s.byID == nil {
		s.byID, s.byOwner = map[string]*task{}, map[uint64][]*task{}
	}
	s.serial++
	t.serial = s.serial
	t.until = time.Now().Add(ttl)
	var out []func()
	if of := s.byOwner[t.owner]; t.owner != 0 && len(of) >= mostOfClient {
		out = s.dropLocked(of[0])
	}
	if len(s.byID) >= mostTasks {
		out = append(out, s.dropLocked(s.soonestLocked())...)
	}
	if s.closed {
		out = append(out, s.dropLocked(t)...)
	} else {
		s.byID[t.id] = t
		s.byOwner[t.owner] = append(s.byOwner[t.owner], t)
	}
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(taskSweepEvery, s.sweep)
	}
	s.mu.Unlock()
	callAll(out)
}

// at adds what is to be called when the task is forgotten; now, if it was.
func (s *tasks) at(t *task, end func()) {
	s.mu.Lock()
	gone := t.gone
	if !gone {
		t.ends = append(t.ends, end)
	}
	s.mu.Unlock()
	if gone {
		end()
	}
}

// find returns a task of this client; nil if there is none.
func (s *tasks) find(id string, client uint64) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.byID[id]
	if t == nil || t.owner != 0 && t.owner != client || !time.Now().Before(t.until) {
		return nil
	}
	return t
}

// of returns the tasks of a client that were begun behind the one with this
// serial number, the oldest first.
func (s *tasks) of(client, after uint64) []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byOwner[client]
	i, _ := slices.BinarySearchFunc(all, after+1, func(t *task, n uint64) int { return int(int64(t.serial - n)) })
	return slices.Clone(all[i:])
}

// note takes what a server has said of a task.
func (s *tasks) note(t *task, ttl time.Duration, seen []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.until = time.Now().Add(ttl)
	if seen != nil {
		t.seen = seen
	}
}

func (s *tasks) state(t *task) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.seen
}

// drop forgets a task.
func (s *tasks) drop(t *task) {
	s.mu.Lock()
	out := s.dropLocked(t)
	s.mu.Unlock()
	callAll(out)
}

// forget drops the tasks of a client whose session has ended.
func (s *tasks) forget(client uint64) {
	s.mu.Lock()
	var out []func()
	for _, t := range slices.Clone(s.byOwner[client]) {
		out = append(out, s.dropLocked(t)...)
	}
	s.mu.Unlock()
	callAll(out)
}

// dropLocked returns what is to be called without the lock.
func (s *tasks) dropLocked(t *task) []func() {
	if t.gone {
		return nil
	}
	t.gone = true
	delete(s.byID, t.id)
	left := slices.DeleteFunc(s.byOwner[t.owner], func(o *task) bool { return o == t })
	if s.byOwner[t.owner] = left; len(left) == 0 {
		delete(s.byOwner, t.owner)
	}
	ends := t.ends
	t.ends = nil
	return ends
}

func (s *tasks) soonestLocked() *task {
	var first *task
	for _, t := range s.byID {
		if first == nil || t.until.Before(first.until) {
			first = t
		}
	}
	return first
}

// sweep forgets the tasks whose time is over. It runs on the timer's goroutine.
func (s *tasks) sweep() {
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
		s.timer = time.AfterFunc(taskSweepEvery, s.sweep)
	}
	s.mu.Unlock()
	callAll(out)
}

// close forgets all tasks and takes no more.
func (s *tasks) close() {
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

func callAll(fns []func()) {
	for _, fn := range fns {
		fn()
	}
}
