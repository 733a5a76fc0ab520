package lifecycle

// Step is the whole lifecycle: what event ev makes of state s, and what is to
// be done about it, in order. It reads and changes nothing else. An event that
// changes nothing has no effects.
func (p Policy) Step(s State, ev Event) (State, []Effect) {
	if !s.means(ev) {
		return s, nil
	}
	t := turn{p: p, s: s}
	t.apply(ev)
	t.settle()
	if t.s == s {
		return s, nil
	}
	t.disarm(s)
	return t.s, append(t.fx, Publish{})
}

// means is the first guard: it drops every event of another life than the one
// that the event can be about. Life 0 does not exist.
func (s State) means(ev Event) bool {
	is := func(gen uint64, lives ...uint64) bool {
		for _, l := range lives {
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
		return is(ev.Gen, s.Trying)
	case Failed:
		return is(ev.Gen, s.Trying)
	case Exited:
		return is(ev.Gen, s.Serving)
	case Struck:
		return is(ev.Gen, s.Serving)
	case Healthy:
		return is(ev.Gen, s.Serving) || !ev.List && is(ev.Gen, s.Lost)
	case Stable:
		return is(ev.Gen, s.Serving)
	case Idled:
		return is(ev.Gen, s.Serving)
	case Closed:
		return is(ev.Gen, s.Closing, s.ClosingToo)
	case RetryDue:
		return is(ev.Gen, s.Gen) && s.RetryArmed()
	case Returned:
		return is(ev.Gen, s.Gen) && s.RetryArmed() && !s.Firm
	}
	panic("bug: an event of an unknown type")
}

// A turn is one step in the making.
type turn struct {
	p  Policy
	s  State
	fx []Effect
}

func (t *turn) do(fx Effect) { t.fx = append(t.fx, fx) }

func (t *turn) apply(ev Event) {
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
		t.goOn()
	case Returned:
		t.returned()
	}
}

// settle starts the next life if it waits for nothing but room and there is
// room, and derives the phase. Where lives may overlap a serving life goes on
// until its successor serves, make before break; else it makes room first.
func (t *turn) settle() {
	if t.s.Next == NextRoom && t.s.Serving != 0 && !t.s.Overlap {
		t.detach(true)
	}
	if t.s.Next == NextRoom && t.s.room() {
		t.await(NoNext)
		t.s.Gen++
		t.s.Trying, t.s.RunSpec = t.s.Gen, t.s.Spec
		t.do(Start{Gen: t.s.Gen, Spec: t.s.Spec})
	}
	t.s.Phase = t.s.phase()
}

// disarm stops the timers that old had set and the new state has no use for.
func (t *turn) disarm(old State) {
	if old.RetryArmed() && !t.s.RetryArmed() {
		t.do(Disarm{RetryTimer})
	}
	if old.StableArmed() && !t.s.StableArmed() {
		t.do(Disarm{StableTimer})
	}
}

// await says what the next life waits for, for waits without a timer.
func (t *turn) await(n Next) { t.s.Next, t.s.Parked, t.s.Firm, t.s.OnCall = n, None, false, false }

// park waits for what why says.
func (t *turn) park(why Reason) {
	t.await(NextParked)
	t.s.Parked = why
}

// goOn ends the wait for the next life.
func (t *turn) goOn() {
	if t.s.OnCall {
		t.await(NextCall)
		return
	}
	t.await(NextRoom)
}

// arm sets the retry timer for the wait that was just begun.
func (t *turn) arm(a Arm, e end) {
	t.s.Firm = t.p.firm(e)
	a.Timer, a.Gen = RetryTimer, t.s.Gen
	a.Keep, a.Heed = t.s.Brought && !t.s.Firm, t.p.delay(t.s.Returns+1)
	t.do(a)
}

// armStable gives Serving its time to prove itself.
func (t *turn) armStable() {
	t.do(Arm{Timer: StableTimer, Gen: t.s.Serving, After: t.p.StableAfter})
}

// detach takes the serving life out of the slot and ends it.
func (t *turn) detach(drain bool) {
	gen := t.s.Serving
	t.s.Serving, t.s.ServingSpec, t.s.Proven = 0, 0, false
	t.s.ListStrikes, t.s.CallStrikes = 0, 0
	t.stop(gen, drain)
}

// abort ends the start that is running, if one is.
func (t *turn) abort() {
	t.s.Brought = false
	if gen := t.s.Trying; gen != 0 {
		t.s.Trying = 0
		t.stop(gen, false)
	}
}

// stop ends a life that was just taken out of its place.
func (t *turn) stop(gen uint64, drain bool) {
	switch {
	case t.s.Closing == 0:
		t.s.Closing = gen
	case t.s.ClosingToo == 0:
		t.s.ClosingToo = gen
	default:
		panic("bug: a third life is to be ended")
	}
	t.do(Stop{Gen: gen, Drain: drain})
}
