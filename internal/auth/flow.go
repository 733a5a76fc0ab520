package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/everline/everline/fault"
)

const (
	flowFor   = 10 * time.Minute
	maxFlows  = 32
	redeemFor = 30 * time.Second
	believed  = 10 * time.Second // that a discovery is for a login
	codeGrant = "authorization_code"
)

// LoginOptions say how a person logs in.
type LoginOptions struct {
	Scopes []string // beside those that are known to be needed
	Device bool     // by a code that is typed on another device
	Force  bool     // even though there is a credential that works
	Open   bool     // the URL is opened by Options.Browser, if there is one

	after uint64 // a credential with a higher serial is the result
}

// A Login is one on its way. A second login for the same credential is the same
// one, so that no two windows are opened.
type Login struct {
	ID string

	m    *Manager
	s    *source
	o    LoginOptions
	done chan struct{}
	told chan struct{} // closed as soon as URL and Elsewhere are known

	mu        sync.Mutex // guards the rest; held for moments
	key       key
	url, code string
	elsewhere bool
	expires   time.Time
	flow      *flow
	cleanup   []func()
	ended     bool
	err       error
}

// URL is where a person logs in; "" if nothing has to be done, or another
// process does it. It changes if the issuer wants another question.
func (l *Login) URL() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.url
}

// UserCode is what is typed at URL; "" but for a device login.
func (l *Login) UserCode() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.code
}

// Elsewhere tells that another process has the same login open; Wait waits for
// its result.
func (l *Login) Elsewhere() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.elsewhere
}

// Expires is when the login is given up.
func (l *Login) Expires() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// RedirectURI is where the browser ends up; "" for a device login.
func (l *Login) RedirectURI() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flow == nil {
		return ""
	}
	return l.flow.redirect
}

// Done is closed when the login has ended.
func (l *Login) Done() <-chan struct{} { return l.done }

// Wait waits for the end of the login, and says how it ended. A caller that goes
// away does not end it.
func (l *Login) Wait(ctx context.Context) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return fault.From(opAuth, context.Cause(ctx))
	}
}

// Cancel gives the login up.
func (l *Login) Cancel() { l.finish(notSent(fault.Canceled, errors.New("the login was given up"), "")) }

// A flow is one question to an authorization endpoint. It is kept in memory
// alone, for ten minutes, and answered once.
type flow struct {
	login    *Login
	state    string
	verifier string
	issuer   string
	redirect string
	client   client
	scopes   []string
	resource string // "": not sent
	site     *site
	asked    challenge
	again    bool // the second question of this login
}

// Login begins a login to a server. ctx bounds what is needed before the URL is
// known; the login itself goes on without it.
func (m *Manager) Login(ctx context.Context, server string, o LoginOptions) (*Login, error) {
	s, f := m.source(server)
	if f != nil {
		return nil, f
	}
	if s.provider != nil {
		s = s.provider
	}
	switch {
	case s.broken != nil:
		return nil, s.broken
	case s.kind != OAuth:
		return nil, s.name(notSent(fault.Invalid, fmt.Errorf("there is nothing to log in to: its credential is of the kind %s", s.kind), ""))
	}
	if running := m.runningLogin(s); running != nil {
		return running, running.ready(ctx)
	}
	s.afresh(believed)
	found, f := s.discover(ctx)
	if f != nil {
		return nil, s.name(f)
	}
	l := &Login{ID: rand.Text(), m: m, s: s, o: o, key: s.keyFor(found), done: make(chan struct{}), told: make(chan struct{})}
	l.expires = time.Now().Round(0).Add(flowFor)
	m.mu.Lock()
	if running := m.logins[l.key.id()]; running != nil {
		m.mu.Unlock()
		return running, running.ready(ctx)
	}
	if len(m.logins) >= maxFlows {
		m.mu.Unlock()
		return nil, s.name(notSent(fault.Overloaded, errors.New("too many logins are open"), ""))
	}
	m.logins[l.key.id()] = l
	m.mu.Unlock()
	if !m.spawn(func() { l.run(found) }) {
		l.finish(notSent(fault.Closed, errors.New("everline is shutting down"), ""))
	}
	return l, l.ready(ctx)
}

