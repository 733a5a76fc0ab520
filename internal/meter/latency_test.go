package meter

import (
	"testing"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

func TestLatency(t *testing.T) {
	var m latency
	if p50, p95 := m.percentiles(); p50 != 0 || p95 != 0 {
		t.Errorf("without a call: %s, %s", p50, p95)
	}
	m.note(0)
	if p50, p95 := m.percentiles(); p50 != time.Microsecond || p95 != time.Microsecond {
		t.Errorf("one that took no time: %s, %s", p50, p95)
	}
	for range 3 * latencySize { // what is old counts no more
		m.note(time.Hour)
	}
	for i := range latencySize {
		m.note(time.Duration(i+1) * time.Millisecond)
	}
	if p50, p95 := m.percentiles(); p50 != 128*time.Millisecond || p95 != 244*time.Millisecond {
		t.Errorf("p50 %s, p95 %s", p50, p95)
	}
}

// What a call costs: no memory, and the percentiles are about answers alone.
func TestCallCounts(t *testing.T) {
	m := New()
	late := event.CallFacts{Method: "tools/call", Result: event.CallUnknown, Kind: fault.Deadline, Took: 24 * time.Hour, Sends: 1, ParamBytes: 3}
	m.Call(&late)
	if p50, _ := m.Percentiles(); p50 != 0 {
		t.Errorf("a call that was given up says nothing of the server: p50 %s", p50)
	}
	m.Call(&event.CallFacts{Method: "x/y", Result: event.CallRPCError, Took: time.Second, Saved: event.ByReplay, Sends: 2, ParamBytes: 5, Bytes: 7})
	if p50, _ := m.Percentiles(); p50 != time.Second {
		t.Errorf("p50 %s", p50)
	}
	c := m.Read()
	if c.Calls[0][event.CallUnknown] != 1 || c.Calls[len(Methods)-1][event.CallRPCError] != 1 || c.Failures[fault.Deadline] != 1 ||
		c.Saved[event.ByReplay] != 1 || c.Sent != 13 || c.Received != 7 || c.Took.Count() != 2 {
		t.Errorf("%+v", c)
	}
	if n := testing.AllocsPerRun(100, func() { m.Call(&late) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}
