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

// doubts are what calls on one generation have raised against its link or its
// login. The loop owns them. One probe at a time decides.
type doubts struct {
	calls   int // that failed in a way that the link may explain, and are not decided
	probing bool
	good    time.Time // the last probe that the server answered
	login   time.Time // the last probe because of a login
}

// probed: the probe of l has ended; err is nil if it was answered.
type probed struct {
	gen   *generation
	cause *fault.Fault
}

func (probed) note() {}

// doubtLink takes n failed calls that the link may explain.
func (s *Slot) doubtLink(g *generation, n int) {
	if s.loop.state.Serving != g.gen || g.gone() || time.Since(g.doubts.good) < vouched {
		return
	}
	g.doubts.calls += n
	s.probe(g)
}

// doubtLogin takes a request that was refused for its credentials. Other
// requests may be let in all the same.
func (s *Slot) doubtLogin(g *generation) {
	last := g.doubts.login
	if s.loop.state.Serving != g.gen || !last.IsZero() && time.Since(last) < loginPace {
		return
	}
	g.doubts.login = time.Now()
	s.probe(g)
}

// probe asks the server, in a worker, unless it is being asked.
func (s *Slot) probe(g *generation) {
	if g.doubts.probing || g.stopping {
		return
	}
	g.doubts.probing = true
	s.workers.Go(func() { // ends with its generation's context or in doubtWait; quit waits
		ctx, cancel := context.WithTimeout(g.ctx, doubtWait)
		defer cancel()
		n := probed{gen: g}
		if err := g.up.Ping(ctx); err != nil {
			n.cause = g.redact.fault(fault.From(mcp.Ping, err).At(s.name, g.gen))
		}
		s.post(n)
	})
}

// probeDone decides the doubts about l. Those that came while it was probed are
// decided with the rest.
func (s *Slot) probeDone(n probed) {
	g := n.gen
	calls := g.doubts.calls
	g.doubts.calls, g.doubts.probing = 0, false
	if n.cause == nil {
		g.doubts.good = time.Now()
		return
	}
	switch evidence.Of(evidence.Probe, n.cause) {
	case evidence.Session, evidence.Login:
		s.exit(g, n.cause)
	case evidence.Strike:
		for range calls {
			s.struck(g, false, g.lastBad.Load())
		}
	default: // somebody is there, and says so
		g.doubts.good = time.Now()
	}
}
