package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/mcptest/authserver"
)

// What a login is made of, as forms and answers name it.
var secretFields = []string{
	"code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion", "subject_token", "device_code", "access_token", "id_token",
}

// A parrot is a server and an issuer that tell everything they were sent, wherever
// there is room for words: the worst that everline can be shown.
type parrot struct {
	mu      sync.Mutex // guards the rest; nothing waits under it
	secrets map[string]string
	loud    bool
}

// learn keeps what is secret of a request.
func (e *parrot) learn(r *http.Request, form url.Values) (all string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range secretFields {
		if v := form.Get(name); v != "" {
			e.secrets[v], all = name, all+" "+v
		}
	}
	if kind, v, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		e.secrets[v], all = kind, all+" "+v
		if raw, err := base64.StdEncoding.DecodeString(v); err == nil && kind == "Basic" {
			_, v, _ = strings.Cut(string(raw), ":")
			e.secrets[v], all = kind, all+" "+v
		}
	}
	return all
}

// met is what has been learned until now.
func (e *parrot) met() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.secrets)
}

func (e *parrot) isLoud() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.loud
}

func (e *parrot) setLoud(loud bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loud = loud
}

// issuer refuses everything, once it is loud.
func (e *parrot) issuer(w http.ResponseWriter, r *http.Request) bool {
	all := e.learn(r, r.Form)
	if r.URL.Path != "/token" || !e.isLoud() {
		return false
	}
	authserver.Refuse(w, "invalid_grant", "no:"+all)
	return true
}

// server breaks in each of the ways that have words.
func (e *parrot) server(inner http.Handler) http.Handler {
	var requests atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := e.learn(r, nil)
		if !e.isLoud() {
			inner.ServeHTTP(w, r)
			return
		}
		switch requests.Add(1) % 4 {
		case 0:
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", error_description="no:`+all+`", scope="`+all+`"`)
			w.WriteHeader(http.StatusForbidden)
		case 1:
			http.Error(w, "no:"+all, http.StatusInternalServerError)
		case 2:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, "this is no JSON:%s", all)
		default:
			w.Header().Set("Location", "http://localhost/elsewhere?token="+url.QueryEscape(strings.TrimSpace(all)))
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
}

// Nothing of a credential is in what everline says, to anybody: tokens, codes,
// verifiers, secrets of clients, and assertions, of every kind of login.
func TestNothingOfACredentialIsShown(t *testing.T) {
	const jwt = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ3b3JrbG9hZCJ9.c2lnbmVkLWJ5LW5vYm9keQ"
	dir := t.TempDir()
	kept := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	assertion, key := kept("jwt", jwt), kept("key.pem", privateKey(t))
	for name, kind := range map[string]struct {
		script authserver.Script
		set    func(s *config.Server)
		fields []string // which it has to have met, or it proves nothing
	}{
		"a login":        {authserver.Script{Secret: "client-secret-of-a-login"}, nil, []string{"code", "code_verifier", "refresh_token", "client_secret", "Bearer"}},
		"a login, Basic": {authserver.Script{Secret: "client-secret-of-basic", Basic: true}, nil, []string{"Basic", "refresh_token"}},
		"client_credentials": {authserver.Script{Secret: "client-secret-of-a-program"}, func(s *config.Server) {
			s.Auth.Type, s.Auth.ClientID, s.Auth.ClientSecret = config.AuthClientCredentials, "svc", "client-secret-of-a-program"
		}, []string{"Bearer"}},
		"client_credentials by a key": {authserver.Script{}, func(s *config.Server) {
			s.Auth.Type, s.Auth.ClientID, s.Auth.PrivateKeyFile, s.Auth.TokenAuth = config.AuthClientCredentials, "svc", key, config.TokenAuthJWT
		}, []string{"client_assertion"}},
		"a workload": {authserver.Script{}, func(s *config.Server) {
			s.Auth.Type, s.Auth.ClientID, s.Auth.AssertionFile = config.AuthWorkload, "svc", assertion
		}, []string{"assertion"}},
		"a header": {authserver.Script{}, func(s *config.Server) {
			s.Headers = map[string]string{"Authorization": "Bearer token-of-a-header"}
		}, []string{"Bearer"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &parrot{secrets: map[string]string{}}
			kind.script.Any = e.issuer
			kind.script.Lifetime = 10 * time.Minute
			change := func(g *guarded, s *config.Server, _ *Options) {
				g.resource.SetBehind(e.server(g.mcp.Handler()))
				if s.Auth.ClientID = ""; kind.set != nil {
					kind.set(s)
				}
				if s.Headers != nil {
					g.resource.SetOpen(func(*http.Request) bool { return true })
				}
				g.issuer.Know("svc")
			}
			guard(t, kind.script, change, func(g *guarded) {
				said := g.everythingSaid(e, kind.set == nil)
				secrets := e.met()
				for _, field := range kind.fields {
					if !has(secrets, field) {
						t.Errorf("no %s was met, of %v", field, secrets)
					}
				}
				for secret, field := range secrets {
					if before, _, there := strings.Cut(said, secret); there {
						t.Errorf("%s, %q, is shown: %s", field, secret, before[strings.LastIndexByte(before, '\n')+1:])
					}
				}
				if !strings.Contains(said, "no: ***") {
					t.Errorf("nothing was hidden, so the test proves nothing:\n%s", said)
				}
			})
		})
	}
}

func has(secrets map[string]string, field string) bool {
	for _, f := range secrets {
		if f == field {
			return true
		}
	}
	return false
}

// everythingSaid lets all go wrong, and returns what was said of it: to callers, in
// events, warnings, the log, and the state of the server and of its credential.
func (g *guarded) everythingSaid(e *parrot, login bool) string {
	var b strings.Builder
	see := func(err error) {
		if f, ok := fault.As(err); ok {
			fmt.Fprintln(&b, f.Error(), f.Remedy, f.Text(), f.Stderr)
		}
	}
	if login {
		e.setLoud(true)
		l, err := g.credentials.manager.Login(g.t.Context(), "notes", auth.LoginOptions{})
		g.must(err)
		g.approve(l.URL())
		see(l.Wait(g.t.Context()))
		e.setLoud(false)
		g.login()
	}
	g.seen("connected")
	e.setLoud(true)
	for range 30 { // over the end of the token
		if f := g.call(time.Minute); f != nil {
			see(f)
		}
		time.Sleep(time.Minute)
	}
	e.setLoud(false)
	g.issuer.Kill()
	for range 10 {
		if f := g.call(time.Minute); f != nil {
			see(f)
		}
		time.Sleep(time.Minute)
	}
	v := g.Slot("notes").View()
	fmt.Fprintln(&b, v.Seen(), v.Cause, v.Remedy())
	g.park.mu.Lock()
	defer g.park.mu.Unlock()
	for _, ev := range g.park.events {
		text, _ := json.Marshal(ev)
		fmt.Fprintf(&b, "%s %s\n", ev, text)
	}
	for _, line := range g.Slot("notes").Logs() {
		fmt.Fprintln(&b, line.Text)
	}
	fmt.Fprintln(&b, g.park.warned)
	return b.String()
}

func privateKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
