package auth

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
)

const (
	renewLimit = 15 * time.Second // of one refresh, locks and files included
	closeGrace = 5 * time.Second  // that a refresh has at the end of the program
	// margin is how long a token must still be good to be handed out without
	// waiting for the next.
	margin    = 10 * time.Second
	firstWait = time.Second // after a refresh that failed for now
	lastWait  = 5 * time.Minute
	// A server that refuses fresh tokens is no reason to get more of them.
	firstGap = 5 * time.Second
	lastGap  = 5 * time.Minute
	calmFor  = 10 * time.Minute
	// One that refuses what it has accepted may have its reasons, and may be out of
	// order as well: a few are renewed at once, and then one or two in a minute.
	takenBack  = 5
	takenEvery = time.Minute
	// An issuer that says invalid_request again and again means invalid_grant.
	maxInvalid   = 3
	invalidOver  = 10 * time.Minute
	never        = math.MaxInt64
	misconfWait  = 5 * time.Minute
	renewedShare = 0.8
)

// A Ticket is what one request shows to the server.
type Ticket struct {
	Value  string // of the Authorization header; "" for none
	Serial uint64 // of the token; 0 for none

	accepted *atomic.Bool // of the token; nil for none
}

// Accepted tells that the server has let a request with it in. What it refuses
// after that was good once, and another token may be again.
func (t Ticket) Accepted() {
	if t.accepted != nil && !t.accepted.Load() {
		t.accepted.Store(true)
	}
}

// issued is a token as requests see it. It is never changed, but for accepted.
type issued struct {
	ticket   Ticket
	accepted atomic.Bool // the server has let somebody in with it
	good     int64       // until then, by the wall clock, it is handed out without waiting
	renew    int64       // from then on somebody who uses it causes a refresh
}

// A credential is the one owner of what was logged in to: whoever uses it, one
// refresh of it runs at a time, in this process and in all that share the store.
// A refresh belongs to the credential, not to the caller that needed it. At most
// one goroutine of it is running, and the manager waits for that.
type credential struct {
	m   *Manager
	key key

	token atomic.Pointer[issued] // nil: there is none
	used  atomic.Bool            // since the token was issued

	// mu guards the rest. It is held for moments: no request, file, callback or
	// channel is waited for under it. It comes after Manager.mu.
	mu        sync.Mutex
	rec       *record // nil: nothing is stored
	owner     *source // the last to be bound: its configuration renews
	flight    *share[struct{}]
	failures  int          // in a row
	retryAt   time.Time    // no refresh before that
	failure   *fault.Fault // of the last refresh; nil if it succeeded
	refused   uint64       // the highest serial that a server refused
	forcedAt  time.Time    // of the last refresh that a refusal caused
	forcedGap time.Duration
	taken     time.Time // until when refreshes of accepted tokens are paid for, at takenEvery each
	invalid   int       // answers invalid_request in a row
	invalidAt time.Time
	timer     *time.Timer
	refreshes uint64
	failed    uint64
	closed    bool
}

// A share is a result that several callers wait for.
type share[T any] struct {
	done  chan struct{}
	value T
	f     *fault.Fault
}

func newShare[T any]() *share[T] { return &share[T]{done: make(chan struct{})} }

func (s *share[T]) wait(ctx context.Context) (T, *fault.Fault) {
	select {
	case <-s.done:
		return s.value, s.f
	case <-ctx.Done():
		var none T
		f := fault.From(opAuth, context.Cause(ctx))
		f.Outcome = fault.NotSent
		return none, f
	}
}

// ticket returns a token that is good, or the best that there is.
func (c *credential) ticket(ctx context.Context) (Ticket, *fault.Fault) {
	tok, now := c.token.Load(), time.Now().UnixNano()
	c.used.Store(true)
	if tok != nil && now < tok.renew {
		return tok.ticket, nil
	}
	flight, f := c.renewal(false)
	if tok != nil && now < tok.good {
		return tok.ticket, nil
	}
	if f == nil {
		_, f = flight.wait(ctx)
	}
	switch next := c.token.Load(); {
	case f == nil && next != nil:
		return next.ticket, nil
	case f == nil:
		return Ticket{}, c.needsLogin()
	case tok != nil && f.Kind == fault.Unavailable && c.unrefused(tok):
		return tok.ticket, nil // while the issuer is away the old one is used until it is refused
	default:
		return Ticket{}, f
	}
}

