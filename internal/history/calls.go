package history

import (
	"sync"

	"github.com/everline/everline/event"
)

// A Call is one that has ended.
type Call struct {
	ID uint64 // rises by one
	event.CallFacts
}

// calls has the newest calls, each in a place of an array. Two lists go through
// it: that of all, and for each server that of its own, so that a server with
// many calls drops its own oldest one and not that of another.
type calls struct {
	mu     sync.Mutex // guards the rest; held for copying alone
	last   uint64
	places []place
	all    list
	of     map[string]*list
}

type place struct {
	call Call
	all  links
	own  links
}

// links are the neighbors in a list; none is -1.
type links struct{ before, next int }

// list has its ends, and how many there are.
type list struct{ oldest, newest, n int }

const none = -1

func newCalls() calls {
	return calls{all: list{oldest: none, newest: none}, of: map[string]*list{}}
}

func (c *calls) add(f event.CallFacts) {
	f.Name, f.Method, f.Exposed = cut(f.Name, nameSize), cut(f.Method, nameSize), cut(f.Exposed, nameSize)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	own := c.of[f.Server]
	i := len(c.places)
	switch {
	case own != nil && own.n >= callsEach:
		i = own.oldest
		c.removeLocked(i)
	case i == callsAll:
		i = c.all.oldest
		c.removeLocked(i)
	default:
		if i == cap(c.places) { // append would take more than there can be
			c.places = append(make([]place, 0, min(max(64, 2*i), callsAll)), c.places...)
		}
		c.places = append(c.places, place{})
	}
	if own = c.of[f.Server]; own == nil { // removing may have taken it away
		own = &list{oldest: none, newest: none}
		c.of[f.Server] = own
	}
	c.places[i].call = Call{c.last, f}
	c.all.push(c.places, i, func(p *place) *links { return &p.all })
	own.push(c.places, i, func(p *place) *links { return &p.own })
}

func (c *calls) removeLocked(i int) {
	server := c.places[i].call.Server
	c.all.remove(c.places, i, func(p *place) *links { return &p.all })
	own := c.of[server]
	own.remove(c.places, i, func(p *place) *links { return &p.own })
	if own.n == 0 {
		delete(c.of, server)
	}
}

func (l *list) push(places []place, i int, of func(*place) *links) {
	*of(&places[i]) = links{before: l.newest, next: none}
	if l.newest == none {
		l.oldest = i
	} else {
		of(&places[l.newest]).next = i
	}
	l.newest = i
	l.n++
}

func (l *list) remove(places []place, i int, of func(*place) *links) {
	at := *of(&places[i])
	if at.before == none {
		l.oldest = at.next
	} else {
		of(&places[at.before]).next = at.next
	}
	if at.next == none {
		l.newest = at.before
	} else {
		of(&places[at.next]).before = at.before
	}
	l.n--
}

// Calls are those that want takes, newest first, at most limit; only those with
// an ID between after and before (0: no bound).
func (h *History) Calls(after, before uint64, limit int, want func(*event.CallFacts) bool) []Call {
	c := &h.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	found := []Call{}
	for i := c.all.newest; i != none && len(found) < limit; i = c.places[i].all.before {
		call := &c.places[i].call
		if call.ID <= after {
			break
		}
		if (before == 0 || call.ID < before) && want(&call.CallFacts) {
			found = append(found, *call)
		}
	}
	return found
}

// LastCall is the ID of the newest call; 0 if there was none.
func (h *History) LastCall() uint64 {
	h.calls.mu.Lock()
	defer h.calls.mu.Unlock()
	return h.calls.last
}
