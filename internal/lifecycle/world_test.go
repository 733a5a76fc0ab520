package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// A fate is what a generation really is, whatever the State believes.
type fate struct {
	starting bool // its start has reported nothing yet
	up       bool // it serves; its link has not been lost
	stopping bool // a Stop is under way
	dead     bool
}

func (f fate) alive() bool { return !f.dead }

// A world runs the effects of Step the way a slot must, and checks after each
// step what must hold in every state. It is shared by the stories, the model,
// the exploration and the fuzz target.
type world struct {
	p      Policy
	s      State
	gens   []fate // by generation; gens[0] is nobody
	retry  uint64 // the generation that the retry timer is armed for; 0: not armed
	stable uint64
}

func newWorld(p Policy) *world { return &world{p: p, gens: []fate{{dead: true}}} }

func (w *world) clone() *world {
	c := *w
	c.gens = slices.Clone(w.gens)
	return &c
}

func (w *world) fate(gen uint64) fate {
	if gen < uint64(len(w.gens)) {
		return w.gens[gen]
	}
	return fate{dead: true}
}

func (w *world) alive() int {
	n := 0
	for _, f := range w.gens {
		if f.alive() {
			n++
		}
	}
	return n
}

// meant tells from the generations' fates whether ev can be about anything: the
// independent twin of State.concerns.
func (w *world) meant(ev Event) bool {
	up := func(gen uint64) bool { f := w.fate(gen); return f.up && !f.stopping }
	starting := func(gen uint64) bool { f := w.fate(gen); return f.starting && !f.stopping }
	switch ev := ev.(type) {
	case Started:
		return starting(ev.Gen)
	case Failed:
		return starting(ev.Gen)
	case Exited:
		return up(ev.Gen)
	case Struck:
		return up(ev.Gen)
	case Healthy:
		return up(ev.Gen) || !ev.List && ev.Gen != 0 && ev.Gen == w.s.LastLost
	case Stable:
		return up(ev.Gen)
	case Idled:
		return up(ev.Gen)
	case Closed:
		return w.fate(ev.Gen).stopping
	case RetryDue:
		return ev.Gen != 0 && ev.Gen == w.retry
	case Returned:
		return ev.Gen != 0 && ev.Gen == w.retry && !w.s.NoEarlyWake
	}
	return true
}

// step feeds one event and returns the effects, or an error that names the
// broken rule.
func (w *world) step(ev Event) ([]Effect, error) {
	before := w.s
	meant := w.meant(ev)
	after, fx := w.p.Step(before, ev)
	if err := w.checkStep(before, after, ev, fx, meant); err != nil {
		return fx, explain(before, after, ev, fx, err)
	}
	if meant {
		w.happen(ev)
	}
	w.s = after
	for _, f := range fx {
		if err := w.run(f); err != nil {
			return fx, explain(before, after, ev, fx, err)
		}
	}
	if err := w.check(); err != nil {
		return fx, explain(before, after, ev, fx, err)
	}
	return fx, nil
}

func explain(before, after State, ev Event, fx []Effect, err error) error {
	return fmt.Errorf("%w\nbefore  %s\nevent   %s\nafter   %s\neffects %s",
		err, describeState(before), describeEvent(ev), describeState(after), describeEffects(fx))
}

// happen changes the fate of the generation that ev tells of.
func (w *world) happen(ev Event) {
	switch ev := ev.(type) {
	case Started:
		w.gens[ev.Gen] = fate{up: true}
	case Failed:
		w.gens[ev.Gen] = fate{dead: true}
	case Exited:
		w.gens[ev.Gen].up = false
	case Closed:
		w.gens[ev.Gen] = fate{dead: true}
	case Stable:
		w.stable = 0
	case RetryDue:
		w.retry = 0
	}
}

// run executes an effect as far as it can be seen from here.
func (w *world) run(f Effect) error {
	switch f := f.(type) {
	case Start:
		return w.start(f)
	case Stop:
		l := &w.gens[f.Gen]
		if l.dead || l.stopping {
			return fmt.Errorf("generation %d is stopped twice, or after its death", f.Gen)
		}
		l.stopping = true
	case Arm:
		if f.Timer == RetryTimer {
			w.retry = f.Gen
		} else {
			w.stable = f.Gen
		}
	case Disarm:
		if f.Timer == RetryTimer {
			w.retry = 0
		} else {
			w.stable = 0
		}
	}
	return nil
}

