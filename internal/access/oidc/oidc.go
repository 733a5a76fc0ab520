// Package oidc tells whose a JSON Web Token of a configured issuer is (RFC 9068, RFC
// 7519). It issues none, and knows nothing of requests.
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
)

const (
	maxToken  = 16 << 10
	trustedBy = 5 * time.Minute // how long a verified token is not verified again
)

// Options make a Verifier.
type Options struct {
	Issuers []config.Issuer
	Claims  []string     // whose values become labels of an identity
	Client  *http.Client // nil: one of its own
}

// A Verifier knows the tokens of some issuers. Its methods may be called by many
// goroutines at once.
type Verifier struct {
	issuers []*issuer
	claims  []string
	cache   cache
}

// An issuer is one whose tokens are taken.
type issuer struct {
	config.Issuer
	algs   []jose.SignatureAlgorithm
	scopes []string // claims, of which the first that is there counts
	keys   keySet
}

// New returns a verifier that has no keys yet; see Load.
func New(o Options) *Verifier {
	v := &Verifier{claims: o.Claims}
	web := o.Client
	if web == nil {
		web = newClient()
	}
	for _, of := range o.Issuers {
		i := &issuer{Issuer: of, scopes: scopeClaims(of)}
		for _, alg := range of.Algs {
			i.algs = append(i.algs, jose.SignatureAlgorithm(alg))
		}
		i.keys.issuer, i.keys.jwksURI, i.keys.web = of.Issuer, of.JWKSURI, web
		v.issuers = append(v.issuers, i)
	}
	return v
}

// Load fetches the keys of all issuers, so that the first client need not wait for
// them. It ends when all have been asked, or with ctx; the error says whose keys
// are missing.
func (v *Verifier) Load(ctx context.Context) error {
	var err error
	for _, i := range v.issuers {
		if _, bad := i.keys.find(ctx, ""); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", i.Issuer.Issuer, bad))
		}
	}
	return err
}

// A ScopeMissing is the error of a token that is good, but for a scope that its issuer
// is configured to require.
type ScopeMissing struct{ Scope string }

func (e *ScopeMissing) Error() string { return "the token lacks the scope " + e.Scope }

// RequiredScope is a scope with which a token of an issuer is let in as far as scopes
// go; "" where none is required.
func RequiredScope(i config.Issuer) string {
	for _, claim := range scopeClaims(i) {
		if wanted := i.Require[claim]; len(wanted) > 0 {
			return wanted[0]
		}
	}
	return ""
}

// scopeClaims are the claims of the scopes, of which the first that is there counts.
func scopeClaims(i config.Issuer) []string {
	if i.ScopesClaim == "" {
		return []string{"scope", "scp"}
	}
	return strings.Split(i.ScopesClaim, "|")
}

// Verify is whose token a text is. audience are the names of what the client wants
// to use, for issuers without one of their own: a token must be for one of them. The
// error is an *Unavailable where the issuer could not be asked for its keys, and a
// *ScopeMissing where a token with another scope would do; what any other says is not
// for the client.
func (v *Verifier) Verify(ctx context.Context, text string, audience []string) (*access.Identity, error) {
	if len(text) > maxToken {
		return nil, errors.New("the token is too long")
	}
	sum := sha256.Sum256([]byte(text))
	now := time.Now()
	found, ok := v.cache.get(sum, now)
	if !ok {
		var err error
		if found, err = v.verify(ctx, text, now); err != nil {
			return nil, err
		}
		v.cache.put(sum, found)
	}
	if !found.isFor(audience) {
		return nil, errors.New("the token is for somebody else")
	}
	if found.lacks != "" {
		return nil, &ScopeMissing{found.lacks}
	}
	return found.who, nil
}

// Trusts tells whether an identity is of an issuer whose tokens are taken.
func (v *Verifier) Trusts(who *access.Identity) bool {
	return slices.ContainsFunc(v.issuers, func(i *issuer) bool { return strings.HasPrefix(who.Key(), "oidc:"+i.Issuer.Issuer+"|") })
}

// Known tells whether Verify has found a text to be a good token lately, so that it
// costs no check of a signature.
func (v *Verifier) Known(text string) bool {
	_, ok := v.cache.get(sha256.Sum256([]byte(text)), time.Now())
	return ok
}

// verified is what is known of a good token.
type verified struct {
	who      *access.Identity
	audience []string // of the token
	ours     []string // of the issuer; none: that of the endpoint
	until    time.Time
	lacks    string // a scope that its issuer requires; "": none
}

func (t *verified) isFor(audience []string) bool {
	if len(t.ours) > 0 {
		audience = t.ours
	}
	for _, their := range t.audience {
		for _, ours := range audience {
			if names(their, ours) {
				return true
			}
		}
	}
	return false
}

// names tells whether a token's audience is a resource, or a place that the resource
// is below.
func names(their, ours string) bool {
	their, ours = strings.TrimRight(their, "/"), strings.TrimRight(ours, "/")
	return their == ours || strings.Contains(their, "://") && strings.HasPrefix(ours, their+"/")
}

