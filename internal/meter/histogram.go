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
	Conventional = Calls[3:] // what OpenTelemetry's conventions for MCP want
	Recovery     = []time.Duration{
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
	h.counts[h.bucket(d)].Add(1)
	h.sum.Add(int64(d))
}

// bucket is which one a duration is in.
func (h *Histogram) bucket(d time.Duration) int {
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	return i
}

// A Distribution is a histogram as it was at one moment.
type Distribution struct {
	Bounds    []time.Duration
	Counts    []uint64 // by bucket, not added up; one more than Bounds
	Sum       time.Duration
	Exemplars []*Exemplar // by bucket; nil for one without, and nil for none
}

// An Exemplar is one call whose trace is recorded.
type Exemplar struct {
	Trace [16]byte
	Took  time.Duration
	At    time.Time
}

// An exemplary histogram keeps, for each bucket, the newest call whose trace is
// recorded.
type exemplary struct {
	Histogram
	newest []atomic.Pointer[Exemplar]
}

func makeExemplary(bounds []time.Duration) exemplary {
	return exemplary{Make(bounds), make([]atomic.Pointer[Exemplar], len(bounds)+1)}
}

// show keeps a call that was observed.
func (h *exemplary) show(e *Exemplar) { h.newest[h.bucket(e.Took)].Store(e) }

// Read is what was counted until now.
func (h *exemplary) Read() Distribution {
	d := h.Histogram.Read()
	d.Exemplars = make([]*Exemplar, len(h.newest))
	for i := range h.newest {
		d.Exemplars[i] = h.newest[i].Load()
	}
	return d
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
