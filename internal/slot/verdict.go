package slot

import (
	"errors"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
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

// A Credential says what can help where a server refuses what it is shown.
type Credential uint8

const (
	// Foreign: others may put it right, where that cannot be seen.
	Foreign Credential = iota
	// Living: its login lives, and the next token may be let in.
	Living
	// Dead: nothing but a login.
	Dead
)

// refusedAs are the verdicts on a refusal.
var refusedAs = [...]lifecycle.Verdict{Foreign: lifecycle.NeedAuth, Living: lifecycle.NeedToken, Dead: lifecycle.NeedLogin}

// verdictOf says what the end of a generation or of an attempt means for the next;
// credential may be nil.
func verdictOf(f *fault.Fault, credential func() Credential) lifecycle.Verdict {
	if evidence.Tokenless(f) {
		return lifecycle.AwaitToken
	}
	switch f.Kind {
	case fault.SessionLost, fault.SessionSuspect:
		return lifecycle.SessionEnd
	case fault.Unauthorized:
		if credential == nil {
			return lifecycle.NeedAuth
		}
		return refusedAs[credential()]
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
