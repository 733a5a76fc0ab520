package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A row is a situation of a slot, with the events that lead to it.
type row struct {
	name string
	path []Event
}

// callRows are the situations of a lazy server that calls alone may start.
func callRows() []row {
	lazy := Want{Want: true, Lazy: true, Spec: 1}
	return []row{
		{"never: backoff before a call", []Event{lazy, Wake{}, Failed{Gen: 1}, Wake{}, Failed{Gen: 2}}},
		{"never: backoff before a call, no early wake", []Event{lazy, Wake{}, Failed{Gen: 1, After: time.Minute}}},
		{"never: stopped: budget", []Event{lazy, Wake{}, Failed{Gen: 1}, Wake{}, Failed{Gen: 2}, RetryDue{2}, Wake{}, Failed{Gen: 3, Down: longDown}}},
		{"never: stopped: missing", []Event{lazy, Wake{}, Failed{Gen: 1, Verdict: NotThere}}},
		{"never: ready", []Event{lazy, Wake{}, Started{1}}},
	}
}

// rows are the situations of all other slots.
func rows() []row {
	on := Want{Want: true, Spec: 1}
	both := Want{Want: true, Overlap: true, Spec: 1}
	newer := Want{Want: true, Overlap: true, Spec: 2}
	lazy := Want{Want: true, Lazy: true, Spec: 1}
	halt := func(v Verdict) []Event { return []Event{on, Failed{Gen: 1, Verdict: v}} }
	return []row{
		{"off", nil},
		{"idle", []Event{lazy}},
		{"starting", []Event{on}},
		{"starting again", []Event{on, Started{1}, Exited{Gen: 1}, Closed{Gen: 1}}},
		{"ready", []Event{on, Started{1}}},
		{"ready, proven", []Event{on, Started{1}, Stable{1}}},
		{"ready, one strike each", []Event{on, Started{1}, Struck{Gen: 1}, Struck{Gen: 1, List: true}}},
		{"ready, lazy", []Event{lazy, Wake{}, Started{1}}},
		{"ready, overlap", []Event{both, Started{1}}},
		{"ready, successor starting", []Event{both, Started{1}, newer}},
		{"ready, successor waiting", []Event{both, Started{1}, newer, Failed{Gen: 2}, Failed{Gen: 3}}},
		{"ready, successor stopped", []Event{both, Started{1}, newer, Failed{Gen: 2, Verdict: BadConfig}}},
		{"ready, predecessor closing", []Event{both, Started{1}, newer, Started{2}}},
		{"disabling", []Event{on, Started{1}, Want{Spec: 1}}},
		{"disabling two", []Event{both, Started{1}, newer, Want{Spec: 2}}},
		{"draining before the next", []Event{on, Started{1}, Exited{Gen: 1}}},
		{"backoff", []Event{on, Failed{Gen: 1}, Failed{Gen: 2}}},
		{"backoff, returned before", []Event{on, Failed{Gen: 1}, Failed{Gen: 2}, Returned{2}, Failed{Gen: 3}}},
		{"backoff, no early wake", []Event{on, Failed{Gen: 1, After: time.Minute}}},
		{"backoff, closing", []Event{on, Failed{Gen: 1}, Started{2}, Exited{Gen: 2}}},
		{"stopped: budget", []Event{on, Failed{Gen: 1}, Failed{Gen: 2}, RetryDue{2}, Failed{Gen: 3, Down: longDown}}},
		{"stopped: auth", halt(NeedAuth)},
		{"stopped: auth, of a login that lives", halt(NeedToken)},
		{"stopped: auth, login only", halt(NeedLogin)},
		{"backoff, unready", halt(AwaitToken)},
		{"stopped: config", halt(BadConfig)},
		{"stopped: missing", halt(NotThere)},
	}
}

// columns are all events, about the newest generation n and the one that serves
// or closes beside it, m.
func columns(n, m uint64) []Event {
	evs := []Event{
		Want{},
		Want{Want: true, Spec: 1},
		Want{Want: true, Spec: 3},
		Want{Want: true, Overlap: true, Spec: 3},
		Want{Want: true, Lazy: true, Spec: 1},
		Wake{},
		Wake{TooSoon: true},
		Wake{Operator: true},
	}
	gens := []uint64{n}
	if m != n && m != 0 {
		gens = append(gens, m)
	}
	for _, gen := range gens {
		evs = append(evs, about(gen)...)
	}
	return evs
}

// TestMatrix holds what every event does in every situation against a golden
// file. Events that do nothing are listed in one line.
func TestMatrix(t *testing.T) {
	var b strings.Builder
	for i, row := range append(rows(), callRows()...) {
		w := newWorld(smallPolicy())
		if i >= len(rows()) {
			w.p.Restart = Never
		}
		for _, ev := range row.path {
			if _, err := w.step(ev); err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
		}
		fmt.Fprintf(&b, "== %s\n   %s\n", row.name, describeState(w.s))
		var nothing []string
		for _, ev := range columns(w.s.Gen, max(w.s.Serving, w.s.Closing[0])) {
			next := w.clone()
			fx, err := next.step(ev)
			if err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			if len(fx) == 0 {
				nothing = append(nothing, describeEvent(ev))
				continue
			}
			fmt.Fprintf(&b, "%-28s %s\n%28s %s\n", describeEvent(ev), describeState(next.s), "", describeEffects(fx))
		}
		fmt.Fprintf(&b, "nothing: %s\n\n", strings.Join(nothing, "; "))
	}
	golden(t, "testdata/matrix.golden", b.String())
}
