package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
)

const (
	issuerURL = "https://idp.example.com/realm"
	resource  = "https://gw.example.com/mcp"
)

// An idp is an issuer without a network.
type idp struct {
	mu      sync.Mutex
	keys    map[string]*ecdsa.PrivateKey
	down    bool
	fetches atomic.Int64 // of the keys
	paths   []string
}

func newIDP() *idp {
	i := &idp{keys: map[string]*ecdsa.PrivateKey{}}
	i.rotate("one")
	return i
}

func (i *idp) rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = key
}

func (i *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.paths = append(i.paths, r.URL.Path)
	if r.URL.Path == "/keys" {
		i.fetches.Add(1)
	}
	if i.down {
		return nil, errors.New("no route")
	}
	answer := func(status int, v any) (*http.Response, error) {
		b, err := json.Marshal(v)
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(b)))}, err
	}
	switch r.URL.Path {
	case "/realm/.well-known/openid-configuration":
		return answer(200, map[string]string{"issuer": issuerURL, "jwks_uri": "https://idp.example.com/keys"})
	case "/keys":
		var set jose.JSONWebKeySet
		for id, key := range i.keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"})
		}
		return answer(200, set)
	default:
		return answer(404, "")
	}
}

func (i *idp) client() *http.Client { return &http.Client{Transport: i} }

func (i *idp) verifier(change func(*config.Issuer)) *Verifier {
	c := config.NewIssuer(issuerURL)
	c.Audience = []string{resource}
	if change != nil {
		change(&c)
	}
	return New(Options{Issuers: []config.Issuer{c}, Claims: []string{"groups", "realm_access.roles"}, Client: i.client()})
}

func good() map[string]any {
	now := time.Now().Unix()
	return map[string]any{
		"iss": issuerURL, "sub": "ann", "aud": resource, "exp": now + 600, "iat": now, "scope": "mcp:read mcp:call",
		"groups": []string{"mcp", "admins"}, "realm_access": map[string]any{"roles": []string{"dev"}},
	}
}

