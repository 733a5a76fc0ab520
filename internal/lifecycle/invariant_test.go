package lifecycle

import (
	"fmt"
	"slices"
)

var seenWords = []string{
	"disabled", "idle", "connecting", "connected", "reconnecting",
	"disconnected", "disabling", "auth_required", "misconfigured", "failed",
}

// check holds in every state: it compares what the State believes with what
// the world has seen.
func (w *world) check() error {
	for _, rule := range []func() error{w.checkLives, w.checkTimers, w.checkWanted, w.checkFacts} {
		if err := rule(); err != nil {
			return err
		}
	}
	if !slices.Contains(seenWords, w.s.Seen()) {
		return fmt.Errorf("seen as %q", w.s.Seen())
	}
	return nil
}

// checkLives: each generation is known in the one place that its fate says.
func (w *world) checkLives() error {
	s := w.s
	if s.Gen != uint64(len(w.gens)-1) {
		return fmt.Errorf("generation %d after %d starts", s.Gen, len(w.gens)-1)
	}
	for i, f := range w.gens {
		gen := uint64(i)
		if gen == 0 {
			continue
		}
		ending := gen == s.Closing[0] || gen == s.Closing[1]
		switch {
		case (s.Trying == gen) != (f.starting && !f.stopping):
			return fmt.Errorf("generation %d is wrongly known as starting, or not", gen)
		case (s.Serving == gen) != (f.up && !f.stopping):
			return fmt.Errorf("generation %d is wrongly known as serving, or not", gen)
		case ending != f.stopping:
			return fmt.Errorf("generation %d is wrongly known as closing, or not", gen)
		}
	}
	if w.alive() > 2 {
		return fmt.Errorf("%d generations are alive", w.alive())
	}
	if s.Trying != 0 && (s.Trying != s.Gen || s.RunSpec != s.Spec) {
		return fmt.Errorf("a start that is outdated goes on")
	}
	return nil
}

// checkTimers: a timer is armed exactly while something waits for it.
func (w *world) checkTimers() error {
	s := w.s
	retry := false
	switch s.Phase() {
	case Backoff:
		retry = true
	case Stopped:
		retry = s.Stopped == Budget || s.Stopped == Missing || s.Stopped == Auth && !s.LoginOnly
	case Ready: // a successor that failed is tried again beside the old generation
		retry = s.Next == NextTimer || s.Stopped == Budget || s.Stopped == Missing || s.Stopped == Auth && !s.LoginOnly
	case Off, Idle, Starting, Draining:
	}
	switch {
	case retry != (w.retry != 0):
		return fmt.Errorf("retry timer armed for %d", w.retry)
	case retry && w.retry != s.Gen:
		return fmt.Errorf("retry timer armed for %d, which is not the newest", w.retry)
	case (s.Phase() == Ready && !s.Proven) != (w.stable != 0):
		return fmt.Errorf("stable timer armed for %d", w.stable)
	case w.stable != 0 && w.stable != s.Serving:
		return fmt.Errorf("stable timer armed for %d, which does not serve", w.stable)
	}
	return nil
}

// checkWanted: a slot that is not wanted does and awaits nothing; one that is
// wanted is never stuck.
func (w *world) checkWanted() error {
	s := w.s
	if !s.Want {
		if s.Serving != 0 || s.Trying != 0 || s.Next != NoNext || (s.Phase() != Off && s.Phase() != Draining) {
			return fmt.Errorf("not wanted, and yet it runs or waits")
		}
		if (s.Phase() == Off) != (w.alive() == 0) {
			return fmt.Errorf("off with %d generations", w.alive())
		}
		return nil
	}
	moves := s.Serving != 0 || s.Trying != 0 || w.retry != 0 || s.Next == NextSlotFree && s.Closing[0] != 0
	helpable := s.Next == NextCall || s.Next == NextStopped
	switch {
	case !moves && !helpable:
		return fmt.Errorf("stuck: nothing will ever happen")
	case s.Next == NextCall && !s.Lazy:
		return fmt.Errorf("waits for a call, and is not lazy")
	case (s.Next == NextStopped) != (s.Stopped != None):
		return fmt.Errorf("stopped without a reason, or with a stale one")
	case s.NoEarlyWake && s.Next != NextTimer && s.Next != NextStopped:
		return fmt.Errorf("a wait that no call may shorten, and none is")
	case s.LoginOnly && s.Stopped != Auth, s.Unready && s.Next != NextTimer:
		return fmt.Errorf("waits for a login or a token, and does not wait")
	case s.ResumeIdle && (!s.Lazy || w.retry == 0 || w.p.Restart == Always):
		return fmt.Errorf("leaves the next generation to a call, for no reason")
	case s.Next != NoNext && s.Trying != 0:
		return fmt.Errorf("waits for a generation while one is being started")
	case (s.Phase() == Ready) != (s.Serving != 0):
		return fmt.Errorf("ready without a serving generation, or the reverse")
	}
	return nil
}

