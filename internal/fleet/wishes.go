package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/everline/everline/config"
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
	desks map[string]map[string]*desk              // by server, by URI
}

// A desk is where one server is asked about one resource, one request at a
// time: what is sent follows from what is wanted then, so that the end of one
// client's subscription cannot overtake the begin of another's.
type desk struct {
	gate  chan struct{} // one slot: held while the server is asked
	users int           // who hold it or wait for it; guarded by wishes.mu like the next
	asked bool          // the server sends updates
}

// A listener is one client's subscription to one resource.
type listener struct{ fn func(params []byte) }

func (w *wishes) init() {
	w.subs = map[string]map[string]map[*listener]bool{}
	w.desks = map[string]map[string]*desk{}
}

func (w *wishes) enter(server, uri string) *desk {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.desks[server] == nil {
		w.desks[server] = map[string]*desk{}
	}
	d := w.desks[server][uri]
	if d == nil {
		d = &desk{gate: make(chan struct{}, 1)}
		w.desks[server][uri] = d
	}
	d.users++
	return d
}

func (w *wishes) leave(server, uri string, d *desk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.users--; d.users == 0 && !d.asked && w.desks[server][uri] == d {
		delete(w.desks[server], uri)
	}
}

// add registers a listener.
func (w *wishes) add(server, uri string, l *listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs[server] == nil {
		w.subs[server] = map[string]map[*listener]bool{}
	}
	if w.subs[server][uri] == nil {
		w.subs[server][uri] = map[*listener]bool{}
	}
	w.subs[server][uri][l] = true
}

// remove takes a listener out; last tells that it was the last one.
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
	delete(w.desks, server)
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
	return f.SubscribeAt(ctx, target.Server, uri, fn)
}

// SubscribeAt is Subscribe where the owner is known.
func (f *Fleet) SubscribeAt(ctx context.Context, server, uri string, fn func(params []byte)) (cancel func(), err error) {
	l := &listener{fn: fn}
	f.wishes.add(server, uri, l)
	if err := f.settleDesk(ctx, server, uri, false); err != nil {
		f.unsubscribe(server, uri, l)
		return nil, err
	}
	return func() { f.unsubscribe(server, uri, l) }, nil
}

func (f *Fleet) unsubscribe(server, uri string, l *listener) {
	if !f.wishes.remove(server, uri, l) {
		return
	}
	f.spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
		defer cancel()
		_ = f.settleDesk(ctx, server, uri, false) // a server that sends more is not listened to
	})
}

// settleDesk asks the server for what is wanted of a resource now. renew tells
// that a new life serves, which has not been asked for anything.
func (f *Fleet) settleDesk(ctx context.Context, server, uri string, renew bool) error {
	d := f.wishes.enter(server, uri)
	defer f.wishes.leave(server, uri, d)
	select {
	case d.gate <- struct{}{}:
		defer func() { <-d.gate }()
	case <-ctx.Done():
		return fault.From("resources/subscribe", ctx.Err())
	}
	f.wishes.mu.Lock()
	wanted, asked := len(f.wishes.subs[server][uri]) > 0, d.asked && !renew
	f.wishes.mu.Unlock()
	method := "resources/subscribe"
	switch {
	case wanted == asked:
		return nil
	case asked:
		method = "resources/unsubscribe"
	}
	err := f.subscribe(ctx, server, method, uri)
	f.wishes.mu.Lock()
	d.asked = wanted && err == nil
	f.wishes.mu.Unlock()
	return err
}

func (f *Fleet) subscribe(ctx context.Context, server, method, uri string) error {
	s := f.Slot(server)
	if s == nil {
		return fault.New(fault.NotFound, method, "no server is called "+server)
	}
	_, err := s.Call(ctx, &slot.Request{Method: method, Name: uri, Params: uriParams(uri)}, config.ReplayAlways)
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
			f.spawn(func() { f.sayLevel(m) })
		}
	}
}

// sayLevel tells the server which level is wanted now. One at a time for each
// server, so that an older wish never comes behind a newer one.
func (f *Fleet) sayLevel(m *member) {
	ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
	defer cancel()
	select {
	case m.saying <- struct{}{}:
		defer func() { <-m.saying }()
	case <-ctx.Done():
		return
	}
	f.wishes.mu.Lock()
	level := f.wishes.level
	f.wishes.mu.Unlock()
	if level == "" {
		level = quietest
	}
	_, _ = m.slot.Call(ctx, &slot.Request{Method: "logging/setLevel", Params: levelParams(level)}, config.ReplayAlways) // a server without logging refuses: nothing is lost
}

// quietest is what a server is asked for when nobody wants its messages any
// more: the protocol has no level for none.
const quietest = "emergency"

// tell repeats the clients' wishes to the life that serves now, in a worker.
// What a server refuses is no fault of the link: it is dropped.
func (f *Fleet) tell(m *member) {
	uris, level := f.wishes.of(m.name)
	if len(uris) == 0 && level == "" {
		return
	}
	f.spawn(func() {
		if level != "" {
			f.sayLevel(m)
		}
		ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
		defer cancel()
		for _, uri := range uris {
			if f.settleDesk(ctx, m.name, uri, true) == nil {
				f.wishes.updated(m.name, uri, uriParams(uri)) // what changed in the gap was not announced
			}
		}
	})
}
