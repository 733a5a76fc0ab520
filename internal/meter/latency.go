package meter

import (
	"slices"
	"sync/atomic"
	"time"
)

// latencySize is how many of the newest answers the percentiles are about.
const latencySize = 256

// A latency knows how long the newest answers took. It costs a call two atomic
// operations, and holds nobody up.
type latency struct {
	answered atomic.Uint64
	took     [latencySize]atomic.Uint32 // a ring of µs + 1; 0: not used yet
}

// note takes an answer that took so long from when its call came.
func (m *latency) note(took time.Duration) {
	i := m.answered.Add(1) - 1
	m.took[i%latencySize].Store(uint32(min(max(took.Microseconds(), 0), 1<<32-2)) + 1)
}

// percentiles are the middle and the 95th of 100 of the newest answers' times;
// 0 if there was no answer yet.
func (m *latency) percentiles() (p50, p95 time.Duration) {
	times := make([]uint32, 0, latencySize)
	for i := range m.took {
		if t := m.took[i].Load(); t > 0 {
			times = append(times, t-1)
		}
	}
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	rank := func(share int) time.Duration {
		n := (len(times)*share + 99) / 100 // nearest rank, from 1
		return time.Duration(max(times[n-1], 1)) * time.Microsecond
	}
	return rank(50), rank(95)
}
