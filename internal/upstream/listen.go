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
	// the next listing: a second one in every life would cost more.
	gapless = 50 * time.Millisecond
)

// listen is one subscription to a modern server (specification 2026-07-28,
// basic/patterns/subscriptions), over as many streams as it takes.
type listen struct {
	filter []byte
	lists  bool   // it is about what is listed
	caught func() // called when a stream is acknowledged after a gap

	life   context.Context // ends the subscription
	cancel context.CancelFunc

	first   sync.Once
	settled chan struct{} // closed when the first stream was acknowledged or refused
	agreed  []byte        // the filter that was acknowledged first; valid once settled is closed
	refused *fault.Fault  // why there is none; valid once settled is closed

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

func (l *listen) settle(agreed []byte, refused *fault.Fault) {
	l.first.Do(func() {
		l.agreed, l.refused = agreed, refused
		close(l.settled)
	})
}

// listenForLists opens the standing subscription to list changes of the kinds
// that the server declares.
func (u *Upstream) listenForLists() {
	filter := []byte("{}")
	var kinds []catalog.Kind
	if u.declaresTools() {
		filter = wire.Set(filter, []byte("true"), "toolsListChanged")
		kinds = append(kinds, catalog.Tools)
	}
	if u.declares("prompts") {
		filter = wire.Set(filter, []byte("true"), "promptsListChanged")
		kinds = append(kinds, catalog.Prompts)
	}
	if u.declares("resources") {
		filter = wire.Set(filter, []byte("true"), "resourcesListChanged")
		kinds = append(kinds, catalog.Resources, catalog.Templates)
	}
	if len(kinds) == 0 {
		return
	}
	u.listen(&listen{filter: filter, lists: true, caught: func() {
		for _, k := range kinds {
			u.changed(k)
		}
	}})
}

// listen begins a subscription, on a goroutine of its own that ends with it or
// with the upstream. nil if the upstream is being closed.
func (u *Upstream) listen(l *listen) *listen {
	l.settled = make(chan struct{})
	l.life, l.cancel = context.WithCancel(u.life)
	if !u.spawn(func() { u.keepListening(l) }) {
		l.cancel()
		return nil
	}
	return l
}

// keepListening opens one stream after the other, with growing delays, until
// the server refuses for good or the subscription ends.
func (u *Upstream) keepListening(l *listen) {
	defer l.cancel()
	told := false // of the gap that lasts, because of a refusal
	for delay := relistenFirst; ; delay = min(2*delay, relistenMax) {
		begun := time.Now()
		f := u.listenOnce(l)
		if l.offersNothing() {
			u.listSlowly(l)
			return
		}
		switch {
		case f != nil && l.opened() && fault.Refused(f):
			u.nobodyListens(f)
		case l.over(f):
			l.settle(nil, f)
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
			u.spare(f)
		}
		wait := max(delay/2+rand.N(delay/2), time.Duration(u.spared.Load())-time.Since(u.born))
		if f := u.pause(l.life, wait, mcp.SubscriptionsListen); f != nil {
			l.settle(nil, u.cut(f))
			return
		}
	}
}

// listSlowly takes the place of a stream that would tell of nothing.
func (u *Upstream) listSlowly(l *listen) {
	l.lose()
	for u.pause(l.life, relistSlow-rand.N(relistSlow/10), mcp.SubscriptionsListen) == nil {
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
func (u *Upstream) nobodyListens(f *fault.Fault) {
	lost := *f
	lost.Kind, lost.Outcome = fault.SessionLost, fault.NotSent
	lost.Err = fmt.Errorf("nobody listens at the server's port: %w", f.Err)
	u.end(&lost)
	if c, ok := u.link.conn.(interface{ Lost(*fault.Fault) }); ok {
		c.Lost(&lost)
	}
}

// opened tells whether a stream was acknowledged. It is valid while the
// subscription lasts.
func (l *listen) opened() bool {
	select {
	case <-l.settled:
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
	if gap && l.life.Err() == nil {
		l.caught()
	}
}

// listenOnce holds one stream open to its end, and returns why it ended; nil
// if that was in order.
func (u *Upstream) listenOnce(l *listen) *fault.Fault {
	id := u.ids.Add(1)
	req, f := u.encode(&Call{Method: mcp.SubscriptionsListen, Params: wire.Set(nil, l.filter, "notifications")}, id)
	if f != nil {
		return f
	}
	req.Stream = true
	ctx, cancel := context.WithCancel(l.life)
	defer cancel()
	l.mu.Lock()
	l.stop = cancel
	l.mu.Unlock()
	u.mu.Lock()
	u.listens[id] = l
	u.mu.Unlock()
	msg, err := u.link.conn.Call(ctx, req)
	u.mu.Lock()
	delete(u.listens, id)
	u.mu.Unlock()
	switch {
	case err == nil && msg.Error != nil:
		return u.rpcFault(mcp.SubscriptionsListen, msg.Error)
	case err == nil:
		return nil
	case l.life.Err() != nil && u.life.Err() == nil && !u.link.conn.Info().CancelByClose:
		u.sendCancelled(id, "the subscription has ended")
		return nil
	}
	return u.blame(mcp.SubscriptionsListen, err)
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
func (u *Upstream) acknowledged(of int64, params []byte) {
	id, ok := wire.ParseID(wire.Get(params, "_meta", mcp.MetaSubscription))
	if !ok {
		id = of
	}
	u.mu.Lock()
	l := u.listens[id]
	u.mu.Unlock()
	if l == nil {
		u.ignored.Add(1)
		return
	}
	if at := time.Duration(u.listed.Load()); l.lists && at != 0 && !l.opened() && time.Since(u.born)-at > gapless {
		l.lose()
	}
	agreed := wire.Get(params, "notifications")
	l.settle(agreed, nil)
	l.tellGap()
	l.offer(agreed)
}

// Subscribe asks for notifications about one resource, which arrive at
// Options.Updated. The subscription ends with this life. A server that does
// not offer it is an error of kind Unsupported, or the server's own.
func (u *Upstream) Subscribe(ctx context.Context, uri string) error {
	if !u.era.Modern {
		return u.command(ctx, mcp.ResourcesSubscribe, "uri", uri)
	}
	ctx, cancel := context.WithTimeout(ctx, u.opts.Server.CallTimeout)
	defer cancel()
	u.mu.Lock()
	l := u.subs[uri]
	u.mu.Unlock()
	if l == nil {
		l = u.subscribe(uri)
	}
	if l == nil {
		return u.blame(mcp.SubscriptionsListen, &fault.Fault{Kind: fault.Closed, Op: mcp.SubscriptionsListen, Outcome: fault.NotSent})
	}
	select {
	case <-l.settled:
	case <-ctx.Done():
		_ = u.Unsubscribe(ctx, uri) // toward a modern server it waits for nothing
		return u.blame(mcp.SubscriptionsListen, ctx.Err())
	}
	member, name := subject(uri)
	agreed := texts(wire.Get(l.agreed, member))
	switch {
	case l.refused != nil:
		return l.refused
	case !slices.Contains(agreed, name):
		_ = u.Unsubscribe(ctx, uri)
		f := fault.New(fault.Unsupported, mcp.SubscriptionsListen, "the server does not tell about changes of this")
		return u.blame(mcp.SubscriptionsListen, f)
	}
	return nil
}

// subject is what a filter asks for: the changes of a resource, or of a task.
func subject(uri string) (member, name string) {
	if id, ok := strings.CutPrefix(uri, TaskPrefix); ok {
		return "taskIds", id
	}
	return "resourceSubscriptions", uri
}

// subscribe opens the stream of one resource, or task.
func (u *Upstream) subscribe(uri string) *listen {
	member, name := subject(uri)
	filter := wire.Set(nil, slices.Concat([]byte{'['}, wire.AppendString(nil, name), []byte{']'}), member)
	l := u.listen(&listen{filter: filter, caught: func() {
		if u.opts.Updated != nil {
			u.opts.Updated(uri, wire.Set(nil, wire.AppendString(nil, uri), "uri"))
		}
	}})
	if l == nil {
		return nil
	}
	u.mu.Lock()
	other := u.subs[uri]
	if other == nil {
		u.subs[uri] = l
	}
	u.mu.Unlock()
	if other != nil {
		l.cancel()
		return other
	}
	u.forgetWith(l, uri)
	return l
}

// forgetWith takes a subscription out of the table when it has ended.
func (u *Upstream) forgetWith(l *listen, uri string) {
	context.AfterFunc(l.life, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.subs[uri] == l {
			delete(u.subs, uri)
		}
	})
}

// Unsubscribe takes Subscribe back.
func (u *Upstream) Unsubscribe(ctx context.Context, uri string) error {
	if !u.era.Modern {
		return u.command(ctx, mcp.ResourcesUnsubscribe, "uri", uri)
	}
	u.mu.Lock()
	l := u.subs[uri]
	u.mu.Unlock()
	if l != nil {
		l.cancel()
	}
	return nil
}

// SetLevel asks a legacy server for log messages from level on. A modern one
// is told with each call (Call.LogLevel), and nothing is sent.
func (u *Upstream) SetLevel(ctx context.Context, level string) error {
	if u.era.Modern {
		return nil
	}
	if !u.declares("logging") {
		return u.blame(mcp.LoggingSetLevel, &fault.Fault{Kind: fault.Unsupported, Op: mcp.LoggingSetLevel, Outcome: fault.NotSent})
	}
	return u.command(ctx, mcp.LoggingSetLevel, "level", level)
}

// command sends a request with one text in its params and an empty result.
func (u *Upstream) command(ctx context.Context, method, key, value string) error {
	_, err := u.Call(ctx, &Call{Method: method, Params: wire.Set(nil, wire.AppendString(nil, value), key)})
	return err
}
