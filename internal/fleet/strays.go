package fleet

import (
	"context"

	"github.com/everline/everline/internal/stray"
)

// sweep ends what an earlier everline on the same state folder has left
// behind. Only then are commands started: two copies of a server may fight
// over a file.
func (f *Fleet) sweep() {
	defer close(f.swept)
	if f.ledger == nil {
		return
	}
	f.saveLedger() // before the first process, so that its mark can be found again
	found, err := f.ledger.Sweep(context.Background())
	if err != nil {
		f.warn("", "looking for processes of an earlier run: "+err.Error())
	}
	f.strays = found
}

// clean waits for the sweep, which bounds itself. It is false if ctx ends first.
func (f *Fleet) clean(ctx context.Context) bool {
	select {
	case <-f.swept:
		return true
	case <-ctx.Done():
		return false
	}
}

// Leftovers returns the processes of an earlier everline that were found alive
// at the start, and ended; nothing while they are still looked for.
func (f *Fleet) Leftovers() []stray.Leftover {
	select {
	case <-f.swept:
		return f.strays
	default:
		return nil
	}
}

// spawned notes a server's new process; the saver writes it down.
func (f *Fleet) spawned(server string, pid int) {
	if f.ledger == nil {
		return
	}
	f.ledger.Set(server, pid)
	select {
	case f.save <- struct{}{}:
	default:
	}
}

func (f *Fleet) saveLedger() {
	if f.ledger == nil {
		return
	}
	f.wrote("", "the list of the servers' processes", f.ledger.Save())
}

// closeLedger forgets the processes once all of them have ended in order; what
// would not end is for the next start.
func (f *Fleet) closeLedger(closing error) {
	if f.ledger == nil || closing != nil {
		return
	}
	if err := f.ledger.Remove(); err != nil {
		f.warn("", "forgetting the processes of servers: "+err.Error())
	}
}
