// Package entrance lets clients in, or not: by the user that their connection is of,
// their certificate, or the token that they show. It decides nothing of what they
// may do inside.
package entrance

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/access/oidc"
	"github.com/everline/everline/internal/access/tokens"
	"github.com/everline/everline/internal/mcp"
)

// Options make an Entrance.
type Options struct {
	StateDir string // of tokens
	URL      string // of the endpoint, for Config.PublicURL where that is ""; without a path
	Exposed  bool   // others than processes of this machine reach the endpoint
	Log      *slog.Logger
	Failed   func(r *http.Request) // hears of requests that show a bad credential; it does not block. May be nil
	Client   *http.Client          // for the keys of issuers; nil: one of its own
}

// An Entrance is the one for all listeners of an endpoint. Its only goroutine is the
// caller's of Run.
type Entrance struct {
	o      Options
	tokens *tokens.Verifier
	peers  peers
	rules  atomic.Pointer[rules]
	local  bool // the user's own token has been made; of Use alone
}

// rules are what one configuration says.
type rules struct {
	config.Access
	public     string           // URL of the endpoint, without a path
	byUser     bool             // who is a user of this machine need not show anything
	unknown    *access.Identity // whose a connection is that nobody can tell, where nothing is demanded
	issuers    *oidc.Verifier   // nil for none
	scopes     []string         // that an issuer requires, or something is granted for
	challenges bool             // clients are told where to get a token
}

// New returns an entrance that lets nobody in before Use.
func New(o Options) *Entrance {
	e := &Entrance{o: o, tokens: tokens.NewVerifier(o.StateDir)}
	e.rules.Store(&rules{Access: config.Access{Demanded: true}})
	return e
}

// Use takes up a configuration.
func (e *Entrance) Use(c *config.Config) {
	r := &rules{Access: c.Access, public: c.PublicURL, byUser: c.Clients != config.ClientsTokens, unknown: access.Anonymous}
	if r.public == "" {
		r.public = e.o.URL
	}
	if c.Clients == config.ClientsSameUser && !e.o.Exposed {
		r.unknown = access.Local() // the system tells not, or the listener has looked
	}
	var claims []string
	for _, i := range c.Access.Issuers {
		if scope := oidc.RequiredScope(i); scope != "" && !slices.Contains(r.scopes, scope) {
			r.scopes = append(r.scopes, scope)
		}
	}
	for _, g := range c.Grants {
		kind, rest, _ := strings.Cut(g.Label, ":")
		switch {
		case kind == "scope" && grantsSomething(g) && !slices.Contains(r.scopes, rest):
			r.scopes = append(r.scopes, rest)
		case kind == "claim":
			claim, _, _ := strings.Cut(rest, "=")
			claims = append(claims, claim)
		}
	}
	if len(c.Access.Issuers) > 0 {
		r.challenges = true
		r.issuers = oidc.New(oidc.Options{Issuers: c.Access.Issuers, Claims: claims, Client: e.o.Client})
	}
	if c.Access.Demanded && !e.local {
		e.local = true
		if err := e.tokens.MakeLocal(); err != nil {
			e.o.Log.Warn("programs of this user that nobody can tell from others' need a token of their own", "cause", err)
		}
	}
	e.rules.Store(r)
}

func grantsSomething(g config.Grant) bool {
	return slices.ContainsFunc(g.Policies, func(name string) bool { return name != config.PolicyNone })
}

// LoadKeys fetches what the issuers' tokens are verified with, so that no client has
// to wait for it.
func (e *Entrance) LoadKeys(ctx context.Context) {
	if i := e.rules.Load().issuers; i != nil {
		if err := i.Load(ctx); err != nil {
			e.o.Log.Warn("tokens of an issuer cannot be verified yet; it is asked again when one comes", "cause", err)
		}
	}
}

// lookEvery is how often the file of tokens is looked at: who is revoked is out
// within a second.
const lookEvery = 400 * time.Millisecond

