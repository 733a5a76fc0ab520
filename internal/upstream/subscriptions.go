package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

const (
	relistenFirst  = time.Second
	relistenMax    = 30 * time.Second
	relistenProven = 30 * time.Second // a stream that lived so long starts the delays anew

	// relistSlow is how often is listed anew what no stream tells about.
	relistSlow = 5 * time.Minute

	// gapless is how much later than the first listing the first stream may
	// come without a second listing. What changes in so short a time is left to
	// the next listing: a second one in every generation would cost more.
	gapless = 50 * time.Millisecond
)

// listen is one subscription to a modern server (specification 2026-07-28,
// basic/patterns/subscriptions), over as many streams as it takes.
type listen struct {
	filter []byte
	lists  bool   // it is about what is listed
	caught func() // called when a stream is acknowledged after a gap

	ctx    context.Context // ends the subscription
	cancel context.CancelFunc

	first    sync.Once
	resolved chan struct{} // closed when the first stream was acknowledged or refused
	agreed   []byte        // the filter that was acknowledged first; valid once resolved is closed
	refused  *fault.Fault  // why there is none; valid once resolved is closed

	mu     sync.Mutex // guards the rest; nothing else happens under it
	stop   context.CancelFunc
	gap    bool // notifications may have been lost since the last acknowledgement
	barren bool // the last acknowledgement offers nothing of what is listed
}

// cut ends the stream that is open; another follows.
func (l *listen) cut() {
	l.mu.Lock()
	stop := l.stop
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (l *listen) resolve(agreed []byte, refused *fault.Fault) {
	l.first.Do(func() {
		l.agreed, l.refused = agreed, refused
		close(l.resolved)
	})
}

// subscriptions are those of a modern server: the standing one to list changes,
// and one for each resource or task.
type subscriptions struct {
	*core
	listed *listed

	mu      sync.Mutex        // guards the rest; nothing waits under it
	streams map[int64]*listen // open, by request id
	byURI   map[string]*listen
}

func newSubscriptions(c *core, l *listed) *subscriptions {
	return &subscriptions{core: c, listed: l, streams: map[int64]*listen{}, byURI: map[string]*listen{}}
}

// listenForLists opens the standing subscription to list changes of the kinds
// that the server declares.
func (s *subscriptions) listenForLists() {
	filter := []byte("{}")
	var kinds []catalog.Kind
	if s.declaresTools() {
		filter = wire.Set(filter, []byte("true"), "toolsListChanged")
		kinds = append(kinds, catalog.Tools)
	}
	if s.declares("prompts") {
		filter = wire.Set(filter, []byte("true"), "promptsListChanged")
		kinds = append(kinds, catalog.Prompts)
	}
	if s.declares("resources") {
		filter = wire.Set(filter, []byte("true"), "resourcesListChanged")
		kinds = append(kinds, catalog.Resources, catalog.Templates)
	}
	if len(kinds) == 0 {
		return
	}
	s.listen(&listen{filter: filter, lists: true, caught: func() {
		for _, k := range kinds {
			s.changed(k)
		}
	}})
}

// listen begins a subscription, on a goroutine of its own that ends with it or
// with the upstream. nil if the upstream is being closed.
func (s *subscriptions) listen(l *listen) *listen {
	l.resolved = make(chan struct{})
	l.ctx, l.cancel = context.WithCancel(s.ctx)
	if !s.spawn(func() { s.keepListening(l) }) {
		l.cancel()
		return nil
	}
	return l
}

// keepListening opens one stream after the other, with growing delays, until
// the server refuses for good or the subscription ends.
func (s *subscriptions) keepListening(l *listen) {
	defer l.cancel()
	told := false // of the gap that lasts, because of a refusal
	for delay := relistenFirst; ; delay = min(2*delay, relistenMax) {
		begun := time.Now()
		f := s.listenOnce(l)
		if l.offersNothing() {
			s.listSlowly(l)
			return
		}
		switch {
		case f != nil && l.opened() && fault.Refused(f):
			s.nobodyListens(f)
		case l.over(f):
			l.resolve(nil, f)
			l.tellGap() // nobody will hear of changes from here on
			return
		case !refuses(f):
			told = false
		case !told: // a listing finds out what has become of the server
			l.tellGap()
			told = true
		}
		l.lose()
		if time.Since(begun) > relistenProven {
			delay = relistenFirst
		}
		if f != nil && f.Kind == fault.RateLimited {
			s.spare(f)
		}
		wait := max(delay/2+rand.N(delay/2), time.Duration(s.spared.Load())-s.now())
		if f := s.pause(l.ctx, wait, mcp.SubscriptionsListen); f != nil {
			l.resolve(nil, s.cutOff(f))
			return
		}
	}
}

// listSlowly takes the place of a stream that would tell of nothing.
func (s *subscriptions) listSlowly(l *listen) {
	l.lose()
	for s.pause(l.ctx, relistSlow-rand.N(relistSlow/10), mcp.SubscriptionsListen) == nil {
		l.tellGap()
		l.lose()
	}
}

func (l *listen) offersNothing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.barren
}

