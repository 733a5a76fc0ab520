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
	tellLimit      = 30 * time.Second // for what is told to one new generation
	introduceLimit = 2 * time.Second  // for what it is told before it serves
)

// subscriptions are what clients want of servers beyond single calls: resource
// subscriptions and a log level. They belong to the clients, so they outlive
// every generation, and each new one is told of them.
type subscriptions struct {
	*core

	mu        sync.Mutex // guards the rest; nothing waits under it
	level     string
	listeners map[slotKey]map[string]map[*listener]bool // by URI
	asked     map[slotKey]map[string]*subscription      // by URI
}

// A subscription is where one server is asked about one resource, one request at a
// time: what is sent follows from what is wanted then, so that the end of one
// client's subscription cannot overtake the begin of another's.
type subscription struct {
	asking ctxLock // held while the server is asked
	users  int     // who hold it or wait for it; guarded by subscriptions.mu like the next
	asked  bool    // the server sends updates

	// What the last subscribe came to is shared by those who came while it was out.
	answers uint64
	failure error
}

// A listener is one client's subscription to one resource.
type listener struct{ fn func(params []byte) }

func newSubscriptions(c *core) *subscriptions {
	return &subscriptions{
		core:      c,
		listeners: map[slotKey]map[string]map[*listener]bool{},
		asked:     map[slotKey]map[string]*subscription{},
	}
}

// enter also tells how many answers there were before, so that a later one is
// known to be of a request that was out by then.
func (s *subscriptions) enter(key slotKey, uri string) (d *subscription, answers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked[key] == nil {
		s.asked[key] = map[string]*subscription{}
	}
	if d = s.asked[key][uri]; d == nil {
		d = &subscription{asking: newCtxLock()}
		s.asked[key][uri] = d
	}
	d.users++
	return d, d.answers
}

func (s *subscriptions) leave(key slotKey, uri string, d *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.users--; d.users == 0 && !d.asked && s.asked[key][uri] == d {
		delete(s.asked[key], uri)
	}
}

// add registers a listener.
func (s *subscriptions) add(key slotKey, uri string, l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[key] == nil {
		s.listeners[key] = map[string]map[*listener]bool{}
	}
	if s.listeners[key][uri] == nil {
		s.listeners[key][uri] = map[*listener]bool{}
	}
	s.listeners[key][uri][l] = true
}

// remove takes a listener out; last tells that it was the last one.
func (s *subscriptions) remove(key slotKey, uri string, l *listener) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listeners[key][uri][l] {
		return false
	}
	delete(s.listeners[key][uri], l)
	if len(s.listeners[key][uri]) > 0 {
		return false
	}
	delete(s.listeners[key], uri)
	return true
}

// wanted tells whether anybody listens to something there.
func (s *subscriptions) wanted(key slotKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners[key]) > 0
}

// forget drops all subscriptions to a removed server, or those of one session.
func (s *subscriptions) forget(gone func(slotKey) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.listeners, func(key slotKey, _ map[string]map[*listener]bool) bool { return gone(key) })
	maps.DeleteFunc(s.asked, func(key slotKey, _ map[string]*subscription) bool { return gone(key) })
}

// wants returns what a new generation of the server must be told.
func (s *subscriptions) wants(key slotKey) (uris []string, level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri := range s.listeners[key] {
		uris = append(uris, uri)
	}
	return uris, s.level
}

// updated hands an update to those who asked for it.
func (s *subscriptions) updated(key slotKey, uri string, params []byte) {
	s.mu.Lock()
	var fns []func([]byte)
	for l := range s.listeners[key][uri] {
		fns = append(fns, l.fn)
	}
	s.mu.Unlock()
	for _, fn := range fns {
		fn(params)
	}
}

// subscribe registers a listener, and returns once the server sends updates.
func (s *subscriptions) subscribe(ctx context.Context, key slotKey, uri string, fn func(params []byte)) (cancel func(), err error) {
	l := &listener{fn: fn}
	s.add(key, uri, l)
	if err := s.settle(ctx, key, uri, false); err != nil {
		s.unsubscribe(key, uri, l)
		return nil, err
	}
	return func() { s.unsubscribe(key, uri, l) }, nil
}

