package history

import (
	"math/bits"
	"time"

	"github.com/everline/everline/event"
)

// The two resolutions of numbers over time.
const (
	FineStep    = 10 * time.Second
	CoarseStep  = 5 * time.Minute
	fineCells   = 360
	coarseCells = int(Day / CoarseStep)
)

// A Point is what the calls of one step came to.
type Point struct {
	Calls, Failed uint32
	P50, P95      time.Duration // of those that were answered; 0 if none was
}

// cell is a Point with its times as steps of a logarithm.
type cell struct {
	calls    uint32
	failed   uint16
	p50, p95 uint8
}

// series are the cells of one server. It has none before its first call.
type series struct {
	fine, coarse ring
}

// ring has the newest cells of one resolution, and the times of the newest one.
type ring struct {
	cells  []cell
	newest int64    // number of the newest step since 1970
	took   []uint32 // by level
}

// levels are the steps that times are kept in: single microseconds up to 16, and
// then eight to each power of two, up to some hours.
const levels = 256

func level(d time.Duration) uint8 {
	us := uint64(max(d.Microseconds(), 1))
	if us < 16 {
		return uint8(us)
	}
	shift := bits.Len64(us) - 4
	return uint8(min(uint64(shift)*8+us>>shift, levels-1))
}

func ofLevel(l uint8) time.Duration {
	if l < 16 {
		return time.Duration(l) * time.Microsecond
	}
	return time.Duration(l%8+8) << (l/8 - 1) * time.Microsecond
}

// add counts a call. mayFine is asked before fine cells are made.
func (s *series) add(at time.Time, f *event.CallFacts, mayFine func() bool) {
	if s.coarse.cells == nil {
		s.coarse = ring{cells: make([]cell, coarseCells), took: make([]uint32, levels)}
		if mayFine() {
			s.fine = ring{cells: make([]cell, fineCells), took: make([]uint32, levels)}
		}
	}
	l := level(f.Took)
	s.coarse.add(at, CoarseStep, f.Result, l)
	if s.fine.cells != nil {
		s.fine.add(at, FineStep, f.Result, l)
	}
}

func (r *ring) add(at time.Time, step time.Duration, result event.CallResult, took uint8) {
	c := r.at(at.UnixNano() / int64(step))
	if c == nil {
		return
	}
	c.calls++
	switch {
	case result.Answered():
		r.took[took]++
	case result != event.CallCanceled:
		bump(&c.failed)
	}
}

// at is the cell of a step; nil for one that is over, which a call that waited
// for its lock may still be of.
func (r *ring) at(n int64) *cell {
	size := int64(len(r.cells))
	if n < r.newest {
		return nil
	}
	if n > r.newest {
		r.rankNewest()
		for i := max(r.newest+1, n-size+1); i <= n; i++ {
			r.cells[i%size] = cell{}
		}
		r.newest = n
		clear(r.took)
	}
	return &r.cells[n%size]
}

// rankNewest writes down how long the answers of the newest step took.
func (r *ring) rankNewest() {
	c := &r.cells[r.newest%int64(len(r.cells))]
	c.p50, c.p95 = r.rank(50), r.rank(95)
}

func (r *ring) rank(share uint32) uint8 {
	var all, sum uint32
	for _, n := range r.took {
		all += n
	}
	for i, n := range r.took {
		if sum += n; n > 0 && sum*100 >= all*share {
			return uint8(i)
		}
	}
	return 0
}

// points are those of count steps up to the one of a time.
func (r *ring) points(last int64, count int) []Point {
	points := make([]Point, count)
	size := int64(len(r.cells))
	if size == 0 {
		return points
	}
	r.rankNewest()
	for i := range points {
		n := last - int64(count-1-i)
		if n > r.newest || n <= r.newest-size {
			continue
		}
		c := r.cells[n%size]
		points[i] = Point{c.calls, uint32(c.failed), ofLevel(c.p50), ofLevel(c.p95)}
	}
	return points
}

// Series are the numbers of a server in the steps from one time to another: fine
// ones where those go back as far and are kept. begin is when the first step
// begins.
func (h *History) Series(name string, from, to time.Time) (step time.Duration, begin time.Time, points []Point) {
	h.mu.RLock()
	s := h.servers[name]
	h.mu.RUnlock()
	if s == nil {
		s = &server{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, step := &s.series.coarse, CoarseStep
	if to.Sub(from) <= fineCells*FineStep && s.series.fine.cells != nil {
		r, step = &s.series.fine, FineStep
	}
	first, last := from.UnixNano()/int64(step), to.UnixNano()/int64(step)
	first = max(first, last-int64(coarseCells)+1)
	return step, time.Unix(0, first*int64(step)), r.points(last, int(last-first)+1)
}

// LastMinute is how many calls of a server have ended within the last minute, to
// ten seconds; of one without fine cells it is the mean of the last minutes.
func (h *History) LastMinute(name string, now time.Time) uint32 {
	h.mu.RLock()
	s := h.servers[name]
	h.mu.RUnlock()
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, step, count := &s.series.fine, FineStep, int(time.Minute/FineStep)
	if r.cells == nil {
		r, step, count = &s.series.coarse, CoarseStep, 1
	}
	sum := uint32(0)
	for _, p := range r.points(now.UnixNano()/int64(step), count) {
		sum += p.Calls
	}
	return sum * uint32(time.Minute/FineStep) / uint32(step/FineStep*time.Duration(count))
}

// Minutes are the calls of a server in each of the last n minutes, oldest first; nil
// if there were none, or it has no fine cells.
func (h *History) Minutes(name string, now time.Time, n int) []uint32 {
	h.mu.RLock()
	s := h.servers[name]
	h.mu.RUnlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series.fine.cells == nil {
		return nil
	}
	const each = int(time.Minute / FineStep)
	minutes, sum := make([]uint32, n), uint32(0)
	for i, p := range s.series.fine.points(now.UnixNano()/int64(FineStep), n*each) {
		minutes[i/each] += p.Calls
		sum += p.Calls
	}
	if sum == 0 {
		return nil
	}
	return minutes
}

// mayFine takes one of the places for servers with fine cells; false if there is
// none.
func (h *History) mayFine() bool {
	h.total.Lock()
	defer h.total.Unlock()
	if h.total.fine == fineAll {
		return false
	}
	h.total.fine++
	return true
}
