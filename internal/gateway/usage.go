package gateway

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/policy"
)

// A usage is how much one identity uses of what is limited, at all groups together.
type usage struct {
	inFlight atomic.Int64
	sessions session.Room
	parts    int        // that it is of; guarded by the lock of parts
	mu       sync.Mutex // guards the rest; nothing waits under it
	calls    *rate.Limiter
	refusals map[string]*refusals // by reason
}

// refusals of one reason, which are told now and then.
type refusals struct {
	told  time.Time
	since int // how many have come since
}

// tellEvery is for how long there is one event of refusals of one identity and reason.
const tellEvery = 10 * time.Second

func (u *usage) left() { u.inFlight.Add(-1) }

// wait is after what time a call may come; 0 for now.
func (u *usage) wait(l *policy.Limits, now time.Time) time.Duration {
	if l.Rate == 0 {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.calls == nil:
		u.calls = rate.NewLimiter(rate.Limit(l.Rate), l.Burst)
	case u.calls.Limit() != rate.Limit(l.Rate) || u.calls.Burst() != l.Burst: // another configuration
		u.calls.SetLimitAt(now, rate.Limit(l.Rate))
		u.calls.SetBurstAt(now, l.Burst)
	}
	if u.calls.AllowN(now, 1) {
		return 0
	}
	missing := 1 - u.calls.TokensAt(now)
	return max(time.Duration(math.Ceil(missing/l.Rate*float64(time.Second))), time.Millisecond)
}

// toTell is how many refusals there were since one was told, this one included; 0 if
// that was just now.
func (u *usage) toTell(reason string, now time.Time) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refusals == nil {
		u.refusals = map[string]*refusals{}
	}
	r := u.refusals[reason]
	if r == nil {
		r = &refusals{}
		u.refusals[reason] = r
	}
	r.since++
	if !r.told.IsZero() && now.Sub(r.told) < tellEvery {
		return 0
	}
	n := r.since
	r.told, r.since = now, 0
	return n
}
