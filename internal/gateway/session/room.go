package session

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Room is what several stores fill together: the sessions of one identity at all
// addresses of an endpoint, or all sessions of the endpoint. Its zero value is empty.
type Room struct {
	n atomic.Int64 // sessions

	mu     sync.Mutex // guards stores; nothing waits under it, and no store's lock is taken
	stores map[*Store]struct{}
}

func (r *Room) join(st *Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stores == nil {
		r.stores = map[*Store]struct{}{}
	}
	r.stores[st] = struct{}{}
}

func (r *Room) leave(st *Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stores, st)
}

// take takes the place of a session, for which evict makes room where there is none;
// it is false if evict cannot.
func (r *Room) take(limit int, evict func() bool) bool {
	for {
		switch n := r.n.Load(); {
		case n < int64(limit):
			if r.n.CompareAndSwap(n, n+1) {
				return true
			}
		case !evict():
			return false
		}
	}
}

func (r *Room) give() { r.n.Add(-1) }

// evict puts the session away that was not used for longest, of those that are not in use;
// false if all are.
func (r *Room) evict() bool {
	r.mu.Lock()
	stores := slices.Collect(maps.Keys(r.stores))
	r.mu.Unlock()
	var from *Store
	var oldest time.Time
	for _, st := range stores {
		if used, ok := st.idleSince(); ok && (from == nil || used.Before(oldest)) {
			from, oldest = st, used
		}
	}
	if from == nil {
		return false
	}
	from.evictIdlest()
	return true
}

// takePlace takes the place of one session with its identity and at the endpoint. An
// identity pays with its own idle sessions before anybody else does.
func (st *Store) takePlace() bool {
	own, all := st.o.Own, st.o.All
	if !own.take(st.o.Limit(), own.evict) {
		return false
	}
	if !all.take(st.o.Most, func() bool { return own.evict() || all.evict() }) {
		own.give()
		return false
	}
	return true
}

func (st *Store) givePlace() {
	st.o.Own.give()
	st.o.All.give()
}

// idleSince is when the session was used that was not used for longest, of those that
// are not in use; false if there is none.
func (st *Store) idleSince() (time.Time, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.idlestLocked()
	if s == nil {
		return time.Time{}, false
	}
	return s.used, true
}

// evictIdlest puts that session away, if it is not in use by now.
func (st *Store) evictIdlest() {
	st.mu.Lock()
	s := st.idlestLocked()
	if s != nil {
		st.removeLocked(s)
		st.o.Meter.Expired.Add(1)
	}
	st.mu.Unlock()
	if s != nil {
		s.putAway()
		st.tell(s, expired)
	}
}
