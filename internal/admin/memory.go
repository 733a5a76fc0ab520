package admin

import (
	"sync"
	"time"
)

// memoryAge is how old the reported memory may be: looking costs time in
// proportion to the processes of the whole machine.
const memoryAge = time.Second

// A process is what is needed of one entry of the system's list.
type process struct {
	parent   int
	resident int64 // bytes
}

// memory adds up what processes and their descendants hold. The zero value is
// ready for use.
type memory struct {
	mu    sync.Mutex // guards the rest; held while the list is read, so that one reads it for all
	read  time.Time
	trees map[int]int64 // bytes by the process at the root
}

// resident is the resident memory of a process and of all that it has started; 0
// if that is not known.
func (m *memory) resident(pid int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.read) > memoryAge || m.trees == nil {
		m.trees, m.read = sumTrees(processes()), time.Now()
	}
	return m.trees[pid]
}

// sumTrees adds the memory of each process to that of all above it.
func sumTrees(all map[int]process) map[int]int64 {
	sums := make(map[int]int64, len(all))
	for pid, p := range all {
		top := pid
		for range len(all) { // a list that was read while it changed may have a ring in it
			sums[top] += p.resident
			parent := all[top].parent
			if _, known := all[parent]; !known || parent == top || parent == pid {
				break
			}
			top = parent
		}
	}
	return sums
}
