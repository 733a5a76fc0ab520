package slot

import (
	"fmt"
	"time"

	"github.com/everline/everline/fault"
)

const (
	sessionLossWindow = time.Minute
	// manyLosses is how many sessions a server must forget within
	// sessionLossWindow, or without a good answer between, for that to be
	// called by its name. A restart costs one.
	manyLosses = 4
)

// affinityRemedy is what helps against a server that forgets one session after
// the other: most often it is several servers behind one address.
const affinityRemedy = "route all requests of a session to the same server (sticky sessions), or run the server stateless"

// noteSessionLoss takes the end of a generation or of a start, and where the
// server forgets its sessions again and again completes the cause with what
// that means. The number of new sessions is bounded by the lifecycle like that
// of all starts: by the budget, and by maxStartsPerMinute over all calls.
func (lp *loop) noteSessionLoss(cause *fault.Fault) *fault.Fault {
	if cause.Kind != fault.SessionLost && cause.Kind != fault.SessionSuspect || fault.Refused(cause) { // a server that ended forgot nothing
		return cause
	}
	now := time.Now()
	lp.sessionLosses = append(lp.sessionLosses, now)
	for len(lp.sessionLosses) > startsKept || now.Sub(lp.sessionLosses[0]) > sessionLossWindow {
		lp.sessionLosses = lp.sessionLosses[1:]
	}
	switch inRow := lp.state.Attempt + 1; {
	case len(lp.sessionLosses) >= manyLosses:
		return losesSessions(cause, fmt.Sprintf("the server has lost %d sessions within a minute", len(lp.sessionLosses)))
	case inRow >= manyLosses: // the slow retry finds it unchanged
		return losesSessions(cause, fmt.Sprintf("the server has lost its session in %d attempts in a row", inRow))
	default:
		return cause
	}
}

// losesSessions is the diagnosis: what was seen, and what can be done.
func losesSessions(cause *fault.Fault, seen string) *fault.Fault {
	f := *cause
	f.Err = fmt.Errorf("%s, as several servers behind one address do: %w", seen, cause.Cause())
	f.Remedy = affinityRemedy
	return &f
}
