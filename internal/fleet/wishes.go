package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/slot"
)

// tellLimit bounds what is told to one new life.
const tellLimit = 30 * time.Second

// wishes are what clients want of servers beyond single calls: resource
// subscriptions and a log level. They belong to the clients, so they outlive
// every life, and each new one is told of them.
type wishes struct {
	mu    sync.Mutex // guards the rest; nothing waits under it
	level string
	subs  map[string]map[string]map[*listener]bool // by server, by URI
}

// A listener is one client's subscription to one resource.
type listener struct{ fn func(params []byte) }

func (w *wishes) init() { w.subs = map[string]map[string]map[*listener]bool{} }

// add registers a listener; first tells that the server must be asked.
func (w *wishes) add(server, uri string, l *listener) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs[server] == nil {
		w.subs[server] = map[string]map[*listener]bool{}
	}
	if w.subs[server][uri] == nil {
		w.subs[server][uri] = map[*listener]bool{}
		first = true
	}
	w.subs[server][uri][l] = true
	return first
}

// remove takes a listener out; last tells that the server need not send any more.
func (w *wishes) remove(server, uri string, l *listener) (last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.subs[server][uri][l] {
		return false
	}
	delete(w.subs[server][uri], l)
	if len(w.subs[server][uri]) > 0 {
		return false
	}
	delete(w.subs[server], uri)
	return true
}

// forget drops all subscriptions to a removed server.
func (w *wishes) forget(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.subs, server)
}

// of returns what a new life of the server must be told.
func (w *wishes) of(server string) (uris []string, level string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri := range w.subs[server] {
		uris = append(uris, uri)
	}
	return uris, w.level
}

// updated hands an update to those who asked for it.
func (w *wishes) updated(server, uri string, params []byte) {
	w.mu.Lock()
	var fns []func([]byte)
	for l := range w.subs[server][uri] {
		fns = append(fns, l.fn)
	}
	w.mu.Unlock()
	for _, fn := range fns {
		fn(params)
	}
}

// Subscribe asks the server that owns the resource for its updates, and again
// each new life of it, until cancel is called. fn gets the params of each
// notification, and a catch-up one after a life was replaced; it must not
// block.
func (f *Fleet) Subscribe(ctx context.Context, uri string, fn func(params []byte)) (cancel func(), err error) {
	target, ok := f.Table().Resource(uri)
	if !ok {
		return nil, fault.New(fault.NotFound, "resources/subscribe", "no server has the resource "+uri)
	}
	l := &listener{fn: fn}
	if f.wishes.add(target.Server, uri, l) {
		if err := f.subscribe(ctx, target.Server, "resources/subscribe", uri); err != nil {
			f.wishes.remove(target.Server, uri, l)
			return nil, err
		}
	}
	return func() { f.unsubscribe(target.Server, uri, l) }, nil
}

func (f *Fleet) unsubscribe(server, uri string, l *listener) {
	if !f.wishes.remove(server, uri, l) {
		return
	}
	f.spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
		defer cancel()
		_ = f.subscribe(ctx, server, "resources/unsubscribe", uri) // a server that sends more is not listened to
	})
}

func (f *Fleet) subscribe(ctx context.Context, server, method, uri string) error {
	s := f.Slot(server)
	if s == nil {
		return fault.New(fault.NotFound, method, "no server is called "+server)
	}
	_, err := s.Call(ctx, &slot.Request{Method: method, Name: uri, Params: uriParams(uri)}, true)
	return err
}

// SetLevel asks every server for log messages from this level on, and each new
// life as well. The level is one for all clients: the most talkative that any
// of them wants.
func (f *Fleet) SetLevel(level string) {
	f.wishes.mu.Lock()
	same := f.wishes.level == level
	f.wishes.level = level
	f.wishes.mu.Unlock()
	if same {
		return
	}
	for _, m := range f.roster.Load().order {
		if m.slot.View().State.Serving != 0 {
			f.spawn(func() { f.sayLevel(m, level) })
		}
	}
}

func (f *Fleet) sayLevel(m *member, level string) {
	ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
	defer cancel()
	_, _ = m.slot.Call(ctx, &slot.Request{Method: "logging/setLevel", Params: levelParams(level)}, true) // a server without logging refuses: nothing is lost
}

// tell repeats the clients' wishes to the life that serves now, in a worker.
// What a server refuses is no fault of the link: it is dropped.
func (f *Fleet) tell(m *member) {
	uris, level := f.wishes.of(m.name)
	if len(uris) == 0 && level == "" {
		return
	}
	f.spawn(func() {
		if level != "" {
			f.sayLevel(m, level)
		}
		ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
		defer cancel()
		for _, uri := range uris {
			if f.subscribe(ctx, m.name, "resources/subscribe", uri) == nil {
				f.wishes.updated(m.name, uri, uriParams(uri)) // what changed in the gap was not announced
			}
		}
	})
}
