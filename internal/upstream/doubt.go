package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

const (
	doubtTimeout = 10 * time.Second // for the probe that decides a suspicion
	eraVouched   = time.Minute      // how long a probe that a modern server answered settles doubts about its era
)

// doubts are suspicions that the session, or the server of this era, is gone:
// they are decided by one probe for all calls that have them at the same time.
type doubts struct {
	*core
	pinger *pinger
	listed *listed

	shown  atomic.Int64 // when a modern server has last proved to be one, as nanoseconds since born; 0: at the handshake alone
	denied atomic.Bool  // the suspicion is that the server has forgotten the session without saying so by its status
	own    atomic.Pointer[ownError]

	mu   sync.Mutex // guards the rest; ordered before core.mu; nothing waits under it
	open *doubt     // that is being decided
}

// doubt is one suspicion that the session is lost, shared by all calls that
// have it at the same time.
type doubt struct {
	decided chan struct{}
	gone    bool // valid once decided is closed
}

// refusal is the server's own error, unless it is that of another server which
// answers at this place by now: a new handshake is due then, and the call was
// not executed.
func (d *doubts) refusal(ctx context.Context, op string, raw []byte) *fault.Fault {
	f := d.rpcFault(op, raw)
	switch {
	case d.otherEra(ctx, f.RPC):
		f.Err = errOtherEra
	case d.forgotten(ctx, f.RPC):
		f.Err = errForgotten
	default:
		return f
	}
	f.Kind, f.Outcome, f.RPC = fault.SessionLost, fault.NotSent, nil
	d.end(f)
	return f
}

// otherEra tells whether an error shows that the server's era has changed. One
// is certain: that of a modern server which names the versions that it speaks
// now. Others look the same as a server's own about a call that it executed,
// legacy servers may use every code from -32000 to -32099: a probe decides,
// and only where another server can be at the end of the same link.
func (d *doubts) otherEra(ctx context.Context, e *fault.RPCError) bool {
	switch {
	case d.era.Modern && e.Code == mcp.CodeUnsupportedVersion && wire.IsArray(wire.Get(e.Raw, "data", "supported")):
		return true
	case d.era.Transport != transport.HTTP || d.vouched():
		return false
	case d.era.Modern:
		return perhapsLegacy(e.Code) && d.lostFor(ctx)
	default: // a session that is gone says nothing about a call that was answered
		return refusesEra(e.Code) && d.lostFor(ctx) && errors.Is(d.Err(), errOtherEra)
	}
}

// lostFor waits for the decision about a suspicion: true if the session, or
// the server of this era, is gone. A call whose suspicion comes late finds
// that out from how the upstream ended.
func (d *doubts) lostFor(ctx context.Context) bool {
	if open := d.suspect(); open != nil {
		select {
		case <-open.decided:
			if open.gone {
				return true
			}
		case <-ctx.Done():
		}
	}
	f := d.cause()
	return f != nil && f.Kind == fault.SessionLost
}

// decide says what an answer means that may be that of a lost session. One
// ping tells: if that too is answered like this, the session is gone and the
// upstream ends. The call was refused for it, unless the answer is a 5xx: that
// comes from what is in front of a server, too, when the server died over the
// very call, and with it the session.
func (d *doubts) decide(ctx context.Context, f *fault.Fault) *fault.Fault {
	out := *f
	out.Kind = fault.HTTPStatus
	if f.Status == 0 {
		out.Kind = fault.Protocol
	}
	if d.lostFor(ctx) {
		out.Kind = fault.SessionLost
		if f.Status < http.StatusInternalServerError {
			out.Outcome = fault.NotSent
		}
	}
	return &out
}

// suspect joins the suspicion that is being decided, or begins one; nil if
// the upstream is being closed.
func (d *doubts) suspect() *doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != nil {
		return d.open
	}
	next := &doubt{decided: make(chan struct{})}
	started := d.spawn(func() { // ends within doubtTimeout, or when the upstream does
		gone := d.sessionGone()
		d.mu.Lock()
		d.open, next.gone = nil, gone
		d.mu.Unlock()
		close(next.decided)
	})
	if !started {
		return nil
	}
	d.open = next
	return next
}

// sessionGone probes once, and ends the upstream if the session is gone, or if
// the server is none of this era any more.
func (d *doubts) sessionGone() bool {
	ctx, cancel := context.WithTimeout(d.ctx, doubtTimeout)
	defer cancel()
	var f fault.Fault
	if d.era.Modern {
		msg, err := d.ask(ctx, mcp.ServerDiscover, nil)
		switch {
		case err == nil && msg.Error == nil:
			d.vouch()
			return false
		case err == nil: // every modern server answers this request
			f.Op, f.Err = mcp.ServerDiscover, errOtherEra
		case err.Kind != fault.SessionSuspect:
			return false
		default:
			f = *err
		}
	} else {
		err := d.askSession(ctx)
		if err == nil {
			return false
		}
		f = *fault.From(mcp.Ping, err)
		if f.Kind != fault.SessionLost && f.Kind != fault.SessionSuspect {
			return false
		}
	}
	f.Kind, f.Outcome = fault.SessionLost, fault.NotSent
	d.lose(&f)
	return true
}

// vouch notes that the server has just shown its era.
func (d *doubts) vouch() { d.shown.Store(int64(d.now())) }

// vouched tells whether it has done so within eraVouched.
func (d *doubts) vouched() bool {
	shown := d.shown.Load()
	return shown != 0 && d.now()-time.Duration(shown) < eraVouched
}