// ready waits until the login knows what a person has to do.
func (l *Login) ready(ctx context.Context) error {
	select {
	case <-l.told:
		return nil
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return fault.From(opAuth, context.Cause(ctx))
	}
}

// FindLogin returns a running login; nil if there is none with that ID.
func (m *Manager) FindLogin(id string) *Login {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.logins {
		if l.ID == id {
			return l
		}
	}
	return nil
}

// runningLogin is the login of a server that is under way; nil if there is none.
func (m *Manager) runningLogin(s *source) *Login {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.logins {
		if l.s.spec.place() == s.spec.place() {
			return l
		}
	}
	return nil
}

// run is the login's goroutine: it ends with the login.
func (l *Login) run(found *site) {
	ctx, cancel := context.WithTimeout(l.m.ctx, flowFor)
	defer cancel()
	err := l.begin(ctx, found)
	if err == nil {
		select {
		case <-l.done:
			return
		case <-ctx.Done():
			err = l.expired(ctx)
		}
	}
	l.finish(l.fault(err))
}

func (l *Login) fault(err error) *fault.Fault {
	if err == nil {
		return nil
	}
	if f, ok := fault.As(err); ok {
		return l.s.name(f)
	}
	kind, remedy := fault.Unauthorized, loginRemedy(l.s.spec.Server)
	var no *refusal
	switch {
	case errors.Is(err, errNoClient):
		kind, remedy = fault.Invalid, `set "clientId" in "auth" of `+l.s.spec.Server+" (redirect URI: "+l.RedirectURI()+")"
	case forNow(err):
		kind = fault.Unavailable
	case errors.As(err, &no) && (no.code == codeInvalidClient || no.code == codeUnauthorized) && l.s.spec.ClientID != "":
		kind, remedy = fault.Invalid, l.s.spec.atPlace("clientId/clientSecret")
	}
	return l.s.name(notSent(kind, err, remedy))
}

// finish ends the login once, and lets go of what it held.
func (l *Login) finish(f *fault.Fault) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	if f != nil {
		l.err = f
	}
	cleanup := l.cleanup
	l.mu.Unlock()
	l.m.mu.Lock()
	delete(l.m.logins, l.key.id())
	for state, fl := range l.m.pending {
		if fl.login == l {
			delete(l.m.pending, state)
		}
	}
	l.m.mu.Unlock()
	for _, release := range slices.Backward(cleanup) {
		release()
	}
	close(l.done)
}

// defers adds what is to be let go of at the end.
func (l *Login) defers(release func()) {
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.cleanup = append(l.cleanup, release)
	}
	l.mu.Unlock()
	if ended {
		release()
	}
}

// begin does everything until a person is needed. Across processes one login of
// a credential runs at a time; the others take over its result.
func (l *Login) begin(ctx context.Context, found *site) error {
	before, f := l.m.store.read(ctx)
	if f != nil {
		return f
	}
	if err := l.lock(ctx); err != nil {
		return err
	}
	d, f := l.m.store.read(ctx)
	if f != nil {
		return f
	}
	rec := d.record(l.key)
	if l.satisfied(rec, before.record(l.key)) {
		return l.use(ctx, rec)
	}
	if l.Elsewhere() {
		return errors.New("another process had this login open, and it did not succeed")
	}
	if l.o.Device {
		return l.device(ctx, found, d)
	}
	return l.byBrowser(ctx, found, d)
}

// lock takes the login of the credential, or waits for the process that has it.
func (l *Login) lock(ctx context.Context) error {
	quick, cancel := context.WithTimeout(ctx, time.Millisecond)
	release, err := l.m.hold(quick, l.key, loginLock)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		l.mu.Lock()
		l.elsewhere = true
		l.mu.Unlock()
		close(l.told)
		release, err = l.m.hold(ctx, l.key, loginLock)
	}
	if err != nil {
		return err
	}
	l.defers(release)
	return nil
}

// satisfied tells whether there is what the login is for; before is what there
// was when it began.
func (l *Login) satisfied(rec, before *record) bool {
	if rec == nil || rec.dead() || rec.over(time.Now()) && rec.Refresh == "" || len(union(rec.Requested, l.o.Scopes)) > len(rec.Requested) {
		return false
	}
	if l.o.Open {
		return rec.Serial > l.o.after
	}
	if before == nil || rec.Serial > before.Serial { // by the process that had the login open
		return true
	}
	if c := l.s.cred.Load(); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.refused >= rec.Serial {
			return false
		}
	}
	return !l.o.Force
}

