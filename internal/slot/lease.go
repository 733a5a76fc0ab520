package slot

import (
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/upstream"
)

// A Lease is a call's hold on one generation: a generation that is ended waits
// for its leases, up to the drain deadline. It must be released exactly once; a
// second time panics, since another call's hold would end with it.
type Lease struct {
	slot     *Slot
	gen      *generation
	ticket   *ticket // nil where calls at a time are not limited
	released bool
}

// Gen is the number of the generation.
func (l *Lease) Gen() uint64 { return l.gen.gen }

// Upstream is the connection itself. It stays usable until Release, unless its
// link ends.
func (l *Lease) Upstream() Upstream { return l.gen.up }

// Release ends the lease and leaves a note on how the call went: nil and a
// server's own JSON-RPC error speak for the link; the table of package evidence
// says what a failure counts against. It never waits.
func (l *Lease) Release(err error) {
	if !l.released {
		l.gen.noteResult(err)
	}
	l.free()
}

func (l *Lease) free() {
	if l.released {
		l.gen.releasedTwice()
	}
	l.released = true
	l.gen.release()
	if l.ticket != nil {
		l.slot.gate.leave(l.ticket)
	}
}

// finish releases the lease of a call. The link's failures count whoever asked
// for something; what everline asks each new generation would prove any to be
// healthy.
func (l *Lease) finish(c *upstream.Call, f *fault.Fault) {
	answered := f == nil || f.Outcome == fault.Answered
	switch {
	case answered && c.Internal:
		l.free()
	case answered:
		l.Release(nil)
	default:
		l.Release(f)
	}
}
