// Package usage tells what processes of this machine, with all below them, hold and
// have used. It knows no servers.
package usage

import (
	"sync"
	"time"
)

// A Tree is a process with all that it has started. One without processes is not
// known: it is not there, or the system does not tell.
type Tree struct {
	Processes int
	Resident  int64         // bytes
	CPU       time.Duration // of those that are there, and of those that they have waited for
}

func (t Tree) plus(o Tree) Tree {
	return Tree{t.Processes + o.Processes, t.Resident + o.Resident, t.CPU + o.CPU}
}

// Trees are those of all processes, by the one at the root.
type Trees map[int]Tree

// Of adds up the trees of some processes, none of which is below another. 0 is none.
func (ts Trees) Of(pids ...int) (all Tree) {
	for _, pid := range pids {
		all = all.plus(ts[pid])
	}
	return all
}

// Read looks at all processes of this machine, which costs time in proportion to them.
func Read() Trees { return sum(processes()) }

// A process is what is needed of one entry of the system's list.
type process struct {
	parent int
	Tree
}

// sum adds what each process holds to all above it.
func sum(all map[int]process) Trees {
	sums := make(Trees, len(all))
	for pid, p := range all {
		top := pid
		for range len(all) { // a list that was read while it changed may have a ring in it
			sums[top] = sums[top].plus(p.Tree)
			parent := all[top].parent
			if _, known := all[parent]; !known || parent == top || parent == pid {
				break
			}
			top = parent
		}
	}
	return sums
}

// maxAge is how old what Recent returns may be.
const maxAge = time.Second

// Recent reads the trees once a second at most. The zero value is ready for use.
type Recent struct {
	mu    sync.Mutex // guards the rest; held while the list is read, so that one reads it for all
	read  time.Time
	trees Trees
}

// Trees are those of a second ago, or of now.
func (r *Recent) Trees() Trees {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.read) > maxAge || r.trees == nil {
		r.trees, r.read = Read(), time.Now()
	}
	return r.trees
}
