package everline

import (
	"context"
	"sync"

	"github.com/everline/everline/event"
)

// A notifier hands what happens to everybody that listens. Nothing in it blocks:
// func listeners must not, and a channel that is full is closed.
type notifier struct {
	emit func(event.Event)

	mu      sync.Mutex // guards the rest; listeners are called after it is released
	closed  bool
	next    int
	changes map[int]func([]Kind)
	applies map[int]func()
	says    map[int]func(server string, kinds []Kind)
	logs    map[int]func(server string, params []byte)
	watches map[int]chan event.Event
	past    []event.Event // the newest, watchPast at most
}

func (f *notifier) changed(kinds []Kind) {
	for _, fn := range snapshot(f, f.changesLocked) {
		fn(kinds)
	}
}

// announced tells of lists that a server has announced as changed and that are
// the same.
func (f *notifier) announced(server string, kinds []Kind) {
	for _, fn := range snapshot(f, f.saysLocked) {
		fn(server, kinds)
	}
}

func (f *notifier) logged(server string, params []byte) {
	for _, fn := range snapshot(f, f.logsLocked) {
		fn(server, params)
	}
}

// reconfigured tells those whose part of the catalog the configuration decides.
func (f *notifier) reconfigured() {
	for _, fn := range snapshot(f, f.appliesLocked) {
		fn()
	}
}

func (f *notifier) appliesLocked() map[int]func()            { return f.applies }
func (f *notifier) changesLocked() map[int]func([]Kind)      { return f.changes }
func (f *notifier) saysLocked() map[int]func(string, []Kind) { return f.says }
func (f *notifier) logsLocked() map[int]func(string, []byte) { return f.logs }

// snapshot copies the listeners, so that they are called outside the lock.
func snapshot[F any](f *notifier, get func() map[int]F) []F {
	f.mu.Lock()
	defer f.mu.Unlock()
	fns := make([]F, 0, len(get()))
	for _, fn := range get() {
		fns = append(fns, fn)
	}
	return fns
}

func (f *notifier) event(e event.Event) {
	if f.emit != nil {
		f.emit(e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.past) == watchPast {
		f.past = append(f.past[:0], f.past[watchPast/4:]...)
	}
	f.past = append(f.past, e)
	for id, ch := range f.watches {
		select {
		case ch <- e:
		default: // it does not read: cut off, not waited for
			delete(f.watches, id)
			close(ch)
		}
	}
}

func (f *notifier) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for id, ch := range f.watches {
		delete(f.watches, id)
		close(ch)
	}
}

// add registers a listener in the map that field points to.
func add[F any](f *notifier, field *map[int]F, fn F) (cancel func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *field == nil {
		*field = map[int]F{}
	}
	id := f.next
	f.next++
	(*field)[id] = fn
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(*field, id)
	}
}

// OnChange calls fn after each new catalog is published, with the kinds whose
// lists differ; and, at most once a second for each server, with those whose change a
// server has announced though they are the same. fn must not block, nor ask for a Status, which may wait for
// the catalog that comes behind it. cancel ends it.
func (h *Hub) OnChange(fn func(kinds []Kind)) (cancel func()) {
	ends := [...]func(){
		add(&h.notifier, &h.notifier.changes, fn),
		add(&h.notifier, &h.notifier.says, func(_ string, kinds []Kind) { fn(kinds) }),
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// OnLog calls fn with the params of every notifications/message of a server
// that belongs to no certain call; those that do go to the call's Client.
// fn must not block. cancel ends it.
func (h *Hub) OnLog(fn func(server string, params []byte)) (cancel func()) {
	return add(&h.notifier, &h.notifier.logs, fn)
}

const (
	watchBuffer = 1024 // how many events a reader of Watch may fall behind
	watchPast   = 256  // how many events are kept for those who come later
)

// Watch returns the events since Open, of which at least the newest 192 are
// kept, and then each as it happens, until ctx ends or the hub is closed; then
// the channel is closed. A reader that falls 768 events behind is cut off: its
// channel is closed.
func (h *Hub) Watch(ctx context.Context) <-chan event.Event {
	ch := make(chan event.Event, watchBuffer)
	f := &h.notifier
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		close(ch)
		return ch
	}
	if f.watches == nil {
		f.watches = map[int]chan event.Event{}
	}
	id := f.next
	f.next++
	f.watches[id] = ch
	for _, e := range f.past {
		ch <- e // there is room: it is made for more
	}
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, open := f.watches[id]; open {
			delete(f.watches, id)
			close(ch)
		}
	})
	return ch
}
