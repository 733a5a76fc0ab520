package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/internal/catalog"
)

// announceGap is between announcements of one server that say nothing new.
const announceGap = time.Second

// An announcer passes on that a server has announced a change of lists which are the
// same: what it meant is its own matter, and its clients', but not how often.
type announcer struct {
	mu      sync.Mutex // guards the rest; nothing waits under it
	last    time.Time
	pending []catalog.Kind // are passed on by the timer
}

// say passes kinds on, now or as soon as announceGap is over.
func (a *announcer) say(kinds []catalog.Kind, pass func([]catalog.Kind)) {
	a.mu.Lock()
	armed := len(a.pending) > 0
	for _, k := range kinds {
		if !slices.Contains(a.pending, k) {
			a.pending = append(a.pending, k)
		}
	}
	wait := announceGap - time.Since(a.last)
	a.mu.Unlock()
	switch {
	case armed:
	case wait <= 0:
		a.flush(pass)
	default:
		time.AfterFunc(wait, func() { a.flush(pass) }) // of no effect once the fleet is closed
	}
}

func (a *announcer) flush(pass func([]catalog.Kind)) {
	a.mu.Lock()
	kinds := a.pending
	a.pending, a.last = nil, time.Now()
	a.mu.Unlock()
	pass(kinds)
}
