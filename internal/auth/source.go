package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
)

const (
	siteFor    = time.Hour       // that a discovery is believed
	movedAfter = 5 * time.Minute // between two looks at whether a server has moved
	// maxStepUps bounds logins that a server causes by what it answers, for each
	// set of scopes and hour.
	maxStepUps = 2
	stepUpOver = time.Hour
)

// A Source is what a server's connection knows of credentials.
type Source interface {
	// Header returns what to send as Authorization. It waits, within ctx, for a
	// refresh that is running. A fault means that nothing can be sent now.
	Header(ctx context.Context) (Ticket, *fault.Fault)
	// Refused is told of a 401 or 403, with its WWW-Authenticate fields. nil: get
	// a ticket again, and send the request once more; a second refusal is final
	// for the request. Otherwise the fault says why that cannot help now. A 401
	// proves that the request was not executed.
	Refused(ctx context.Context, t Ticket, status int, challenge []string) *fault.Fault
	// Agreed is told which revision of MCP the server speaks.
	Agreed(version string)
	// State is the credential as it is now. It never waits.
	State() *State
}

// A source is one server's. Its credential may be shared with others.
type source struct {
	m    *Manager
	spec Spec
	kind Kind
	web  *web
	// provider is the login to the identity provider that this one's tokens come
	// from, and client is the way back; both nil but for Enterprise.
	provider, client *source
	broken           *fault.Fault // why nothing can be asked; nil if that is possible
	cred             atomic.Pointer[credential]
	current          atomic.Pointer[State]
	old              atomic.Bool  // the server speaks a revision whose endpoints may be made up
	looked           atomic.Int64 // when the store was last looked into for a request

	// mu guards the rest, as in credential.
	mu        sync.Mutex
	challenge challenge // the last
	met       bool      // there was one, or a search that asked for it
	site      *site
	lookup    *share[*site]
	lookups   int // failed in a row
	lookAt    time.Time
	lookFault *fault.Fault
	locked    *fault.Fault // why the store cannot be read; nil if it can
	away      *fault.Fault // the server has moved to another issuer; nil once it is logged in to there
	steps     []Step
	logins    map[string][]time.Time // that the server caused, by set of scopes
}

// Header is the fast path: no lock and no allocation while a token is good.
func (s *source) Header(ctx context.Context) (Ticket, *fault.Fault) {
	if c := s.cred.Load(); c != nil {
		if tok := c.token.Load(); tok != nil && time.Now().UnixNano() < tok.renew {
			if !c.used.Load() {
				c.used.Store(true)
			}
			return tok.ticket, nil
		}
	}
	return s.header(ctx)
}

func (s *source) header(ctx context.Context) (Ticket, *fault.Fault) {
	switch {
	case s.kind == None || s.kind == Static:
		return Ticket{}, nil
	case s.broken != nil:
		return Ticket{}, s.broken
	}
	c := s.cred.Load()
	if c == nil && !s.m.watched.Load() && s.looks() {
		c, _ = s.bind(ctx) // what is locked is no matter of a server that wants nothing
	}
	if c == nil || !c.known() && !s.kind.machine() { // the server will say what it wants
		return Ticket{}, nil
	}
	t, f := c.ticket(ctx)
	if f != nil && f.Kind == fault.Unauthorized && s.opens() {
		if f = s.open(ctx, s.State().Serial, nil); f == nil {
			if c, f = s.bind(ctx); c != nil {
				t, f = c.ticket(ctx)
			}
		}
	}
	if f != nil {
		s.m.publish(c)
	}
	return t, s.name(f)
}

// looks tells, once in a second, that somebody may have logged in meanwhile.
func (s *source) looks() bool {
	now, last := time.Now().UnixNano(), s.looked.Load()
	return now-last >= int64(time.Second) && s.looked.CompareAndSwap(last, now)
}

func (s *source) name(f *fault.Fault) *fault.Fault {
	if f == nil {
		return nil
	}
	return f.At(s.spec.Server, 0)
}

