// Package gateway is the endpoint toward MCP clients: sessions, streams, both
// protocol eras, and the one table from faults to JSON-RPC errors. It knows no
// server: everything that it serves comes from a Backend, and params and
// results pass through it as raw bytes.
package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/gateway/session"
)

// A Gateway serves MCP clients from one Backend. It has no goroutine of its
// own; a request runs on the goroutine that its transport gives it.
type Gateway struct {
	service
	guard   guard
	replies replyOptions
	parts   parts
	shared  *shared

	users atomic.Int64 // of a part: who uses it just now
	left  atomic.Int64 // when the last of them has left, in Unix nanoseconds

	stopOnce sync.Once
	unhook   [2]func()
}

// shared is what an endpoint counts together with its parts.
type shared struct {
	bodies   budget
	peers    peers
	sessions session.Room
	sse      atomic.Int64 // open streams of HTTP+SSE
	listens  atomic.Int64 // open streams of subscriptions/listen over HTTP
}

// New returns a gateway on b. The caller must Close it.
func New(b Backend, opts Options) *Gateway {
	opts = opts.filled()
	return newGateway(access.Local(), "", b, opts, &shared{bodies: budget{limit: opts.MaxBodies}}, &usage{}, func() {})
}

// newGateway is New for the part of an identity, under the name of an endpoint of its
// own. emptied is called, and does not block, once nothing is granted to it any more.
func newGateway(who *access.Identity, endpoint string, b Backend, opts Options, sh *shared, use *usage, emptied func()) *Gateway {
	g := &Gateway{shared: sh}
	svc := &g.service
	svc.init(who, endpoint, b, opts, use, &sh.sessions)
	g.guard = newGuard(opts.Hosts, opts.Origins)
	g.guard.meter = opts.Meter
	g.replies = replyOptions{opts.KeepAlive, opts.WriteTimeout, g.guarded, &opts.Meter.Posts}
	changed := func(kinds []everline.Kind) {
		g.changed(kinds)
		if b.May() == nil {
			emptied()
		}
	}
	g.unhook = [2]func(){b.OnChange(changed), b.OnLog(g.sessions.ForwardLog)}
	return g
}

// Answers tells whether what every request needs can be had within a time.
func (g *Gateway) Answers(limit time.Duration) bool { return g.sessions.Answers(limit) }

// Close refuses new requests, ends the streams in order, and waits for the
// requests that are in flight until ctx ends; those that are left then are
// canceled and answered with what is known about them. It is idempotent. The
// error tells how many had to be canceled.
func (g *Gateway) Close(ctx context.Context) error {
	g.refusing.Store(true)
	g.endStreams()
	parts := make(chan error, 1)
	go func() { parts <- g.parts.close(ctx) }() // ends with ctx; waited for below
	svc := &g.service
	err := svc.drain(ctx)
	return errors.Join(err, svc.close(), <-parts)
}

// Leave prepares for Close where another everline takes the listener over: the
// streams end in order, so that their clients come back to that one, and
// requests on connections that are open go on being served until over is
// closed, each the last one of its connection. Those that nobody waits for any
// more are canceled.
func (g *Gateway) Leave(over <-chan struct{}) {
	all := append(g.parts.list(), g)
	for _, each := range all {
		each.endStreams()
	}
	tick := time.NewTicker(attendedGap)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			for _, each := range all {
				each.inflight.cancelUnattended()
			}
		}
	}
}

func (g *Gateway) endStreams() {
	g.stopOnce.Do(func() {
		close(g.stop)
		for _, cancel := range g.unhook {
			cancel()
		}
	})
}
