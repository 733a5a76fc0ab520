package lifecycle

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestModel drives long random runs with noise: spurious events about the
// current generation, stale ones, and ones about generations that do not exist
// yet. The invariants are those of world.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawPolicy(t))
		step := func(ev Event) {
			if _, err := w.step(ev); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"want": func(t *rapid.T) { step(drawWant(t)) },
			"wake": func(t *rapid.T) {
				step(Wake{Operator: rapid.Bool().Draw(t, "op"), TooSoon: rapid.Bool().Draw(t, "soon")})
			},
			"noise":   func(t *rapid.T) { step(drawAbout(t, rapid.Uint64Range(0, w.s.Gen+1).Draw(t, "gen"))) },
			"newest":  func(t *rapid.T) { step(drawAbout(t, w.s.Gen)) },
			"serving": func(t *rapid.T) { step(drawAbout(t, w.s.Serving)) },
			"complete": func(t *rapid.T) {
				if _, err := w.complete(rapid.Bool().Draw(t, "ok")); err != nil {
					t.Fatal(err)
				}
			},
			"timer":  func(*rapid.T) { step(RetryDue{w.retry}) },
			"return": func(*rapid.T) { step(Returned{w.retry}) },
			// After each action: left alone, it comes to rest.
			"": func(t *rapid.T) {
				well := rapid.Bool().Draw(t, "well")
				if err := w.clone().settle(well, well); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

func drawPolicy(t *rapid.T) Policy {
	p := DefaultPolicy()
	p.Strikes = rapid.IntRange(1, 3).Draw(t, "strikes")
	p.FastFor = time.Duration(rapid.IntRange(0, 10).Draw(t, "fastFor")) * time.Minute
	p.Sessions = rapid.IntRange(0, 8).Draw(t, "sessions")
	p.Restart = Restart(rapid.IntRange(0, 2).Draw(t, "restart"))
	return p
}

func drawWant(t *rapid.T) Want {
	return Want{
		Want:    rapid.IntRange(0, 3).Draw(t, "on") > 0,
		Lazy:    rapid.Bool().Draw(t, "lazy"),
		Overlap: rapid.Bool().Draw(t, "overlap"),
		Spec:    rapid.Uint64Range(1, 3).Draw(t, "spec"),
	}
}

func drawAbout(t *rapid.T, gen uint64) Event {
	list := rapid.Bool().Draw(t, "list")
	e := end{
		verdict: Verdict(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}).Draw(t, "verdict")),
		after:   time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 600}).Draw(t, "after")) * time.Second,
		recent:  rapid.SampledFrom([]int{1, 2, 61, 200}).Draw(t, "recent"),
		down:    time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 30}).Draw(t, "down")) * time.Minute,
	}
	return rapid.SampledFrom([]Event{
		Started{gen},
		Failed{gen, e.verdict, e.after, e.recent, e.down},
		Exited{gen, e.verdict, e.after, e.recent, e.down},
		Struck{gen, list, e.recent, e.down},
		Healthy{gen, list},
		Stable{gen},
		Idled{gen},
		Closed{gen, list},
		RetryDue{gen},
		Returned{gen},
	}).Draw(t, "event")
}

// FuzzStep turns bytes into events, two each: what, and about which generation.
func FuzzStep(f *testing.F) {
	f.Add([]byte{1, 0, 20, 1, 33, 1, 28, 1})
	f.Add([]byte{6, 0, 20, 1, 7, 0, 20, 2, 0, 0, 28, 1, 28, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(smallPolicy())
		events := requests()
		data = data[:min(len(data), 600)] // what is longer only costs time
		for ; len(data) >= 2; data = data[2:] {
			what := int(data[0])
			ev := events[what%len(events)]
			if what >= len(events) {
				named := about(w.s.Gen + 1 - min(uint64(data[1]), w.s.Gen+1))
				ev = named[(what-len(events))%len(named)]
			}
			if _, err := w.step(ev); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.settle(true, true); err != nil {
			t.Fatal(err)
		}
	})
}
