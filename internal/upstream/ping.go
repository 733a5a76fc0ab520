package upstream

import (
	"context"
	"net/http"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

// Ping asks for a sign of life in the way of the server's era: ping, or
// server/discover toward a modern one. Any answer is one, also an error, but
// that of a modern server where a legacy one was, or a refusal of the login. A
// server whose HTTP layer refuses ping is asked for tools/list, and if that
// works always from then on.
func (u *Upstream) Ping(ctx context.Context) error {
	f := u.knock(ctx, *u.probe.Load())
	if f == nil {
		return nil
	}
	if *u.probe.Load() == mcp.Ping && refusesPing(f) && u.declaresTools() && u.knock(ctx, mcp.ToolsList) == nil {
		method := mcp.ToolsList
		u.probe.Store(&method)
		return nil
	}
	return f
}

func (u *Upstream) knock(ctx context.Context, method string) *fault.Fault {
	msg, f := u.ask(ctx, method, nil)
	if f == nil {
		if !u.era.Modern && u.era.Transport == transport.HTTP && refusesEra(errorCode(&msg)) {
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

// armSilenceLocked sees to it that somebody looks when the server has been
// silent for PingAfter while a call waits.
func (u *Upstream) armSilenceLocked() {
	if u.pinging || u.closed || u.opts.Server.PingAfter < 0 {
		return
	}
	u.pinging = true
	if u.silence == nil {
		u.silence = time.AfterFunc(u.opts.Server.PingAfter, u.silent)
		return
	}
	u.silence.Reset(u.opts.Server.PingAfter)
}

// silent runs when the silence timer fires, on the timer's goroutine, which it
// does not hold up. It arms the timer again while
// calls wait, and pings if the server has been silent all the time: one
// pinger, however many calls wait.
func (u *Upstream) silent() {
	u.mu.Lock()
	if u.knocks { // overdue was faster
		u.mu.Unlock()
		return
	}
	if len(u.calls) == 0 || u.closed {
		u.pinging = false
		u.mu.Unlock()
		return
	}
	if left := u.opts.Server.PingAfter - u.quietLocked(); left > 0 {
		u.silence.Reset(left)
		u.mu.Unlock()
		return
	}
	u.knocks = true
	u.mu.Unlock()
	u.spawn(u.pingUntilHeard) // ends with an answer, a verdict, or the upstream
}

// overdue begins the pings at once, in place of the silence timer: the
// deadline of a call has passed, and the server has said nothing since it was
// sent. Clients whose deadlines are shorter than PingAfter would else never
// find out that a server hangs, and a deadline alone must not end a server
// that is only slow.
func (u *Upstream) overdue(sent time.Duration) {
	u.mu.Lock()
	silent := time.Duration(u.heard.Load()) <= sent
	if !silent || u.knocks || u.closed || u.opts.Server.PingAfter < 0 {
		u.mu.Unlock()
		return
	}
	u.pinging, u.knocks = true, true
	if u.silence != nil {
		u.silence.Stop()
	}
	u.mu.Unlock()
	u.spawn(u.pingUntilHeard) // ends with an answer, a verdict, or the upstream
}

// quietLocked is how long the server has not been heard while a call waits.
func (u *Upstream) quietLocked() time.Duration {
	return time.Since(u.born) - max(time.Duration(u.heard.Load()), u.asked)
}

// pingUntilHeard pings until the server is heard in any way, or has missed so
// many pings in a row that it is taken to be wedged.
func (u *Upstream) pingUntilHeard() {
	every := min(u.opts.Server.PingAfter/3, 10*time.Second)
	for range u.opts.Server.PingMisses {
		if u.pingOnce(every) {
			u.mu.Lock()
			u.pinging, u.knocks = false, false
			if len(u.calls) > 0 {
				u.armSilenceLocked()
			}
			u.mu.Unlock()
			return
		}
		select {
		case <-u.done:
			return
		default:
		}
	}
	f := fault.New(fault.Wedged, mcp.Ping, "the server neither answers calls nor pings")
	u.end(f)
	u.stop()
}

// pingOnce pings once, and takes the whole of its time if it fails: a refused
// connection is one miss, not three. Whatever else the server says meanwhile
// counts as an answer, the late answer to a call that was given up included.
func (u *Upstream) pingOnce(every time.Duration) (heard bool) {
	begun, strays := time.Since(u.born), u.link.conn.Info().Strays
	ctx, cancel := context.WithTimeout(u.life, every)
	defer cancel()
	err := u.Ping(ctx)
	f := fault.From(mcp.Ping, err)
	if f == nil || f.Kind == fault.Unauthorized { // somebody is there
		u.hear()
		return true
	}
	if evidence.Of(evidence.Probe, f) == evidence.Session {
		u.end(f)
	}
	select {
	case <-ctx.Done():
	case <-u.done:
	}
	return time.Duration(u.heard.Load()) >= begun || u.link.conn.Info().Strays > strays
}

// doubt is one suspicion that the session is lost, shared by all calls that
// have it at the same time.
type doubt struct {
	decided chan struct{}
	gone    bool // valid once decided is closed
}

// lostFor waits for the decision about a suspicion: true if the session, or
// the server of this era, is gone. A call whose suspicion comes late finds
// that out from how the upstream ended.
func (u *Upstream) lostFor(ctx context.Context) bool {
	if d := u.suspect(); d != nil {
		select {
		case <-d.decided:
			if d.gone {
				return true
			}
		case <-ctx.Done():
		}
	}
	f := u.cause()
	return f != nil && f.Kind == fault.SessionLost
}

// decide says what an answer means that may be that of a lost session. One
// ping tells: if that too is answered like this, the session is gone and the
// upstream ends. The call was refused for it, unless the answer is a 5xx: that
// comes from what is in front of a server, too, when the server died over the
// very call, and with it the session.
func (u *Upstream) decide(ctx context.Context, f *fault.Fault) *fault.Fault {
	out := *f
	out.Kind = fault.HTTPStatus
	if f.Status == 0 {
		out.Kind = fault.Protocol
	}
	if u.lostFor(ctx) {
		out.Kind = fault.SessionLost
		if f.Status < http.StatusInternalServerError {
			out.Outcome = fault.NotSent
		}
	}
	return &out
}

// suspect joins the suspicion that is being decided, or begins one; nil if
// the upstream is being closed.
func (u *Upstream) suspect() *doubt {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.doubt != nil {
		return u.doubt
	}
	if u.closed {
		return nil
	}
	d := &doubt{decided: make(chan struct{})}
	u.doubt = d
	u.work.Go(func() { // ends within probeTimeout, or when the upstream does
		gone := u.sessionGone()
		u.mu.Lock()
		u.doubt, d.gone = nil, gone
		u.mu.Unlock()
		close(d.decided)
	})
	return d
}

// sessionGone probes once, and ends the upstream if the session is gone, or if
// the server is none of this era any more.
func (u *Upstream) sessionGone() bool {
	ctx, cancel := context.WithTimeout(u.life, probeTimeout)
	defer cancel()
	var f fault.Fault
	if u.era.Modern {
		msg, err := u.ask(ctx, mcp.ServerDiscover, nil)
		switch {
		case err == nil && msg.Error == nil:
			u.vouch()
			return false
		case err == nil: // every modern server answers this request
			f.Op, f.Err = mcp.ServerDiscover, errOtherEra
		case err.Kind != fault.SessionSuspect:
			return false
		default:
			f = *err
		}
	} else {
		err := u.askSession(ctx)
		if err == nil {
			return false
		}
		f = *fault.From(mcp.Ping, err)
		if f.Kind != fault.SessionLost && f.Kind != fault.SessionSuspect {
			return false
		}
	}
	f.Kind, f.Outcome = fault.SessionLost, fault.NotSent
	u.end(&f)
	if c, ok := u.link.conn.(interface{ Lost(*fault.Fault) }); ok {
		c.Lost(&f) // a transport with sessions: the id is not sent again
	}
	return true
}

// vouch notes that the server has just shown its era.
func (u *Upstream) vouch() { u.shown.Store(int64(time.Since(u.born))) }

// vouched tells whether it has done so within eraVouched.
func (u *Upstream) vouched() bool {
	at := u.shown.Load()
	return at != 0 && time.Since(u.born)-time.Duration(at) < eraVouched
}
