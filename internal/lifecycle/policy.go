package lifecycle

import "time"

// DefaultPolicy returns the numbers that apply where the configuration says
// nothing.
func DefaultPolicy() Policy {
	return Policy{
		Strikes:       3,
		FastFor:       10 * time.Minute,
		FirstDelay:    time.Second,
		MaxDelay:      30 * time.Second,
		Sessions:      5,
		SlowProbe:     2 * time.Minute,
		LoginProbe:    5 * time.Minute,
		StableAfter:   30 * time.Second,
		MaxStarts:     60,
		MaxRetryAfter: time.Hour,
		WakeEvery:     10 * time.Second,
		Restart:       Always,
	}
}

// An end is how a generation, or the attempt to start one, ended.
type end struct {
	verdict Verdict
	after   time.Duration
	recent  int
	down    time.Duration
}

// follows tells whether a new generation follows by itself.
func (p Policy) follows(v Verdict) bool {
	switch p.Restart {
	case Never:
		return false
	case OnFailure:
		return v != CleanEnd
	default:
		return true
	}
}

// delay is the bound of the wait before the retry that follows n losses in a
// row: none for the first, then FirstDelay doubled up to MaxDelay.
func (p Policy) delay(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	d := min(p.FirstDelay, p.MaxDelay)
	for ; n > 2 && d < p.MaxDelay; n-- {
		if d > p.MaxDelay/2 {
			return p.MaxDelay
		}
		d *= 2
	}
	return d
}

// fastArm is the wait before a fast retry, after so many losses that nothing but
// a timer or nothing at all preceded; After 0 means immediately.
func (p Policy) fastArm(attempt int, e end) Arm {
	if e.verdict == SessionEnd {
		if attempt <= p.Sessions {
			return p.retryAfter(p.paced(e), e)
		}
		attempt -= p.Sessions - 1
	}
	n := max(attempt, 1+p.excess(e))
	return p.retryAfter(halfJitter(p.delay(n)), e)
}

// paced is the wait before the next session of a server that forgot one. That
// says nothing against the link: no delay grows. Beyond the start limit new
// sessions come at the rate of the limit.
func (p Policy) paced(e end) Arm {
	if p.excess(e) == 0 {
		return Arm{Jitter: true}
	}
	pace := time.Minute / time.Duration(p.MaxStarts)
	return Arm{After: pace + pace/2, Jitter: true, Least: pace / 2}
}

// slowArm is the wait before a slow retry.
func (p Policy) slowArm(e end) Arm { return p.retryAfter(halfJitter(p.SlowProbe), e) }

// loginArm is the wait before a server that asked for a login is asked whether
// it still does: its credentials may not be ours to judge.
func (p Policy) loginArm(e end) Arm { return p.retryAfter(halfJitter(p.LoginProbe), e) }

// tokenArm is the wait before the next start of a server whose credential is not
// to be had: its owner says when that may be another matter, and has drawn the
// jitter.
func (p Policy) tokenArm(e end) Arm { return p.retryAfter(Arm{After: p.FirstDelay}, e) }

// halfJitter is a wait of which half is certain: with full jitter a few short
// draws in a row would spend attempts in no time.
func halfJitter(d time.Duration) Arm { return Arm{After: d, Jitter: true, Least: d / 2} }

// used tells whether the time for fast retries is over.
func (p Policy) used(e end) bool { return e.down >= p.FastFor }

// retryAfter lengthens a wait to what the server asked for. Such a wait has no
// jitter, which could only shorten it.
func (p Policy) retryAfter(a Arm, e end) Arm {
	if e.after <= 0 {
		return a
	}
	w := e.after
	if p.MaxRetryAfter > 0 {
		w = min(w, p.MaxRetryAfter)
	}
	return Arm{After: max(a.After, w)}
}

// excess is by how many the starts of the last minute are over the limit.
func (p Policy) excess(e end) int {
	if p.MaxStarts <= 0 {
		return 0
	}
	return max(0, e.recent-p.MaxStarts)
}

// noEarlyWake tells that the wait after e has an owner whom no call may overrule.
func (p Policy) noEarlyWake(e end) bool {
	return e.after > 0 || p.excess(e) > 0 || e.verdict == NeedToken || e.verdict == AwaitToken
}
