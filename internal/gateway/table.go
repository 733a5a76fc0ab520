package gateway

import (
	"sync"
	"time"
)

// A sessionTable holds the legacy sessions that came over HTTP, the least
// recently used last. Sessions without an open exchange or stream end when
// they have been idle for long, and sooner when there are too many.
type sessionTable struct {
	limit int
	idle  time.Duration

	mu     sync.Mutex // guards the rest, and the table's fields of every session; ordered before no other lock: sessions are ended after it is released
	byID   map[string]*session
	ring   session // its next is the most recently used session, its prev the least
	timer  *time.Timer
	closed bool
}

func (t *sessionTable) init(limit int, idle time.Duration) {
	t.limit, t.idle = limit, idle
	t.byID = map[string]*session{}
	t.ring.prev, t.ring.next = &t.ring, &t.ring
}

// addAs puts a session in under an id and pins it. It returns the session that is
// there then: an older one of this id, or s; nil if the table is full of sessions
// that are in use.
func (t *sessionTable) addAs(s *session, id string) *session {
	t.mu.Lock()
	if old := t.byID[id]; old != nil {
		old.pins++
		t.mu.Unlock()
		return old
	}
	var gone *session
	keep := func() {}
	if len(t.byID) >= t.limit {
		if gone = t.idlestLocked(); gone != nil {
			t.removeLocked(gone)
			keep = gone.conclude()
		}
	}
	ok := len(t.byID) < t.limit && !t.closed
	if ok {
		s.id = id
		s.pins = 1
		t.byID[s.id] = s
		t.frontLocked(s)
		t.armLocked()
	}
	t.mu.Unlock()
	if gone != nil {
		gone.end()
		keep()
	}
	if !ok {
		return nil
	}
	return s
}

// pin returns the session of this id for one exchange or stream, nil if there
// is none. The caller must unpin it.
func (t *sessionTable) pin(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s != nil {
		s.pins++
	}
	return s
}

func (t *sessionTable) unpin(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.pins--
	if t.byID[s.id] == s {
		t.frontLocked(s)
	}
}

// remove takes a session out and ends it; false if it was not there.
func (t *sessionTable) remove(s *session) bool {
	t.mu.Lock()
	there := t.byID[s.id] == s
	if there {
		t.removeLocked(s)
	}
	t.mu.Unlock()
	s.end()
	return there
}

func (t *sessionTable) frontLocked(s *session) {
	if s.next != nil {
		s.prev.next, s.next.prev = s.next, s.prev
	}
	s.used = time.Now()
	s.prev, s.next = &t.ring, t.ring.next
	s.prev.next, s.next.prev = s, s
}

func (t *sessionTable) removeLocked(s *session) {
	delete(t.byID, s.id)
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next = nil, nil
}

// idlestLocked is the session that was not used for longest, among those
// that are not in use now.
func (t *sessionTable) idlestLocked() *session {
	for s := t.ring.prev; s != &t.ring; s = s.prev {
		if s.pins == 0 {
			return s
		}
	}
	return nil
}

// armLocked sets the timer for the next expiry, if it is not set.
func (t *sessionTable) armLocked() {
	if t.timer != nil || t.closed || len(t.byID) == 0 {
		return
	}
	wait := t.idle
	if s := t.idlestLocked(); s != nil {
		wait = max(time.Until(s.used.Add(t.idle)), time.Millisecond)
	}
	t.timer = time.AfterFunc(wait, t.expire)
}

// expire ends the sessions that have been idle for long. It runs on the
// timer's goroutine, which ends with it.
func (t *sessionTable) expire() {
	t.mu.Lock()
	t.timer = nil
	var gone []*session
	var keep []func()
	deadline := time.Now().Add(-t.idle)
	for {
		s := t.idlestLocked()
		if s == nil || s.used.After(deadline) {
			break
		}
		t.removeLocked(s)
		gone, keep = append(gone, s), append(keep, s.conclude())
	}
	t.armLocked()
	t.mu.Unlock()
	for i, s := range gone {
		s.end()
		keep[i]()
	}
}

func (t *sessionTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// close ends all sessions and takes no new ones.
func (t *sessionTable) close() {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	var gone []*session
	for _, s := range t.byID {
		gone = append(gone, s)
		t.removeLocked(s)
	}
	t.mu.Unlock()
	for _, s := range gone {
		s.end()
	}
}
