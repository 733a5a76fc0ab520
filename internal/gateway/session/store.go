package session

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/sessions"
	"github.com/everline/everline/internal/tracing"
)

// A Store owns all sessions that one identity has at an endpoint: those that came over HTTP, the
// least recently used last, and those of other transports as far as they share
// something. Sessions without an open exchange or stream end when they have been idle
// for long, and sooner when there are too many. Those that are kept outlive everline.
type Store struct {
	o          Options
	levels     levels
	responses  stream.ResponseStore
	background background

	mu     sync.Mutex // guards the rest, and the store's fields of every session; ordered before no other lock: sessions are ended after it is released
	byID   map[string]*Session
	ring   Session // its next is the most recently used session, its prev the least
	timer  *time.Timer
	closed bool
	warned time.Time // when it was last said that a client declares too much
}

// Options say what sessions need of the endpoint that they are of.
type Options struct {
	Endpoint  string          // for which ids are sealed: no store of another one opens them
	Subject   string          // whose sessions they are; "" for nobody who was proven
	Kept      *sessions.Store // of those that outlive everline; nil for none
	Lists     *stream.ListVersions
	Own, All  *Room      // what it fills: with the other stores of its identity, and of its endpoint; nil: it is alone
	Limit     func() int // sessions at a time in Own; it does not wait
	Most      int        // sessions at a time in All
	Meter     *meter.Endpoint
	Idle      time.Duration // after which one is put away
	Subscribe func(ctx context.Context, session *everline.Session, uri string, fn func(params []byte)) (cancel func(), err error)
	SetLevel  func(level string) // of log messages that servers send; it does not wait

	// What sessions have elsewhere goes by Session.Owner. None of these waits.
	Forget  func(owner string)        // it has ended for good
	PutAway func(owner string)        // it may come back
	Client  func(owner string) uint64 // who it was for servers, if that is to go on; else 0

	Durations *tracing.Durations // where those of sessions are noted; nil: nowhere

	Warn func(text string) // hears of what is not kept; nil: nobody does. It must not block

	// Changed hears of a session that was opened, has expired or was ended, which
	// how says. It does not block. May be nil.
	Changed func(s *Session, how string)
}

func NewStore(o Options) *Store {
	if o.Meter == nil {
		o.Meter = meter.NewEndpoint()
	}
	if o.Own == nil {
		o.Own = &Room{}
	}
	if o.All == nil {
		o.All = &Room{}
	}
	st := &Store{o: o, byID: map[string]*Session{}}
	o.Own.join(st)
	o.All.join(st)
	st.levels.set = o.SetLevel
	st.background.init()
	st.ring.prev, st.ring.next = &st.ring, &st.ring
	return st
}

// addAs puts a session in under an id and pins it. It returns the session that is
// there then: an older one of this id, or s; nil if there is no place that is not in
// use.
func (st *Store) addAs(s *Session, id string) *Session {
	if old := st.pinOld(id); old != nil {
		return old
	}
	if !st.takePlace() {
		st.o.Meter.Crowded.Add(1)
		return nil
	}
	st.mu.Lock()
	if old := st.byID[id]; old != nil || st.closed {
		if old != nil {
			old.pins++
		}
		st.mu.Unlock()
		st.givePlace()
		return old
	}
	s.Key, s.born = id, time.Now()
	s.pins = 1
	st.byID[s.Key] = s
	st.o.Meter.Sessions.Add(1)
	st.o.Meter.Opened.Add(1)
	st.frontLocked(s)
	st.armLocked()
	st.mu.Unlock()
	st.tell(s, opened)
	return s
}

// pinOld pins the session of an id; nil if there is none.
func (st *Store) pinOld(id string) *Session {
	st.mu.Lock()
	defer st.mu.Unlock()
	old := st.byID[id]
	if old != nil {
		old.pins++
	}
	return old
}

// InUse is how many of them have an open exchange or stream.
func (st *Store) InUse() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	n := 0
	for _, s := range st.byID {
		if s.pins > 0 {
			n++
		}
	}
	return n
}

// Pin returns the session of this id for one exchange or stream, nil if there is none.
// The caller must unpin it.
func (st *Store) Pin(id string) *Session {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.byID[id]
	if s != nil {
		s.pins++
	}
	return s
}

// now is the session of an id at the moment; nil if there is none.
func (st *Store) now(id string) *Session {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.byID[id]
}

// ConcludeAll concludes all sessions that came over HTTP.
func (st *Store) ConcludeAll() {
	st.mu.Lock()
	all := slices.Collect(maps.Values(st.byID))
	st.mu.Unlock()
	for _, s := range all {
		st.Conclude(s)
	}
}

func (st *Store) Unpin(s *Session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.pins--
	if st.byID[s.Key] == s {
		st.frontLocked(s)
	}
}