// use ends the login with a credential that is there already.
func (l *Login) use(ctx context.Context, rec *record) error {
	_, f := l.m.store.update(ctx, func(d *data) error { d.Bindings[l.s.spec.place()] = l.key; return nil })
	if f != nil {
		l.m.warn("the store cannot be written: " + f.Reason())
	}
	l.adopt(rec)
	return nil
}

func (l *Login) adopt(rec *record) {
	c := l.m.attach(l.s, l.key, rec)
	c.mu.Lock()
	c.forcedAt, c.forcedGap = time.Time{}, 0
	c.mu.Unlock()
	l.m.publish(c)
	l.finish(nil)
	l.m.Reload(l.m.ctx) // other servers may have waited for the same
}

// byBrowser asks the first question of a login by a browser.
func (l *Login) byBrowser(ctx context.Context, found *site, d *data) error {
	if found.meta.AuthorizationEndpoint == "" {
		return errors.New("the issuer has no page to log in at; try --device")
	}
	if !slices.Contains(found.meta.CodeChallengeMethodsSupported, "S256") {
		return fmt.Errorf("the issuer %s does not say that it supports PKCE with S256", shownURL(found.meta.Issuer))
	}
	redirect, err := l.redirectURI(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.flow = &flow{redirect: redirect}
	l.mu.Unlock()
	c, redirect, err := l.enroll(ctx, found, d, redirect)
	if err != nil {
		return err
	}
	l.s.mu.Lock()
	asked := l.s.challenge
	l.s.mu.Unlock()
	fl := &flow{login: l, issuer: found.meta.Issuer, redirect: redirect, client: c, site: found, asked: asked}
	fl.scopes = l.s.wanted(found, union(l.o.Scopes, d.Asked[l.key.id()]))
	if l.s.sendsResource(ctx, fl.issuer) {
		fl.resource = l.key.Resource
	}
	u, err := l.ask(fl)
	if err != nil {
		return err
	}
	l.tell()
	if l.o.Open && l.m.o.Browser != nil {
		if err := l.m.o.Browser(ctx, u); err != nil {
			l.m.warn("no browser could be opened: " + err.Error())
		}
	}
	return nil
}

func (l *Login) tell() {
	if !l.Elsewhere() { // told already
		close(l.told)
	}
}

// enroll makes us a client, and keeps what was registered.
func (l *Login) enroll(ctx context.Context, found *site, d *data, redirect string) (client, string, error) {
	e := &enroller{web: l.s.web, spec: &l.s.spec, secrets: &l.m.secrets, name: clientName()}
	var kept *registration
	if r, ok := d.Registrations[found.meta.Issuer]; ok {
		kept = &r
	}
	c, redirect, fresh, err := e.enroll(ctx, &found.meta, kept, redirect)
	if err != nil {
		return c, redirect, err
	}
	if fresh != nil {
		_, f := l.m.store.update(ctx, func(d *data) error { d.Registrations[found.meta.Issuer] = *fresh; return nil })
		if f != nil {
			l.m.warn("the registration with the issuer could not be stored: " + f.Reason())
		}
	}
	return c, redirect, nil
}

// wanted are the scopes to ask for: those of the configuration, else of the
// challenge, else all that the resource says there are; and what was ever wanted
// of this issuer for this resource, so that a step-up is not lost.
func (s *source) wanted(found *site, more []string) []string {
	s.mu.Lock()
	base := s.challenge.scopes
	s.mu.Unlock()
	switch {
	case len(s.spec.Scopes) > 0:
		base = s.spec.Scopes
	case len(base) == 0:
		base = found.scopes
	}
	all := union(base, more)
	if s.kind == OAuth && slices.Contains(found.meta.ScopesSupported, offline) {
		all = union(all, []string{offline})
	}
	return slices.DeleteFunc(all, func(scope string) bool { return slices.Contains(s.spec.DropScopes, scope) })
}

const offline = "offline_access"

// ask makes a question pending, and returns its URL.
func (l *Login) ask(fl *flow) (string, error) {
	u, err := url.Parse(fl.site.meta.AuthorizationEndpoint)
	if err != nil {
		return "", errors.New("the issuer's page to log in at is no URL")
	}
	fl.state, fl.verifier = rand.Text()+rand.Text(), oauth2.GenerateVerifier()
	l.m.secrets.learn(fl.state, fl.verifier)
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": fl.client.ID, "redirect_uri": fl.redirect, "scope": scopeText(fl.scopes), "state": fl.state,
		"code_challenge": oauth2.S256ChallengeFromVerifier(fl.verifier), "code_challenge_method": "S256", "resource": fl.resource,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if slices.Contains(fl.scopes, offline) {
		q.Set("prompt", "consent")
	}
	u.RawQuery = q.Encode()
	l.mu.Lock()
	l.url, l.flow = u.String(), fl
	l.mu.Unlock()
	l.m.mu.Lock()
	l.m.pending[fl.state] = fl
	l.m.mu.Unlock()
	return u.String(), nil
}

// expired is why a login ended without an answer. A client that we registered
// long ago may be what the issuer's page stopped at.
func (l *Login) expired(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return notSent(fault.Closed, errors.New("everline is shutting down"), "")
	}
	l.mu.Lock()
	fl := l.flow
	l.mu.Unlock()
	if fl != nil && fl.client.Origin == dynamic {
		l.m.bury(fl.issuer, fl.client)
	}
	return errors.New("nobody has logged in within ten minutes")
}

