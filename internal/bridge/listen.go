package bridge

import (
	"context"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A relay is a subscriptions/listen that the bridge keeps up: the client asked
// once, and does not notice that everline was started anew.
type relay struct {
	b     *bridge
	rq    *relayed
	acked bool // the client has its acknowledgement
	fresh bool // the present stream has been acknowledged
}

// relay serves a listen until the client ends it, or everline refuses it.
func (b *bridge) relay(ctx context.Context, rq *relayed, line []byte) ([]byte, error) {
	r := &relay{b: b, rq: rq}
	rq.emit = r.emit
	deadline := time.Now().Add(maxAway)
	for step := firstPause; ; step = min(2*step, maxPause) {
		r.fresh = false
		frame, err := b.post(ctx, rq, line, session{})
		if r.fresh {
			step = firstPause
		}
		if r.over(frame, err, deadline) || !pause(ctx, step) {
			return frame, err
		}
	}
}

// over tells whether an exchange was the last one.
func (r *relay) over(frame []byte, err error, deadline time.Time) bool {
	if err == nil {
		return !r.fresh || wire.Member(frame, "error") != nil // else a farewell: everline ends
	}
	switch fault.KindOf(err) {
	case fault.Dial, fault.Broken, fault.Unavailable:
		return !r.acked && time.Now().After(deadline)
	default:
		return true
	}
}

// emit passes on what comes on the stream. It is called by the goroutine that
// runs the relay.
func (r *relay) emit(frame []byte) {
	if method, _ := wire.Text(wire.Member(frame, "method")); method != mcp.NotifyAcknowledged {
		r.b.outbox.Send(frame)
		return
	}
	r.fresh = true
	if r.acked {
		r.catchUp(wire.Get(frame, "params", "notifications"))
		return
	}
	r.acked = true
	r.b.outbox.Send(frame)
}

// catchUp announces everything that the client listens to: it may have changed
// while nobody looked.
func (r *relay) catchUp(accepted []byte) {
	tell := func(method string, params []byte) {
		params = wire.Set(params, r.rq.ID, "_meta", mcp.MetaSubscription)
		r.b.outbox.Send(wire.AppendNotification(nil, method, params))
	}
	for method := range stream.ListsOf(accepted).Methods() {
		tell(method, nil)
	}
	for uri := range wire.Elements(wire.Get(accepted, "resourceSubscriptions")) {
		tell(mcp.NotifyResourceUpdated, append(append([]byte(`{"uri":`), uri...), '}'))
	}
}
