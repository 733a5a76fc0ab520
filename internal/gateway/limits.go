package gateway

import (
	"net/http"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/policy"
)

// soon is when to try again where nobody knows.
const soon = time.Second

const nothingGranted = "Forbidden: nothing is granted to this client"

// admit lets a request in as far as its identity's limits allow, or returns the answer
// that refuses it. leave, which may be nil, is called once it was served.
func (svc *service) admit(x *exchange) (leave func(), bad *message.Answer) {
	may := svc.backend.May()
	if may == nil {
		svc.refused(x.Method, nil, policy.ReasonNothing, 0)
		svc.recordRefusal(x, nil, policy.ReasonNothing, fault.Forbidden)
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
	svc.refused(x.Method, may, reason, wait)
	svc.recordRefusal(x, may, reason, fault.RateLimited)
	f := fault.New(fault.RateLimited, x.Method, text)
	f.Outcome, f.RetryAfter = fault.NotSent, wait
	a := x.Refusal(mcp.CodeRateLimited, text+": try again in "+event.Short(wait), message.Outcome(f))
	a.Status, a.RetryAfter = http.StatusTooManyRequests, wait
	return a
}

// refused counts a refusal, and tells of it unless it has just done so.
func (svc *service) refused(method string, may *policy.Scope, reason string, wait time.Duration) {
	d := may.Refused(reason)
	svc.opts.Meter.Refuse(may.Name(), reason)
	n := svc.usage.toTell(reason, time.Now())
	if n == 0 || svc.opts.Emit == nil {
		return
	}
	svc.opts.Emit(event.ClientRefused{
		Head: event.Head{Time: time.Now()}, Client: svc.who.Key(), Policies: d.Policies, Reason: reason, Method: method, RetryAfter: wait, Count: n,
	})
}

const tooManySessions = "Too many sessions are in use"

// maxSessions is how many sessions its identity may have, at all addresses together.
func (svc *service) maxSessions() int {
	if l := svc.backend.May().Limits(); l != nil && l.Sessions > 0 {
		return min(l.Sessions, svc.opts.MaxSessions)
	}
	return svc.opts.MaxSessions
}

// noRoom counts a session that was not opened, or not gone on with, where its client's
// policies say how many it may have. seen, which may be nil, sees the refusal.
func (svc *service) noRoom(seen *refusalWriter) {
	if may := svc.backend.May(); svc.maxSessions() < svc.opts.MaxSessions {
		svc.refused(mcp.Initialize, may, policy.ReasonSessions, soon)
		seen.because(may, policy.ReasonSessions)
	}
}
