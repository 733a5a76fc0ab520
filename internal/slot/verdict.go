package slot

import (
	"errors"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/typed"
)

// policyOf is the lifecycle's numbers as configured; what is 0 is as usual.
func policyOf(server config.Server) lifecycle.Policy {
	p, r := lifecycle.DefaultPolicy(), server.Retry
	if server.URL != "" {
		p.MaxDelay = 10 * time.Second
	}
	set(&p.Strikes, r.Strikes)
	set(&p.FastFor, r.FastFor)
	set(&p.FirstDelay, r.FirstDelay)
	set(&p.MaxDelay, r.MaxDelay)
	set(&p.SlowProbe, r.SlowProbe)
	set(&p.WakeEvery, r.WakeEvery)
	set(&p.StableAfter, r.StableAfter)
	set(&p.MaxStarts, r.MaxStarts)
	switch r.Restart {
	case "on-failure":
		p.Restart = lifecycle.OnFailure
	case "never":
		p.Restart = lifecycle.Never
	}
	return p
}

func set[T int | time.Duration](to *T, value T) {
	if value > 0 {
		*to = value
	}
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

// explain completes a fault with where it happened and what the process said.
func (s *Slot) explain(f *fault.Fault, g *generation) *fault.Fault {
	f = f.At(s.name, g.gen)
	if len(f.Stderr) == 0 {
		f.Stderr = s.logs.last(g.gen)
	}
	return g.redact.fault(f)
}

// Remedy is what a person can do about the server, as a sentence with a
// command; "" if nothing needs doing.
func (v *View) Remedy() string {
	if v.State.Phase() != lifecycle.Stopped {
		return ""
	}
	return remedyOf(v.Server.Name, v.State.Stopped, v.Cause)
}

// remedyOf is what a person can do about a parked server.
func remedyOf(name string, why lifecycle.Reason, cause *fault.Fault) string {
	if cause != nil && cause.Remedy != "" {
		return cause.Remedy
	}
	switch why {
	case lifecycle.Auth:
		return `put a valid token into its "headers", as in "Authorization": "Bearer ${TOKEN}", then: everline reconnect ` + typed.Argument(name)
	case lifecycle.Config:
		return "run: everline doctor " + typed.Argument(name)
	case lifecycle.Missing:
		return "install the command, or run: everline doctor " + typed.Argument(name)
	case lifecycle.Ended:
		return "run: everline reconnect " + typed.Argument(name)
	case lifecycle.Budget, lifecycle.None:
	}
	return ""
}
