package upstream

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/wire"
)

const (
	methodListen = "subscriptions/listen"

	relistenFirst  = time.Second
	relistenMax    = 30 * time.Second
	relistenProven = 30 * time.Second // a stream that lived so long starts the delays anew
)

// listen is one subscription to a modern server (specification 2026-07-28,
// basic/patterns/subscriptions), over as many streams as it takes.
type listen struct {
	filter []byte
	caught func() // called when a stream is acknowledged after a gap

	life   context.Context // ends the subscription
	cancel context.CancelFunc

	first   sync.Once
	settled chan struct{} // closed when the first stream was acknowledged or refused
	agreed  []byte        // the filter that was acknowledged first; valid once settled is closed
	refused *fault.Fault  // why there is none; valid once settled is closed

	mu   sync.Mutex // guards stop and gap; nothing else happens under it
	stop context.CancelFunc
	gap  bool // notifications may have been lost since the last acknowledgement
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
	u.listen(filter, func() {
		for _, k := range kinds {
			u.changed(k)
		}
	})
}

// listen begins a subscription, on a goroutine of its own that ends with it or
// with the upstream. nil if the upstream is being closed.
func (u *Upstream) listen(filter []byte, caught func()) *listen {
	l := &listen{filter: filter, caught: caught, settled: make(chan struct{})}
	l.life, l.cancel = context.WithCancel(u.life)
	if !u.spawn(func() { u.keepListening(l) }) {
		l.cancel()
		return nil
	}
	return l
}

// keepListening opens one stream after the other, with growing delays, until
// the server refuses or the subscription ends.
func (u *Upstream) keepListening(l *listen) {
	defer l.cancel()
	delay := relistenFirst
	for {
		begun := time.Now()
		refused := u.listenOnce(l)
		if refused != nil || l.life.Err() != nil {
			l.settle(nil, refused)
			l.tellGap() // nobody will hear of changes from here on
			return
		}
		l.mu.Lock()
		l.gap = true
		l.mu.Unlock()
		if time.Since(begun) > relistenProven {
			delay = relistenFirst
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-l.life.Done():
			timer.Stop()
		}
		delay = min(2*delay, relistenMax)
	}
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

// listenOnce holds one stream open to its end. It returns a fault if the
// server refused it, and nil if it ended in any other way.
func (u *Upstream) listenOnce(l *listen) (refused *fault.Fault) {
	id := u.ids.Add(1)
	req, f := u.encode(&Call{Method: methodListen, Params: wire.Set(nil, l.filter, "notifications")}, id)
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
		return u.rpcFault(methodListen, msg.Error)
	case err == nil:
		return nil // ended in order
	case l.life.Err() != nil && u.life.Err() == nil && !u.link.conn.Info().CancelByClose:
		u.sendCancelled(id, "the subscription has ended")
		return nil
	}
	return neverListens(u.blame(methodListen, err))
}

// neverListens tells a refusal from a stream that could not be opened now.
func neverListens(f *fault.Fault) *fault.Fault {
	switch f.Kind {
	case fault.HTTPStatus:
		if f.Status >= 400 && f.Status < 500 {
			return f
		}
	case fault.Unauthorized, fault.Forbidden, fault.Protocol, fault.SessionSuspect:
		return f
	default:
	}
	return nil
}

// acknowledged is the first message of a stream: what the server agreed to.
func (u *Upstream) acknowledged(of int64, params []byte) {
	id, ok := wire.ParseID(wire.Get(params, "_meta", metaSubscription))
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
	l.settle(wire.Get(params, "notifications"), nil)
	l.tellGap()
}

// Subscribe asks for notifications about one resource, which arrive at
// Options.Updated. The subscription ends with this life. A server that does
// not offer it is an error of kind Unsupported, or the server's own.
func (u *Upstream) Subscribe(ctx context.Context, uri string) error {
	if !u.era.Modern {
		return u.command(ctx, "resources/subscribe", "uri", uri)
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
		return u.blame(methodListen, &fault.Fault{Kind: fault.Closed, Op: methodListen, Outcome: fault.NotSent})
	}
	select {
	case <-l.settled:
	case <-ctx.Done():
		_ = u.Unsubscribe(ctx, uri) // toward a modern server it waits for nothing
		return u.blame(methodListen, ctx.Err())
	}
	member, name := subject(uri)
	agreed := texts(wire.Get(l.agreed, member))
	switch {
	case l.refused != nil:
		return l.refused
	case !slices.Contains(agreed, name):
		_ = u.Unsubscribe(ctx, uri)
		f := fault.New(fault.Unsupported, methodListen, "the server does not tell about changes of this")
		return u.blame(methodListen, f)
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
	l := u.listen(filter, func() {
		if u.opts.Updated != nil {
			u.opts.Updated(uri, wire.Set(nil, wire.AppendString(nil, uri), "uri"))
		}
	})
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
		return u.command(ctx, "resources/unsubscribe", "uri", uri)
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
		return u.blame("logging/setLevel", &fault.Fault{Kind: fault.Unsupported, Op: "logging/setLevel", Outcome: fault.NotSent})
	}
	return u.command(ctx, "logging/setLevel", "level", level)
}

// command sends a request with one text in its params and an empty result.
func (u *Upstream) command(ctx context.Context, method, key, value string) error {
	_, err := u.Call(ctx, &Call{Method: method, Params: wire.Set(nil, wire.AppendString(nil, value), key)})
	return err
}
