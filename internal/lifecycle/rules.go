package lifecycle

// want applies what config, operator or ownership say.
func (t *transition) want(ev Want) {
	old := t.s
	t.s.Want, t.s.Lazy, t.s.Overlap, t.s.Spec = ev.Want, ev.Lazy, ev.Overlap, ev.Spec
	switch {
	case !ev.Want && old.Want:
		t.disable()
	case !ev.Want:
	case !old.Want:
		t.enable()
	case ev.Spec != old.Spec:
		t.respec()
	case ev.Lazy != old.Lazy:
		t.relazy()
	}
}

// disable wins immediately: nothing serves and nothing is due from here on,
// however long closing takes.
func (t *transition) disable() {
	t.forget()
	t.await(NoNext)
	t.abort()
	if t.s.Serving != 0 {
		t.detach(true)
	}
}

// enable begins with a clean record. Lives from before may still be closing;
// the new one waits for room.
func (t *transition) enable() {
	t.forget()
	t.s.WasReady = false
	t.await(NextSlotFree)
	if t.s.Lazy {
		t.await(NextCall)
	}
}

// forget drops what the losses so far have cost: they were those of another
// configuration, or from before somebody switched the server off.
func (t *transition) forget() { t.s.Attempt, t.s.Returns, t.s.LastLost = 0, 0, 0 }

// respec brings the wanted revision up, immediately and whatever the slot waited
// for. Only an idle lazy server goes on waiting for its call.
func (t *transition) respec() {
	t.forget()
	t.abort()
	switch {
	case t.s.Serving != 0 && t.s.ServingSpec == t.s.Spec:
		t.await(NoNext) // the config went back to what runs
	case t.s.Serving == 0 && t.s.Next == NextCall && t.s.Lazy:
	default:
		t.await(NextSlotFree)
	}
}

// relazy follows a change of Lazy alone.
func (t *transition) relazy() {
	switch {
	case !t.s.Lazy && t.s.Next == NextCall:
		t.await(NextSlotFree)
	case !t.s.Lazy:
		t.s.ResumeIdle = false
	case t.s.Lazy && t.s.Stopped == Ended:
		t.await(NextCall)
	}
}

// wake asks for a generation now. A slot that is not wanted has none to give; the
// slot says so to whoever asked.
func (t *transition) wake(ev Wake) {
	switch {
	case !t.s.Want:
	case ev.Operator:
		t.abort()
		t.await(NextSlotFree)
	case t.s.Serving != 0:
	case t.s.Next == NextCall:
		t.await(NextSlotFree)
	case t.s.Next == NextStopped && t.s.RetryArmed() && !t.s.NoEarlyWake && !ev.TooSoon:
		t.await(NextSlotFree)
	}
}

// started makes the new generation the serving one. Its handshake and listing
// prove nothing yet.
func (t *transition) started() {
	gen := t.s.Trying
	t.s.Trying, t.s.Brought = 0, false
	if t.s.Serving != 0 {
		t.detach(true)
	}
	t.s.Serving, t.s.ServingSpec, t.s.Proven = gen, t.s.RunSpec, false
	t.s.LastLost = 0
	t.s.WasReady = true
	t.armStable()
}

// failed: a start has failed and left nothing alive.
func (t *transition) failed(e end) {
	defer func() { t.s.Brought = false }()
	t.s.Trying = 0
	if t.s.Serving != 0 && t.s.ServingSpec == t.s.Spec {
		return // the old generation is as good as the one that an operator asked for
	}
	t.s.LastLost = 0
	t.lose(e)
}

// exited: the serving generation has lost its link. Calls that are out end with
// it, except where only the session or the login is gone: those may still be
// answered.
func (t *transition) exited(e end) {
	t.drop(e, e.verdict == SessionEnd || e.verdict.ofCredential())
}

// drop ends the serving generation because of e.
func (t *transition) drop(e end, drain bool) {
	gen := t.s.Serving
	t.detach(drain)
	if t.succession() {
		return
	}
	if !e.verdict.ofCredential() {
		t.s.LastLost = gen
	}
	t.lose(e)
}

// succession tells whether a next generation is being started or waited for. The
// end of the generation before it then changes nothing about that.
func (t *transition) succession() bool { return t.s.Trying != 0 || t.s.Next != NoNext }

