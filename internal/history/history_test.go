package history

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) event.Head { return event.Head{Time: begin.Add(d), Server: "db"} }

func exited(text string) *fault.Fault {
	return &fault.Fault{Kind: fault.Exited, Err: errors.New(text)}
}

func lines(spans []Span) []string {
	var out []string
	for _, s := range spans {
		line := fmt.Sprintf("%s g%d %s", s.State, s.Gen, s.From.Sub(begin))
		if !s.To.IsZero() {
			line += "-" + s.To.Sub(begin).String()
		}
		if s.State == Mixed {
			line += fmt.Sprintf(" %dx away %s", s.Generations, s.Away)
		}
		out = append(out, strings.TrimSpace(line+" "+s.Text))
	}
	return out
}

func gen(h event.Head, n uint64) event.Head { h.Gen = n; return h }

func TestSpans(t *testing.T) {
	h := New()
	h.Event(event.Connecting{Head: gen(at(0), 1)})
	h.Event(event.Connected{Head: gen(at(time.Second), 1)})
	h.Event(event.Lost{Head: gen(at(time.Minute), 1), Cause: exited("exit 1")})
	h.Event(event.Connecting{Head: gen(at(time.Minute+2*time.Millisecond), 2)})
	h.Event(event.Connected{Head: gen(at(time.Minute+5*time.Millisecond), 2)})
	h.Event(event.Connected{Head: event.Head{Time: begin, Server: "db", Session: 7}}) // of a client's own
	h.Event(event.Stopped{Head: gen(at(time.Hour), 2), Reason: event.Auth})
	all := h.Spans("db", begin, begin.Add(Day), begin.Add(2*time.Hour), 0)
	want := []string{
		"connecting g1 0s-1s", "connected g1 1s-1m0s", "disconnected g1 1m0s-1m0.002s exit 1", "connecting g2 1m0.002s-1m0.005s",
		"connected g2 1m0.005s-1h0m0s", "auth_required g2 1h0m0s",
	}
	if got := lines(all); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// What is too short to be seen is told in one span, with what it cost.
	want = []string{"connecting g1 0s-1s", "connected g1 1s-1m0s", "disconnected g2 1m0s-1m0.005s exit 1", "connected g2 1m0.005s-1h0m0s", "auth_required g2 1h0m0s"}
	if got := lines(h.Spans("db", begin, begin.Add(Day), begin.Add(2*time.Hour), time.Second)); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := h.Spans("db", begin.Add(2*time.Minute), begin.Add(3*time.Minute), begin.Add(Day), 0); len(got) != 1 || got[0].Gen != 2 {
		t.Errorf("%q", lines(got))
	}
	h.Forget(func(string) bool { return false })
	if got := h.Spans("db", begin, begin.Add(Day), begin.Add(Day), 0); len(got) != 0 || h.total.spans != 0 {
		t.Errorf("%q, %d", lines(got), h.total.spans)
	}
}

// A server that never comes to rest has a sum of what was before, and no outage
// of it is lost.
func TestSpansAreBounded(t *testing.T) {
	h := New()
	const rounds = 5000
	for i := range rounds {
		h.Event(event.Connected{Head: gen(at(time.Duration(i)*time.Second), uint64(i+1))})
		h.Event(event.Lost{Head: gen(at(time.Duration(i)*time.Second+900*time.Millisecond), uint64(i+1)), Cause: exited(strings.Repeat("x", 1000))})
	}
	s := h.servers["db"]
	if len(s.spans) > spansEach || len(s.causes) > causesEach || h.total.spans != len(s.spans) {
		t.Errorf("%d spans, %d causes, %d in all", len(s.spans), len(s.causes), h.total.spans)
	}
	generations, gone := 0, time.Duration(0)
	for _, sp := range h.Spans("db", begin, begin.Add(Day), begin.Add(rounds*time.Second), 2*time.Second) {
		generations += sp.Generations
		gone += sp.Away
	}
	if generations != rounds || gone != (rounds-1)*100*time.Millisecond {
		t.Errorf("%d generations, away for %s", generations, gone)
	}
	for i := range 300 {
		for j := range 400 {
			h.Event(event.Connected{Head: event.Head{Server: fmt.Sprint(i), Gen: uint64(j), Time: begin.Add(time.Duration(j) * time.Second)}})
		}
	}
	sum := 0
	for _, s := range h.servers {
		sum += len(s.spans)
	}
	if sum != h.total.spans || sum > spansAll {
		t.Errorf("%d spans, counted %d", sum, h.total.spans)
	}
}