// sign signs claims with a key of the issuer, under an id.
func (i *idp) sign(t testing.TB, key, id, kind string, claims map[string]any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithHeader("kid", id)
	if kind != "" {
		options = options.WithType(jose.ContentType(kind))
	}
	i.mu.Lock()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.keys[key]}, options)
	i.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestGoodToken(t *testing.T) {
	i := newIDP()
	v := i.verifier(func(c *config.Issuer) { c.Require = map[string][]string{"groups": {"mcp"}} })
	who, err := v.Verify(t.Context(), i.sign(t, "one", "one", "at+jwt", good()), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "claim:groups=admins claim:groups=mcp claim:realm_access.roles=dev scope:mcp:call scope:mcp:read sub:ann"
	if got := strings.Join(who.Labels(), " "); got != want || who.Key() != "oidc:"+issuerURL+"|ann" || who.Kind() != access.KindJWT || !v.Trusts(who) {
		t.Errorf("%s %q", who.Key(), got)
	}
	if New(Options{}).Trusts(who) {
		t.Error("an issuer that is not configured is trusted")
	}
}

func TestBadTokens(t *testing.T) {
	i := newIDP()
	i.rotate("two")
	v := i.verifier(func(c *config.Issuer) { c.Require = map[string][]string{"groups": {"mcp"}} })
	now := time.Now().Unix()
	change := func(key string, value any) map[string]any {
		c := maps.Clone(good())
		if c[key] = value; value == nil {
			delete(c, key)
		}
		return c
	}
	cases := map[string]string{
		"nothing": "", "no token": "a.b.c", "five parts": "a.b.c.d.e", "too long": strings.Repeat("x", maxToken+1),
		"another's key":     i.sign(t, "two", "one", "JWT", good()),
		"an id token":       i.sign(t, "one", "one", "JWT", change("nonce", "x")),
		"another id token":  i.sign(t, "one", "one", "JWT", change("at_hash", "x")),
		"a bound token":     i.sign(t, "one", "one", "JWT", change("cnf", map[string]string{"jkt": "x"})),
		"another kind":      i.sign(t, "one", "one", "logout+jwt", good()),
		"another issuer":    i.sign(t, "one", "one", "JWT", change("iss", issuerURL+"/")),
		"another audience":  i.sign(t, "one", "one", "JWT", change("aud", "https://gw.example.com/mcp2")),
		"no audience":       i.sign(t, "one", "one", "JWT", change("aud", nil)),
		"no subject":        i.sign(t, "one", "one", "JWT", change("sub", nil)),
		"expired":           i.sign(t, "one", "one", "JWT", change("exp", now-31)),
		"does not expire":   i.sign(t, "one", "one", "JWT", change("exp", nil)),
		"expires in words":  i.sign(t, "one", "one", "JWT", change("exp", "tomorrow")),
		"not yet":           i.sign(t, "one", "one", "JWT", change("nbf", now+60)),
		"issued later":      i.sign(t, "one", "one", "JWT", change("iat", now+60)),
		"not in the group":  i.sign(t, "one", "one", "JWT", change("groups", "other")),
		"no algorithm":      "eyJhbGciOiJub25lIn0." + strings.Split(i.sign(t, "one", "one", "JWT", good()), ".")[1] + ".",
		"signed by HMAC":    hmac(t, i),
		"a changed payload": tampered(i.sign(t, "one", "one", "JWT", good())),
	}
	for name, text := range cases {
		who, err := v.Verify(t.Context(), text, []string{resource})
		if err == nil || errors.As(err, new(*Unavailable)) {
			t.Errorf("%s: %v, %v", name, who, err)
		}
	}
}

// TestRequiredScope tells a good token of too few scopes from a bad one.
func TestRequiredScope(t *testing.T) {
	i := newIDP()
	for name, c := range map[string]struct {
		require map[string][]string
		claims  map[string]any // in place of those of a good token
		lacks   string         // "" for none
		bad     bool
	}{
		"one of several":          {map[string][]string{"scope": {"mcp:admin", "mcp:call"}}, nil, "", false},
		"none of several":         {map[string][]string{"scope": {"mcp:admin", "mcp:all"}}, nil, "mcp:admin", false},
		"under its other name":    {map[string][]string{"scp": {"mcp:admin"}}, nil, "mcp:admin", false},
		"no scopes at all":        {map[string][]string{"scope": {"mcp:read"}}, map[string]any{"scope": nil}, "mcp:read", false},
		"part of a scope":         {map[string][]string{"scope": {"mcp"}}, nil, "mcp", false},
		"for somebody else":       {map[string][]string{"scope": {"mcp:admin"}}, map[string]any{"aud": "https://other.example.com"}, "", true},
		"and another claim lacks": {map[string][]string{"scope": {"mcp:admin"}, "groups": {"nobody"}}, nil, "", true},
	} {
		v := i.verifier(func(of *config.Issuer) { of.Require = c.require })
		claims := good()
		maps.Copy(claims, c.claims)
		text := i.sign(t, "one", "one", "JWT", claims)
		for range 2 { // the second time it is known
			who, err := v.Verify(t.Context(), text, []string{resource})
			var missing *ScopeMissing
			switch {
			case c.bad && (err == nil || errors.As(err, &missing)),
				c.lacks != "" && (!errors.As(err, &missing) || missing.Scope != c.lacks || who != nil),
				!c.bad && c.lacks == "" && err != nil:
				t.Errorf("%s: %v, %v", name, who, err)
			}
		}
	}
}

// hmac signs with what everybody knows: the issuer's public key.
func hmac(t *testing.T, i *idp) string {
	public, err := i.keys["one"].PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: public}, (&jose.SignerOptions{}).WithHeader("kid", "one"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(good()).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func tampered(text string) string {
	parts := strings.Split(text, ".")
	payload, _ := base64url(parts[1])
	changed := strings.Replace(string(payload), "ann", "bob", 1)
	parts[1] = strings.TrimRight(jwtEncode(changed), "=")
	return strings.Join(parts, ".")
}

func TestAudienceOfTheEndpoint(t *testing.T) {
	i := newIDP()
	v := i.verifier(func(c *config.Issuer) { c.Audience = nil })
	text := i.sign(t, "one", "one", "JWT", good())
	for _, c := range []struct {
		ours string
		is   bool
	}{{resource, true}, {resource + "/", true}, {resource + "/group", true}, {"https://gw.example.com/mc", false}, {"https://gw.example.com/mcp2", false}, {"https://evil.example.com/mcp", false}} {
		if _, err := v.Verify(t.Context(), text, []string{c.ours}); (err == nil) != c.is {
			t.Errorf("%s: %v", c.ours, err)
		}
	}
}

// TestFaultX26ForgedKeyIDs has 10,000 tokens that name keys which there are not.
func TestFaultX26ForgedKeyIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIDP()
		v := i.verifier(nil)
		if err := v.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(fetchGap)
		i.fetches.Store(0)
		var all sync.WaitGroup
		for n := range 10_000 {
			if n%10 == 0 {
				time.Sleep(time.Millisecond) // so that they come over a second
			}
			text := i.sign(t, "one", fmt.Sprintf("forged-%d", n), "JWT", good())
			all.Go(func() {
				if who, err := v.Verify(t.Context(), text, nil); err == nil || errors.As(err, new(*Unavailable)) {
					t.Errorf("%v, %v", who, err)
				}
			})
		}
		all.Wait()
		if n := i.fetches.Load(); n != 1 {
			t.Errorf("%d fetches in a second", n)
		}
		// The same one again costs nothing for five minutes.
		text := i.sign(t, "one", "forged", "JWT", good())
		time.Sleep(fetchGap)
		_, _ = v.Verify(t.Context(), text, nil)
		i.fetches.Store(0)
		for range 4 {
			time.Sleep(fetchGap + time.Second)
			_, _ = v.Verify(t.Context(), text, nil)
		}
		if n := i.fetches.Load(); n != 0 {
			t.Errorf("%d fetches for a key that was not there", n)
		}
	})
}

