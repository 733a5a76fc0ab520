package stdio

import (
	"math"
	"sync"
	"time"
)

// rateSpan is how far back a byteRate looks, roughly.
const rateSpan = 5 * time.Second

// A byteRate counts the bytes of a stream and how fast they come: an average
// in which a byte weighs less the longer ago it came.
type byteRate struct {
	mu    sync.Mutex // guards all fields; memory only
	total uint64
	level float64 // bytes that weigh something, as of when
	when  time.Time
}

func (r *byteRate) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fade()
	r.total += uint64(n)
	r.level += float64(n)
}

// now returns all bytes so far, and the bytes a second.
func (r *byteRate) now() (total uint64, perSecond float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fade()
	return r.total, r.level / rateSpan.Seconds()
}

func (r *byteRate) fade() {
	now := time.Now()
	r.level *= math.Exp(-float64(now.Sub(r.when)) / float64(rateSpan))
	r.when = now
}