// known tells whether somebody has logged in.
func (c *credential) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rec != nil
}

func (c *credential) idToken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rec == nil {
		return ""
	}
	return c.rec.ID
}

// retry forgets that somebody had to log in somewhere first.
func (c *credential) retry() {
	c.mu.Lock()
	if c.failure != nil && c.failure.Kind == fault.Unauthorized {
		c.failure, c.retryAt, c.failures = nil, time.Time{}, 0
	}
	c.mu.Unlock()
}

func (c *credential) unrefused(tok *issued) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return tok.ticket.Serial > c.refused
}

// renewal joins the refresh that is running, or starts one. A fault says why
// there is none now. With rescue it is made only if one was cut off.
func (c *credential) renewal(rescue bool) (*share[struct{}], *fault.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Round(0)
	switch {
	case c.flight != nil:
		return c.flight, nil
	case c.closed:
		return nil, notSent(fault.Closed, errors.New("everline is shutting down"), "")
	case !c.renewable():
		return nil, c.needsLoginLocked()
	case now.Before(c.retryAt):
		f := *c.failure
		f.RetryAfter = c.retryAt.Sub(now)
		return nil, &f
	}
	flight, rec, src := newShare[struct{}](), c.rec, c.owner
	if !c.m.spawn(func() { c.renew(flight, rec, src, rescue) }) {
		return nil, notSent(fault.Closed, errors.New("everline is shutting down"), "")
	}
	c.flight = flight
	return flight, nil
}

func (c *credential) renewable() bool {
	return c.owner != nil && (c.owner.kind.machine() || c.rec != nil && !c.rec.dead() && c.rec.Refresh != "")
}

// renew is the one refresh: it runs in a goroutine of its own, so that no caller
// that goes away ends it. Nor does the end of the manager, at once: an answer that
// nobody takes may be the login.
func (c *credential) renew(flight *share[struct{}], old *record, src *source, rescue bool) {
	c.m.publish(c)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.m.ctx), renewLimit)
	defer cancel()
	defer context.AfterFunc(c.m.ctx, func() { // it ends with the timer, or finds nothing to end
		time.AfterFunc(closeGrace, cancel)
	})()
	next, err := c.m.renewShared(ctx, c.key, old, src, rescue)
	c.mu.Lock()
	c.flight = nil
	flight.f = c.outcome(src, next, err)
	c.mu.Unlock()
	c.m.publish(c) // before anyone acts on it
	close(flight.done)
}

// outcome applies the result of a refresh, and says what its callers are told.
func (c *credential) outcome(src *source, next *record, err error) *fault.Fault {
	now := time.Now().Round(0)
	switch {
	case err == nil && next == nil: // logged out elsewhere
		c.setLocked(nil)
		return c.needsLoginLocked()
	case err == nil:
		c.failures, c.failure, c.retryAt, c.invalid = 0, nil, time.Time{}, 0
		if c.rec == nil || next.Serial != c.rec.Serial {
			c.refreshes++
		}
		c.setLocked(next)
		if next.dead() {
			return c.needsLoginLocked()
		}
		return nil
	case forNow(err):
		c.failed++
		wait := lastWait
		if c.failures < 9 {
			wait = min(lastWait, firstWait<<c.failures)
		}
		c.failures++
		wait = wait/2 + rand.N(wait/2+1)
		var later *passing
		if errors.As(err, &later) {
			wait = max(wait, later.after)
		}
		c.failure, c.retryAt = unavailable(err, wait), now.Add(wait)
		if f, ok := fault.As(err); ok { // of the store: it has a remedy of its own
			c.failure.Remedy = f.Remedy
		}
	case fault.Is(err, fault.Unauthorized): // the identity provider wants a login
		c.failed++
		f, _ := fault.As(err)
		c.failure, c.retryAt = notSent(fault.Unauthorized, f.Cause(), f.Remedy), now.Add(misconfWait)
	default:
		c.failed++
		c.failure, c.retryAt = notSent(fault.Invalid, err, src.spec.atPlace("auth")), now.Add(misconfWait)
		var no *refusal
		if errors.As(err, &no) && (no.code == codeInvalidClient || no.code == codeUnauthorized) {
			c.failure.Remedy = src.spec.atPlace("clientId/clientSecret")
		}
	}
	if src.kind == Command {
		c.failure.Remedy = "run: everline doctor " + src.spec.Server
	}
	c.armLocked(c.retryAt.Sub(now))
	f := *c.failure
	f.RetryAfter = c.retryAt.Sub(now)
	return &f
}

