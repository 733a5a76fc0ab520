package lifecycle

// Step is the whole lifecycle: what event ev makes of state s, and what is to
// be done about it, in order. It reads and changes nothing else. An event that
// changes nothing has no effects.
func (p Policy) Step(s State, ev Event) (State, []Effect) {
	if !s.concerns(ev) {
		return s, nil
	}
	t := transition{p: p, s: s}
	t.apply(ev)
	t.finish()
	if t.s == s {
		return s, nil
	}
	t.disarm(s)
	return t.s, append(t.fx, Publish{})
}

// concerns is the first guard: it drops every event of another generation than
// the one that the event can be about. Generation 0 does not exist.
func (s State) concerns(ev Event) bool {
	oneOf := func(gen uint64, among ...uint64) bool {
		for _, l := range among {
			if gen != 0 && gen == l {
				return true
			}
		}
		return false
	}
	switch ev := ev.(type) {
	case Want, Wake:
		return true
	case Started:
		return oneOf(ev.Gen, s.Trying)
	case Failed:
		return oneOf(ev.Gen, s.Trying)
	case Exited:
		return oneOf(ev.Gen, s.Serving)
	case Struck:
		return oneOf(ev.Gen, s.Serving)
	case Healthy:
		return oneOf(ev.Gen, s.Serving) || !ev.List && oneOf(ev.Gen, s.LastLost)
	case Stable:
		return oneOf(ev.Gen, s.Serving)
	case Idled:
		return oneOf(ev.Gen, s.Serving)
	case Closed:
		return oneOf(ev.Gen, s.Closing[:]...)
	case RetryDue:
		return oneOf(ev.Gen, s.Gen) && s.RetryArmed()
	case Returned:
		return oneOf(ev.Gen, s.Gen) && s.RetryArmed() && !s.NoEarlyWake
	}
	panic("bug: an event of an unknown type")
}

// A transition is one step in the making.
type transition struct {
	p  Policy
	s  State
	fx []Effect
}

func (t *transition) do(fx Effect) { t.fx = append(t.fx, fx) }

func (t *transition) apply(ev Event) {
	switch ev := ev.(type) {
	case Want:
		t.want(ev)
	case Wake:
		t.wake(ev)
	case Started:
		t.started()
	case Failed:
		t.failed(end{ev.Verdict, ev.After, ev.Recent, ev.Down})
	case Exited:
		t.exited(end{ev.Verdict, ev.After, ev.Recent, ev.Down})
	case Struck:
		t.struck(ev)
	case Healthy:
		t.healthy(ev)
	case Stable:
		t.prove()
	case Idled:
		t.idled()
	case Closed:
		t.closed(ev.Gen)
	case RetryDue:
		t.resume()
	case Returned:
		t.returned()
	}
}

// finish starts the next generation if it waits for nothing but room and there
// is room. Where generations may overlap, the serving one goes on until its
// successor serves, make before break; else it makes room first.
func (t *transition) finish() {
	if t.s.Next == NextSlotFree && t.s.Serving != 0 && !t.s.Overlap {
		t.detach(true)
	}
	if t.s.Next == NextSlotFree && t.s.room() {
		t.await(NoNext)
		t.s.Gen++
		t.s.Trying, t.s.RunSpec = t.s.Gen, t.s.Spec
		t.do(Start{Gen: t.s.Gen, Spec: t.s.Spec})
	}
}

// disarm stops the timers that old had set and the new state has no use for.
func (t *transition) disarm(old State) {
	if old.RetryArmed() && !t.s.RetryArmed() {
		t.do(Disarm{RetryTimer})
	}
	if old.StableArmed() && !t.s.StableArmed() {
		t.do(Disarm{StableTimer})
	}
}

// await says what the next generation waits for, for waits without a timer.
func (t *transition) await(n Next) {
	t.s.Next, t.s.Stopped, t.s.NoEarlyWake, t.s.ResumeIdle = n, None, false, false
	t.s.LoginOnly, t.s.Unready = false, false
}

// halt waits for what why says.
func (t *transition) halt(why Reason) {
	t.await(NextStopped)
	t.s.Stopped = why
}

// resume ends the wait for the next generation.
func (t *transition) resume() {
	if t.s.ResumeIdle {
		t.await(NextCall)
		return
	}
	t.await(NextSlotFree)
}

// arm sets the retry timer for the wait that was just begun.
func (t *transition) arm(a Arm, e end) {
	t.s.NoEarlyWake = t.p.noEarlyWake(e)
	a.Timer, a.Gen = RetryTimer, t.s.Gen
	a.Keep, a.Heed = t.s.Brought && !t.s.NoEarlyWake, t.p.delay(t.s.Returns+1)
	t.do(a)
}

// armStable gives Serving its time to prove itself.
func (t *transition) armStable() {
	t.do(Arm{Timer: StableTimer, Gen: t.s.Serving, After: t.p.StableAfter})
}

// detach takes the serving generation out of the slot and ends it.
func (t *transition) detach(drain bool) {
	gen := t.s.Serving
	t.s.Serving, t.s.ServingSpec, t.s.Proven = 0, 0, false
	t.s.ListStrikes, t.s.CallStrikes = 0, 0
	t.stop(gen, drain)
}

// abort ends the start that is running, if one is.
func (t *transition) abort() {
	t.s.Brought = false
	if gen := t.s.Trying; gen != 0 {
		t.s.Trying = 0
		t.stop(gen, false)
	}
}

// stop ends a generation that was just taken out of its place.
func (t *transition) stop(gen uint64, drain bool) {
	switch c := &t.s.Closing; {
	case c[0] == 0:
		c[0] = gen
	case c[1] == 0:
		c[1] = gen
	default:
		panic("bug: a third generation is to be ended")
	}
	t.do(Stop{Gen: gen, Drain: drain})
}