func TestFaultX26KeysOfYesterday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIDP()
		v := i.verifier(nil)
		if err := v.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		i.rotate("two") // and the issuer signs with it immediately
		time.Sleep(fetchGap)
		if _, err := v.Verify(t.Context(), i.sign(t, "two", "two", "JWT", good()), nil); err != nil {
			t.Errorf("a new key is not fetched: %v", err)
		}
		i.down = true
		time.Sleep(3 * longestTTL)
		if _, err := v.Verify(t.Context(), i.sign(t, "one", "one", "JWT", good()), nil); err != nil {
			t.Errorf("without the issuer its keys are lost: %v", err)
		}
		synctest.Wait()
		time.Sleep(fetchGap)
		var u *Unavailable
		if _, err := v.Verify(t.Context(), i.sign(t, "one", "three", "JWT", good()), nil); !errors.As(err, &u) || u.After <= 0 || u.After > fetchGap {
			t.Errorf("a key that cannot be looked for: %v", err)
		}
	})
}

func TestFaultX26AnIssuerThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIDP()
		i.down = true
		v := i.verifier(nil)
		text := i.sign(t, "one", "one", "JWT", good())
		if err := v.Load(t.Context()); !errors.As(err, new(*Unavailable)) {
			t.Errorf("%v", err)
		}
		i.down = false
		if _, err := v.Verify(t.Context(), text, nil); !errors.As(err, new(*Unavailable)) {
			t.Errorf("asked again immediately, or refused for good: %v", err)
		}
		time.Sleep(fetchGap)
		if _, err := v.Verify(t.Context(), text, nil); err != nil {
			t.Errorf("the issuer is back: %v", err)
		}
	})
}

// TestKnownTokens are verified once in five minutes, and never good for longer than
// they are.
func TestKnownTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIDP()
		v := i.verifier(func(c *config.Issuer) { c.ClockSkew = 0 })
		claims := good()
		claims["exp"] = time.Now().Add(time.Minute).Unix()
		text := i.sign(t, "one", "one", "JWT", claims)
		first, err := v.Verify(t.Context(), text, nil)
		again, err2 := v.Verify(t.Context(), text, nil)
		if err != nil || err2 != nil || first != again || !v.Known(text) {
			t.Errorf("%v, %v: verified twice", err, err2)
		}
		time.Sleep(time.Minute)
		if _, err := v.Verify(t.Context(), text, nil); err == nil || v.Known(text) {
			t.Error("an expired token is good")
		}
		for range 2*maxCached + 1 {
			var sum [32]byte
			_, _ = rand.Read(sum[:])
			v.cache.put(sum, &verified{})
		}
		if n := len(v.cache.newer) + len(v.cache.old); n > 2*maxCached {
			t.Errorf("%d tokens are remembered", n)
		}
	})
}

// TestNoWaitWithoutEnd has an issuer that does not answer.
func TestNoWaitWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Options{Issuers: []config.Issuer{config.NewIssuer(issuerURL)}, Client: &http.Client{Transport: hanging{}}})
		i := newIDP()
		text, began := i.sign(t, "one", "one", "JWT", good()), time.Now()
		if _, err := v.Verify(t.Context(), text, nil); !errors.As(err, new(*Unavailable)) || time.Since(began) != fetchTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(fetchGap)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := v.Verify(ctx, text, nil); !errors.As(err, new(*Unavailable)) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(fetchTime)
	})
}

type hanging struct{}

// TestOneFetchForMany is waited for by all whose tokens need it.
func TestOneFetchForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIDP()
		c := config.NewIssuer(issuerURL)
		c.Audience = []string{resource}
		v := New(Options{Issuers: []config.Issuer{c}, Client: &http.Client{Transport: slow{i}}})
		text := i.sign(t, "one", "one", "JWT", good())
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := v.Verify(t.Context(), text, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := i.fetches.Load(); n != 1 {
			t.Errorf("%d fetches", n)
		}
	})
}

// slow is an issuer that takes a second for each answer.
type slow struct{ *idp }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Second)
	return s.idp.RoundTrip(r)
}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func BenchmarkCached(b *testing.B) {
	i := newIDP()
	v := i.verifier(nil)
	text := i.sign(b, "one", "one", "JWT", good())
	audience := []string{resource}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), text, audience); err != nil {
			b.Fatal(err)
		}
	}
}

func jwtEncode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