// forNow tells a failure that says nothing about what is stored: whatever is no
// definite answer.
func forNow(err error) bool {
	var later *passing
	f, ours := fault.As(err)
	return errors.As(err, &later) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		ours && f.Kind != fault.Invalid && f.Kind != fault.Unauthorized
}

// set takes what is stored, unless what is known is newer.
func (c *credential) set(rec *record) {
	c.mu.Lock()
	if rec == nil || c.rec == nil || rec.Serial > c.rec.Serial {
		if rec != nil {
			c.failures, c.failure, c.retryAt = 0, nil, time.Time{}
		}
		c.setLocked(rec)
	}
	c.mu.Unlock()
}

func (c *credential) setLocked(rec *record) {
	if rec.dead() && c.rec != nil && c.rec.Access == rec.Access && c.refused >= c.rec.Serial {
		c.refused = rec.Serial // it is the same token
	}
	c.rec = rec
	if rec == nil || rec.Access == "" || rec.dead() && c.refused >= rec.Serial {
		c.token.Store(nil)
		return
	}
	c.m.secrets.learn(rec.Access, rec.Refresh, rec.Client.Secret)
	tok := &issued{good: never, renew: never}
	tok.ticket = Ticket{Value: "Bearer " + rec.Access, Serial: rec.Serial, accepted: &tok.accepted}
	if !rec.Expiry.IsZero() {
		tok.good, tok.renew = rec.Expiry.UnixNano(), rec.Expiry.UnixNano()
		if c.renewable() {
			tok.good, tok.renew = schedule(rec)
		}
	}
	c.used.Store(false)
	c.token.Store(tok)
	if tok.renew != never {
		c.armLocked(time.Duration(tok.renew - time.Now().UnixNano()))
	}
}

// schedule says until when a token is handed out at once, and from when on it is
// renewed: at 80 % of its life or a minute before its end, whichever is earlier,
// yet not in the first half. The jitter keeps servers that were started together
// apart. What is over as soon as it is issued is tried nevertheless: to ask again
// for each call would be a storm.
func schedule(rec *record) (good, renew int64) {
	life := rec.Expiry.Sub(rec.Issued)
	if life <= 0 {
		good = rec.Issued.Add(margin).UnixNano()
		return good, good
	}
	good = rec.Expiry.Add(-min(margin, life/2)).UnixNano()
	early := max(life/2, min(time.Duration(renewedShare*float64(life)), life-time.Minute))
	early -= time.Duration(rand.Float64() * 0.1 * float64(early))
	return good, min(good, rec.Issued.Add(early).UnixNano())
}

// armLocked does at that time by itself what is due then: what is in use is
// renewed, and what cannot be renewed is shown to be over. A timer stands still
// while the machine sleeps, so that every use looks at the clock as well.
func (c *credential) armLocked(wait time.Duration) {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.closed {
		return
	}
	renews := c.renewable()
	c.timer = time.AfterFunc(max(wait, 0), func() { // ends by itself; close stops it
		switch {
		case !renews:
			c.m.publish(c)
		case c.used.Load():
			_, _ = c.renewal(false) // why there is none is in the state
		}
	})
}

// refuse is told of a server's 401 to a ticket, and sees to it that there is
// another one. young tells that there is none, because the refused one is so new
// that another would be no better: a server that refuses now and then is sent the
// same again, and one that refuses all is no reason to ask the issuer all the time.
func (c *credential) refuse(ctx context.Context, t Ticket) (young bool, f *fault.Fault) {
	flight, young, f := c.afterRefusal(t)
	if flight != nil {
		_, f = flight.wait(ctx)
	}
	c.m.publish(c)
	return young, f
}

