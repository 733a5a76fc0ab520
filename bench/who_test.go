package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access/entrance"
	"github.com/everline/everline/internal/access/tokens"
	"github.com/everline/everline/internal/gateway"
)

// A guest is one way in which a client shows who it is, or what it is granted.
type guest struct {
	name    string
	open    bool // nobody is asked who they are
	allows  func(*config.Config)
	token   func(tb testing.TB, stateDir string) string
	through http.RoundTripper // to the issuer
}

const issuer = "https://idp.example.com"

// anIssuer signs tokens, and answers for its keys.
type anIssuer struct{ key *ecdsa.PrivateKey }

func (i anIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	var answer any = map[string]string{"issuer": issuer, "jwks_uri": issuer + "/keys"}
	if r.URL.Path == "/keys" {
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}}
	}
	text, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text))}, err
}

func (i anIssuer) sign(tb testing.TB, _ string) string {
	tb.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", "one"))
	if err != nil {
		tb.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": issuer, "sub": "ann", "aud": "http://localhost/mcp", "scope": "mcp:read", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
	}).Serialize()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func made(tb testing.TB, stateDir string) string {
	tb.Helper()
	token, _, err := tokens.Create(stateDir, "b", "", time.Time{})
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

func demanded(cfg *config.Config) { cfg.Access.Demanded, cfg.Access.Tokens = true, true }

func guests(tb testing.TB) []guest {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	idp := anIssuer{key}
	return []guest{
		{name: "without", open: true},
		{name: "same-user", allows: func(*config.Config) {}},
		{name: "token", allows: demanded, token: made},
		{name: "jwt", allows: func(cfg *config.Config) {
			cfg.Access = config.Access{Demanded: true, Issuers: []config.Issuer{config.NewIssuer(issuer)}}
		}, token: idp.sign, through: idp},
		{name: "token-policy", allows: func(cfg *config.Config) {
			demanded(cfg)
			cfg.Policies = []config.Policy{{Name: "p", Servers: []string{"s"}, Tools: []string{"s.*"}}}
			cfg.Grants = []config.Grant{{Label: "token:b", Policies: []string{"p"}}}
		}, token: made},
	}
}

// newPathOf is newPath for a guest.
func newPathOf(tb testing.TB, kind string, tools int, g guest) *path {
	tb.Helper()
	if g.open {
		return newPath(tb, kind, tools)
	}
	dir := filepath.Join(tb.TempDir(), "state")
	token := ""
	if g.token != nil {
		token = g.token(tb, dir)
	}
	e := entrance.New(entrance.Options{StateDir: dir, URL: "http://localhost", Log: slog.New(slog.DiscardHandler), Client: &http.Client{Transport: g.through}})
	p := newPathWith(tb, kind, tools, func(cfg *config.Config) {
		g.allows(cfg)
		e.Use(cfg)
	}, func(_ *everline.Options, o *gateway.Options) { o.Entrance = e })
	p.token = token
	ctx, cancel := context.WithCancel(tb.Context())
	read, done := make(chan struct{}, 1), make(chan struct{})
	go func() { // ends with ctx; the cleanup waits for it
		defer close(done)
		e.Run(ctx, func() {
			select {
			case read <- struct{}{}:
			default:
			}
		})
	}()
	tb.Cleanup(func() { cancel(); <-done })
	if strings.HasPrefix(token, tokens.Prefix) {
		<-read
	}
	e.LoadKeys(ctx)
	p.session = p.open(tb)
	return p
}

// BenchmarkWho compares, in turns, what a request costs from the handler on by who
// sends it: without an entrance, as the user that everline runs as, with a token that
// everline made, with one of an issuer that was verified before, and with a policy on
// top. ping asks no server, so it shows the difference best.
func BenchmarkWho(b *testing.B) {
	for _, c := range []struct {
		name, method, params string
		tools, least, turn   int
	}{
		{"ping", "ping", `{}`, 5, 30, 64},
		{"list200", "tools/list", `{}`, 200, 20_000, 16},
		{"call", "tools/call", echoParams, 5, 100, 8},
	} {
		b.Run(c.name, func(b *testing.B) {
			all := guests(b)
			shots, took := make([]*shot, len(all)), make([][]time.Duration, len(all))
			for i, g := range all {
				shots[i] = newPathOf(b, overHTTP, c.tools, g).shot(b, c.method, c.params, c.least)
				shots[i].fire(b)
			}
			for b.Loop() {
				for i, s := range shots {
					began := time.Now()
					for range c.turn {
						s.fire(b)
					}
					took[i] = append(took[i], time.Since(began)/time.Duration(c.turn))
				}
			}
			base := time.Duration(0)
			for i, g := range all {
				slices.Sort(took[i])
				least := took[i][len(took[i])/20] // what else runs on the machine disturbs the others
				if i == 0 {
					base = least
				}
				b.ReportMetric(float64(least), g.name+"-ns")
				b.ReportMetric(float64(least-base), g.name+"-more-ns")
			}
		})
	}
}

// TestWhoAllocations bounds what it costs to know who sends a request.
func TestWhoAllocations(t *testing.T) {
	base := 0.0
	for i, g := range guests(t) {
		s := newPathOf(t, overHTTP, 5, g).shot(t, "ping", `{}`, 30)
		s.fire(t)
		n := testing.AllocsPerRun(200, func() { s.fire(t) })
		if i == 0 {
			base = n
		}
		if n > base+most[g.name] {
			t.Errorf("%s: %.0f allocations, without an entrance %.0f", g.name, n, base)
		} else {
			t.Logf("%s: %.0f allocations", g.name, n)
		}
	}
}

// most is how many allocations more than without an entrance are allowed.
var most = map[string]float64{"same-user": 0, "token": 4, "jwt": 6, "token-policy": 4}
