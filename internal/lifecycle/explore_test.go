package lifecycle

import (
	"testing"
	"time"
)

// smallPolicy has small bounds, so that few generations reach every rule.
func smallPolicy() Policy {
	p := DefaultPolicy()
	p.Strikes, p.Sessions = 2, 1
	return p
}

const (
	manyStarts = 100       // over DefaultPolicy's start limit
	longDown   = time.Hour // over its FastFor
)

// place is what tells two worlds apart.
type place struct {
	s             State
	gens          [6]fate
	retry, stable uint64
}

func (w *world) place() place {
	p := place{s: w.s, retry: w.retry, stable: w.stable}
	copy(p.gens[:], w.gens)
	return p
}

// ends are the ways in which a generation or an attempt can end.
func ends() []end {
	return []end{
		{verdict: Retry},
		{verdict: NeedAuth},
		{verdict: NeedToken},
		{verdict: NeedLogin},
		{verdict: AwaitToken},
		{verdict: BadConfig},
		{verdict: NotThere},
		{verdict: CleanEnd},
		{verdict: SessionEnd},
		{after: time.Minute},
		{recent: manyStarts},
		{down: longDown},
	}
}

// requests are what config and people may ask for.
func requests() []Event {
	evs := []Event{Want{}, Wake{}, Wake{TooSoon: true}, Wake{Operator: true}}
	for i := range 8 {
		evs = append(evs, Want{Want: true, Lazy: i&1 != 0, Overlap: i&2 != 0, Spec: 1 + uint64(i>>2)})
	}
	return evs
}

// about are all events that name generation gen.
func about(gen uint64) []Event {
	evs := []Event{
		Started{gen},
		Struck{Gen: gen},
		Struck{Gen: gen, List: true},
		Struck{Gen: gen, Recent: manyStarts},
		Struck{Gen: gen, Down: longDown},
		Healthy{Gen: gen},
		Healthy{Gen: gen, List: true},
		Stable{gen},
		Idled{gen},
		Closed{Gen: gen},
		RetryDue{gen},
		Returned{gen},
	}
	for _, e := range ends() {
		evs = append(evs, Failed{gen, e.verdict, e.after, e.recent, e.down}, Exited{gen, e.verdict, e.after, e.recent, e.down})
	}
	return evs
}

// TestExplore walks every state that a small world can reach, breadth first. In
// each it delivers every event about every generation that ever was or is yet
// to be: what is due, and every stale one that could still be in flight, in
// whatever number. And from each, left alone, the slot must come to rest.
func TestExplore(t *testing.T) {
	for _, size := range []struct {
		restart Restart
		gens    uint64
		atLeast int
	}{
		{Always, 4, 25_000},
		{OnFailure, 3, 10_000},
		{Never, 3, 10_000},
	} {
		if testing.Short() {
			size.gens, size.atLeast = size.gens-1, 2_000
		}
		p := smallPolicy()
		p.Restart = size.restart
		t.Run(size.restart.String(), func(t *testing.T) {
			n, steps := explore(t, p, size.gens)
			t.Logf("%d states, %d steps", n, steps)
			if n < size.atLeast {
				t.Errorf("only %d states; the world has shrunk below %d", n, size.atLeast)
			}
		})
	}
}

func explore(t *testing.T, p Policy, gens uint64) (states, steps int) {
	first := newWorld(p)
	seen := map[place]bool{first.place(): true}
	queue := []*world{first}
	events := requests()
	for gen := range gens + 2 {
		events = append(events, about(gen)...)
	}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		rests(t, w)
		for _, ev := range events {
			next := visit(t, w, ev)
			steps++
			if next == nil || next.s.Gen > gens {
				continue
			}
			if at := next.place(); !seen[at] {
				seen[at] = true
				queue = append(queue, next)
			}
		}
	}
	return len(seen), steps
}

// visit returns the world after ev, or nil if ev changes nothing in w.
func visit(t *testing.T, w *world, ev Event) *world {
	t.Helper()
	if !w.meant(ev) { // spare the copy: nothing may change
		after, fx := w.p.Step(w.s, ev)
		if after != w.s || fx != nil {
			t.Fatalf("%s is stale in %s, and changed it to %s", describeEvent(ev), describeState(w.s), describeState(after))
		}
		return nil
	}
	next := w.clone()
	if _, err := next.step(ev); err != nil {
		t.Fatal(err)
	}
	return next
}

// rests lets a copy of w come to rest in each way.
func rests(t *testing.T, w *world) {
	t.Helper()
	for _, try := range []struct{ ok, due bool }{{true, false}, {false, false}, {true, true}} {
		if err := w.clone().settle(try.ok, try.due); err != nil {
			t.Fatalf("from %s:\n%v", describeState(w.s), err)
		}
	}
}