// checkFacts: the rest of what the fields promise.
func (w *world) checkFacts() error {
	s := w.s
	outdated := s.Serving != 0 && s.ServingSpec != s.Spec
	switch {
	case outdated && s.Trying == 0 && s.Next == NoNext:
		return fmt.Errorf("an outdated generation serves and no successor is on its way")
	case s.Serving != 0 && !outdated && s.Proven && s.Attempt != 0:
		return fmt.Errorf("proven health with %d attempts", s.Attempt)
	case s.ListStrikes >= w.p.Strikes || s.CallStrikes >= w.p.Strikes:
		return fmt.Errorf("too many strikes without a recycle")
	case s.Serving == 0 && (s.ListStrikes != 0 || s.CallStrikes != 0 || s.Proven || s.ServingSpec != 0):
		return fmt.Errorf("facts of a serving generation, and none serves")
	case s.Brought && s.Trying == 0 && s.Next != NextSlotFree:
		return fmt.Errorf("a start was brought forward, and there is none")
	case s.Closing[0] == 0 && s.Closing[1] != 0:
		return fmt.Errorf("a second generation closes, and no first")
	case s.LastLost != 0 && (s.Attempt == 0 || s.LastLost == s.Serving || s.LastLost == s.Trying):
		return fmt.Errorf("generation %d is wrongly known as the last that was lost", s.LastLost)
	}
	return nil
}

// settled tells whether nothing more happens without a call, an operator, a
// timer or the server itself.
func (w *world) settled() bool {
	if w.s.Closing[0] != 0 || w.s.Trying != 0 {
		return false
	}
	return w.s.Next != NextSlotFree
}

// complete delivers the one outcome of some effect that is under way: starts
// end as start says, stops are closed. It reports false when none is.
func (w *world) complete(ok bool) (bool, error) {
	var ev Event
	switch s := w.s; {
	case s.Closing[0] != 0:
		ev = Closed{Gen: s.Closing[0], Err: !ok}
	case s.Trying != 0 && ok:
		ev = Started{Gen: s.Trying}
	case s.Trying != 0:
		ev = Failed{Gen: s.Trying}
	default:
		return false, nil
	}
	_, err := w.step(ev)
	return true, err
}

// settle feeds only completions until none is left, and fails where that is
// no place to rest or takes more than a handful of steps. With due, the retry
// timer also fires, so that a wanted slot must come to serve what is wanted.
func (w *world) settle(ok, due bool) error {
	const bound = 12
	for range bound {
		more, err := w.complete(ok)
		if err != nil {
			return err
		}
		if !more && due && w.retry != 0 {
			_, err = w.step(RetryDue{Gen: w.retry})
			more = true
		}
		if err != nil {
			return err
		}
		if !more {
			return w.checkRest(ok && due)
		}
	}
	return fmt.Errorf("not settled: %s", describeState(w.s))
}

func (w *world) checkRest(recovers bool) error {
	s := w.s
	helpless := s.Stopped == Auth || s.Stopped == Config || s.Stopped == Ended || s.Next == NextCall
	switch {
	case !w.settled():
		return fmt.Errorf("at rest in the middle: %s", describeState(s))
	case recovers && s.Want && !helpless && (s.Serving == 0 || s.ServingSpec != s.Spec):
		return fmt.Errorf("does not recover: %s", describeState(s))
	}
	return nil
}
