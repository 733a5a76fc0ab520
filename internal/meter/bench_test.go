package meter

import (
	"testing"
	"time"

	"github.com/everline/everline/event"
)

func BenchmarkCall(b *testing.B) {
	m := New()
	f := event.CallFacts{Method: "tools/call", Took: 300 * time.Microsecond, Sends: 1, ParamBytes: 100, Bytes: 1000}
	b.ReportAllocs()
	for b.Loop() {
		m.Sent(f.Took)
		m.Call(&f)
	}
}
