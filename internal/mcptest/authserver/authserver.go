package authserver

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Request is one that came to the authorization server.
type Request struct {
	Path string
	Form url.Values // of the query or the body
	JSON map[string]any
	Auth string // the Authorization header
}

// A Script says how a server behaves; the zero value is one that does all well.
type Script struct {
	Lifetime                 time.Duration // of access tokens; 0: an hour
	NoExpiry                 bool          // it does not say how long
	NoRefresh                bool          // it gives no refresh tokens
	Reuse                    bool          // refresh tokens do not rotate
	Grace                    time.Duration // for which a spent refresh token may be used again; 0: its use ends the login
	Lost                     bool          // the answers of the token endpoint get lost on their way
	Scopes                   []string      // it knows no others; nil: any
	Listed                   []string      // scopes_supported
	Iss                      *string       // in place of its issuer; "-" leaves it out
	IssListed                bool
	Metadata                 map[string]any // in place of what the metadata would have; nil values are left out
	Only                     string         // the one path at which there is metadata; "": all
	NeedResource, NoResource bool
	Exact                    bool   // redirect URIs match with their port
	NoLoopbackAddress        bool   // 127.0.0.1 cannot be registered
	Secret                   string // a client gets it, and has to show it
	Basic                    bool   // by client_secret_basic
	Subject                  string
	IDLifetime               time.Duration // of ID tokens; 0: they do not say
	// Token answers a request to the token endpoint; false leaves it to the server.
	Token func(w http.ResponseWriter, form url.Values, n int) bool
	// Authorize gives an error code in place of a code; "" none.
	Authorize func(q url.Values) (code string)
	// Any answers any request; false leaves it to the server.
	Any func(w http.ResponseWriter, r *http.Request) bool
}

// A Server is an authorization server. It approves whoever asks.
type Server struct {
	Issuer string

	mu       sync.Mutex // guards the rest
	script   Script
	requests []Request
	n        int
	clients  map[string][]string // redirect URIs, by id
	codes    map[string]*grant
	tokens   map[string]*grant // access tokens
	refresh  map[string]*grant // refresh tokens, spent ones included
	devices  map[string]*grant
	asked    int // at the token endpoint
}

type grant struct {
	family    *family
	client    string
	redirect  string
	challenge string
	resource  string
	scope     string
	expiry    time.Time
	spent     time.Time // zero: it is not
	approved  bool
}

type family struct{ dead bool }

// New returns a server of an issuer.
func New(issuer string, script Script) *Server {
	return &Server{
		Issuer: issuer, script: script, clients: map[string][]string{}, codes: map[string]*grant{},
		tokens: map[string]*grant{}, refresh: map[string]*grant{}, devices: map[string]*grant{},
	}
}

// Change changes the script while the server runs.
func (s *Server) Change(change func(*Script)) {
	s.mu.Lock()
	change(&s.script)
	s.mu.Unlock()
}

// Requests are those to a path; "" is all.
func (s *Server) Requests(path string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Request
	for _, r := range s.requests {
		if path == "" || r.Path == path {
			all = append(all, r)
		}
	}
	return all
}

// Grants are the requests to the token endpoint with a grant type.
func (s *Server) Grants(kind string) []Request {
	return slices.DeleteFunc(s.Requests("/token"), func(r Request) bool { return r.Form.Get("grant_type") != kind })
}

// Revoke makes every access token invalid, whatever was said of its lifetime.
func (s *Server) Revoke() {
	s.mu.Lock()
	clear(s.tokens)
	s.mu.Unlock()
}

// Kill makes every login invalid.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	for _, g := range s.refresh {
		g.family.dead = true
	}
}

// Families counts the logins that still can be refreshed.
func (s *Server) Families() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := map[*family]bool{}
	for _, g := range s.refresh {
		if !g.family.dead {
			alive[g.family] = true
		}
	}
	return len(alive)
}

// Forget makes the server know no client any more.
func (s *Server) Forget() {
	s.mu.Lock()
	clear(s.clients)
	s.mu.Unlock()
}

// Approve is a person who has typed the code of each device.
func (s *Server) Approve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.devices {
		g.approved = true
	}
}

// Accepts tells whether a token is good for a resource, with a scope.
func (s *Server) Accepts(authorization, resource, scope string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.tokens[strings.TrimPrefix(authorization, "Bearer ")]
	return g != nil && time.Now().Before(g.expiry) && (g.resource == "" || g.resource == resource) &&
		(scope == "" || slices.Contains(strings.Fields(g.scope), scope))
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	req := Request{Path: r.URL.Path, Form: r.Form, Auth: r.Header.Get("Authorization")}
	if r.Header.Get("Content-Type") == "application/json" {
		_ = json.NewDecoder(r.Body).Decode(&req.JSON)
	}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	script := s.script
	s.mu.Unlock()
	if script.Any != nil && script.Any(w, r) {
		return
	}
	base := s.base()
	switch path := r.URL.Path; {
	case strings.Contains(path, "/.well-known/"):
		if script.Only != "" && path != script.Only || !strings.Contains(path, base) {
			http.NotFound(w, r)
			return
		}
		answer(w, http.StatusOK, s.metadata(script))
	case path == "/authorize":
		s.authorize(w, r, script)
	case path == "/token":
		s.token(w, req, script)
	case path == "/register":
		s.register(w, req, script)
	case path == "/device":
		s.device(w, r.Form)
	case path == "/revoke":
		w.WriteHeader(http.StatusOK)
	default:
		http.NotFound(w, r)
	}
}

