package fleet

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/upstream"
)

const (
	tellLimit      = 30 * time.Second // for what is told to one new life
	introduceLimit = 2 * time.Second  // for what it is told before it serves
)

// wishes are what clients want of servers beyond single calls: resource
// subscriptions and a log level. They belong to the clients, so they outlive
// every life, and each new one is told of them.
type wishes struct {
	mu    sync.Mutex // guards the rest; nothing waits under it
	level string
	subs  map[seat]map[string]map[*listener]bool // by URI
	desks map[seat]map[string]*desk              // by URI
}

// A seat is where a server is asked: its shared slot, or the one of a session.
type seat struct {
	server string
	of     *Session // nil: the shared one
}

// A desk is where one server is asked about one resource, one request at a
// time: what is sent follows from what is wanted then, so that the end of one
// client's subscription cannot overtake the begin of another's.
type desk struct {
	gate  chan struct{} // one slot: held while the server is asked
	users int           // who hold it or wait for it; guarded by wishes.mu like the next
	asked bool          // the server sends updates

	// What the last subscribe came to is shared by those who came while it was out.
	answers uint64
	failure error
}

// A listener is one client's subscription to one resource.
type listener struct{ fn func(params []byte) }

func (w *wishes) init() {
	w.subs = map[seat]map[string]map[*listener]bool{}
	w.desks = map[seat]map[string]*desk{}
}

// enter also tells how many answers there were before, so that a later one is
// known to be of a request that was out by then.
func (w *wishes) enter(at seat, uri string) (d *desk, answers uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.desks[at] == nil {
		w.desks[at] = map[string]*desk{}
	}
	if d = w.desks[at][uri]; d == nil {
		d = &desk{gate: make(chan struct{}, 1)}
		w.desks[at][uri] = d
	}
	d.users++
	return d, d.answers
}

func (w *wishes) leave(at seat, uri string, d *desk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.users--; d.users == 0 && !d.asked && w.desks[at][uri] == d {
		delete(w.desks[at], uri)
	}
}

// add registers a listener.
func (w *wishes) add(at seat, uri string, l *listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs[at] == nil {
		w.subs[at] = map[string]map[*listener]bool{}
	}
	if w.subs[at][uri] == nil {
		w.subs[at][uri] = map[*listener]bool{}
	}
	w.subs[at][uri][l] = true
}

// remove takes a listener out; last tells that it was the last one.
func (w *wishes) remove(at seat, uri string, l *listener) (last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.subs[at][uri][l] {
		return false
	}
	delete(w.subs[at][uri], l)
	if len(w.subs[at][uri]) > 0 {
		return false
	}
	delete(w.subs[at], uri)
	return true
}

// wanted tells whether anybody listens to something there.
func (w *wishes) wanted(at seat) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.subs[at]) > 0
}

// forget drops all subscriptions to a removed server, or those of one seat.
func (w *wishes) forget(gone func(seat) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.subs, func(at seat, _ map[string]map[*listener]bool) bool { return gone(at) })
	maps.DeleteFunc(w.desks, func(at seat, _ map[string]*desk) bool { return gone(at) })
}

// of returns what a new life of the server must be told.
func (w *wishes) of(at seat) (uris []string, level string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri := range w.subs[at] {
		uris = append(uris, uri)
	}
	return uris, w.level
}

// updated hands an update to those who asked for it.
func (w *wishes) updated(at seat, uri string, params []byte) {
	w.mu.Lock()
	var fns []func([]byte)
	for l := range w.subs[at][uri] {
		fns = append(fns, l.fn)
	}
	w.mu.Unlock()
	for _, fn := range fns {
		fn(params)
	}
}

// Subscribe asks a server for the updates of a resource, and again each new
// life of it, until cancel is called. Where the server has a life for each
// session that of of is asked. fn gets the params of each notification, and a
// catch-up one after a life was replaced; it must not block.
func (f *Fleet) Subscribe(ctx context.Context, of *Session, server, uri string, fn func(params []byte)) (cancel func(), err error) {
	at := seat{server: server}
	_, release, err := f.At(server, of)
	if err != nil {
		return nil, err
	}
	if release != nil {
		at.of = of
		defer release()
	}
	l := &listener{fn: fn}
	f.wishes.add(at, uri, l)
	if err := f.settleDesk(ctx, at, uri, false); err != nil {
		f.unsubscribe(at, uri, l)
		return nil, err
	}
	return func() { f.unsubscribe(at, uri, l) }, nil
}

