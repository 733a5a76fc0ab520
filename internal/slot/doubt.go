package slot

import (
	"context"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/mcp"
)

const (
	doubtWait = 10 * time.Second // for the probe that decides a doubt
	vouched   = time.Second      // how long a good probe settles doubts about the link
	loginPace = 30 * time.Second // between probes that decide whether a login is needed
)

// probed: the probe of g has ended; cause is nil if it was answered.
type probed struct {
	g     *generation
	cause *fault.Fault
}

func (probed) note() {}

// doubtLink takes n failed calls that the link may explain.
func (lp *loop) doubtLink(g *generation, n int) {
	if lp.state.Serving != g.gen || g.gone() || time.Since(g.doubts.good) < vouched {
		return
	}
	g.doubts.calls += n
	lp.probe(g)
}

// doubtLogin takes a request that was refused for its credentials. Other
// requests may be let in all the same.
func (lp *loop) doubtLogin(g *generation) {
	last := g.doubts.login
	if lp.state.Serving != g.gen || !last.IsZero() && time.Since(last) < loginPace {
		return
	}
	g.doubts.login = time.Now()
	lp.probe(g)
}

// probe asks the server, in a worker, unless it is being asked.
func (lp *loop) probe(g *generation) {
	if g.doubts.probing || g.stopping {
		return
	}
	g.doubts.probing = true
	lp.work(func() note { return probe(g) }) // ends with its generation's context or in doubtWait
}

// probe is the worker that asks whether anybody is there.
func probe(g *generation) note {
	ctx, cancel := context.WithTimeout(g.ctx, doubtWait)
	defer cancel()
	n := probed{g: g}
	if err := g.up.Ping(ctx); err != nil {
		n.cause = g.redact.fault(fault.From(mcp.Ping, err).At(g.server, g.gen))
	}
	return n
}

// probeDone decides the doubts about a generation. Those that came while it was
// probed are decided with the rest.
func (lp *loop) probeDone(n probed) {
	g := n.g
	calls := g.doubts.calls
	g.doubts.calls, g.doubts.probing = 0, false
	if n.cause == nil {
		g.doubts.good = time.Now()
		return
	}
	switch evidence.Of(evidence.Probe, n.cause) {
	case evidence.Session, evidence.Login:
		lp.exit(g, n.cause)
	case evidence.Strike:
		for range calls {
			lp.struck(g, false, g.lastBad.Load())
		}
	default: // somebody is there, and says so
		g.doubts.good = time.Now()
	}
}