// Conclude is the end of a session that its client has ended, or whose identity is gone:
// its id opens nothing any more, here and in the next everline.
func (st *Store) Conclude(s *Session) {
	keep := s.conclude() // before its id can be restored
	st.Remove(s)
	keep()
	s.cancelAll()
}

// namedPrefix begins the ids of named sessions in the store. No header can hold it
// at its begin, so no other session's id is one.
const namedPrefix = " "

// Named returns the pinned session of a name that a modern client has chosen, a new
// one where there is none; nil if there are too many.
func (st *Store) Named(name string) *Session {
	if s := st.PinNamed(name); s != nil {
		return s
	}
	return st.addAs(st.again(namedPrefix+name, mcp.ModernVersion), namedPrefix+name)
}

// PinNamed is Named for a session that need not be there; nil if it is not.
func (st *Store) PinNamed(name string) *Session { return st.Pin(namedPrefix + name) }

// Remove takes a session out and ends it for good.
func (st *Store) Remove(s *Session) { st.takeOut(s, s.End) }

// Leave is Remove for a session whose client may come back to it.
func (st *Store) Leave(s *Session) { st.takeOut(s, s.putAway) }

func (st *Store) takeOut(s *Session, end func()) {
	st.mu.Lock()
	there := st.byID[s.Key] == s
	if there {
		st.o.Meter.Ended.Add(1)
		st.removeLocked(s)
	}
	st.mu.Unlock()
	end()
	if there {
		st.tell(s, ended)
	}
}

// What becomes of a session.
const (
	opened  = "opened"
	expired = "expired"
	ended   = "ended"
)

func (st *Store) tell(s *Session, how string) {
	if st.o.Durations != nil && how != opened {
		st.o.Durations.Sessions.Observe(tracing.Operation{Peer: s.peer()}, time.Since(s.born))
	}
	if st.o.Changed != nil {
		st.o.Changed(s, how)
	}
}

// peer is the client, as far as it is one of many alike.
func (s *Session) peer() tracing.Peer {
	p := tracing.Peer{Version: s.Protocol(), Transport: "tcp", HTTP: "1.1"}
	if !strings.Contains(s.Addr, ":") {
		p.Transport = "unix"
	}
	return p
}

func (st *Store) frontLocked(s *Session) {
	if s.next != nil {
		s.prev.next, s.next.prev = s.next, s.prev
	}
	s.used = time.Now()
	s.prev, s.next = &st.ring, st.ring.next
	s.prev.next, s.next.prev = s, s
}

func (st *Store) removeLocked(s *Session) {
	st.givePlace()
	st.o.Meter.Sessions.Add(-1)
	st.o.Meter.Lasted.Observe(time.Since(s.born))
	delete(st.byID, s.Key)
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next = nil, nil
}

// idlestLocked is the session that was not used for longest, among those
// that are not in use now.
func (st *Store) idlestLocked() *Session {
	for s := st.ring.prev; s != &st.ring; s = s.prev {
		if s.pins == 0 {
			return s
		}
	}
	return nil
}

// armLocked sets the timer for the next expiry, if it is not set.
func (st *Store) armLocked() {
	if st.timer != nil || st.closed || len(st.byID) == 0 {
		return
	}
	wait := st.o.Idle
	if s := st.idlestLocked(); s != nil {
		wait = max(time.Until(s.used.Add(st.o.Idle)), time.Millisecond)
	}
	st.timer = time.AfterFunc(wait, st.expire)
}

// expire puts the sessions away that have been idle for long. It runs on the
// timer's goroutine, which ends with it.
func (st *Store) expire() {
	st.mu.Lock()
	st.timer = nil
	var gone []*Session
	deadline := time.Now().Add(-st.o.Idle)
	for {
		s := st.idlestLocked()
		if s == nil || s.used.After(deadline) {
			break
		}
		st.removeLocked(s)
		st.o.Meter.Expired.Add(1)
		gone = append(gone, s)
	}
	st.armLocked()
	st.mu.Unlock()
	for _, s := range gone {
		s.putAway()
		st.tell(s, expired)
	}
}

// Answers tells whether the store can be used within a time.
func (st *Store) Answers(limit time.Duration) bool {
	for end := time.Now().Add(limit); ; time.Sleep(limit / 100) {
		if st.mu.TryLock() {
			st.mu.Unlock()
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// Len is how many sessions there are that came over HTTP.
func (st *Store) Len() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.byID)
}

// Close ends all sessions and takes no new ones.
func (st *Store) Close() {
	st.background.close()
	st.mu.Lock()
	st.closed = true
	if st.timer != nil {
		st.timer.Stop()
	}
	var gone []*Session
	for _, s := range st.byID {
		gone = append(gone, s)
		st.removeLocked(s)
	}
	st.mu.Unlock()
	for _, s := range gone {
		s.End()
	}
	st.o.Own.leave(st)
	st.o.All.leave(st)
	st.responses.Close()
}
