package slot

import (
	"errors"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
)

// policyOf is the lifecycle's numbers as configured.
func policyOf(server config.Server) lifecycle.Policy {
	p, r := lifecycle.DefaultPolicy(), server.Retry
	p.Strikes, p.MaxStarts = r.Strikes, r.MaxStarts
	p.FastFor, p.SlowProbe, p.WakeEvery, p.StableAfter = r.FastFor, r.SlowProbe, r.WakeEvery, r.StableAfter
	p.FirstDelay, p.MaxDelay = r.FirstDelay, r.MaxDelay
	switch r.Restart {
	case "on-failure":
		p.Restart = lifecycle.OnFailure
	case "never":
		p.Restart = lifecycle.Never
	default: // always
	}
	return p
}

// verdictOf says what the end of a generation or of an attempt means for the next.
func verdictOf(f *fault.Fault) lifecycle.Verdict {
	switch f.Kind {
	case fault.SessionLost, fault.SessionSuspect:
		return lifecycle.SessionEnd
	case fault.Unauthorized:
		return lifecycle.NeedAuth
	case fault.Missing:
		return lifecycle.NotThere
	case fault.Invalid, fault.NoVersion:
		return lifecycle.BadConfig
	default:
	}
	if f.Exit == cleanExit || errors.Is(f, errCleanEnd) {
		return lifecycle.CleanEnd
	}
	return lifecycle.Retry
}

// retryAfterOf is how long the server asked not to be tried.
func retryAfterOf(f *fault.Fault) time.Duration { return max(f.RetryAfter, 0) }

// cleanExit is how the transport describes a process that ended without an error.
const cleanExit = "exit 0"

// errCleanEnd is the end of a link that gives no reason.
var errCleanEnd = errors.New("the server ended the connection in order")

// endOf is why a link that is done has ended; never nil.
func endOf(g *generation) *fault.Fault {
	if err := g.up.Err(); err != nil {
		return fault.From("serve", err)
	}
	return &fault.Fault{Kind: fault.Broken, Op: "serve", Err: errCleanEnd}
}