// Refused decides what a 401 or 403 means. A 403 changes nothing about the
// credential.
func (s *source) Refused(ctx context.Context, t Ticket, status int, fields []string) *fault.Fault {
	ch := parseChallenge(fields)
	s.m.secrets.learn(t.Value)
	switch {
	case status == 403 && ch.code == "insufficient_scope" && s.kind == OAuth:
		return s.name(s.stepUp(ctx, t, ch))
	case status == 403:
		return s.name(s.forbidden(ch))
	case s.kind == Static:
		return s.name(notSent(fault.Unauthorized, errors.New("the server refuses the configured headers"),
			s.spec.atPlace(`"headers"`)+", then: everline reconnect "+s.spec.Server))
	case s.kind == None:
		return s.name(notSent(fault.Unauthorized, errors.New(`the server wants a login, and "auth" is "none"`), s.spec.atPlace("auth")))
	case s.broken != nil:
		return s.broken
	}
	return s.name(s.unauthorized(ctx, t, ch))
}

func (s *source) forbidden(ch challenge) *fault.Fault {
	text := "the server forbids it"
	if ch.text != "" {
		text += ": " + s.m.secrets.words(ch.text)
	}
	return notSent(fault.Forbidden, errors.New(text), "")
}

func (s *source) unauthorized(ctx context.Context, t Ticket, ch challenge) *fault.Fault {
	s.note(ch)
	s.m.watch() // from now on a login by another process is waited for
	c, f := s.bind(ctx)
	if f != nil {
		return f
	}
	if c == nil {
		if c, f = s.meet(ctx); f != nil {
			return f
		}
	}
	if c == nil { // it is known where to log in, and nobody has
		f = notSent(fault.Unauthorized, errors.New("nobody has logged in to it"), loginRemedy(s.spec.Server))
		s.m.publishSource(s)
	} else {
		var young bool
		young, f = c.refuse(ctx, t)
		if s.kind == OAuth && t.Serial > 0 && (young || f != nil && f.Kind == fault.Unauthorized) {
			f = cmp.Or(s.moved(ctx, c), f)
		}
	}
	if f != nil && f.Kind == fault.Unauthorized && s.opens() {
		return s.open(ctx, t.Serial, nil)
	}
	return f
}

// note remembers a challenge. One that names other metadata than before makes a
// finding stale.
func (s *source) note(ch challenge) {
	s.mu.Lock()
	if ch.metadata != "" && ch.metadata != s.challenge.metadata {
		s.site, s.lookAt = nil, time.Time{}
	}
	if ch.metadata == "" {
		ch.metadata = s.challenge.metadata
	}
	s.challenge, s.met = ch, true
	s.mu.Unlock()
}

// bind returns the credential that this server is known to use; nil if nothing
// is known or stored.
func (s *source) bind(ctx context.Context) (*credential, *fault.Fault) {
	if c := s.cred.Load(); c != nil {
		return c, nil
	}
	d, f := s.m.store.read(ctx)
	if s.lock(f); f != nil {
		return nil, f
	}
	return s.bindFrom(d), nil
}

// lock takes note of why the store cannot be read; nil if it can.
func (s *source) lock(f *fault.Fault) {
	s.mu.Lock()
	news := (s.locked == nil) != (f == nil)
	s.locked = f
	s.mu.Unlock()
	if news {
		s.m.publishSource(s)
	}
}

func (s *source) bindFrom(d *data) *credential {
	k, known := d.Bindings[s.spec.place()]
	if !known || d.record(k) == nil && !s.kind.machine() {
		return nil
	}
	return s.m.attach(s, k, d.record(k))
}

// meet finds out whose credential a server wants that nothing is known of, and
// uses one that another server has already.
func (s *source) meet(ctx context.Context) (*credential, *fault.Fault) {
	found, f := s.discover(ctx)
	if f != nil {
		return nil, f
	}
	k := s.keyFor(found)
	d, f := s.m.store.read(ctx)
	if f != nil {
		return nil, f
	}
	if d.record(k) == nil && !s.kind.machine() {
		return nil, nil
	}
	_, f = s.m.store.update(ctx, func(d *data) error { d.Bindings[s.spec.place()] = k; return nil })
	if f != nil {
		s.m.warn("the store cannot be written: " + f.Reason())
	}
	return s.m.attach(s, k, d.record(k)), nil
}

func (s *source) keyFor(found *site) key {
	return key{Resource: found.resource, Issuer: found.meta.Issuer, Principal: s.spec.principal()}
}

