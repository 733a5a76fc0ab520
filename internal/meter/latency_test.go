package meter

import (
	"fmt"
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

// Tools that a server lists are counted by themselves, up to a bound, and what clients
// make up together.
func TestTools(t *testing.T) {
	m := New()
	if m.CountsTools() || m.Read().Tools != nil {
		t.Error("tools are counted unasked")
	}
	m.CountTools(true)
	yes, no := func() bool { return true }, func() bool { return false }
	for i := range MaxTools + 50 {
		m.Tool(fmt.Sprintf("made up %d", i), event.CallRefused, no)
		m.Tool(fmt.Sprintf("tool %d", i), event.CallAnswered, yes)
		m.Tool(fmt.Sprintf("tool %d", i), event.CallUnknown, no) // it was listed once
	}
	all := m.Read().Tools
	other := all[OtherTools]
	if len(all) != MaxTools+1 || other[event.CallRefused] != MaxTools+50 || other[event.CallAnswered] != 50 || other[event.CallUnknown] != 50 {
		t.Errorf("%d names, %v of others", len(all), other)
	}
	if n := all["tool 7"]; n[event.CallAnswered] != 1 || n[event.CallUnknown] != 1 {
		t.Errorf("%v", n)
	}
	if m.CountTools(false); m.Read().Tools != nil {
		t.Error("they are told though they are off")
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