// lose counts a loss and decides what the next generation waits for. A refused
// or missing credential is none: it is no word against the server.
func (t *transition) lose(e end) {
	follows := t.p.follows(e.verdict)
	if !e.verdict.ofCredential() {
		t.s.Attempt++
	}
	switch {
	case e.verdict == AwaitToken:
		t.await(NextTimer)
		t.s.Unready = true
		t.arm(t.p.tokenArm(e), e)
	case e.verdict == NeedLogin:
		t.halt(Auth)
		t.s.LoginOnly = true
	case e.verdict == NeedAuth, e.verdict == NeedToken:
		t.halt(Auth)
		t.arm(t.p.loginArm(e), e)
	case e.verdict == BadConfig:
		t.halt(Config)
	case !follows && !t.s.Lazy:
		t.halt(Ended)
	case e.verdict == NotThere && (!t.s.WasReady || t.p.used(e)): // what was there a moment ago is away, not misconfigured
		t.halt(Missing)
		t.arm(t.p.slowArm(e), e)
	case t.p.used(e):
		t.halt(Budget)
		t.arm(t.p.slowArm(e), e)
	default:
		t.retry(e)
	}
	if !follows && t.s.Lazy {
		t.onCall()
	}
}

// onCall leaves the next generation to a call, behind the wait that was just
// begun if one was: a call that waits, or one after the other, may start a
// server that does not come up no faster than retries would.
func (t *transition) onCall() {
	switch {
	case t.s.RetryArmed():
		t.s.ResumeIdle = true
	case t.s.Next == NextSlotFree:
		t.await(NextCall)
	}
}

// retry has the next generation start immediately or after the growing delay.
func (t *transition) retry(e end) {
	a := t.p.fastArm(t.s.Attempt-t.s.Returns, e)
	if a.After == 0 {
		t.await(NextSlotFree)
		return
	}
	t.await(NextTimer)
	t.arm(a, e)
}

// struck counts a failure that blames the link, and recycles the generation when
// there were enough in a row. Other calls on it may still be answered; those
// that hang are found by pings, and end by the drain deadline.
func (t *transition) struck(ev Struck) {
	n := &t.s.CallStrikes
	if ev.List {
		n = &t.s.ListStrikes
	}
	*n++
	switch {
	case *n >= t.p.Strikes:
		t.drop(end{verdict: Retry, recent: ev.Recent, down: ev.Down}, true)
	case !t.s.Proven:
		t.armStable()
	}
}

// healthy: a good answer clears the strikes of its own kind; that to a call
// proves the generation, and a listing proves nothing.
func (t *transition) healthy(ev Healthy) {
	switch {
	case ev.Gen != t.s.Serving:
		t.late()
	case ev.List:
		t.s.ListStrikes = 0
	default:
		t.s.CallStrikes = 0
		t.prove()
	}
}

// prove resets the attempts. The health of a generation speaks for the revision
// that it runs and no other, or calls on the old generation would keep a broken
// successor's retries fast.
func (t *transition) prove() {
	t.s.Proven = true
	if t.s.ServingSpec == t.s.Spec {
		t.s.Attempt, t.s.Returns = 0, 0
	}
}

// late is a good answer that was overtaken by the loss of its generation: that
// loss was then the first in a row. A server that exits after each answer needs
// this rule.
func (t *transition) late() {
	t.s.Attempt, t.s.Returns = 1, 0
	budget := t.s.Next == NextStopped && t.s.Stopped == Budget
	if (t.s.Next == NextTimer || budget) && !t.s.NoEarlyWake {
		t.resume()
	}
}

// returned: what the last attempt failed for is back, so that waiting longer
// helps nobody. A thing that comes and goes is heeded later each time, and a
// start that it brought forward in vain makes no later one wait longer.
func (t *transition) returned() {
	t.s.Returns++
	t.s.Brought = !t.s.ResumeIdle
	t.resume()
}

// idled: nobody has used the generation of a lazy server for long.
func (t *transition) idled() {
	if !t.s.Lazy {
		return
	}
	t.detach(true)
	if !t.succession() {
		t.await(NextCall)
	}
}

// closed: a generation is gone. Whether it went in order is shown and is no
// reason for anything.
func (t *transition) closed(gen uint64) {
	c := &t.s.Closing
	if gen == c[0] {
		c[0] = c[1]
	}
	c[1] = 0
}