// discover returns what is known of the server, or finds it out. Callers share
// one search, which none of them ends by going away.
func (s *source) discover(ctx context.Context) (*site, *fault.Fault) {
	now := time.Now().Round(0)
	s.mu.Lock()
	switch {
	case s.site != nil && now.Sub(s.site.found) < siteFor:
		defer s.mu.Unlock()
		return s.site, nil
	case s.lookup == nil && now.Before(s.lookAt):
		defer s.mu.Unlock()
		f := *s.lookFault
		f.RetryAfter = s.lookAt.Sub(now)
		return nil, &f
	}
	look := s.lookup
	if look == nil {
		look = newShare[*site]()
		if !s.m.spawn(func() { s.look(look) }) {
			s.mu.Unlock()
			return nil, notSent(fault.Closed, errors.New("everline is shutting down"), "")
		}
		s.lookup = look
	}
	s.mu.Unlock()
	return look.wait(ctx)
}

// afresh forgets what was found longer ago, or before the token that is refused
// now was issued: the server may have moved to another issuer since.
func (s *source) afresh(longer time.Duration) {
	var issued time.Time
	if c := s.cred.Load(); c != nil {
		c.mu.Lock()
		if c.rec != nil {
			issued = c.rec.Issued
		}
		c.mu.Unlock()
	}
	s.mu.Lock()
	if s.site != nil && (time.Now().Round(0).Sub(s.site.found) > longer || !s.site.found.After(issued)) {
		s.site = nil
	}
	s.lookAt = time.Time{}
	s.mu.Unlock()
}

// moved tells, of a token that is refused though it should be good, that the
// server has another issuer now. A login is the only way there: nothing of the
// old one is used with it.
func (s *source) moved(ctx context.Context, c *credential) *fault.Fault {
	s.mu.Lock()
	recent := s.site != nil && time.Now().Round(0).Sub(s.site.found) < movedAfter
	s.mu.Unlock()
	if !recent {
		s.afresh(0)
	}
	found, f := s.discover(ctx)
	if f != nil || s.keyFor(found) == c.key {
		return nil
	}
	f = notSent(fault.Unauthorized, fmt.Errorf("the server has moved to the issuer %s", shownURL(found.meta.Issuer)), loginRemedy(s.spec.Server))
	s.mu.Lock()
	s.away = f
	s.mu.Unlock()
	s.m.publishSource(s)
	return f
}

func (s *source) look(look *share[*site]) {
	ctx, cancel := context.WithTimeout(s.m.ctx, renewLimit)
	defer cancel()
	h := s.hunt(ctx)
	err := h.run(ctx)
	now := time.Now().Round(0)
	s.mu.Lock()
	s.lookup, s.steps = nil, h.steps
	if !s.met {
		s.challenge, s.met = h.challenge, h.challenge.metadata != ""
	}
	if err == nil {
		s.site, s.lookups, s.lookFault, s.lookAt = &h.site, 0, nil, time.Time{}
		look.value = &h.site
	} else {
		wait := min(lastWait, firstWait<<min(s.lookups, 9))
		wait = wait/2 + rand.N(wait/2+1)
		s.lookups++
		s.lookFault, s.lookAt = s.huntFault(err, wait), now.Add(wait)
		look.f = s.lookFault
	}
	s.mu.Unlock()
	for _, text := range h.site.warnings {
		s.m.warn(s.spec.Server + ": " + text)
	}
	s.m.publishSource(s) // before anyone acts on it
	close(look.done)
}

