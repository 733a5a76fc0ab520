package gateway

import (
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/policy"
)

// A usage is how much one identity uses of what is limited, at all groups together.
type usage struct {
	inFlight atomic.Int64
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

const (
	tellEvery = 10 * time.Second // of refusals of one identity and reason there is one event in so long
	soon      = time.Second      // when to try again where nobody knows
)

// admit lets a request in as far as its identity's limits allow, or returns the answer
// that refuses it. leave, which may be nil, is called once it was served.
func (svc *service) admit(x *exchange) (leave func(), bad *message.Answer) {
	may := svc.backend.May()
	if may == nil {
		svc.refused(x.who, x.Method, nil, policy.ReasonNothing, 0)
		a := x.Refusal(mcp.CodeForbidden, nothingGranted, nil)
		a.Status = http.StatusForbidden
		return nil, a
	}
	l := may.Limits()
	if l == nil || !asksServer(x.Method) {
		return nil, nil
	}
	if wait := svc.usage.wait(l, time.Now()); wait > 0 {
		return nil, svc.tooMany(x, may, policy.ReasonRate, "Too many calls in a short time", wait)
	}
	if n := svc.usage.inFlight.Add(1); l.Concurrent > 0 && n > int64(l.Concurrent) {
		svc.usage.inFlight.Add(-1)
		return nil, svc.tooMany(x, may, policy.ReasonConcurrent, "Too many calls at a time", soon)
	}
	return svc.usage.left, nil
}

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

// asksServer tells whether a request is one that a server answers: those that everline
// answers itself are not limited.
func asksServer(method string) bool {
	switch method {
	case mcp.Initialize, mcp.Ping, mcp.ServerDiscover, mcp.LoggingSetLevel, mcp.EverlineResult, mcp.ResourcesUnsubscribe,
		mcp.ToolsList, mcp.PromptsList, mcp.ResourcesList, mcp.ResourcesTemplatesList:
		return false
	default:
		return true
	}
}

// tooMany is the answer to a request beyond a limit: when it may come again is in the
// error, and over HTTP in the header, too.
func (svc *service) tooMany(x *exchange, may *policy.Scope, reason, text string, wait time.Duration) *message.Answer {
	svc.refused(x.who, x.Method, may, reason, wait)
	f := fault.New(fault.RateLimited, x.Method, text)
	f.Outcome, f.RetryAfter = fault.NotSent, wait
	a := x.Refusal(mcp.CodeRateLimited, text+": try again in "+event.Short(wait), message.Outcome(f))
	a.Status, a.RetryAfter = http.StatusTooManyRequests, wait
	return a
}

// refused counts a refusal, and tells of it unless it has just done so.
func (svc *service) refused(who *access.Identity, method string, may *policy.Scope, reason string, wait time.Duration) {
	d := may.Refused(reason)
	svc.opts.Meter.Refuse(may.Name(), reason)
	n := svc.usage.toTell(reason, time.Now())
	if n == 0 || svc.opts.Emit == nil {
		return
	}
	svc.opts.Emit(event.ClientRefused{
		Head: event.Head{Time: time.Now()}, Client: who.Key(), Policies: d.Policies, Reason: reason, Method: method, RetryAfter: wait, Count: n,
	})
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
