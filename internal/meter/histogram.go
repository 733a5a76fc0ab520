package meter

import (
	"sync/atomic"
	"time"
)

// Upper bounds of buckets: of calls, of what brings a server back, of what everline
// itself takes of a call, and of sessions.
var (
	Calls = []time.Duration{
		1 * ms, 2 * ms, 5 * ms, 10 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms,
		sec, 2 * sec, 5 * sec, 10 * sec, 30 * sec, 60 * sec, 120 * sec, 300 * sec,
	}
	Recovery = []time.Duration{
		10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, 500 * ms, sec, 2500 * ms, 5 * sec, 10 * sec, 30 * sec, 60 * sec, 300 * sec, 1800 * sec,
	}
	Overhead = []time.Duration{
		50 * us, 100 * us, 200 * us, 500 * us, 1 * ms, 2 * ms, 5 * ms, 10 * ms, 50 * ms, 100 * ms, sec,
	}
	Lifetimes = []time.Duration{
		sec, 10 * sec, 60 * sec, 300 * sec, 1800 * sec, 3600 * sec, 4 * 3600 * sec, 12 * 3600 * sec, 24 * 3600 * sec, 7 * 24 * 3600 * sec,
	}
)

const (
	us  = time.Microsecond
	ms  = time.Millisecond
	sec = time.Second
)

// A Histogram counts durations by bucket, with two atomic operations each. It is
// made by New or Make.
type Histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Int64
}

// Make returns a histogram with these upper bounds, which rise.
func Make(bounds []time.Duration) Histogram {
	return Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// A Distribution is a histogram as it was at one moment.
type Distribution struct {
	Bounds []time.Duration
	Counts []uint64 // by bucket, not added up; one more than Bounds
	Sum    time.Duration
}

// Count is how many durations there were.
func (d Distribution) Count() (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// Add adds another one with the same bounds.
func (d *Distribution) Add(o Distribution) {
	if d.Counts == nil {
		d.Bounds, d.Counts = o.Bounds, make([]uint64, len(o.Counts))
	}
	for i, c := range o.Counts {
		d.Counts[i] += c
	}
	d.Sum += o.Sum
}

// Read is what was counted until now.
func (h *Histogram) Read() Distribution {
	d := Distribution{Bounds: h.bounds, Counts: make([]uint64, len(h.counts)), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		d.Counts[i] = h.counts[i].Load()
	}
	return d
}