// offer notes what a stream will tell about; a server that leaves that open may
// tell about anything.
func (l *listen) offer(agreed []byte) {
	if !l.lists || len(agreed) == 0 || agreed[0] != '{' {
		return
	}
	for _, list := range []string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"} {
		if string(wire.Get(agreed, list)) == "true" {
			return
		}
	}
	l.mu.Lock()
	l.barren = true
	l.mu.Unlock()
	l.cut()
}

// nobodyListens ends the upstream: where a stream that worked is refused a
// connection the server's process has ended, whether or not anybody calls it.
func (s *subscriptions) nobodyListens(f *fault.Fault) {
	lost := *f
	lost.Kind, lost.Outcome = fault.SessionLost, fault.NotSent
	lost.Err = fmt.Errorf("nobody listens at the server's port: %w", f.Err)
	s.lose(&lost)
}

// opened tells whether a stream was acknowledged. It is valid while the
// subscription lasts.
func (l *listen) opened() bool {
	select {
	case <-l.resolved:
		return true
	default:
		return false
	}
}

// lose notes that notifications may be lost from here on.
func (l *listen) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gap = true
}

// tellGap calls caught if there was a gap, and closes it.
func (l *listen) tellGap() {
	l.mu.Lock()
	gap := l.gap
	l.gap = false
	l.mu.Unlock()
	if gap && l.ctx.Err() == nil {
		l.caught()
	}
}

// listenOnce holds one stream open to its end, and returns why it ended; nil
// if that was in order.
func (s *subscriptions) listenOnce(l *listen) *fault.Fault {
	id := s.ids.Add(1)
	req, f := s.encode(&Call{Method: mcp.SubscriptionsListen, Params: wire.Set(nil, l.filter, "notifications")}, id)
	if f != nil {
		return f
	}
	req.Stream = true
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	l.mu.Lock()
	l.stop = cancel
	l.mu.Unlock()
	s.mu.Lock()
	s.streams[id] = l
	s.mu.Unlock()
	msg, err := s.link.conn.Call(ctx, req)
	s.mu.Lock()
	delete(s.streams, id)
	s.mu.Unlock()
	switch {
	case err == nil && msg.Error != nil:
		return s.rpcFault(mcp.SubscriptionsListen, msg.Error)
	case err == nil:
		return nil
	case l.ctx.Err() != nil && s.ctx.Err() == nil && !s.link.conn.Info().CancelByClose:
		s.sendCancelled(id, "the subscription has ended", func() {})
		return nil
	}
	return s.blame(mcp.SubscriptionsListen, err)
}

// over tells whether a stream was refused for good. Once there was one, what
// refuses it may be a server that is starting up, or what is in front of it:
// only that the server knows no such method is final then.
func (l *listen) over(f *fault.Fault) bool {
	return refuses(f) && (!l.opened() || f.Kind == fault.RPC && f.RPC.Code == mcp.CodeMethodNotFound)
}

