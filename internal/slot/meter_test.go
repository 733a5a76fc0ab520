package slot

import (
	"errors"
	"testing"
	"time"

	"github.com/everline/everline/fault"
)

func TestMeter(t *testing.T) {
	var m meter
	if p50, p95 := m.percentiles(); p50 != 0 || p95 != 0 {
		t.Errorf("without a call: %s, %s", p50, p95)
	}
	m.note(0, nil)
	if p50, p95 := m.percentiles(); p50 != time.Microsecond || p95 != time.Microsecond {
		t.Errorf("one that took no time: %s, %s", p50, p95)
	}
	for range 3 * meterSize { // what is old counts no more
		m.note(time.Hour, nil)
	}
	for i := range meterSize {
		m.note(time.Duration(i+1)*time.Millisecond, nil)
	}
	m.note(24*time.Hour, fault.New(fault.Deadline, "call", "late"))
	m.note(24*time.Hour, errors.New("foreign"))
	p50, p95 := m.percentiles()
	if p50 != 128*time.Millisecond || p95 != 244*time.Millisecond {
		t.Errorf("p50 %s, p95 %s", p50, p95)
	}
	m.note(time.Second, &fault.Fault{Kind: fault.RPC})
	if p50, p95 = m.percentiles(); p50 != 129*time.Millisecond || p95 != 245*time.Millisecond {
		t.Errorf("with a server's own error: p50 %s, p95 %s", p50, p95)
	}
	if n := m.ended.Load(); n != 4*meterSize+4 {
		t.Errorf("%d calls have ended", n)
	}
	if n := testing.AllocsPerRun(100, func() { m.note(time.Second, nil) }); n != 0 {
		t.Errorf("note allocates %v times", n)
	}
}
