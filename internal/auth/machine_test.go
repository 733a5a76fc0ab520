package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest/authserver"
)

func TestClientCredentials(t *testing.T) {
	for _, basic := range []bool{true, false} {
		inBubble(t, authserver.Script{Secret: "machine/secret+value", Basic: basic, NeedResource: true}, func(r *rig) {
			m := r.manager(nil)
			spec := r.spec()
			spec.Kind, spec.ClientID, spec.ClientSecret, spec.Scopes = ClientCredentials, "svc", "machine/secret+value", []string{"read"}
			s := m.Source(spec)
			r.mustCall(s)
			r.wantPhase(s, OK)
			asked := func() int { return len(r.as.Grants("client_credentials")) }
			if got := r.as.Grants("client_credentials")[0].Form; asked() != 1 || got.Get("scope") != "read" || got.Get("resource") != siteURL {
				t.Errorf("%d, %v", asked(), got)
			}
			time.Sleep(50 * time.Minute) // past 80 %
			if asked() != 2 {
				t.Errorf("asked %d times", asked())
			}
			r.as.Revoke()
			all(10, func() { r.mustCall(s) })
			if asked() != 3 {
				t.Errorf("asked %d times", asked())
			}
			r.mustCall(r.manager(nil).Source(spec)) // a restart asks nothing
			if asked() != 3 {
				t.Errorf("asked %d times", asked())
			}
			raw, _ := json.Marshal(m.store.mustRead(r.T))
			if strings.Contains(string(raw), "machine/secret") {
				t.Error("the secret of the configuration is stored")
			}
			time.Sleep(time.Minute)
			r.as.Change(func(script *authserver.Script) { script.Secret = "another" })
			r.as.Revoke()
			r.wantFault(r.call(s), fault.Invalid, "invalid_client", "correct clientId/clientSecret of docs (mcp.json:3)")
			r.wantPhase(s, Misconfigured)
			n := asked()
			for range 60 {
				_ = r.call(s)
				time.Sleep(time.Second)
			}
			if asked() != n {
				t.Errorf("asked %d times more", asked()-n)
			}
			spec.ClientSecret = "another"
			r.mustCall(m.Source(spec))
		})
	}
}

func TestPrivateKeyJWT(t *testing.T) {
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	for alg, key := range map[string]any{"ES256": ec, "RS256": rs, "EdDSA": ed} {
		path := writeKey(t, key)
		inBubble(t, authserver.Script{}, func(r *rig) {
			spec := r.spec()
			spec.Kind, spec.ClientID, spec.PrivateKeyFile = ClientCredentials, "svc", path
			r.mustCall(r.manager(nil).Source(spec))
			form := r.as.Grants("client_credentials")[0].Form
			jws, err := jose.ParseSigned(form.Get("client_assertion"), []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)})
			if err != nil || form.Has("client_secret") {
				t.Fatalf("%s: %v, %v", alg, err, form)
			}
			payload, err := jws.Verify(publicOf(key))
			var c struct {
				Iss, Sub, Aud, Jti string
				Exp, Iat           int64
			}
			if err != nil || json.Unmarshal(payload, &c) != nil || c.Iss != "svc" || c.Sub != "svc" || c.Aud != issuerURL || c.Jti == "" || c.Exp-c.Iat != 60 {
				t.Errorf("%s: %v, %s", alg, err, payload)
			}
		})
	}
	inBubble(t, authserver.Script{}, func(r *rig) {
		spec := r.spec()
		spec.Kind, spec.ClientID, spec.PrivateKeyFile = ClientCredentials, "svc", filepath.Join(r.dir, "none")
		r.wantFault(r.call(r.manager(nil).Source(spec)), fault.Invalid, "privateKeyFile", "docs (mcp.json:3)")
	})
}

func publicOf(key any) any { return key.(crypto.Signer).Public() }