func (w *world) start(f Start) error {
	limit := 1
	if w.s.Overlap {
		limit = 2
	}
	switch {
	case f.Gen != uint64(len(w.gens)):
		return fmt.Errorf("generation %d is started after %d", f.Gen, len(w.gens)-1)
	case w.alive() >= limit:
		return fmt.Errorf("generation %d is started while %d are alive", f.Gen, w.alive())
	case f.Spec != w.s.Spec:
		return fmt.Errorf("generation %d is started with spec %d", f.Gen, f.Spec)
	}
	w.gens = append(w.gens, fate{starting: true})
	return nil
}

// checkStep holds for each step.
func (w *world) checkStep(before, after State, ev Event, fx []Effect, meant bool) error {
	published := 0
	for _, f := range fx {
		if f == (Publish{}) {
			published++
		}
	}
	switch {
	case !meant && (after != before || len(fx) > 0):
		return fmt.Errorf("a stale event changed something")
	case after == before && len(fx) > 0:
		return fmt.Errorf("effects without a change")
	case after != before && (published != 1 || fx[len(fx)-1] != Publish{}):
		return fmt.Errorf("a change that is not published last and once")
	case after.Gen < before.Gen:
		return fmt.Errorf("the generation went down")
	}
	if err := checkAttempt(before, after, ev); err != nil {
		return err
	}
	if err := checkClosed(w.p, before, ev); err != nil {
		return err
	}
	for _, rule := range []func(State, State, Event) error{checkWake, checkReturned, checkServing, checkHealth} {
		if err := rule(before, after, ev); err != nil {
			return err
		}
	}
	return checkPace(w.p, before, after, ev, fx)
}

// checkAttempt: only proven health, another revision or switching resets the
// attempts, and only a loss adds one.
func checkAttempt(before, after State, ev Event) error {
	lossy, proof := false, false
	switch ev := ev.(type) {
	case Failed, Exited, Struck:
		lossy = true
	case Healthy:
		proof = !ev.List
	case Stable:
		proof = true
	case Want:
		proof = ev.Want != before.Want || ev.Spec != before.Spec
	}
	switch {
	case after.Attempt < before.Attempt && !proof:
		return fmt.Errorf("the attempts were reset without a reason")
	case after.Attempt > before.Attempt && (!lossy || after.Attempt != before.Attempt+1):
		return fmt.Errorf("an attempt was counted without a loss")
	case after.Serving != 0 && after.Serving == before.Serving && !before.Proven && after.Proven && !proof:
		return fmt.Errorf("health was proven by what proves nothing")
	}
	return nil
}

// checkClosed: a close that failed is a close.
func checkClosed(p Policy, before State, ev Event) error {
	c, ok := ev.(Closed)
	if !ok {
		return nil
	}
	good, goodFx := p.Step(before, Closed{Gen: c.Gen})
	bad, badFx := p.Step(before, Closed{Gen: c.Gen, Err: true})
	if good != bad || !slices.Equal(goodFx, badFx) || good.Attempt != before.Attempt {
		return fmt.Errorf("an error of closing cost something")
	}
	return nil
}

// checkWake: a call starts an idle server and may bring a slow retry forward,
// and shortens no other wait.
func checkWake(before, after State, ev Event) error {
	wake, ok := ev.(Wake)
	if !ok || wake.Operator || after == before {
		return nil
	}
	probe := before.Stopped == Budget || before.Stopped == Missing || before.Stopped == Auth
	switch {
	case before.Serving != 0:
		return fmt.Errorf("a call woke something beside a generation that serves")
	case before.Next != NextCall && !probe:
		return fmt.Errorf("a call shortened a wait that it may not")
	case probe && (wake.TooSoon || before.NoEarlyWake):
		return fmt.Errorf("a call brought a probe forward that it may not")
	}
	return nil
}

// checkReturned: only Returned counts as one, it costs no attempt, and the
// count begins anew with that of the attempts.
func checkReturned(before, after State, ev Event) error {
	_, returned := ev.(Returned)
	switch {
	case after.Returns > before.Returns && (!returned || after.Returns != before.Returns+1):
		return fmt.Errorf("a return was counted that was none")
	case after.Returns < before.Returns && (after.Returns != 0 || after.Attempt > 1):
		return fmt.Errorf("the returns were reset without the attempts")
	case after.Brought && !before.Brought && !returned:
		return fmt.Errorf("a start was brought forward by nothing")
	case returned && after != before && (after.Next == NextTimer || after.Next == NextStopped):
		return fmt.Errorf("what is back is waited for all the same")
	}
	return nil
}

