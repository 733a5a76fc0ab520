package slot

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
)

const (
	maxPause   = 5 * time.Minute // the longest Retry-After that calls obey
	limitPause = time.Second     // for a rate limit that names no time; doubled for each further one
)

// A pause keeps calls away from a server that has asked for that, whatever
// generation it has.
type pause struct {
	born  time.Time
	until atomic.Int64 // counted from born; 0: there is none
}

// extend moves the end of the pause to until, and returns by how much; it never
// shortens it.
func (p *pause) extend(until time.Time) time.Duration {
	end, now := sinceBirth(p.born, until), sinceBirth(p.born, time.Now())
	for {
		old := p.until.Load()
		if old >= end {
			return 0
		}
		if p.until.CompareAndSwap(old, end) {
			return time.Duration(max(end-max(old, now), 0))
		}
	}
}

func (p *pause) none() bool { return p.until.Load() == 0 }

// end is when the pause ends; zero if there is none.
func (p *pause) end(now time.Time) time.Time {
	end := p.until.Load()
	if end == 0 {
		return time.Time{}
	}
	if end <= sinceBirth(p.born, now) {
		p.until.CompareAndSwap(end, 0)
		return time.Time{}
	}
	return p.born.Add(time.Duration(end))
}

// sinceBirth is t as a number that an atomic can hold; never 0.
func sinceBirth(born, t time.Time) int64 { return max(int64(t.Sub(born)), 1) }

// pauseOf is how long to leave a server alone after its nth rate limit in a row.
func pauseOf(f *fault.Fault, n int) time.Duration {
	if f.RetryAfter > 0 {
		return min(f.RetryAfter, maxPause)
	}
	return min(limitPause<<min(max(n-1, 0), 10), maxPause)
}

// rateLimited is the fault of a call that cannot wait for the end of a pause.
func rateLimited(server string, left time.Duration) *fault.Fault {
	return &fault.Fault{
		Kind: fault.RateLimited, Op: "call", Server: server, Outcome: fault.NotSent, RetryAfter: left,
		Err: errors.New("the server has asked for a pause"),
	}
}