func writeKey(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A JWT of the platform: one that is refused is not presented in another way.
func TestWorkload(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		path := filepath.Join(r.dir, "jwt")
		if err := os.WriteFile(path, []byte("platform.jwt.one\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		spec := r.spec()
		spec.Kind, spec.ClientID, spec.AssertionFile = Workload, "svc", path
		s := r.manager(nil).Source(spec)
		r.mustCall(s)
		got := r.as.Requests("/token")
		if len(got) != 1 || got[0].Form.Get("grant_type") != grantJWT || got[0].Form.Get("assertion") != "platform.jwt.one" {
			t.Errorf("%+v", got)
		}
		r.as.Change(func(script *authserver.Script) {
			script.Token = func(w http.ResponseWriter, _ url.Values, _ int) bool {
				authserver.Refuse(w, "invalid_grant", "platform.jwt.two is over")
				return true
			}
		})
		_ = os.WriteFile(path, []byte("platform.jwt.two\n"), 0o600)
		r.as.Revoke()
		f := r.call(s)
		r.wantFault(f, fault.Invalid, "invalid_grant: *** is over", "")
		if got := r.as.Requests("/token"); len(got) != 2 {
			t.Errorf("%d requests", len(got))
		}
	})
}

// SEP-990: the company's ID token becomes an ID-JAG, and that an access token.
func TestEnterprise(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		idp := authserver.New("https://idp.test", authserver.Script{})
		idp.Change(func(script *authserver.Script) {
			script.Any = func(w http.ResponseWriter, q *http.Request) bool {
				if q.URL.Path != "/token" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"access_token":"the.id.jag","issued_token_type":"` + typeIDJAG + `","token_type":"N_A"}`))
				return true
			}
		})
		authserver.Start(r.net, publicIP, nil, idp)
		path := filepath.Join(r.dir, "id")
		if err := os.WriteFile(path, []byte("the.id.token"), 0o600); err != nil {
			t.Fatal(err)
		}
		spec := r.spec()
		spec.Kind, spec.ClientID, spec.AssertionFile = Enterprise, "svc", path
		spec.IDPIssuer, spec.IDPClientID = "https://idp.test", "us-at-the-idp"
		s := r.manager(nil).Source(spec)
		r.mustCall(s)
		form := idp.Requests("/token")[0].Form
		for name, want := range map[string]string{
			"grant_type": grantExchange, "requested_token_type": typeIDJAG, "audience": issuerURL, "resource": siteURL,
			"subject_token": "the.id.token", "subject_token_type": typeIDToken, "client_id": "us-at-the-idp",
		} {
			if form.Get(name) != want {
				t.Errorf("%s is %q", name, form.Get(name))
			}
		}
		if got := r.as.Requests("/token"); len(got) != 1 || got[0].Form.Get("assertion") != "the.id.jag" || got[0].Form.Get("grant_type") != grantJWT {
			t.Errorf("%+v", got)
		}
		r.as.Revoke()
		r.mustCall(s)
	})
}

// Where nothing prints an ID token a person logs in to the identity provider,
// once: its refresh token gets the next ones.
func TestEnterpriseLogin(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		exchanges := 0
		idp := authserver.New("https://idp.test", authserver.Script{Subject: "alice", IDLifetime: 10 * time.Minute})
		idp.Know("us", "http://"+callbackAt+callbackPath)
		idp.Change(func(script *authserver.Script) {
			script.Token = func(w http.ResponseWriter, form url.Values, _ int) bool {
				if form.Get("grant_type") != grantExchange {
					return false
				}
				exchanges++
				if end := claimsOf(form.Get("subject_token")).expiry(); end.IsZero() || time.Now().After(end) {
					t.Error("an ID token that is over was presented")
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"access_token":"the.id.jag","issued_token_type":"` + typeIDJAG + `","token_type":"N_A"}`))
				return true
			}
		})
		authserver.Start(r.net, publicIP, nil, idp)
		m := r.manager(nil)
		r.serveCallback(m)
		spec := r.spec()
		spec.Kind, spec.ClientID, spec.IDPIssuer, spec.IDPClientID = Enterprise, "svc", "https://idp.test", "us"
		s := m.Source(spec)
		r.wantFault(r.call(s), fault.Unauthorized, "nobody has logged in to the identity provider", "run: everline auth login docs")
		st := r.wantPhase(s, NeedsLogin)
		r.logIn(m, LoginOptions{})
		select {
		case <-st.Changed:
		default:
			t.Error("nobody is woken")
		}
		r.mustCall(s)
		r.wantPhase(s, OK)
		for range 5 {
			time.Sleep(2 * time.Hour)
			r.mustCall(s)
		}
		if n := len(idp.Requests("/authorize")); n != 1 || exchanges < 6 {
			t.Errorf("%d logins, %d exchanges", n, exchanges)
		}
		if all := m.Status(); len(all) != 1 {
			t.Errorf("%v", all)
		}
		r.mustCall(r.manager(nil).Source(spec)) // a restart
		idp.Kill()
		r.as.Revoke()
		time.Sleep(2 * time.Hour)
		r.wantFault(r.call(s), fault.Unauthorized, "invalid_grant", "run: everline auth login docs")
		r.logIn(m, LoginOptions{})
		r.mustCall(s)
		if err := m.Logout(r.Context(), serverName, true); err != nil {
			t.Fatal(err)
		}
		r.wantFault(r.call(s), fault.Unauthorized, "nobody has logged in", "run: everline auth login docs")
	})
}

