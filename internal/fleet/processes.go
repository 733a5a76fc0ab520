package fleet

import (
	"context"

	"github.com/everline/everline/internal/orphan"
)

// processes are those of servers: they are written down, so that the next
// everline on the same state folder can end what this one leaves behind.
type processes struct {
	*core
	problems *problems
	ledger   *orphan.Ledger // nil without a state folder
	swept    chan struct{}  // closed once what an earlier everline left behind has ended
	orphans  []orphan.Found // what that was; valid then
}

// sweep ends what an earlier everline on the same state folder has left
// behind. Only then are commands started: two copies of a server may fight
// over a file.
func (p *processes) sweep() {
	defer close(p.swept)
	if p.ledger == nil {
		return
	}
	p.save() // before the first process, so that its mark can be found again
	found, err := p.ledger.Sweep(context.Background())
	if err != nil {
		p.warn("", "looking for processes of an earlier run: "+err.Error())
	}
	p.orphans = found
}

// clean waits for the sweep, which bounds itself. It is false if ctx ends first.
func (p *processes) clean(ctx context.Context) bool {
	select {
	case <-p.swept:
		return true
	case <-ctx.Done():
		return false
	}
}

// found returns the processes of an earlier everline that were found alive
// at the start, and ended; nothing while they are still looked for.
func (p *processes) found() []orphan.Found {
	select {
	case <-p.swept:
		return p.orphans
	default:
		return nil
	}
}

// spawned notes a server's new process; the saver writes it down.
func (p *processes) spawned(server string, pid int) {
	if p.ledger == nil {
		return
	}
	p.ledger.Set(server, pid)
	p.saveSoon()
}

func (p *processes) save() {
	if p.ledger == nil {
		return
	}
	p.problems.wrote("", "the list of the servers' processes", p.ledger.Save())
}

// close forgets the processes once all of them have ended in order; what
// would not end is for the next start.
func (p *processes) close(closing error) {
	if p.ledger == nil || closing != nil {
		return
	}
	if err := p.ledger.Remove(); err != nil {
		p.warn("", "forgetting the processes of servers: "+err.Error())
	}
}

// forget takes a session's processes off the list.
func (p *processes) forget(key string) {
	if p.ledger != nil {
		p.ledger.Forget(key)
	}
}