// Run keeps up with the file of tokens until ctx ends, and calls changed each time
// that somebody may be out who was in.
func (e *Entrance) Run(ctx context.Context, changed func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if e.rules.Load().Tokens {
			again, err := e.tokens.Refresh()
			if err != nil {
				e.o.Log.Error("the tokens of clients stay as they were", "cause", err)
			}
			if again {
				changed()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Enter is whose a request is; nil if it was refused, which has been answered.
func (e *Entrance) Enter(w http.ResponseWriter, r *http.Request) *access.Identity {
	rules, conn := e.rules.Load(), access.From(r.Context())
	if !rules.Demanded {
		if conn == access.Anonymous {
			return rules.unknown
		}
		return conn
	}
	if r.URL.RawQuery != "" && r.URL.Query().Has("access_token") {
		refuse(w, http.StatusBadRequest, mcp.CodeInvalidRequest, "Bad request: a token belongs into the Authorization header, and never into a URL")
		return nil
	}
	if text, sent := bearer(r.Header); sent {
		return e.byToken(w, r, rules, text)
	}
	if who := rules.byCertificate(r); who != nil {
		return who
	}
	if conn.Kind() == access.KindUser && rules.byUser {
		return conn
	}
	e.challenge(w, r, rules, "")
	return nil
}

// NothingGranted tells a client that is refused, since nothing is granted to it, which
// scopes could change that (RFC 6750 section 3.1; 2025-11-25 basic/authorization, Scope
// Challenge Handling). The header says nothing to whom no scope helps: who has not come
// by a token of an issuer, or has them all.
func (e *Entrance) NothingGranted(h http.Header, r *http.Request, who *access.Identity) {
	rules := e.rules.Load()
	if who.Kind() != access.KindJWT {
		return
	}
	var missing []string
	for _, scope := range rules.scopes {
		if !slices.Contains(who.Scopes(), scope) {
			missing = append(missing, scope)
		}
	}
	if len(missing) > 0 {
		h.Set("WWW-Authenticate", rules.bearer(r, missing, insufficientScope))
	}
}

// Admits tells whether an identity that came in once would be let in today, by what
// it has shown then.
func (e *Entrance) Admits(who *access.Identity) bool {
	rules := e.rules.Load()
	if !rules.Demanded {
		return true
	}
	switch who.Kind() {
	case access.KindUser:
		return rules.byUser || who == access.Local() // who may have shown the user's own token
	case access.KindToken:
		return rules.Tokens && e.tokens.Knows(who, time.Now())
	case access.KindJWT:
		return rules.issuers != nil && rules.issuers.Trusts(who)
	case access.KindMTLS:
		return rules.MTLS != ""
	default:
		return false
	}
}

// bearer is what an Authorization header shows; "" for another scheme than Bearer.
func bearer(h http.Header) (text string, sent bool) {
	value := h.Get("Authorization")
	if value == "" {
		return "", false
	}
	scheme, text, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(text), true
}

// byToken is whose token a text is. One who shows bad ones again and again is only
// let in with what costs nothing to check.
func (e *Entrance) byToken(w http.ResponseWriter, r *http.Request, rules *rules, text string) *access.Identity {
	now := time.Now()
	if who := e.tokens.Verify(text, now); who != nil && (rules.Tokens || who == access.Local()) {
		return who
	}
	peer := peerOf(r.RemoteAddr)
	if wait := e.peers.wait(peer, now); wait > 0 && (rules.issuers == nil || !rules.issuers.Known(text)) {
		tooMany(w, wait)
		return nil
	}
	var err error
	if rules.issuers != nil && !tokens.IsToken(text) {
		var who *access.Identity
		if who, err = rules.issuers.Verify(r.Context(), text, []string{rules.public + r.URL.Path}); err == nil {
			return who
		}
	}
	if u := (*oidc.Unavailable)(nil); errors.As(err, &u) {
		unavailable(w, u.After)
		return nil
	}
	e.peers.failed(peer, now)
	if e.o.Failed != nil {
		e.o.Failed(r)
	}
	e.o.Log.Debug("a token is refused", "peer", peer, "cause", err)
	if s := (*oidc.ScopeMissing)(nil); errors.As(err, &s) {
		w.Header().Set("WWW-Authenticate", rules.bearer(r, []string{s.Scope}, insufficientScope))
		refuse(w, http.StatusForbidden, mcp.CodeForbidden, "Forbidden: the token lacks a scope that is needed here")
		return nil
	}
	e.challenge(w, r, rules, "invalid_token")
	return nil
}

// byCertificate is whose certificate a connection has; nil for none, or none that
// names anybody.
func (r *rules) byCertificate(req *http.Request) *access.Identity {
	if r.MTLS == "" || req.TLS == nil || len(req.TLS.VerifiedChains) == 0 {
		return nil
	}
	cert := req.TLS.VerifiedChains[0][0]
	name := nameIn(cert, r.MTLS)
	if name == "" || time.Now().After(cert.NotAfter) { // the connection may be older
		return nil
	}
	return access.MTLS(name, cert.NotAfter)
}

func nameIn(cert *x509.Certificate, which config.CertName) string {
	if which == config.CertCN {
		return cert.Subject.CommonName
	}
	if len(cert.URIs) > 0 {
		return cert.URIs[0].String()
	}
	return ""
}