// checkServing: where generations may overlap, nothing takes the serving
// generation away before its successor serves, except its own end and a
// disable.
func checkServing(before, after State, ev Event) error {
	if before.Serving == 0 || after.Serving == before.Serving || !after.Want {
		return nil
	}
	switch ev.(type) {
	case Started, Exited, Struck, Idled:
		return nil
	case Closed, Healthy, Stable:
		return fmt.Errorf("a serving generation was given up for nothing")
	case Want, Wake, RetryDue, Returned, Failed:
		if after.Overlap {
			return fmt.Errorf("a serving generation was given up before its successor served")
		}
	}
	return nil
}

// checkHealth: the two counters of strikes know nothing of each other, a
// generation speaks for its own revision only, and no answer shortens a wait
// that none may shorten.
func checkHealth(before, after State, ev Event) error {
	list, call := false, false
	switch ev := ev.(type) {
	case Struck:
		list, call = ev.List, !ev.List
	case Healthy:
		list, call = ev.List, !ev.List
		if before.NoEarlyWake && after.Next != before.Next {
			return fmt.Errorf("an answer shortened a wait that none may shorten")
		}
		if call && ev.Gen == before.Serving && before.ServingSpec != before.Spec && after.Attempt != before.Attempt {
			return fmt.Errorf("the old generation spoke for the new revision")
		}
	}
	same := before.Serving != 0 && after.Serving == before.Serving
	switch {
	case same && !list && after.ListStrikes != before.ListStrikes:
		return fmt.Errorf("a list's strikes changed by something else")
	case same && !call && after.CallStrikes != before.CallStrikes:
		return fmt.Errorf("a call's strikes changed by something else")
	}
	return nil
}

// checkPace: after a loss that counted, the next generation starts no sooner than
// the numbers allow. The bounds are written out again here, from the design.
func checkPace(p Policy, before, after State, ev Event, fx []Effect) error {
	var e end
	switch ev := ev.(type) {
	case Failed:
		e = end{ev.Verdict, ev.After, ev.Recent, ev.Down}
	case Exited:
		e = end{ev.Verdict, ev.After, ev.Recent, ev.Down}
	case Struck:
		e = end{recent: ev.Recent, down: ev.Down}
	}
	if after.Attempt != before.Attempt+1 {
		return nil
	}
	atOnce := after.Next == NextSlotFree || after.Next == NextCall || slices.ContainsFunc(fx, func(f Effect) bool { _, ok := f.(Start); return ok })
	over := p.MaxStarts > 0 && e.recent > p.MaxStarts
	timed := after.Attempt - after.Returns // what was brought forward makes no wait longer
	session := e.verdict == SessionEnd && timed <= p.Sessions
	free := (timed <= 1 || session) && e.down < p.FastFor && !over && e.after == 0
	if atOnce && !free {
		return fmt.Errorf("a start at once where a wait is due")
	}
	i := slices.IndexFunc(fx, func(f Effect) bool { a, ok := f.(Arm); return ok && a.Timer == RetryTimer })
	if i < 0 {
		return nil
	}
	a := fx[i].(Arm)
	floor := time.Duration(0)
	if after.Next == NextTimer && !session {
		floor = p.FirstDelay
		first := 2
		if e.verdict == SessionEnd {
			first = p.Sessions + 1
		}
		for n := first; n < timed; n++ {
			floor = min(2*floor, p.MaxDelay)
		}
	}
	if after.Next == NextTimer && timed <= 1 && !over {
		floor = 0
	}
	if after.Next == NextStopped {
		floor = p.SlowProbe
		if after.Stopped == Auth {
			floor = p.LoginProbe
		}
	}
	wish := min(e.after, p.MaxRetryAfter)
	heed := time.Duration(0)
	for n := range before.Returns {
		heed = p.FirstDelay
		for range n {
			heed = min(2*heed, p.MaxDelay)
		}
	}
	switch {
	case a.After < max(floor, wish) || wish > 0 && a.Jitter:
		return fmt.Errorf("the wait %v is below its bound %v", a.After, max(floor, wish))
	case floor > 0 && wish == 0 && a.Least < floor/2:
		return fmt.Errorf("less than half of the wait %v is certain", floor)
	case a.Keep != (before.Brought && !after.NoEarlyWake):
		return fmt.Errorf("a wait is cut that was not, or the reverse")
	case a.Heed < heed:
		return fmt.Errorf("what comes and goes is heeded after %v, before %v", a.Heed, heed)
	}
	return nil
}
