package fleet

import (
	"maps"
	"slices"
	"sync"
)

// retired are members of servers that were removed, while their slots close,
// and their generations, which are not used again.
type retired struct {
	mu      sync.Mutex               // guards the rest; nothing waits under it
	leaving map[string]chan struct{} // servers whose slot is still closing
	members map[*member]struct{}     // all whose slot is, several of one name among them
	gens    map[string]uint64        // the newest generations
}

func newRetired() *retired {
	return &retired{leaving: map[string]chan struct{}{}, members: map[*member]struct{}{}, gens: map[string]uint64{}}
}

// add takes a member that begins to close; done is to be called when it has, or
// would not.
func (r *retired) add(m *member) (done func(closed bool)) {
	gone := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving[m.name] = gone
	r.members[m] = struct{}{}
	r.gens[m.name] = m.slot.View().State.Gen
	return func(closed bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if closed {
			delete(r.members, m)
		}
		if r.leaving[m.name] == gone {
			delete(r.leaving, m.name)
		}
		close(gone)
	}
}

// all returns the removed members whose slots are not gone yet.
func (r *retired) all() []*member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.members))
}

// lastGen is the newest generation of a server that was removed.
func (r *retired) lastGen(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gens[name]
}

// predecessor returns a channel that is closed when the last retired slot of
// that name is gone; nil if none is on its way out.
func (r *retired) predecessor(name string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.leaving[name]; ok {
		return c
	}
	return nil
}
