package stream

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// Lists is a set of the lists whose changes clients hear of. Resource templates
// are announced with resources, as the protocol has it.
type Lists uint8

// The lists.
const (
	Tools Lists = 1 << iota
	Prompts
	Resources

	AllLists = Tools | Prompts | Resources
)

const listCount = 3

// changeMethods are the notifications' methods, in the order of the bits.
var changeMethods = [listCount]string{mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged}

// filterNames are the members by which a subscriptions/listen names lists, in
// the order of the bits (basic/patterns/subscriptions).
var filterNames = [listCount]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}

// Methods are those of the notifications that announce a change of the lists.
func (l Lists) Methods() iter.Seq[string] { return l.pick(&changeMethods) }

// Filters are the names of the lists in the filter of a subscriptions/listen.
func (l Lists) Filters() iter.Seq[string] { return l.pick(&filterNames) }

func (l Lists) pick(names *[listCount]string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, name := range names {
			if l&(1<<i) != 0 && !yield(name) {
				return
			}
		}
	}
}

// ListsOf are the lists that a filter of a subscriptions/listen asks for.
func ListsOf(filter []byte) Lists {
	var l Lists
	for key, val := range wire.Members(filter) {
		for i, name := range filterNames {
			if on, _ := wire.Bool(val); on && key == name {
				l |= 1 << i
			}
		}
	}
	return l
}

// plainNote announces a changed list to a legacy client.
func plainNote(method string) []byte { return wire.AppendNotification(nil, method, nil) }

// Versions counts the changes of each list.
type Versions [listCount]uint64

// since are the lists that have changed from announced to v.
func (v *Versions) since(announced *Versions) Lists {
	var l Lists
	for i := range v {
		if v[i] != announced[i] {
			l |= 1 << i
		}
	}
	return l
}

// ListVersions holds the newest versions of all lists. Streams compare them with
// what they have announced, so that any number of changes is one notification, and
// none is queued.
type ListVersions struct {
	newest atomic.Pointer[snapshot]
	mu     sync.Mutex // orders Publish; nothing waits under it
}

// A snapshot is never changed; the next one replaces it, and then changed is
// closed.
type snapshot struct {
	versions Versions
	changed  chan struct{}
}

// NewListVersions returns the versions of lists that have not changed yet.
func NewListVersions() *ListVersions {
	l := &ListVersions{}
	l.newest.Store(&snapshot{changed: make(chan struct{})})
	return l
}

// Newest are the versions of now.
func (l *ListVersions) Newest() Versions { return l.newest.Load().versions }

// Publish counts a change of lists.
func (l *ListVersions) Publish(changed Lists) {
	if changed == 0 {
		return
	}
	l.mu.Lock()
	old := l.newest.Load()
	next := &snapshot{versions: old.versions, changed: make(chan struct{})}
	for i := range next.versions {
		if changed&(1<<i) != 0 {
			next.versions[i]++
		}
	}
	l.newest.Store(next)
	l.mu.Unlock()
	close(old.changed)
}
