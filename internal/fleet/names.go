package fleet

import (
	"maps"
	"slices"
	"sync"
)

// names is a set of members that somebody has to look at. The zero value is empty.
type names struct {
	mu  sync.Mutex // guards set; nothing waits under it
	set map[string]bool
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set = map[string]bool{}
	}
	n.set[name] = true
}

// take empties the set and returns what was in it, sorted.
func (n *names) take() []string {
	n.mu.Lock()
	set := n.set
	n.set = nil
	n.mu.Unlock()
	return slices.Sorted(maps.Keys(set))
}