// printToken is the command of a user: it prints what its first argument has.
func printToken(args []string) error {
	switch args[0] {
	case "hang":
		time.Sleep(time.Hour)
	case "fail":
		fmt.Println("printed-secret")
		fmt.Fprintln(os.Stderr, "printed-secret")
		return errors.New("printed-secret")
	case "count":
		text, _ := os.ReadFile(args[1])
		_ = os.WriteFile(args[1], append(text, '+'), 0o600)
		fmt.Printf("token-%d\n", len(text)+1)
	default:
		fmt.Println(args[0])
	}
	return nil
}

func commandSource(t *testing.T, m *Manager, args ...string) *source {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AUTH_TEST_CHILD", "print")
	return m.Source(Spec{Server: serverName, URL: siteURL, Kind: Command, Command: self, Args: args}).(*source)
}

func TestCommand(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	for printed, want := range map[string]string{
		"tok": "Bearer tok", "Bearer tok": "Bearer tok", `{"access_token":"json-tok","expires_in":3600}`: "Bearer json-tok",
		`{"Authorization":"Bearer header-tok","X-Other":"1"}`: "Bearer header-tok",
		"two\nlines": "", "": "", `{"token":"x"}`: "", "with space": "",
	} {
		ticket, f := commandSource(t, m, printed).Header(t.Context())
		if ticket.Value != want || (want == "") != (f != nil) {
			t.Errorf("%q: %+v, %v", printed, ticket, f)
		}
		if f != nil && (f.Kind != fault.Unavailable || f.Remedy != "run: everline doctor docs" || strings.Contains(f.Error(), "lines")) {
			t.Errorf("%q: %+v", printed, f)
		}
	}
	_, f := commandSource(t, m, "fail").Header(t.Context())
	if f == nil || !strings.Contains(f.Error(), "exit status 1") || strings.Contains(f.Error(), "printed") {
		t.Errorf("%v", f)
	}
	m.Source(Spec{Server: serverName, URL: siteURL, Kind: Command, Command: "/no/such/command"})
	s, _ := m.source(serverName)
	if _, f = s.Header(t.Context()); f == nil || f.Kind != fault.Invalid {
		t.Errorf("%+v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := commandSource(t, m, "hang").output(ctx); err == nil || !forNow(err) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A refusal has the command asked once more; a lifetime has it asked in time.
func TestCommandIsAskedAgain(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	path := filepath.Join(t.TempDir(), "n")
	s := commandSource(t, m, "count", path)
	first, f := s.Header(t.Context())
	if f != nil || first.Value != "Bearer token-1" {
		t.Fatalf("%+v, %v", first, f)
	}
	if again, _ := s.Header(t.Context()); again != first {
		t.Errorf("%+v", again)
	}
	all(10, func() {
		if f := s.Refused(t.Context(), first, 401, nil); f != nil {
			t.Error(f)
		}
	})
	second, f := s.Header(t.Context())
	if f != nil || second.Value != "Bearer token-2" || second.Serial <= first.Serial {
		t.Errorf("%+v, %v", second, f)
	}
	if f := s.Refused(t.Context(), second, 401, nil); f != nil { // the same is sent again, and no more are asked for
		t.Errorf("%+v", f)
	}
	if again, _ := s.Header(t.Context()); again != second || !s.State().Suspect {
		t.Errorf("%+v, %+v", again, s.State())
	}
	if hidden := m.Hide("x token-2 y"); strings.Contains(hidden, "token-2") {
		t.Error(hidden)
	}
}