func (f *Fleet) unsubscribe(at seat, uri string, l *listener) {
	if !f.wishes.remove(at, uri, l) {
		return
	}
	f.spawn(func() {
		ctx, cancel := context.WithTimeout(f.hard, tellLimit)
		defer cancel()
		_ = f.settleDesk(ctx, at, uri, false) // a server that sends more is not listened to
	})
}

// settleDesk asks the server for what is wanted of a resource now. renew tells
// that a new life serves, which has not been asked for anything.
func (f *Fleet) settleDesk(ctx context.Context, at seat, uri string, renew bool) error {
	d, answers := f.wishes.enter(at, uri)
	defer f.wishes.leave(at, uri, d)
	select {
	case d.gate <- struct{}{}:
		defer func() { <-d.gate }()
	case <-ctx.Done():
		return fault.From(mcp.ResourcesSubscribe, ctx.Err())
	}
	f.wishes.mu.Lock()
	wanted, asked := len(f.wishes.subs[at][uri]) > 0, d.asked && !renew
	failure := d.failure
	if d.answers == answers || renew {
		failure = nil
	}
	f.wishes.mu.Unlock()
	method := mcp.ResourcesSubscribe
	switch {
	case wanted == asked:
		return nil
	case asked:
		method = mcp.ResourcesUnsubscribe
	case failure != nil: // one that was out when we came
		return failure
	}
	err := f.subscribe(ctx, at, method, uri, renew)
	f.wishes.mu.Lock()
	d.asked = wanted && err == nil
	if wanted && ctx.Err() == nil { // else it is the caller that gave up, and no answer
		d.answers, d.failure = d.answers+1, err
	}
	f.wishes.mu.Unlock()
	return err
}

// subscribe asks for one thing. own tells that no client has asked just now.
func (f *Fleet) subscribe(ctx context.Context, at seat, method, uri string, own bool) error {
	s := f.slotAt(at)
	if s == nil {
		return fault.New(fault.NotFound, method, "no server is called "+at.server+", or the life that was asked has ended")
	}
	c := &upstream.Call{Method: method, Name: uri, Params: uriParams(uri), Internal: own}
	if at.of != nil {
		c.Client = at.of.Client // the life is for it alone
	}
	_, err := s.Call(ctx, c, config.ReplayAlways)
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
	for _, m := range append(f.owns.members(), f.roster.Load().order...) {
		if m.slot.View().State.Serving != 0 {
			f.spawn(func() { f.sayLevel(m) })
		}
	}
}

// sayLevel tells the server which level is wanted now. One at a time for each
// server, so that an older wish never comes behind a newer one.
func (f *Fleet) sayLevel(m *member) {
	ctx, cancel := context.WithTimeout(f.hard, tellLimit)
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
	s := f.slotAt(m.seat())
	if s == nil {
		return
	}
	_, _ = s.Call(ctx, &upstream.Call{Method: mcp.LoggingSetLevel, Params: levelParams(level), Internal: true}, config.ReplayAlways) // a server without logging refuses: nothing is lost
}

// introduce tells a new life the log level before it gets its first call,
// whose messages would be lost else. What comes of it is no matter: a server
// without logging refuses, and tell says it again to one that did not answer.
func (f *Fleet) introduce(ctx context.Context, m *member, up slot.Upstream) {
	m.level.Store(nil)
	f.wishes.mu.Lock()
	level := f.wishes.level
	f.wishes.mu.Unlock()
	if level == "" || up.Info().Era.Modern { // there each call says it
		return
	}
	ctx, cancel := context.WithTimeout(ctx, introduceLimit)
	defer cancel()
	_, err := up.Call(ctx, &upstream.Call{Method: mcp.LoggingSetLevel, Params: levelParams(level)})
	if err == nil || fault.KindOf(err) == fault.RPC {
		m.level.Store(&level)
	}
}

// quietest is what a server is asked for when nobody wants its messages any
// more: the protocol has no level for none.
const quietest = "emergency"

// tell repeats the clients' wishes to the life that serves now, in a worker.
// What a server refuses is no fault of the link: it is dropped.
func (f *Fleet) tell(m *member) {
	at := m.seat()
	uris, level := f.wishes.of(at)
	if len(uris) == 0 && level == "" {
		return
	}
	f.spawn(func() {
		if said := m.level.Load(); level != "" && (said == nil || *said != level) {
			f.sayLevel(m)
		}
		ctx, cancel := context.WithTimeout(f.hard, tellLimit)
		defer cancel()
		for _, uri := range uris {
			if f.settleDesk(ctx, at, uri, true) == nil {
				f.wishes.updated(at, uri, uriParams(uri)) // what changed in the gap was not announced
			}
		}
	})
}
