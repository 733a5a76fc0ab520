// Package upstream is one generation of one server: it finds the era, shakes
// hands, lists, calls, pings and hears notifications. It does not reconnect:
// when the link is gone, so is the upstream.
package upstream

import (
	"context"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
)

// Upstream is one live connection. It has two long-lived goroutines, or three
// toward a modern server (watch; the standing listen), one more for each
// subscription to a resource there, and short ones for notifications, answers
// and pings. Close waits for all of them.
type Upstream struct {
	*core
	phases   []Phase
	callers  *callers        // whose calls are out, and may go on
	requests *serverRequests // what the server asks of them
	pinger   *pinger         // for a server that is silent
	loudness *loudness       // its log level
	listed   *listed         // what was seen of its lists
	doubts   *doubts         // whether it is still the same server, and the same session
	subs     *subscriptions  // to what a modern server tells
}

func newUpstream(opts Options) *Upstream {
	c := newCore(opts)
	u := &Upstream{core: c, pinger: &pinger{core: c}, listed: &listed{core: c}, callers: newCallers(c)}
	u.requests = &serverRequests{core: c, callers: u.callers}
	u.subs = newSubscriptions(c, u.listed)
	u.loudness = newLoudness(c, func() bool { return !u.callers.busy() })
	u.doubts = &doubts{core: c, pinger: u.pinger, listed: u.listed}
	return u
}

// Close ends the link in order, bounded by ctx, and waits for everything that
// the upstream started. Calls in flight end as Closed, outcome unknown. It is
// idempotent, and returns what would not stop.
func (u *Upstream) Close(ctx context.Context) error {
	u.shut()
	u.pinger.close()
	u.loudness.close()
	u.end(nil)
	u.farewell(ctx)
	u.stop()
	err := u.link.conn.Close(ctx)
	gone := make(chan struct{})
	go func() { // ends when the last goroutine of the upstream does
		u.work.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		if err == nil {
			err = ctx.Err()
		}
	}
	if err == nil {
		return nil
	}
	return u.blame("close", err)
}

// watch hears what the link itself has to say, until it or the upstream ends.
func (u *Upstream) watch() {
	for {
		select {
		case <-u.link.conn.Done():
			f := fault.From("", u.link.conn.Err())
			if f == nil {
				f = fault.New(fault.Broken, "", "the link ended")
			}
			u.end(f)
			return
		case <-u.link.conn.Relisten():
			for _, k := range catalog.Kinds {
				u.changed(k)
			}
		case <-u.ctx.Done():
			return
		}
	}
}

// Ping asks for a sign of life in the way of the server's era. Any answer is
// one, also an error, but that of a modern server where a legacy one was, or a
// refusal of the login.
func (u *Upstream) Ping(ctx context.Context) error { return u.pinger.ping(ctx) }

// Start opens the transport, finds the server's era and shakes hands. ctx and
// the server's StartupTimeout bound that alone. Every error is a *fault.Fault,
// and nothing is alive then.
func Start(ctx context.Context, opts Options) (*Upstream, error) {
	u := newUpstream(opts)
	h := &handshake{core: u.core, inbound: u.inbound}
	if d := opts.Server.StartupTimeout; d > 0 {
		bounded, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		ctx = bounded
	}
	if f := h.connect(ctx); f != nil {
		h.abandon()
		if opts.Failed != nil {
			opts.Failed(h.era, h.phases.all)
		}
		return nil, u.blame("start", f)
	}
	if h.late != nil {
		time.AfterFunc(lateAnswer, h.late.giveUp) // of no effect if the upstream has ended before
	}
	u.phases = h.phases.all
	u.pinger.begin()
	u.requests.begin()
	u.spawn(u.watch) // ends with the link or the upstream
	if u.era.Modern {
		u.subs.listenForLists()
	}
	return u, nil
}
