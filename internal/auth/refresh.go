package auth

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/everline/everline/fault"
)

// errNewer: somebody else has stored a newer credential meanwhile.
var errNewer = errors.New("there is a newer one")

// hold waits for a lock on one credential, across processes. Each has its own:
// one issuer that does not answer holds up nobody else's.
func (m *Manager) hold(ctx context.Context, k key, what string) (release func(), err error) {
	if m.o.StateDir != "" {
		return lockFile(ctx, m.lockPath(k, what))
	}
	name := lockName(k, what)
	m.mu.Lock()
	lock := m.held[name]
	if lock == nil {
		lock = make(chan struct{}, 1)
		m.held[name] = lock
	}
	m.mu.Unlock()
	release = func() { <-lock }
	select {
	case lock <- struct{}{}: // a lock that is free is had, however short ctx is
		return release, nil
	default:
	}
	select {
	case lock <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Names of locks on a credential.
const (
	refreshLock = "refresh"
	loginLock   = "login"
)

func lockName(k key, what string) string { return storeFile + "-" + k.id() + "." + what }

func (m *Manager) lockPath(k key, what string) string {
	return filepath.Join(m.o.StateDir, lockName(k, what))
}

// holdRefresh is hold for a refresh, with the file of its journal; nil where there
// is no folder.
func (m *Manager) holdRefresh(ctx context.Context, k key) (file *os.File, release func(), err error) {
	if m.o.StateDir == "" {
		release, err = m.hold(ctx, k, refreshLock)
		return nil, release, err
	}
	file, err = lockedFile(ctx, m.lockPath(k, refreshLock))
	return file, func() { _ = file.Close() }, err // which gives it back
}

// renewShared gets the next record of a credential: what another process has
// stored, or what the issuer gives, which is stored before anyone gets it. nil
// without an error: somebody has logged out. With rescue the issuer is asked only
// if a refresh was cut off.
func (m *Manager) renewShared(ctx context.Context, k key, old *record, src *source, rescue bool) (*record, error) {
	if !src.kind.stored() {
		return src.obtain(ctx, k, old)
	}
	file, release, err := m.holdRefresh(ctx, k)
	if err != nil {
		return nil, err
	}
	defer release()
	d, f := m.store.read(ctx)
	if f != nil {
		return nil, f
	}
	j, cur := m.journalOf(ctx, file), d.record(k)
	left := j.take()
	switch {
	case cur == nil && old != nil && old.Serial <= d.Serial && !src.kind.machine():
		return nil, nil
	case cur == nil || old != nil && cur.Serial < old.Serial: // ours is not stored
		left = nil
	case left == nil || left.Spent != cur.Refresh || cur.dead():
		if left = nil; rescue {
			return cur, nil
		}
	case left.Got != nil: // what was left is what the issuer knows
		next, stored := m.keep(ctx, cur, left.Got, func(*data) {})
		if stored {
			j.clear()
		}
		cur, left = next, nil
	}
	if cur != nil && (old == nil || cur.Serial > old.Serial) {
		if cur.dead() || !cur.over(time.Now()) {
			return cur, nil
		}
		old = cur
	}
	return m.renewBy(ctx, k, old, src, j, left != nil)
}

// renewBy has the issuer give the next record, and keeps it. again tells that a
// refresh with the same token was cut off.
func (m *Manager) renewBy(ctx context.Context, k key, old *record, src *source, j *journal, again bool) (*record, error) {
	rotates := old != nil && old.Refresh != "" && !src.kind.machine()
	if rotates {
		j.put(entry{Spent: old.Refresh})
	}
	next, err := src.obtain(ctx, k, old)
	var no *refusal
	if errors.As(err, &no) && old != nil {
		j.clear()
		return m.refusedRefresh(ctx, old, src, no, again)
	}
	if err != nil {
		return nil, err
	}
	if rotates {
		j.put(entry{Spent: old.Refresh, Got: next})
	}
	next, stored := m.keep(ctx, old, next, func(d *data) { d.Bindings[src.spec.place()] = k })
	if stored {
		j.clear()
	}
	return next, nil
}

// over tells whether a token is of no use any more.
func (r *record) over(now time.Time) bool {
	return r.Access == "" || !r.Expiry.IsZero() && !now.Round(0).Before(r.Expiry)
}

// keep stores a record in place of another. A file that cannot be written costs
// only what a restart would find.
func (m *Manager) keep(ctx context.Context, old, next *record, also func(*data)) (kept *record, stored bool) {
	var newer *record
	_, f := m.store.update(ctx, func(d *data) error {
		if cur := d.record(next.Key); cur != nil && (old == nil || cur.Serial > old.Serial) {
			newer = cur
			return errNewer
		}
		d.put(next)
		also(d)
		return nil
	})
	switch {
	case newer != nil:
		return newer, true
	case f != nil:
		m.warn("a new token could not be stored, and is lost with this process: " + f.Reason())
		next.Serial = 1
		if d := m.store.seen.Load(); d != nil {
			next.Serial = d.Serial + 1
		}
		if old != nil {
			next.Serial = max(next.Serial, old.Serial+1)
		}
	}
	return next, f == nil
}

// refusedRefresh is a definite answer to a refresh. The token itself stays: it
// may still be good.
func (m *Manager) refusedRefresh(ctx context.Context, old *record, src *source, no *refusal, again bool) (*record, error) {
	dead, cause := false, no.Error()
	if again {
		cause += " (a refresh with the same token was cut off before, and its answer is lost)"
	}
	switch no.code {
	case codeInvalidGrant, codeInvalidRefresh:
		dead = !src.kind.machine()
	case codeInvalidClient, codeUnauthorized:
		dead = old.Client.Origin == dynamic // the next login registers anew
	case codeInvalidRequest:
		dead = src.insists(no)
	}
	if !dead {
		if no.code == codeInvalidClient || no.code == codeUnauthorized || src.kind.machine() {
			return nil, no
		}
		return nil, &passing{text: no.Error()}
	}
	var now *record
	_, f := m.store.update(ctx, func(d *data) error {
		now = d.record(old.Key)
		if now != nil && now.Refresh == old.Refresh {
			now.DeadSince, now.Cause = time.Now().Round(0), cause
			d.put(now)
		}
		if r, ok := d.Registrations[old.Key.Issuer]; ok && no.code != codeInvalidGrant && no.code != codeInvalidRefresh && r.Client.ID == old.Client.ID {
			r.Dead = true
			d.Registrations[old.Key.Issuer] = r
		}
		return nil
	})
	if f != nil {
		copied := *old
		copied.DeadSince, copied.Cause, copied.Serial = time.Now().Round(0), cause, old.Serial+1
		return &copied, nil
	}
	return now, nil
}

// insists tells whether an issuer's invalid_request has come often and long
// enough to mean that the refresh token is of no use.
func (s *source) insists(*refusal) bool {
	c := s.cred.Load()
	if c == nil {
		return false
	}
	now := time.Now().Round(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.invalid == 0 {
		c.invalidAt = now
	}
	c.invalid++
	return c.invalid >= maxInvalid && now.Sub(c.invalidAt) >= invalidOver
}

// obtain asks for a token in the way of the server's kind.
func (s *source) obtain(ctx context.Context, k key, old *record) (*record, error) {
	switch s.kind {
	case ClientCredentials, Enterprise, Workload:
		return s.present(ctx, k, old)
	case Command:
		return s.runCommand(ctx, k)
	default:
		return s.refresh(ctx, old)
	}
}

// refresh uses the refresh token at the endpoint and with the client that it
// came from.
func (s *source) refresh(ctx context.Context, old *record) (*record, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}}
	c, err := s.withSecret(old.Client)
	if err != nil {
		return nil, err
	}
	next := *old
	tok, err := s.askWithResource(ctx, next.TokenURL, next.Key, c, form)
	var later *passing
	if errors.As(err, &later) && later.gone && s.relocate(ctx, &next) {
		tok, err = s.askWithResource(ctx, next.TokenURL, next.Key, c, form)
	}
	if err != nil {
		return nil, err
	}
	next.take(tok)
	return &next, nil
}

// relocate finds out whether the same issuer has its endpoints elsewhere now.
func (s *source) relocate(ctx context.Context, r *record) bool {
	s.afresh(0)
	found, f := s.discover(ctx)
	if f != nil || found.meta.Issuer != r.Key.Issuer || found.meta.TokenEndpoint == r.TokenURL {
		return false
	}
	r.TokenURL, r.RevokeURL = found.meta.TokenEndpoint, found.meta.RevocationEndpoint
	return true
}

// withSecret adds what the configuration has, which is not stored: it may have
// been changed there.
func (s *source) withSecret(c client) (client, error) {
	if c.Origin != configured {
		return c, nil
	}
	now, _, err := configuredClient(&s.spec, &metadata{})
	c.Secret = now.Secret
	s.m.secrets.learn(c.Secret)
	return c, err
}

// take takes over what an issuer has given. The refresh token stays where there
// is no new one, and so does what the issuer leaves out.
func (r *record) take(tok *token) {
	r.Access, r.Issued, r.Expiry = tok.access, time.Now().Round(0), tok.expiry
	r.DeadSince, r.Cause = time.Time{}, ""
	if tok.refresh != "" {
		r.Refresh = tok.refresh
	}
	if tok.scopes != nil {
		r.Granted = tok.scopes
	}
	if tok.subject != "" {
		r.Subject = tok.subject
	}
	if tok.id != "" {
		r.ID = tok.id
	}
}

// askWithResource sends the resource parameter, and leaves it out for issuers
// that refuse it. That is found out once, and remembered.
func (s *source) askWithResource(ctx context.Context, endpoint string, k key, c client, form url.Values) (*token, error) {
	with := s.sendsResource(ctx, k.Issuer)
	if with {
		form.Set("resource", k.Resource)
	}
	t := s.tokens()
	tok, err := t.ask(ctx, endpoint, k.Issuer, c, form)
	var no *refusal
	if !with || s.spec.ResourceParam == "always" || !errors.As(err, &no) || no.code != codeInvalidTarget && no.code != codeInvalidRequest {
		return tok, err
	}
	form.Del("resource")
	tok, again := t.ask(ctx, endpoint, k.Issuer, c, form)
	if again != nil {
		return nil, again
	}
	s.m.leaveOutResource(ctx, k.Issuer)
	return tok, nil
}

func (m *Manager) leaveOutResource(ctx context.Context, issuer string) {
	_, f := m.store.update(ctx, func(d *data) error { d.NoResource[issuer] = true; return nil })
	if f != nil {
		m.warn("the store cannot be written: " + f.Reason())
	}
}

func (s *source) sendsResource(ctx context.Context, issuer string) bool {
	switch s.spec.ResourceParam {
	case "always":
		return true
	case "never":
		return false
	}
	d, f := s.m.store.read(ctx)
	return f != nil || !d.NoResource[issuer]
}

func (s *source) tokens() *tokens {
	return &tokens{web: s.web, secrets: &s.m.secrets, sign: func(c client, audience string) (string, error) {
		return signAssertion(&s.spec, c.ID, audience)
	}}
}

// Logout forgets a server's credential, after telling its issuer, if that can be
// done quickly. all forgets the registration with the issuer as well.
func (m *Manager) Logout(ctx context.Context, server string, all bool) error {
	s, f := m.source(server)
	if f != nil {
		return f
	}
	if s.provider != nil { // both: the tokens are of no use without the login, and outlive it
		if err := s.provider.logout(ctx, all); err != nil {
			return err
		}
	}
	return s.logout(ctx, all)
}

func (s *source) logout(ctx context.Context, all bool) error {
	m := s.m
	c, f := s.bind(ctx)
	if f != nil {
		return s.name(f)
	}
	if c == nil {
		return nil
	}
	release, err := m.hold(ctx, c.key, refreshLock)
	if err != nil {
		return s.name(fault.From(opAuth, err))
	}
	defer release()
	d, f := m.store.read(ctx)
	if f != nil {
		return s.name(f)
	}
	if rec := d.record(c.key); rec != nil && rec.RevokeURL != "" {
		s.revoke(ctx, rec)
	}
	_, f = m.store.update(ctx, func(d *data) error {
		delete(d.Credentials, c.key.id())
		if all {
			delete(d.Registrations, c.key.Issuer)
			delete(d.Asked, c.key.id())
			delete(d.Bindings, s.spec.place())
		}
		return nil
	})
	if f != nil {
		return s.name(f)
	}
	c.set(nil)
	m.publish(c)
	return nil
}

const revokeLimit = 5 * time.Second

// revoke is best effort: what is forgotten here is of no use to us either way.
func (s *source) revoke(ctx context.Context, rec *record) {
	ctx, cancel := context.WithTimeout(ctx, revokeLimit)
	defer cancel()
	for _, one := range [][2]string{{rec.Refresh, "refresh_token"}, {rec.Access, "access_token"}} {
		if one[0] == "" {
			continue
		}
		form := url.Values{"token": {one[0]}, "token_type_hint": {one[1]}}
		c, err := s.withSecret(rec.Client)
		if err == nil {
			_, err = s.tokens().post(ctx, rec.RevokeURL, rec.Key.Issuer, c, form)
		}
		if err != nil {
			s.m.warn(s.spec.Server + ": the issuer was not told of the logout: " + err.Error())
			return
		}
	}
}

// keepUnused is how long a credential is kept that no server uses.
const keepUnused = 30 * 24 * time.Hour

// Sweep forgets what no configured server has used for 30 days. It is called by
// the one process that knows all servers, now and then.
func (m *Manager) Sweep(ctx context.Context) {
	places := map[string]bool{}
	for _, s := range m.all() {
		places[s.spec.place()] = true
	}
	now := time.Now().Round(0)
	_, f := m.store.update(ctx, func(d *data) error {
		used := map[string]bool{}
		for place, k := range d.Bindings {
			used[k.id()] = used[k.id()] || places[place]
		}
		for id, rec := range d.Credentials {
			switch {
			case used[id]:
				rec.UnusedFrom = time.Time{}
			case rec.UnusedFrom.IsZero():
				rec.UnusedFrom = now
			case now.Sub(rec.UnusedFrom) > keepUnused:
				delete(d.Credentials, id)
				continue
			}
			d.Credentials[id] = rec
		}
		return nil
	})
	if f != nil {
		m.warn("the store cannot be written: " + f.Reason())
	}
}

func scopeText(scopes []string) string { return strings.Join(scopes, " ") }