func (s *source) hunt(ctx context.Context) *hunt {
	d, f := s.m.store.read(ctx)
	known := func(issuer string) bool {
		if f != nil {
			return false
		}
		if _, ok := d.Registrations[issuer]; ok {
			return true
		}
		for _, rec := range d.Credentials {
			if rec.Key.Issuer == issuer {
				return true
			}
		}
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &hunt{oldEndpoints: s.spec.OldEndpoints || s.old.Load(), web: s.web, spec: &s.spec, challenge: s.challenge, unmet: !s.met, known: known, secrets: &s.m.secrets}
}

func (s *source) huntFault(err error, wait time.Duration) *fault.Fault {
	doctor := "run: everline doctor " + s.spec.Server
	if forNow(err) {
		f := unavailable(err, wait)
		f.Remedy = doctor
		return f
	}
	if errors.Is(err, ErrNoLogin) && s.spec.Kind == Auto {
		return notSent(fault.Unauthorized, fmt.Errorf("the server wants a credential, and %w", err), `set "headers" of `+s.spec.Server+", or "+doctor)
	}
	return notSent(fault.Invalid, err, s.spec.atPlace("auth")+", or "+doctor)
}

// opens tells whether a login can begin without being asked for.
func (s *source) opens() bool {
	return s.m.o.Browser != nil && (s.kind == OAuth || s.provider != nil)
}

// open logs in through the browser, because the server wants another token than
// the one with this serial, and waits for that within ctx.
func (s *source) open(ctx context.Context, serial uint64, scopes []string) *fault.Fault {
	if f := s.mayOpen(scopes); f != nil {
		return f
	}
	if s.provider != nil {
		serial = s.provider.State().Serial
	}
	login, err := s.m.Login(ctx, s.spec.Server, LoginOptions{Scopes: scopes, Open: true, after: serial})
	if err == nil {
		err = login.Wait(ctx)
	}
	if err == nil {
		return nil
	}
	f := *fault.From(opAuth, err)
	f.Outcome = fault.NotSent
	return &f
}

// mayOpen bounds what a server can cause. A login that is running is joined.
func (s *source) mayOpen(scopes []string) *fault.Fault {
	set, now := scopeSet(scopes), time.Now().Round(0)
	joins := s.m.runningLogin(s) != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	recent := slices.DeleteFunc(s.logins[set], func(t time.Time) bool { return now.Sub(t) >= stepUpOver })
	if joins {
		return nil
	}
	if len(recent) >= maxStepUps {
		f := notSent(fault.Unauthorized, errors.New("the server refuses what was logged in to again and again"), loginRemedy(s.spec.Server))
		f.RetryAfter = stepUpOver - now.Sub(recent[0])
		return f
	}
	if s.logins == nil {
		s.logins = map[string][]time.Time{}
	}
	s.logins[set] = append(recent, now)
	return nil
}

// stepUp is what a call needs that the token has no scope for. No refresh gives
// more than was granted, so it takes a login.
func (s *source) stepUp(ctx context.Context, t Ticket, ch challenge) *fault.Fault {
	s.note(ch)
	if c := s.cred.Load(); c != nil {
		if tok := c.token.Load(); tok != nil && tok.ticket.Serial > t.Serial {
			return nil // somebody has logged in since
		}
		s.m.ask(ctx, c.key, ch.scopes)
	}
	if s.opens() {
		f := s.open(ctx, t.Serial, ch.scopes)
		if f == nil || f.Kind != fault.Unauthorized {
			return f
		}
	}
	remedy := loginRemedy(s.spec.Server)
	for _, scope := range ch.scopes {
		remedy += " --scope " + s.m.secrets.words(scope)
	}
	return notSent(fault.Forbidden, fmt.Errorf("it needs the scope %s", s.m.secrets.words(strings.Join(ch.scopes, " "))), remedy)
}

// lastOld is the newest revision whose logins had endpoints that are not published.
const lastOld = "2025-03-26"

// Agreed implements Source.
func (s *source) Agreed(version string) { s.old.Store(version != "" && version <= lastOld) }

// State returns the published state.
func (s *source) State() *State { return s.current.Load() }

// describe is the state but for Since and Changed.
func (s *source) describe() *State {
	st := &State{Kind: s.kind}
	var f *fault.Fault
	switch c := s.cred.Load(); {
	case s.broken != nil:
		st.Phase, f = Misconfigured, s.broken
	case s.kind == None || s.kind == Static:
	case s.provider != nil && s.provider.State().Phase != OK && (c == nil || c.token.Load() == nil):
		from := s.provider.State()
		st.Phase, st.Cause, st.Remedy, st.RetryAt, st.Dead = from.Phase, from.Cause, from.Remedy, from.RetryAt, from.Dead
	case c != nil:
		c.describe(st)
		s.mu.Lock()
		if f = s.away; f != nil {
			st.Phase, st.Dead = NeedsLogin, true
		}
		s.mu.Unlock()
	default:
		st.Dead = !s.kind.machine()
		s.mu.Lock()
		f = cmp.Or(s.locked, s.lookFault)
		asked := s.site != nil || s.lookup != nil
		st.RetryAt = s.lookAt
		s.mu.Unlock()
		switch {
		case f == nil && asked && !s.kind.machine():
			st.Phase, f = NeedsLogin, notSent(fault.Unauthorized, errors.New("nobody has logged in to it"), loginRemedy(s.spec.Server))
		case f == nil:
		case f.Kind == fault.Unavailable:
			st.Phase, st.Dead = Retrying, false
		case f.Kind == fault.Unauthorized: // it offers no login: others may put it right
			st.Phase, st.Dead = NeedsLogin, false
		default:
			st.Phase = Misconfigured
		}
	}
	if f != nil {
		st.Cause, st.Remedy = f.Reason(), f.Remedy
	}
	return st
}
