package upstream

import (
	"sync"
	"sync/atomic"

	"github.com/everline/everline/internal/catalog"
)

// listed is what was seen of a server's lists.
type listed struct {
	*core
	first atomic.Int64 // when the first page of a list came, as nanoseconds since born; 0: none did

	mu      sync.Mutex // guards the rest; nothing waits under it
	known   [4]bool    // a kind that was listed by this generation
	sources source     // whether a server that declares nothing lists tools nevertheless
}

// note notes that a page came.
func (l *listed) note() { l.first.CompareAndSwap(0, max(1, int64(l.now()))) }

// any tells whether one did.
func (l *listed) any() bool { return l.first.Load() != 0 }

// noteKind notes a complete list; it is the first of this kind or not.
func (l *listed) noteKind(k catalog.Kind) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = !l.known[k]
	l.known[k] = true
	return first
}

func (l *listed) source() source {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sources
}

func (l *listed) setSource(s source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sources = s
}

// source is whether a server that declares nothing lists tools nevertheless.
type source uint8

const (
	unasked source = iota
	noTools
	hasTools
)

// lists tells whether the server declared what k belongs to. A server that
// declares none of them is asked for its tools all the same, once.
func (l *listed) lists(k catalog.Kind) bool {
	switch k {
	case catalog.Tools:
		return l.declaresTools() || l.source() == hasTools
	case catalog.Prompts:
		return l.declares("prompts")
	default:
		return l.declares("resources")
	}
}
