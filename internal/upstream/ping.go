package upstream

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

// pinger looks after a server that is silent while calls wait for it.
type pinger struct {
	*core
	method atomic.Pointer[string] // that asks for a sign of life

	mu      sync.Mutex    // guards the rest; ordered before core.mu; nothing waits under it
	waiting int           // calls in flight
	asked   time.Duration // since born: when a call was last sent while no other waited
	armed   bool          // the timer runs, or pings do
	probing bool          // pings run
	timer   *time.Timer
	stopped bool
}

// begin is the end of the handshake.
func (p *pinger) begin() {
	method := mcp.Ping
	if p.era.Modern {
		method = mcp.ServerDiscover
	}
	p.method.Store(&method)
}

// close leaves no timer behind.
func (p *pinger) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// enter and leave are the begin and the end of a call.
func (p *pinger) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == 0 {
		p.asked = p.now()
	}
	p.waiting++
	p.armLocked()
}

func (p *pinger) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
}

// ping asks for a sign of life in the way of the server's era: ping, or
// server/discover toward a modern one. Any answer is one, also an error, but
// that of a modern server where a legacy one was, or a refusal of the login. A
// server whose HTTP layer refuses ping is asked for tools/list, and if that
// works always from then on.
func (p *pinger) ping(ctx context.Context) error {
	f := p.askFor(ctx, *p.method.Load())
	if f == nil {
		return nil
	}
	if *p.method.Load() == mcp.Ping && refusesPing(f) && p.declaresTools() && p.askFor(ctx, mcp.ToolsList) == nil {
		method := mcp.ToolsList
		p.method.Store(&method)
		return nil
	}
	return f
}

func (p *pinger) askFor(ctx context.Context, method string) *fault.Fault {
	msg, f := p.ask(ctx, method, nil)
	if f == nil {
		if !p.era.Modern && p.era.Transport == transport.HTTP && refusesEra(errorCode(&msg)) {
			return &fault.Fault{Kind: fault.SessionLost, Op: method, Err: errOtherEra}
		}
		return nil
	}
	switch f.Kind {
	case fault.RateLimited, fault.Forbidden:
		return nil // somebody is there, and says so
	default:
		return f
	}
}

// refusesPing tells whether the HTTP layer may have refused the method alone.
func refusesPing(f *fault.Fault) bool {
	return f.Kind == fault.SessionSuspect || f.Kind == fault.HTTPStatus && f.Status < http.StatusInternalServerError
}

// armLocked sees to it that somebody looks when the server has been
// silent for PingAfter while a call waits.
func (p *pinger) armLocked() {
	if p.armed || p.stopped || p.opts.Server.PingAfter < 0 {
		return
	}
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(p.opts.Server.PingAfter, p.silent)
		return
	}
	p.timer.Reset(p.opts.Server.PingAfter)
}

// silent runs when the silence timer fires, on the timer's goroutine, which it
// does not hold up. It arms the timer again while
// calls wait, and pings if the server has been silent all the time: one
// pinger, however many calls wait.
func (p *pinger) silent() {
	p.mu.Lock()
	if p.probing { // overdue was faster
		p.mu.Unlock()
		return
	}
	if p.waiting == 0 || p.stopped {
		p.armed = false
		p.mu.Unlock()
		return
	}
	if left := p.opts.Server.PingAfter - p.quietLocked(); left > 0 {
		p.timer.Reset(left)
		p.mu.Unlock()
		return
	}
	p.probing = true
	p.mu.Unlock()
	p.spawn(p.pingUntilHeard) // ends with an answer, a verdict, or the upstream
}

// overdue begins the pings at once, in place of the silence timer: the
// deadline of a call has passed, and the server has said nothing since it was
// sent. Clients whose deadlines are shorter than PingAfter would else never
// find out that a server hangs, and a deadline alone must not end a server
// that is only slow.
func (p *pinger) overdue(sent time.Duration) {
	p.mu.Lock()
	silent := time.Duration(p.heard.Load()) <= sent
	if !silent || p.probing || p.stopped || p.opts.Server.PingAfter < 0 {
		p.mu.Unlock()
		return
	}
	p.armed, p.probing = true, true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.spawn(p.pingUntilHeard) // ends with an answer, a verdict, or the upstream
}

// quietLocked is how long the server has not been heard while a call waits.
func (p *pinger) quietLocked() time.Duration {
	return p.now() - max(time.Duration(p.heard.Load()), p.asked)
}

// pingUntilHeard pings until the server is heard in any way, or has missed so
// many pings in a row that it is taken to be wedged.
func (p *pinger) pingUntilHeard() {
	every := min(p.opts.Server.PingAfter/3, 10*time.Second)
	for range p.opts.Server.PingMisses {
		if p.pingOnce(every) {
			p.mu.Lock()
			p.armed, p.probing = false, false
			if p.waiting > 0 {
				p.armLocked()
			}
			p.mu.Unlock()
			return
		}
		select {
		case <-p.done:
			return
		default:
		}
	}
	f := fault.New(fault.Wedged, mcp.Ping, "the server neither answers calls nor pings")
	p.end(f)
	p.stop()
}

// pingOnce pings once, and takes the whole of its time if it fails: a refused
// connection is one miss, not three. Whatever else the server says meanwhile
// counts as an answer, the late answer to a call that was given up included.
func (p *pinger) pingOnce(every time.Duration) (heard bool) {
	defer func() {
		if p.opts.Pinged != nil {
			p.opts.Pinged(heard)
		}
	}()
	begun, late := p.now(), p.link.conn.Info().LateAnswers
	ctx, cancel := context.WithTimeout(p.ctx, every)
	defer cancel()
	err := p.ping(ctx)
	f := fault.From(mcp.Ping, err)
	if f != nil && evidence.Tokenless(f) { // nobody was asked: that is no miss
		return true
	}
	if f == nil || f.Kind == fault.Unauthorized { // somebody is there
		p.hear()
		return true
	}
	if evidence.Of(evidence.Probe, f) == evidence.Session {
		p.end(f)
	}
	select {
	case <-ctx.Done():
	case <-p.done:
	}
	return time.Duration(p.heard.Load()) >= begun || p.link.conn.Info().LateAnswers > late
}