// base is the path of the issuer.
func (s *Server) base() string {
	u, _ := url.Parse(s.Issuer)
	return strings.TrimSuffix(u.Path, "/")
}

func (s *Server) origin() string {
	u, _ := url.Parse(s.Issuer)
	return u.Scheme + "://" + u.Host
}

func (s *Server) metadata(script Script) map[string]any {
	m := map[string]any{
		"issuer": s.Issuer, "authorization_endpoint": s.origin() + "/authorize", "token_endpoint": s.origin() + "/token",
		"registration_endpoint": s.origin() + "/register", "device_authorization_endpoint": s.origin() + "/device",
		"revocation_endpoint": s.origin() + "/revoke", "code_challenge_methods_supported": []string{"S256"},
		"response_types_supported": []string{"code"}, "authorization_response_iss_parameter_supported": script.IssListed,
	}
	if script.Listed != nil {
		m["scopes_supported"] = script.Listed
	}
	if script.Secret != "" {
		m["token_endpoint_auth_methods_supported"] = []string{method(script)}
	}
	maps.Copy(m, script.Metadata)
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	return m
}

func method(script Script) string {
	if script.Basic {
		return "client_secret_basic"
	}
	return "client_secret_post"
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// Refuse is an OAuth error.
func Refuse(w http.ResponseWriter, code, text string) {
	answer(w, http.StatusBadRequest, map[string]string{"error": code, "error_description": text})
}

func (s *Server) next(prefix string) string {
	s.n++
	return fmt.Sprintf("%s-secret-%06d", prefix, s.n)
}

func (s *Server) register(w http.ResponseWriter, req Request, script Script) {
	var uris []string
	list, _ := req.JSON["redirect_uris"].([]any)
	for _, one := range list {
		uri, _ := one.(string)
		if script.NoLoopbackAddress && strings.Contains(uri, "127.0.0.1") {
			Refuse(w, "invalid_redirect_uri", "use localhost")
			return
		}
		uris = append(uris, uri)
	}
	s.mu.Lock()
	id := strings.ReplaceAll(s.next("client"), "secret-", "")
	s.clients[id] = uris
	s.mu.Unlock()
	a := map[string]any{"client_id": id, "redirect_uris": uris, "token_endpoint_auth_method": "none", "jwks": map[string]any{"keys": []any{}}}
	if script.Secret != "" {
		a["client_secret"], a["client_secret_expires_at"], a["token_endpoint_auth_method"] = script.Secret, 0, method(script)
	}
	answer(w, http.StatusCreated, a)
}

// Know makes a client known that was registered by hand.
func (s *Server) Know(id string, redirects ...string) {
	s.mu.Lock()
	s.clients[id] = redirects
	s.mu.Unlock()
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request, script Script) {
	q := r.URL.Query()
	s.mu.Lock()
	uris, known := s.clients[q.Get("client_id")]
	s.mu.Unlock()
	redirect, err := url.Parse(q.Get("redirect_uri"))
	if !known || err != nil || !s.matches(uris, q.Get("redirect_uri"), script.Exact) || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "this client is not known, or not with this address", http.StatusBadRequest)
		return
	}
	back := redirect.Query()
	back.Set("state", q.Get("state"))
	back.Set("iss", s.Issuer)
	if script.Iss != nil {
		back.Set("iss", *script.Iss)
		if *script.Iss == "-" {
			back.Del("iss")
		}
	}
	code := ""
	if script.Authorize != nil {
		code = script.Authorize(q)
	}
	switch {
	case code != "":
	case script.Scopes != nil && slices.ContainsFunc(strings.Fields(q.Get("scope")), func(one string) bool { return !slices.Contains(script.Scopes, one) }):
		code = "invalid_scope"
	case script.NeedResource && q.Get("resource") == "", script.NoResource && q.Get("resource") != "":
		code = "invalid_target"
	}
	if code != "" {
		back.Set("error", code)
		back.Set("error_description", "scripted")
	} else {
		s.mu.Lock()
		given := s.next("code")
		s.codes[given] = &grant{
			family: &family{}, client: q.Get("client_id"), redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"),
			resource: q.Get("resource"), scope: q.Get("scope"),
		}
		s.mu.Unlock()
		back.Set("code", given)
	}
	redirect.RawQuery = back.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound)
}

