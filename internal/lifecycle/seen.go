package lifecycle

// Seen is the word that people read for the state. It is derived and never
// stored.
func (s State) Seen() string {
	switch s.Phase() {
	case Off:
		return "disabled"
	case Idle:
		return "idle"
	case Ready:
		return "connected"
	case Backoff:
		return "disconnected"
	case Stopped:
		return s.Stopped.seen()
	case Starting, Draining:
	}
	switch {
	case !s.Want:
		return "disabling"
	case s.WasReady:
		return "reconnecting"
	default:
		return "connecting"
	}
}

func (r Reason) seen() string {
	switch r {
	case Auth:
		return "auth_required"
	case Config, Missing:
		return "misconfigured"
	case Ended:
		return "disconnected"
	case Budget, None:
	}
	return "failed"
}

// Phase is where the slot stands; it follows from the other facts.
func (s State) Phase() Phase {
	switch {
	case !s.Want && s.alive() > 0:
		return Draining
	case !s.Want:
		return Off
	case s.Serving != 0:
		return Ready
	case s.Trying != 0:
		return Starting
	}
	switch s.Next {
	case NextSlotFree: // settle would have started it if there were room
		return Draining
	case NextCall:
		return Idle
	case NextTimer:
		return Backoff
	case NextStopped:
		return Stopped
	case NoNext:
	}
	panic("bug: a wanted slot has no generation and waits for none")
}

// alive counts the generations that may still hold a process or a session.
func (s State) alive() int {
	n := 0
	for _, gen := range [...]uint64{s.Trying, s.Serving, s.Closing[0], s.Closing[1]} {
		if gen != 0 {
			n++
		}
	}
	return n
}

// room tells whether one more generation may be alive.
func (s State) room() bool {
	limit := 1
	if s.Overlap {
		limit = 2
	}
	return s.alive() < limit
}

// RetryArmed tells whether RetryTimer is set.
func (s State) RetryArmed() bool {
	return s.Next == NextTimer || s.Next == NextStopped && (s.Stopped == Budget || s.Stopped == Missing || s.Stopped == Auth && !s.LoginOnly)
}

// StableArmed tells whether StableTimer is set.
func (s State) StableArmed() bool { return s.Serving != 0 && !s.Proven }

var (
	phaseNames   = [...]string{"Off", "Idle", "Starting", "Ready", "Draining", "Backoff", "Stopped"}
	reasonNames  = [...]string{"none", "budget", "auth", "config", "missing", "ended"}
	verdictNames = [...]string{"retry", "auth", "config", "missing", "clean", "session", "token", "login", "await-token"}
	nextNames    = [...]string{"none", "slot-free", "call", "timer", "stopped"}
	timerNames   = [...]string{"retry", "stable"}
	restartNames = [...]string{"always", "on-failure", "never"}
)

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}

// String returns the phase's name.
func (p Phase) String() string { return name(phaseNames[:], int(p)) }

// String returns the reason's stable name, as used in JSON and metrics.
func (r Reason) String() string { return name(reasonNames[:], int(r)) }

// String returns the verdict's stable name, as used in JSON and metrics.
func (v Verdict) String() string { return name(verdictNames[:], int(v)) }

// String returns the name of what is waited for.
func (n Next) String() string { return name(nextNames[:], int(n)) }

// String returns the timer's name.
func (t Timer) String() string { return name(timerNames[:], int(t)) }

// String returns the name that the configuration uses.
func (r Restart) String() string { return name(restartNames[:], int(r)) }