func (s *subscriptions) unsubscribe(key slotKey, uri string, l *listener) {
	if !s.remove(key, uri, l) {
		return
	}
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.ctx, tellLimit)
		defer cancel()
		_ = s.settle(ctx, key, uri, false) // a server that sends more is not listened to
	})
}

// settle asks the server for what is wanted of a resource now. renew tells
// that a new generation serves, which has not been asked for anything.
func (s *subscriptions) settle(ctx context.Context, key slotKey, uri string, renew bool) error {
	d, answers := s.enter(key, uri)
	defer s.leave(key, uri, d)
	if err := d.asking.lock(ctx); err != nil {
		return fault.From(mcp.ResourcesSubscribe, err)
	}
	defer d.asking.unlock()
	s.mu.Lock()
	wanted, asked := len(s.listeners[key][uri]) > 0, d.asked && !renew
	failure := d.failure
	if d.answers == answers || renew {
		failure = nil
	}
	s.mu.Unlock()
	method := mcp.ResourcesSubscribe
	switch {
	case wanted == asked:
		return nil
	case asked:
		method = mcp.ResourcesUnsubscribe
	case failure != nil: // one that was out when we came
		return failure
	}
	err := s.request(ctx, key, method, uri, renew)
	s.mu.Lock()
	d.asked = wanted && err == nil
	if wanted && ctx.Err() == nil { // else it is the caller that gave up, and no answer
		d.answers, d.failure = d.answers+1, err
	}
	s.mu.Unlock()
	return err
}

// request asks for one thing; internal: no client has asked just now.
func (s *subscriptions) request(ctx context.Context, key slotKey, method, uri string, internal bool) error {
	target := s.slotOf(key)
	if target == nil {
		return fault.New(fault.NotFound, method, "no server is called "+key.server+", or the session that asked has ended")
	}
	c := &upstream.Call{Method: method, Name: uri, Params: uriParams(uri), Internal: internal}
	if key.session != nil && !key.session.shared {
		c.Client = key.session.Client // the slot is for it alone
	}
	_, err := target.Call(ctx, c, config.ReplayAlways)
	return err
}

// setLevel notes the level; false if it is the same as before.
func (s *subscriptions) setLevel(level string) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.level != level
	s.level = level
	return changed
}

func (s *subscriptions) wantedLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// sayLevel tells the server which level is wanted now. One at a time for each
// server, so that an older one never comes behind a newer one.
func (s *subscriptions) sayLevel(m *member) {
	ctx, cancel := context.WithTimeout(s.ctx, tellLimit)
	defer cancel()
	if m.saying.lock(ctx) != nil {
		return
	}
	defer m.saying.unlock()
	level := s.wantedLevel()
	if level == "" {
		level = quietest
	}
	target := s.slotOf(m.slotKey())
	if target == nil {
		return
	}
	_, _ = target.Call(ctx, &upstream.Call{Method: mcp.LoggingSetLevel, Params: levelParams(level), Internal: true}, config.ReplayAlways) // a server without logging refuses: nothing is lost
}

// introduce tells a new generation the log level before it gets its first call,
// whose messages would be lost else. What comes of it is no matter: a server
// without logging refuses, and renew says it again to one that did not answer.
func (s *subscriptions) introduce(ctx context.Context, m *member, up slot.Upstream) {
	m.level.Store(nil)
	level := s.wantedLevel()
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

// renew repeats what clients want to the generation that serves now, in a worker.
// What a server refuses is no fault of the link: it is dropped.
func (s *subscriptions) renew(m *member) {
	key := m.slotKey()
	uris, level := s.wants(key)
	if len(uris) == 0 && level == "" {
		return
	}
	s.spawn(func() {
		if said := m.level.Load(); level != "" && (said == nil || *said != level) {
			s.sayLevel(m)
		}
		ctx, cancel := context.WithTimeout(s.ctx, tellLimit)
		defer cancel()
		for _, uri := range uris {
			if s.settle(ctx, key, uri, true) == nil {
				s.updated(key, uri, uriParams(uri)) // what changed in the gap was not announced
			}
		}
	})
}

// slotOf is the slot that a key stands for; nil if there is none now.
func (s *subscriptions) slotOf(key slotKey) *slot.Slot {
	if key.session != nil {
		return key.session.slot(key.server)
	}
	return s.roster.Load().slot(key.server)
}