// bury marks a registration as dead: the next login registers anew.
func (m *Manager) bury(issuer string, c client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), time.Second)
	defer cancel()
	_, f := m.store.update(ctx, func(d *data) error {
		if r, ok := d.Registrations[issuer]; ok && r.Client.ID == c.ID {
			r.Dead = true
			d.Registrations[issuer] = r
		}
		return nil
	})
	if f != nil {
		m.warn("the store cannot be written: " + f.Reason())
	}
}

// redeem gets the token for a code: once, since a second try would burn it.
func (l *Login) redeem(fl *flow, code string) error {
	ctx, cancel := context.WithTimeout(l.m.ctx, redeemFor)
	defer cancel()
	l.m.secrets.learn(code)
	form := url.Values{"grant_type": {codeGrant}, "code": {code}, "redirect_uri": {fl.redirect}, "code_verifier": {fl.verifier}}
	if fl.resource != "" {
		form.Set("resource", fl.resource)
	}
	tok, err := l.s.tokens().ask(ctx, fl.site.meta.TokenEndpoint, fl.issuer, fl.client, form)
	var no *refusal
	if errors.As(err, &no) {
		switch {
		case (no.code == codeInvalidClient || no.code == codeUnauthorized) && fl.client.Origin == dynamic:
			l.m.bury(fl.issuer, fl.client)
		case no.code == codeInvalidTarget && l.s.spec.ResourceParam == "":
			l.m.leaveOutResource(ctx, fl.issuer) // for the next login
		}
	}
	if err != nil {
		return err
	}
	return l.save(ctx, fl, tok)
}

// save stores what was logged in to, before anybody uses it.
func (l *Login) save(ctx context.Context, fl *flow, tok *token) error {
	next := &record{
		Key: l.key, Requested: fl.scopes, Granted: fl.scopes, Client: fl.client,
		TokenURL: fl.site.meta.TokenEndpoint, RevokeURL: fl.site.meta.RevocationEndpoint,
	}
	if next.Client.Origin == configured {
		next.Client.Secret = ""
	}
	next.take(tok)
	_, f := l.m.store.update(ctx, func(d *data) error {
		id := l.key.id()
		d.Asked[id] = union(d.Asked[id], fl.scopes)
		d.Bindings[l.s.spec.place()] = l.key
		if fl.resource == "" && fl.again {
			d.NoResource[fl.issuer] = true
		}
		d.put(next)
		return nil
	})
	if f != nil {
		l.m.warn("the login could not be stored, and is lost with this process: " + f.Reason())
		next.Serial = max(l.s.State().Serial, 1) + 1
	}
	l.adopt(next)
	return nil
}

// fullURIs tells whether scopes name their resource themselves.
func fullURIs(scopes []string) bool {
	return len(scopes) > 0 && !slices.ContainsFunc(scopes, func(s string) bool {
		return s != offline && s != "openid" && s != "profile" && !strings.Contains(s, "://")
	})
}
