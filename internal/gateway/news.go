package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
)

// kindCount is how many kinds of items are listed.
const kindCount = len(listMembers)

// An edition counts the changes of what is published, by kind. It is never
// changed; the next one replaces it, and then changed is closed.
type edition struct {
	count   [kindCount]uint64
	changed chan struct{}
}

// news holds the newest edition. Streams compare it with what they have told,
// so that any number of changes is one notification, and none is queued.
type news struct {
	now atomic.Pointer[edition]
	mu  sync.Mutex // orders publish; nothing waits under it
}

func (n *news) init() { n.now.Store(&edition{changed: make(chan struct{})}) }

func (n *news) publish(kinds []everline.Kind) {
	if len(kinds) == 0 {
		return
	}
	n.mu.Lock()
	old := n.now.Load()
	next := &edition{count: old.count, changed: make(chan struct{})}
	for _, k := range kinds {
		next.count[k]++
	}
	n.now.Store(next)
	n.mu.Unlock()
	close(old.changed)
}

// listChanged are the notifications for a change from one edition to another,
// by kind. Templates are announced with resources, as the protocol has it.
type listChanged uint8

const (
	toolsChanged listChanged = 1 << iota
	promptsChanged
	resourcesChanged

	allChanged = toolsChanged | promptsChanged | resourcesChanged
)

func (e *edition) since(told *[kindCount]uint64) listChanged {
	var c listChanged
	if e.count[everline.Tools] != told[everline.Tools] {
		c |= toolsChanged
	}
	if e.count[everline.Prompts] != told[everline.Prompts] {
		c |= promptsChanged
	}
	if e.count[everline.Resources] != told[everline.Resources] || e.count[everline.Templates] != told[everline.Templates] {
		c |= resourcesChanged
	}
	return c
}

// changeMethods are the notifications' methods, in the order of the bits.
var changeMethods = [...]string{
	mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged,
}

// each calls fn with the method of every change in c.
func (c listChanged) each(fn func(method string)) {
	for i, m := range changeMethods {
		if c&(1<<i) != 0 {
			fn(m)
		}
	}
}