func TestMarksAndSeries(t *testing.T) {
	h := New()
	call := func(d time.Duration, f event.CallFacts) {
		f.Server, f.Began = "db", begin.Add(d)
		h.Call(f)
	}
	for i := range 100 {
		call(time.Duration(i)*time.Millisecond, event.CallFacts{Took: time.Duration(i+1) * time.Millisecond})
	}
	call(time.Minute, event.CallFacts{Saved: event.ByReplay, Took: time.Millisecond})
	call(time.Minute, event.CallFacts{Result: event.CallUnknown, Kind: fault.Deadline})
	call(time.Minute, event.CallFacts{Result: event.CallCanceled})
	h.Event(event.CatalogChanged{Head: at(30 * time.Minute)})
	h.Event(event.DrillBegan{Head: at(30 * time.Minute)})
	h.Event(event.DrillEnded{Head: at(30 * time.Minute)})
	marks := h.Marks("db", begin, begin.Add(time.Hour))
	if len(marks) != 2 || marks[1].Drill != 1 || marks[0].Saved != 1 || marks[0].Unknown != 1 || marks[1].Catalog != 1 || marks[0].At() != begin.Add(time.Minute).Local() {
		t.Errorf("%+v", marks)
	}
	step, first, points := h.Series("db", begin, begin.Add(time.Minute))
	if step != FineStep || !first.Equal(begin) || len(points) != 7 || points[0].Calls != 100 || points[6].Calls != 3 || points[6].Failed != 1 {
		t.Errorf("%s %s %+v", step, first, points)
	}
	if p := points[0]; p.P50 < 45*time.Millisecond || p.P50 > 50*time.Millisecond || p.P95 < 87*time.Millisecond || p.P95 > 95*time.Millisecond {
		t.Errorf("%+v", p)
	}
	if step, _, points = h.Series("db", begin.Add(-Day), begin.Add(time.Minute)); step != CoarseStep || len(points) != coarseCells || points[coarseCells-1].Calls != 103 {
		t.Errorf("%s %d", step, len(points))
	}
	if n := h.LastMinute("db", begin.Add(time.Minute+5*time.Second)); n != 3 {
		t.Errorf("%d calls in the last minute", n)
	}
	// An hour later nothing of it is left in the fine cells.
	call(2*time.Hour, event.CallFacts{})
	if _, _, points = h.Series("db", begin.Add(2*time.Hour-59*time.Minute), begin.Add(2*time.Hour)); points[0].Calls != 0 || points[len(points)-1].Calls != 1 {
		t.Errorf("%+v", points)
	}
	if _, _, points = h.Series("nobody", begin, begin.Add(time.Hour)); len(points) == 0 || points[0].Calls != 0 {
		t.Errorf("%+v", points)
	}
}

// Calls of one server take no more than half of the places from others.
func TestCallsAreBounded(t *testing.T) {
	h := New()
	all := func(*event.CallFacts) bool { return true }
	for i := range 100 {
		h.Call(event.CallFacts{Server: "quiet", Name: fmt.Sprint(i)})
	}
	for range 3 * callsAll {
		h.Call(event.CallFacts{Server: "busy", Name: strings.Repeat("n", 1<<10)})
	}
	quiet := h.Calls(0, 0, callsAll, func(f *event.CallFacts) bool { return f.Server == "quiet" })
	busy := h.Calls(0, 0, callsAll, func(f *event.CallFacts) bool { return f.Server == "busy" })
	if len(quiet) != 100 || len(busy) != callsEach || len(busy[0].Name) != nameSize || busy[0].ID != h.LastCall() {
		t.Errorf("%d of quiet, %d of busy", len(quiet), len(busy))
	}
	for i := range 3 * callsAll {
		h.Call(event.CallFacts{Server: fmt.Sprint(i % 7)})
	}
	got := h.Calls(0, 0, 2*callsAll, all)
	if len(got) != callsAll || len(h.calls.of) != 7 {
		t.Errorf("%d calls of %d servers", len(got), len(h.calls.of))
	}
	for i := 1; i < len(got); i++ {
		if got[i].ID != got[i-1].ID-1 {
			t.Fatalf("%d follows %d", got[i].ID, got[i-1].ID)
		}
	}
	if page := h.Calls(got[10].ID, got[5].ID, 3, all); len(page) != 3 || page[0].ID != got[6].ID {
		t.Errorf("%d", len(page))
	}
}

// The budget: what a thousand servers with calls and outages take.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		servers, outages int
		most             uint64
	}{{10, 2000, 1 << 20}, {1000, 200, 12 << 20}} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		h := New()
		for i := range c.servers {
			name := fmt.Sprintf("server-%d", i)
			for j := range c.outages {
				head := event.Head{Server: name, Gen: uint64(j), Time: begin.Add(time.Duration(j) * time.Minute)}
				h.Event(event.Connected{Head: head})
				h.Event(event.Lost{Head: head, Cause: exited(fmt.Sprint(j, strings.Repeat("x", 300)))})
				h.Call(event.CallFacts{Server: name, Method: "tools/call", Name: "t", Began: head.Time, Result: event.CallUnknown})
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if took := after.HeapAlloc - before.HeapAlloc; took > c.most {
			t.Errorf("%d servers: %d KiB, at most %d", c.servers, took>>10, c.most>>10)
		}
		runtime.KeepAlive(h)
	}
}

func TestLevels(t *testing.T) {
	last := uint8(0)
	for d := time.Microsecond; d < 2*time.Hour; d += d/20 + time.Microsecond {
		l := level(d)
		if got := ofLevel(l); l < last || got > d || got < d-d/8 {
			t.Fatalf("%s is kept as %s, level %d after %d", d, got, l, last)
		}
		last = l
	}
}

func BenchmarkCall(b *testing.B) {
	h := New()
	f := event.CallFacts{Server: "db", Method: "tools/call", Name: "query", Began: time.Now(), Took: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		h.Call(f)
	}
}