func (c *credential) afterRefusal(t Ticket) (flight *share[struct{}], young bool, f *fault.Fault) {
	c.mu.Lock()
	tok, now := c.token.Load(), time.Now().Round(0)
	if tok != nil && tok.ticket.Serial > t.Serial && now.UnixNano() < tok.good {
		c.mu.Unlock()
		return nil, false, nil
	}
	c.refused = max(c.refused, t.Serial)
	switch {
	case c.flight != nil:
	case !c.renewable():
		if c.rec.dead() { // which nothing will make good again
			c.token.Store(nil)
		}
		f = c.needsLoginLocked()
	case c.failure != nil: // what is to replace it has not come, and is asked for at its own pace
	case t.accepted != nil && t.accepted.Load() && c.affordLocked(now):
		c.forcedAt, c.forcedGap = now, max(c.forcedGap, firstGap)
	case t.accepted != nil && t.accepted.Load(): // it is renewed when that is paid for
		young = true
		c.armLocked(c.taken.Add(takenEvery).Sub(now))
	case c.youngLocked(now):
		young = true
	case now.Before(c.retryAt), t.Serial == 0: // nothing was asked for, or shown
	case now.Sub(c.forcedAt) > calmFor:
		c.forcedAt, c.forcedGap = now, firstGap
	default:
		c.forcedAt, c.forcedGap = now, min(2*c.forcedGap, lastGap)
	}
	c.mu.Unlock()
	if young || f != nil {
		return nil, young, f
	}
	flight, f = c.renewal(false)
	return flight, false, f
}

// affordLocked takes one of the refreshes that are free for tokens which the server
// has accepted before; false if there is none.
func (c *credential) affordLocked(now time.Time) bool {
	from := now.Add(-takenBack * takenEvery)
	if c.taken.After(from) {
		from = c.taken
	}
	if from = from.Add(takenEvery); from.After(now) {
		return false
	}
	c.taken = from
	return true
}

// youngLocked tells whether a refusal has caused a refresh a short while ago.
func (c *credential) youngLocked(now time.Time) bool { return now.Sub(c.forcedAt) < c.forcedGap }

func (c *credential) needsLogin() *fault.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.needsLoginLocked()
}

func (c *credential) needsLoginLocked() *fault.Fault {
	why := "nobody has logged in to it"
	switch {
	case c.rec == nil:
	case c.rec.dead():
		why = c.rec.Cause
	case c.refused >= c.rec.Serial:
		why = "the server refuses the token, and the issuer gave none to renew it with"
	default:
		why = "the token has expired, and the issuer gave none to renew it with"
	}
	server := ""
	if c.owner != nil {
		server = c.owner.spec.Server
	}
	return notSent(fault.Unauthorized, errors.New(why), loginRemedy(server))
}

// describe is the state but for Since and Changed.
func (c *credential) describe(s *State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Round(0)
	s.Issuer, s.Refreshes, s.Failures = c.key.Issuer, c.refreshes, c.failed
	var f *fault.Fault
	switch tok := c.token.Load(); {
	case c.failure != nil && c.failure.Kind == fault.Invalid:
		s.Phase, f = Misconfigured, c.failure
	case c.failure != nil && c.failure.Kind == fault.Unauthorized:
		s.Phase, f = NeedsLogin, c.failure
	case c.failure != nil:
		s.Phase, s.RetryAt, f = Retrying, c.retryAt, c.failure
	case c.flight != nil && (tok == nil || now.UnixNano() >= tok.good || tok.ticket.Serial <= c.refused):
		s.Phase = Refreshing
	case tok != nil && (now.UnixNano() < tok.good || c.renewable()) && !(c.rec.dead() && tok.ticket.Serial <= c.refused):
		s.Phase = OK
	case c.renewable():
		s.Phase = NoCredential
	default:
		s.Phase, f = NeedsLogin, c.needsLoginLocked()
	}
	if f != nil {
		s.Cause, s.Remedy = f.Reason(), f.Remedy
	}
	s.Dead = !c.renewable() && (c.rec == nil || c.rec.over(now)) || c.rec.dead()
	if c.rec == nil {
		return
	}
	s.Subject, s.Scopes, s.Serial = c.rec.Subject, c.rec.Granted, c.rec.Serial
	s.ExpiresAt, s.RefreshedAt = c.rec.Expiry, c.rec.Issued
	s.Suspect = c.refused >= c.rec.Serial && (!c.renewable() || c.youngLocked(now))
}

// close ends the timer; a refresh that is running ends with the manager.
func (c *credential) close() {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
}