var typesOfAccessTokens = []string{"", "jwt", "at+jwt", "application/at+jwt"}

func (v *Verifier) verify(ctx context.Context, text string, now time.Time) (*verified, error) {
	i, err := v.issuerOf(text)
	if err != nil {
		return nil, err
	}
	token, err := jwt.ParseSigned(text, i.algs)
	if err != nil {
		return nil, err
	}
	if len(token.Headers) != 1 {
		return nil, errors.New("the token has several signatures")
	}
	head := token.Headers[0]
	kind, _ := head.ExtraHeaders[jose.HeaderType].(string)
	if !slices.Contains(typesOfAccessTokens, strings.ToLower(kind)) {
		return nil, fmt.Errorf("the token is a %q", kind)
	}
	keys, err := i.keys.find(ctx, head.KeyID)
	if err != nil {
		return nil, err
	}
	err = errors.New("no key fits")
	for _, key := range keys {
		if key.Algorithm != "" && key.Algorithm != head.Algorithm {
			continue
		}
		var claims map[string]any
		if err = token.Claims(key.Key, &claims); err == nil {
			return i.judge(claims, v.claims, now)
		}
	}
	return nil, err
}

// issuerOf reads, before anything is verified, whose the token says that it is.
func (v *Verifier) issuerOf(text string) (*issuer, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, errors.New("it is no signed token")
	}
	payload, err := base64url(parts[1])
	if err != nil {
		return nil, err
	}
	var says struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(payload, &says); err != nil {
		return nil, err
	}
	for _, i := range v.issuers {
		if i.Issuer.Issuer == says.Issuer {
			return i, nil
		}
	}
	return nil, errors.New("the issuer is none of ours")
}

// judge reads the claims of a token whose signature is good.
func (i *issuer) judge(claims map[string]any, labels []string, now time.Time) (*verified, error) {
	expires, err := i.judgeTimes(claims, now)
	if err != nil {
		return nil, err
	}
	for _, claim := range []string{"nonce", "at_hash", "cnf"} {
		if claims[claim] != nil {
			return nil, fmt.Errorf("the token has %q: it is an ID token, or bound to a key that has not been shown", claim)
		}
	}
	scopes, lacks := i.scopesOf(claims), ""
	for claim, wanted := range i.Require {
		has, isScope := values(claims, claim), slices.Contains(i.scopes, claim)
		if isScope {
			has = scopes
		}
		switch {
		case slices.ContainsFunc(has, func(value string) bool { return slices.Contains(wanted, value) }):
		case isScope && len(wanted) > 0:
			lacks = wanted[0]
		default:
			return nil, fmt.Errorf("the claim %q is not as required", claim)
		}
	}
	subject := values(claims, i.Subject)
	if len(subject) != 1 || subject[0] == "" {
		return nil, fmt.Errorf("the token has no %q", i.Subject)
	}
	named := map[string][]string{}
	for _, claim := range labels {
		named[claim] = values(claims, claim)
	}
	return &verified{
		who:      access.JWT(i.Issuer.Issuer, subject[0], scopes, named, expires),
		audience: values(claims, "aud"), ours: i.Audience, until: now.Add(trustedBy), lacks: lacks,
	}, nil
}

func (i *issuer) judgeTimes(claims map[string]any, now time.Time) (expires time.Time, err error) {
	expires, ok := timeOf(claims["exp"])
	if !ok {
		return expires, errors.New("the token does not expire")
	}
	expires = expires.Add(i.ClockSkew)
	if !now.Before(expires) {
		return expires, errors.New("the token has expired")
	}
	for _, claim := range []string{"nbf", "iat"} {
		at, ok := timeOf(claims[claim])
		if claims[claim] != nil && (!ok || at.After(now.Add(i.ClockSkew))) {
			return expires, errors.New("the token is not good yet")
		}
	}
	return expires, nil
}

// timeOf is a time in seconds since 1970, as a claim has it.
func timeOf(claim any) (time.Time, bool) {
	seconds, ok := claim.(float64)
	if !ok || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

func (i *issuer) scopesOf(claims map[string]any) []string {
	for _, claim := range i.scopes {
		if has := values(claims, claim); has != nil {
			return strings.Fields(strings.Join(has, " "))
		}
	}
	return nil
}

// values are what a claim says, as texts: it may have one, or a list. A name with
// dots may be the way through nested claims.
func values(claims map[string]any, name string) []string {
	value, ok := claims[name]
	if !ok {
		outer, inner, nested := strings.Cut(name, ".")
		if below, is := claims[outer].(map[string]any); nested && is {
			return values(below, inner)
		}
		return nil
	}
	list, many := value.([]any)
	if !many {
		list = []any{value}
	}
	var all []string
	for _, v := range list {
		switch v := v.(type) {
		case string:
			all = append(all, v)
		case bool:
			all = append(all, strconv.FormatBool(v))
		case float64:
			all = append(all, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	return all
}
