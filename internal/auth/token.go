package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Methods of client authentication at a token endpoint.
const (
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodNone  = "none"
	methodJWT   = "private_key_jwt"
)

// Error codes of OAuth that mean something here.
const (
	codeInvalidGrant   = "invalid_grant"
	codeInvalidRefresh = "invalid_refresh_token" // what some say for it
	codeInvalidClient  = "invalid_client"
	codeUnauthorized   = "unauthorized_client"
	codeInvalidRequest = "invalid_request"
	codeInvalidTarget  = "invalid_target"
	codeInvalidScope   = "invalid_scope"
	codePending        = "authorization_pending"
	codeSlowDown       = "slow_down"
	codeExpiredDevice  = "expired_token"
)

// A refusal is an issuer's definite answer, in OAuth's own words.
type refusal struct {
	code, text string
	status     int
}

func (r *refusal) Error() string {
	if r.text == "" {
		return "the issuer answers " + r.code
	}
	return "the issuer answers " + r.code + ": " + r.text
}

// passing is everything else that is no token: it says nothing about what is
// stored, and may be better the next time.
type passing struct {
	text  string
	gone  bool          // nothing is at that URL
	after time.Duration // when the issuer asks to be asked again; 0 if it does not say
}

func (p *passing) Error() string { return p.text }

// A token is what an issuer gives.
type token struct {
	access, refresh string
	expiry          time.Time // zero: unknown
	scopes          []string  // nil: as requested
	subject         string    // "" if unknown
	id              string    // an ID token; "" if there is none
}

// tokens asks token endpoints. Every grant goes through ask, so that what an
// answer means is decided in one place.
type tokens struct {
	web     *web
	secrets *secrets
	sign    func(c client, audience string) (string, error) // a client assertion
}

// ask sends one form, once. Its error is a *refusal or *passing, or says that
// nothing could be sent.
func (t *tokens) ask(ctx context.Context, endpoint, issuer string, c client, form url.Values) (*token, error) {
	answer, err := t.post(ctx, endpoint, issuer, c, form)
	if err != nil {
		return nil, err
	}
	var a tokenAnswer
	if err := answer.object(&a); err != nil || a.Access == "" {
		return nil, &passing{text: fmt.Sprintf("%s answers %d, and no token", shownURL(endpoint), answer.status)}
	}
	t.secrets.learn(a.Access, a.Refresh, a.ID)
	if a.Type != "" && !strings.EqualFold(a.Type, "bearer") && !strings.EqualFold(a.Type, "N_A") || !headerSafe(a.Access) {
		return nil, &refusal{code: "a token of another type", text: t.secrets.words(a.Type), status: answer.status}
	}
	tok := &token{access: a.Access, refresh: a.Refresh, scopes: a.Scope.list(), id: a.ID}
	tok.expiry, tok.subject = a.expiry(time.Now().Round(0)), claimsOf(a.ID).Subject
	if tok.subject == "" {
		tok.subject = claimsOf(a.Access).Subject
	}
	return tok, nil
}

// post sends a form with the client's authentication, and returns an answer that
// is a success.
func (t *tokens) post(ctx context.Context, endpoint, issuer string, c client, form url.Values) (*reply, error) {
	headers := http.Header{}
	switch c.Method {
	case methodBasic:
		pair := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.ID) + ":" + url.QueryEscape(c.Secret)))
		t.secrets.learn(pair)
		headers.Set("Authorization", "Basic "+pair)
	case methodPost:
		form.Set("client_id", c.ID)
		form.Set("client_secret", c.Secret)
	case methodJWT:
		assertion, err := t.sign(c, issuer)
		if err != nil {
			return nil, err
		}
		t.secrets.learn(assertion)
		form.Set("client_id", c.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	default: // a public client has no secret, not an empty one
		if c.ID != "" {
			form.Set("client_id", c.ID)
		}
	}
	answer, err := t.web.post(ctx, endpoint, formType, form.Encode(), headers)
	if err != nil {
		return nil, &passing{text: shownURL(endpoint) + ": " + t.secrets.words(err.Error())}
	}
	return answer, t.judge(endpoint, answer)
}

// judge tells a definite refusal from everything that only looks like one: the
// page of a firewall, a proxy's error, an issuer that is down.
func (t *tokens) judge(endpoint string, answer *reply) error {
	var e struct {
		Code any    `json:"error"`
		Text string `json:"error_description"`
	}
	code := ""
	if answer.object(&e) == nil {
		code, _ = e.Code.(string)
	}
	switch {
	case answer.status >= 500, answer.status == http.StatusTooManyRequests, code == "server_error", code == "temporarily_unavailable":
	case code != "":
		return &refusal{code: t.secrets.words(code), text: t.secrets.words(e.Text), status: answer.status}
	case answer.status >= 200 && answer.status <= 299:
		return nil
	}
	gone := answer.status == http.StatusNotFound || answer.status == http.StatusMethodNotAllowed || answer.status == http.StatusGone
	return &passing{text: fmt.Sprintf("%s answers %d", shownURL(endpoint), answer.status), after: answer.after, gone: gone}
}

type tokenAnswer struct {
	Access  string          `json:"access_token"`
	Refresh string          `json:"refresh_token"`
	Type    string          `json:"token_type"`
	ID      string          `json:"id_token"`
	Expires json.RawMessage `json:"expires_in"`
	Scope   scopeList       `json:"scope"`
}

// expiry is by what the issuer says, else by what the token says of itself. A
// lifetime is never made up.
func (a *tokenAnswer) expiry(now time.Time) time.Time {
	text := strings.Trim(string(a.Expires), `"`)
	if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) {
		return now.Add(time.Duration(max(0, min(n, 100*365*24*3600)) * float64(time.Second)))
	}
	return claimsOf(a.Access).expiry()
}

// scopeList is one string, and a list where an issuer errs.
type scopeList string

func (s *scopeList) UnmarshalJSON(raw []byte) error {
	var one string
	var many []string
	if json.Unmarshal(raw, &one) == nil {
		*s = scopeList(one)
	} else if json.Unmarshal(raw, &many) == nil {
		*s = scopeList(strings.Join(many, " "))
	}
	return nil // whatever it is, the token is good
}

func (s scopeList) list() []string {
	if s == "" {
		return nil
	}
	return strings.Fields(string(s))
}

// claims of a JWT, read and not trusted: they are only shown, and say when to
// renew.
type claims struct {
	Subject string  `json:"sub"`
	Expires float64 `json:"exp"`
}

func claimsOf(jwt string) (c claims) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return claims{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || json.Unmarshal(raw, &c) != nil {
		return claims{}
	}
	return c
}

func (c claims) expiry() time.Time {
	if c.Expires <= 0 || c.Expires > math.MaxInt32*100 {
		return time.Time{}
	}
	return time.Unix(int64(c.Expires), 0)
}

// headerSafe tells whether a token can stand in a header.
func headerSafe(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return false
		}
	}
	return token != ""
}

// methodFor chooses how a client authenticates, from what an issuer supports.
func methodFor(secret bool, supported []string) string {
	if !secret {
		return methodNone
	}
	for _, m := range supported { // in the issuer's order: it prefers the first
		if m == methodBasic || m == methodPost {
			return m
		}
	}
	return methodBasic // RFC 8414: what holds where nothing is said
}

// methodNamed is a method as it is configured; "" for "".
func methodNamed(short string) string {
	switch short {
	case "basic":
		return methodBasic
	case "post":
		return methodPost
	default:
		return short
	}
}
