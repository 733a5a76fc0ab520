package slot

import "sync"

// An inbox holds what the loop must not miss. Its length is bounded by what
// can send: each generation sends at most one of started, failed and lost, and
// one ended; one listing and one probe of a generation run at a time; one watch
// ends well for each wait; and each operation has its caller, who waits for it.
type inbox struct {
	wake chan struct{} // one slot: the loop has something to do

	mu       sync.Mutex // guards the rest; a leaf, held for copying alone
	notes    []note
	demanded chan struct{} // closed when the loop has heard the calls that want a generation; nil if none do
	closed   bool          // the loop has ended
}

// A note is something for the loop. The set is closed.
type note interface{ note() }

// post hands the loop a note. It never waits, and tells whether a loop is
// there to read it.
func (b *inbox) post(n note) bool {
	b.mu.Lock()
	ok := !b.closed
	if ok {
		b.notes = append(b.notes, n)
	}
	b.mu.Unlock()
	b.nudge()
	return ok
}

func (b *inbox) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// demand tells the loop that a call wants a generation. The channel is closed
// once the view shows what came of it; all calls that demand one before the loop
// hears of it share the channel. nil: the loop has ended.
func (b *inbox) demand() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	if b.demanded == nil {
		b.demanded = make(chan struct{})
		b.nudge()
	}
	return b.demanded
}

// take empties the inbox.
func (b *inbox) take() ([]note, chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	notes, demanded := b.notes, b.demanded
	b.notes, b.demanded = nil, nil
	return notes, demanded
}

// shut lets nothing more in and returns what was left.
func (b *inbox) shut() ([]note, chan struct{}) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.take()
}