func (s *Server) matches(uris []string, redirect string, exact bool) bool {
	return slices.ContainsFunc(uris, func(one string) bool {
		a, err := url.Parse(one)
		b, err2 := url.Parse(redirect)
		if err != nil || err2 != nil {
			return false
		}
		return one == redirect || !exact && a.Hostname() == b.Hostname() && a.Path == b.Path
	})
}

func (s *Server) device(w http.ResponseWriter, form url.Values) {
	s.mu.Lock()
	code := s.next("device")
	s.devices[code] = &grant{family: &family{}, client: form.Get("client_id"), resource: form.Get("resource"), scope: form.Get("scope")}
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": s.origin() + "/activate", "expires_in": 600, "interval": 5,
	})
}

func (s *Server) token(w http.ResponseWriter, req Request, script Script) {
	form := req.Form
	s.mu.Lock()
	s.asked++
	n := s.asked
	s.mu.Unlock()
	if script.Token != nil && script.Token(w, form, n) {
		return
	}
	if form.Has("client_secret") && form.Get("client_secret") == "" {
		Refuse(w, "invalid_request", "an empty client_secret")
		return
	}
	if code := s.authenticates(req, script); code != "" {
		Refuse(w, code, "scripted")
		return
	}
	if script.NeedResource && form.Get("resource") == "" {
		Refuse(w, "invalid_target", "resource is missing")
		return
	}
	if script.NoResource && form.Get("resource") != "" {
		Refuse(w, "invalid_request", "resource is not allowed")
		return
	}
	s.mu.Lock()
	g, code := s.grant(form, script)
	var a map[string]any
	if code == "" {
		a = s.issue(g, script)
	}
	s.mu.Unlock()
	if code != "" {
		Refuse(w, code, "scripted")
		return
	}
	if script.Lost {
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusOK, a)
}

func (s *Server) authenticates(req Request, script Script) string {
	if script.Secret == "" {
		return ""
	}
	shown := req.Form.Get("client_secret")
	if script.Basic {
		raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(req.Auth, "Basic "))
		_, shown, _ = strings.Cut(string(raw), ":")
		shown, _ = url.QueryUnescape(shown)
	}
	if shown != script.Secret {
		return "invalid_client"
	}
	return ""
}

// grant finds what a form asks for. It runs under the lock.
func (s *Server) grant(form url.Values, script Script) (*grant, string) {
	switch form.Get("grant_type") {
	case "authorization_code":
		g := s.codes[form.Get("code")]
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if g == nil || !g.spent.IsZero() || g.redirect != form.Get("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
			return nil, "invalid_grant"
		}
		g.spent = time.Now()
		return g, ""
	case "refresh_token":
		g := s.refresh[form.Get("refresh_token")]
		if g == nil || g.family.dead {
			return nil, "invalid_grant"
		}
		if !g.spent.IsZero() && !script.Reuse && time.Since(g.spent) >= script.Grace { // the thief and the owner cannot be told apart
			g.family.dead = true
			return nil, "invalid_grant"
		}
		if g.spent.IsZero() {
			g.spent = time.Now()
		}
		return g, ""
	case "urn:ietf:params:oauth:grant-type:device_code":
		g := s.devices[form.Get("device_code")]
		switch {
		case g == nil:
			return nil, "expired_token"
		case !g.approved:
			return nil, "authorization_pending"
		}
		delete(s.devices, form.Get("device_code"))
		return g, ""
	case "client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer":
		return &grant{family: &family{}, resource: form.Get("resource"), scope: form.Get("scope"), client: "machine"}, ""
	default:
		return nil, "unsupported_grant_type"
	}
}

// issue gives tokens for a grant. It runs under the lock.
func (s *Server) issue(g *grant, script Script) map[string]any {
	life := script.Lifetime
	if life == 0 {
		life = time.Hour
	}
	access := s.next("access")
	given := &grant{family: g.family, client: g.client, resource: g.resource, scope: g.scope, expiry: time.Now().Add(life)}
	s.tokens[access] = given
	a := map[string]any{"access_token": access, "token_type": "Bearer", "scope": g.scope}
	if !script.NoExpiry {
		a["expires_in"] = int(life / time.Second)
	}
	if script.Subject != "" {
		claims := map[string]any{"sub": script.Subject}
		if script.IDLifetime > 0 {
			claims["exp"] = time.Now().Add(script.IDLifetime).Unix()
		}
		a["id_token"] = unsigned(claims)
	}
	if !script.NoRefresh && g.client != "machine" {
		again := s.next("refresh")
		copied := *given
		s.refresh[again] = &copied
		a["refresh_token"] = again
	}
	return a
}

// unsigned is a JWT that nobody has signed.
func unsigned(claims map[string]any) string {
	raw, _ := json.Marshal(claims)
	return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString(raw) + ".c2lnbmVk"
}
