package slot

import (
	"context"
	"sync"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
)

// An inbox holds what the loop must not miss. Its length is bounded by what
// can send: each generation sends at most one of started, failed and lost, and one
// closed; one listing and one probe of a generation run at a time; one watch ends well
// for each wait; and each operation has its caller, who waits for it.
type inbox struct {
	mu       sync.Mutex // guards the rest; a leaf, held for copying alone
	notes    []note
	demanded chan struct{} // closed when the loop has heard the calls that want a generation; nil if none do
	closed   bool          // the loop has ended
}

// A note is something for the loop. The set is closed.
type note interface{ note() }

type (
	// started: the start worker of l has ended well.
	started struct{ gen *generation }
	// failed: the start worker of l has ended badly, and nothing of l is alive.
	failed struct {
		gen   *generation
		cause *fault.Fault
	}
	// lost: a call proved that l is of no use any more.
	lost struct {
		gen   *generation
		cause *fault.Fault
	}
	// ended: the stop worker of generation gen has ended. err may be nil.
	ended struct {
		gen uint64
		err error
	}
	// listed: a refresh of l has ended, with a catalog or an error.
	listed struct {
		gen   *generation
		kinds kinds
		cat   *catalog.Catalog
		err   *fault.Fault
	}
	// returned: what the attempt gen failed for is there again.
	returned struct{ gen uint64 }
	// told: somebody waits until op is done and the view that shows it is out.
	operation struct {
		op   func(*Slot) error
		err  error         // what op returned; valid once done is closed
		done chan struct{} // closed by the loop
	}
)

func (started) note()    {}
func (failed) note()     {}
func (lost) note()       {}
func (ended) note()      {}
func (listed) note()     {}
func (returned) note()   {}
func (*operation) note() {}

// post hands the loop a note. It never waits, and tells whether a loop is
// there to read it.
func (s *Slot) post(n note) bool {
	s.inbox.mu.Lock()
	ok := !s.inbox.closed
	if ok {
		s.inbox.notes = append(s.inbox.notes, n)
	}
	s.inbox.mu.Unlock()
	s.nudge()
	return ok
}

func (s *Slot) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// demand tells the loop that a call wants a generation. The channel is closed once the
// view shows what came of it; all who ask before the loop hears share it.
func (s *Slot) demand() <-chan struct{} {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	if s.inbox.closed {
		return s.ended // closed soon: the caller then finds the slot closed
	}
	if s.inbox.demanded == nil {
		s.inbox.demanded = make(chan struct{})
		s.nudge()
	}
	return s.inbox.demanded
}

// take empties the inbox.
func (b *inbox) take() ([]note, chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	notes, asking := b.notes, b.demanded
	b.notes, b.demanded = nil, nil
	return notes, asking
}

// shut lets nothing more in and returns what was left.
func (b *inbox) shut() ([]note, chan struct{}) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.take()
}

// operate has the loop run op and returns once the view that shows the result is
// out. When ctx ends first, op may still run.
func (s *Slot) operate(ctx context.Context, what string, op func(*Slot) error) error {
	t := &operation{op: op, done: make(chan struct{})}
	if !s.post(t) {
		return s.closedFault(what)
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return fault.From(what, ctx.Err()).At(s.name, 0)
	}
}

func (s *Slot) closedFault(what string) *fault.Fault {
	f := fault.New(fault.Closed, what, "everline is letting go of this server")
	f.Server, f.Outcome = s.name, fault.NotSent
	return f
}