// refuses tells a refusal from a stream that ended or could not be opened now.
func refuses(f *fault.Fault) bool {
	if f == nil {
		return false
	}
	switch f.Kind {
	case fault.HTTPStatus:
		return f.Status >= 400 && f.Status < 500
	case fault.RPC, fault.Unauthorized, fault.Forbidden, fault.Protocol, fault.SessionSuspect:
		return true
	default:
		return false
	}
}

// acknowledged is the first message of a stream: what the server agreed to.
func (s *subscriptions) acknowledged(stream int64, params []byte) {
	id, ok := wire.ParseID(wire.Get(params, "_meta", mcp.MetaSubscription))
	if !ok {
		id = stream
	}
	s.mu.Lock()
	l := s.streams[id]
	s.mu.Unlock()
	if l == nil {
		s.ignored.Add(1)
		return
	}
	if first := time.Duration(s.listed.first.Load()); l.lists && first != 0 && !l.opened() && s.now()-first > gapless {
		l.lose()
	}
	agreed := wire.Get(params, "notifications")
	l.resolve(agreed, nil)
	l.tellGap()
	l.offer(agreed)
}

// subscribe asks for notifications about one resource, or task, which arrive at
// Options.Updated. The subscription ends with this generation. A server that
// does not offer it is an error of kind Unsupported, or the server's own.
func (s *subscriptions) subscribe(ctx context.Context, uri string) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Server.CallTimeout)
	defer cancel()
	l := s.find(uri)
	if l == nil {
		l = s.open(uri)
	}
	if l == nil {
		return s.blame(mcp.SubscriptionsListen, &fault.Fault{Kind: fault.Closed, Op: mcp.SubscriptionsListen, Outcome: fault.NotSent})
	}
	select {
	case <-l.resolved:
	case <-ctx.Done():
		s.unsubscribe(uri)
		return s.blame(mcp.SubscriptionsListen, ctx.Err())
	}
	member, name := subject(uri)
	agreed := texts(wire.Get(l.agreed, member))
	switch {
	case l.refused != nil:
		return l.refused
	case !slices.Contains(agreed, name):
		s.unsubscribe(uri)
		f := fault.New(fault.Unsupported, mcp.SubscriptionsListen, "the server does not tell about changes of this")
		return s.blame(mcp.SubscriptionsListen, f)
	}
	return nil
}

// unsubscribe takes subscribe back, and waits for nothing.
func (s *subscriptions) unsubscribe(uri string) {
	if l := s.find(uri); l != nil {
		l.cancel()
	}
}

// find is the subscription to a resource; nil if there is none.
func (s *subscriptions) find(uri string) *listen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byURI[uri]
}

// subject is what a filter asks for: the changes of a resource, or of a task.
func subject(uri string) (member, name string) {
	if id, ok := strings.CutPrefix(uri, TaskPrefix); ok {
		return "taskIds", id
	}
	return "resourceSubscriptions", uri
}

// open opens the stream of one resource, or task.
func (s *subscriptions) open(uri string) *listen {
	member, name := subject(uri)
	filter := wire.Set(nil, slices.Concat([]byte{'['}, wire.AppendString(nil, name), []byte{']'}), member)
	l := s.listen(&listen{filter: filter, caught: func() {
		s.updated(uri, wire.Set(nil, wire.AppendString(nil, uri), "uri"))
	}})
	if l == nil {
		return nil
	}
	s.mu.Lock()
	other := s.byURI[uri]
	if other == nil {
		s.byURI[uri] = l
	}
	s.mu.Unlock()
	if other != nil {
		l.cancel()
		return other
	}
	s.forgetWith(l, uri)
	return l
}

// forgetWith takes a subscription out of the table when it has ended.
func (s *subscriptions) forgetWith(l *listen, uri string) {
	context.AfterFunc(l.ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byURI[uri] == l {
			delete(s.byURI, uri)
		}
	})
}

// cutStream ends an open stream, as the server asked; another follows. It is false if
// there is none with this id.
func (s *subscriptions) cutStream(id int64) bool {
	s.mu.Lock()
	l := s.streams[id]
	s.mu.Unlock()
	if l == nil {
		return false
	}
	l.cut()
	return true
}
