package slot

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
)

// meterSize is how many of the newest answers the percentiles are about.
const meterSize = 256

// A meter knows how many calls have ended, and how long the newest of those
// that were answered took. It costs a call a few atomic operations, and holds
// nobody up.
type meter struct {
	ended    atomic.Uint64
	answered atomic.Uint64
	took     [meterSize]atomic.Uint32 // a ring of µs + 1; 0: not used yet
}

// note counts a call that took so long, from when it came until its end.
func (m *meter) note(took time.Duration, err error) {
	m.ended.Add(1)
	if err != nil && fault.KindOf(err) != fault.RPC {
		return // its time says when it was given up, and nothing about the server
	}
	i := m.answered.Add(1) - 1
	m.took[i%meterSize].Store(uint32(min(max(took.Microseconds(), 0), 1<<32-2)) + 1)
}

// percentiles are the middle and the 95th of 100 of the newest answers' times;
// 0 if there was no answer yet.
func (m *meter) percentiles() (p50, p95 time.Duration) {
	times := make([]uint32, 0, meterSize)
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
