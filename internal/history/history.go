// Package history keeps what happened of late in memory, within bounds: the states
// of servers as spans of time, what became of their calls by the minute, and the
// newest calls. It decides nothing, and writes nothing to disk.
package history

import (
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/event"
)

// Bounds of what is kept. docs/reference/page.md names them.
const (
	Day        = 24 * time.Hour // what is older is not shown
	spansEach  = 512            // of one server
	spansAll   = 64 << 10
	causesEach = 12 // texts of one server, of its newest failures
	causeSize  = 120
	marksEach  = 256 // minutes of one server in which something happened
	fineAll    = 256 // servers with cells of ten seconds: those that were called first
	callsAll   = 2000
	callsEach  = callsAll / 2
	nameSize   = 256
)

// A History is fed by a hub's Emit and Observe, neither of which waits for
// anything but memory. It has no goroutine. It is made by New.
type History struct {
	mu      sync.RWMutex // guards servers, and is held for looking one up alone
	servers map[string]*server

	total struct {
		sync.Mutex // taken within a server's lock, never around one
		spans      int
		fine       int
	}

	calls calls
}

// server is what is kept of one of them.
type server struct {
	mu     sync.Mutex // guards the rest; held for copying alone
	spans  []span     // oldest first; the last one lasts
	older  folded     // what was before
	causes []cause    // oldest first
	marks  []Mark     // oldest first
	series series
}

// New returns an empty history.
func New() *History {
	return &History{servers: map[string]*server{}, calls: newCalls()}
}

func (h *History) of(name string) *server {
	h.mu.RLock()
	s := h.servers[name]
	h.mu.RUnlock()
	if s != nil {
		return s
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s = h.servers[name]; s == nil {
		s = &server{}
		h.servers[name] = s
	}
	return s
}

// Event takes an event of a hub in. Those of a client's own connection are not
// about the server that all share.
func (h *History) Event(e event.Event) {
	head := e.About()
	if head.Session != 0 || head.Server == "" {
		return
	}
	s := h.of(head.Server)
	s.mu.Lock()
	grown := s.eventLocked(e)
	s.mu.Unlock()
	h.total.Lock()
	h.total.spans += grown
	full := h.total.spans > spansAll
	h.total.Unlock()
	if full {
		h.foldLargest()
	}
}

// eventLocked returns by how many spans the server has more.
func (s *server) eventLocked(e event.Event) (grown int) {
	head := e.About()
	switch e := e.(type) {
	case event.CatalogChanged:
		bump(&s.markLocked(head.Time).Catalog)
	case event.Reconfigured:
		bump(&s.markLocked(head.Time).Config)
	case event.DrillBegan:
		bump(&s.markLocked(head.Time).Drill)
	case event.CallReplayed:
		bump(&s.markLocked(head.Time).Repeated)
	default:
		if state, text := stateAfter(e); state != 0 {
			return s.enterLocked(state, head, text)
		}
	}
	return 0
}

// foldLargest makes room at the server that has most spans.
func (h *History) foldLargest() {
	var largest *server
	most := 1
	h.mu.RLock()
	for _, s := range h.servers {
		s.mu.Lock()
		if len(s.spans) > most {
			largest, most = s, len(s.spans)
		}
		s.mu.Unlock()
	}
	h.mu.RUnlock()
	if largest == nil {
		return
	}
	largest.mu.Lock()
	fewer := largest.foldLocked(len(largest.spans) / 2)
	largest.spans = slices.Clip(slices.Clone(largest.spans))
	largest.mu.Unlock()
	h.total.Lock()
	h.total.spans -= fewer
	h.total.Unlock()
}

// Call takes the facts of a call in.
func (h *History) Call(f event.CallFacts) {
	ended := f.Began.Add(f.Took)
	if f.Server != "" {
		s := h.of(f.Server)
		s.mu.Lock()
		s.countLocked(ended, &f)
		s.series.add(ended, &f, h.mayFine)
		s.mu.Unlock()
	}
	h.calls.add(f)
}

// Forget drops what is kept of servers that are not configured any more.
func (h *History) Forget(configured func(name string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, s := range h.servers {
		if configured(name) {
			continue
		}
		delete(h.servers, name)
		s.mu.Lock()
		h.total.Lock()
		h.total.spans -= len(s.spans)
		if s.series.fine.cells != nil {
			h.total.fine--
		}
		h.total.Unlock()
		s.mu.Unlock()
	}
}
