package slot

import (
	"context"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
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
	l   *life
	err *fault.Fault
}

func (probed) note() {}

// doubtLink takes n failed calls that the link may explain.
func (s *Slot) doubtLink(l *life, n int) {
	if s.loop.state.Serving != l.gen || l.gone() || time.Since(l.doubts.good) < vouched {
		return
	}
	l.doubts.calls += n
	s.probe(l)
}

// doubtLogin takes a request that was refused for its credentials. Other
// requests may be let in all the same.
func (s *Slot) doubtLogin(l *life) {
	last := l.doubts.login
	if s.loop.state.Serving != l.gen || !last.IsZero() && time.Since(last) < loginPace {
		return
	}
	l.doubts.login = time.Now()
	s.probe(l)
}

// probe asks the server, in a worker, unless it is being asked.
func (s *Slot) probe(l *life) {
	if l.doubts.probing || l.stopping {
		return
	}
	l.doubts.probing = true
	s.workers.Go(func() { // ends with its life's context or in doubtWait; quit waits
		ctx, cancel := context.WithTimeout(l.ctx, doubtWait)
		defer cancel()
		n := probed{l: l}
		if err := l.up.Ping(ctx); err != nil {
			n.err = l.veil.fault(fault.From("ping", err).At(s.name, l.gen))
		}
		s.post(n)
	})
}

// probeDone decides the doubts about l. Those that came while it was probed are
// decided with the rest.
func (s *Slot) probeDone(n probed) {
	l := n.l
	calls := l.doubts.calls
	l.doubts.calls, l.doubts.probing = 0, false
	if n.err == nil {
		l.doubts.good = time.Now()
		return
	}
	switch evidence.Of(evidence.Probe, n.err) {
	case evidence.Session, evidence.Login:
		s.exit(l, n.err)
	case evidence.Strike:
		for range calls {
			s.struck(l, false, l.lastBad.Load())
		}
	default: // somebody is there, and says so
		l.doubts.good = time.Now()
	}
}
