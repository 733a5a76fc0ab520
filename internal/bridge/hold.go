package bridge

import (
	"context"
	"sync"
)

// Bounds of what is held behind an initialize.
const (
	maxHeld      = 1024    // messages
	maxHeldBytes = 8 << 20 // one that is larger may be held alone
)

// A holder keeps the messages that come behind an initialize until it has been
// answered: on stdio their order is known, and before the answer there is no
// session that they could be of. What is too much waits in the pipe.
type holder struct {
	mu     sync.Mutex // guards the rest; nothing waits under it
	lines  [][]byte
	bytes  int
	opened chan struct{} // closed when nothing is held any more; nil while nothing is
}

// hold takes a line; false if nothing is held, and the line is for the caller.
func (h *holder) hold(ctx context.Context, line []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.opened != nil {
		if len(h.lines) == 0 || len(h.lines) < maxHeld && h.bytes+len(line) <= maxHeldBytes {
			h.lines = append(h.lines, line)
			h.bytes += len(line)
			return true
		}
		opened := h.opened
		h.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
		}
		h.mu.Lock()
		if ctx.Err() != nil {
			return true // nothing is served any more
		}
	}
	return false
}

// begin holds what comes from here on.
func (h *holder) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened == nil {
		h.opened = make(chan struct{})
	}
}

// release hands out what is held, in its order, until take is false: then what
// is left stays held.
func (h *holder) release(take func(line []byte) bool) {
	for {
		h.mu.Lock()
		if len(h.lines) == 0 {
			close(h.opened)
			h.opened, h.bytes = nil, 0
			h.mu.Unlock()
			return
		}
		line := h.lines[0]
		h.lines, h.bytes = h.lines[1:], h.bytes-len(line)
		h.mu.Unlock()
		if !take(line) {
			return
		}
	}
}

// wait waits until nothing is held.
func (h *holder) wait(ctx context.Context) {
	h.mu.Lock()
	opened := h.opened
	h.mu.Unlock()
	if opened == nil {
		return
	}
	select {
	case <-opened:
	case <-ctx.Done():
	}
}
