package entrance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/access/tokens"
)

func open(t *testing.T, change func(*config.Config)) (*Entrance, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	e := New(Options{StateDir: dir, URL: "http://127.0.0.1:7433", Log: slog.New(slog.DiscardHandler), Client: &http.Client{Transport: noIssuer{}}})
	c := config.New()
	change(c)
	e.Use(c)
	return e, dir
}

type noIssuer struct{}

func (noIssuer) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

func withTokens(c *config.Config) { c.Access = config.Access{Demanded: true, Tokens: true} }

// request is one of somebody whose connection is of who; nil for nobody known.
func request(who *access.Identity, path string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, nil)
	r.RemoteAddr = "192.0.2.1:1234"
	if who != nil {
		r = r.WithContext(access.With(r.Context(), who))
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestNothingIsDemanded(t *testing.T) {
	stranger := access.User(4711)
	for _, c := range []struct {
		clients config.Clients
		exposed bool
		conn    *access.Identity
		want    *access.Identity
	}{
		{config.ClientsSameUser, false, nil, access.Local()},
		{config.ClientsSameUser, false, access.Local(), access.Local()},
		{config.ClientsSameUser, true, nil, access.Anonymous},
		{config.ClientsAnyLocal, false, nil, access.Anonymous},
		{config.ClientsAnyLocal, false, stranger, stranger},
	} {
		e := New(Options{StateDir: t.TempDir(), Exposed: c.exposed, Log: slog.New(slog.DiscardHandler)})
		cfg := config.New()
		cfg.Clients = c.clients
		e.Use(cfg)
		// A header of a client that shows it to everybody means nothing here.
		if got := e.Enter(httptest.NewRecorder(), request(c.conn, "/mcp", "Authorization", "Bearer x")); got != c.want || !e.Admits(got) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestBeforeUseNobodyComesIn(t *testing.T) {
	e := New(Options{StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if who := e.Enter(httptest.NewRecorder(), request(access.Local(), "/mcp")); who != nil {
		t.Errorf("%s is in", who.Key())
	}
}

func TestWhoComesIn(t *testing.T) {
	e, dir := open(t, withTokens)
	token, _, err := tokens.Create(dir, "ci", "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.tokens.Refresh(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		conn   *access.Identity
		path   string
		header []string
		key    string // "" for nobody
		status int
		says   string // in WWW-Authenticate
	}{
		"a token":                {nil, "/mcp", []string{"Authorization", "Bearer " + token}, "token:", 0, ""},
		"a token, in any case":   {nil, "/mcp", []string{"Authorization", "bearer   " + token}, "token:", 0, ""},
		"a token of the user":    {access.Local(), "/mcp", []string{"Authorization", "Bearer " + token}, "token:", 0, ""},
		"the user's own token":   {nil, "/mcp", []string{"Authorization", "Bearer " + tokens.Local(dir)}, access.Local().Key(), 0, ""},
		"the user":               {access.Local(), "/mcp", nil, access.Local().Key(), 0, ""},
		"nobody":                 {nil, "/mcp", nil, "", 401, "Bearer"},
		"a bad token":            {nil, "/mcp", []string{"Authorization", "Bearer " + token + "x"}, "", 401, `Bearer error="invalid_token"`},
		"a bad one of the user":  {access.Local(), "/mcp", []string{"Authorization", "Bearer x"}, "", 401, `Bearer error="invalid_token"`},
		"another scheme":         {nil, "/mcp", []string{"Authorization", "Basic " + token}, "", 401, `Bearer error="invalid_token"`},
		"a token in the URL":     {nil, "/mcp?access_token=" + token, nil, "", 400, ""},
		"both":                   {nil, "/mcp?access_token=x", []string{"Authorization", "Bearer " + token}, "", 400, ""},
		"a forwarded identity":   {nil, "/mcp", []string{"X-Forwarded-User", "root", "X-Forwarded-For", "127.0.0.1", "Forwarded", "for=127.0.0.1"}, "", 401, "Bearer"},
		"a token with a comma":   {nil, "/mcp", []string{"Authorization", "Bearer " + token + ", Bearer " + token}, "", 401, `Bearer error="invalid_token"`},
		"an empty token":         {nil, "/mcp", []string{"Authorization", "Bearer "}, "", 401, `Bearer error="invalid_token"`},
		"another user of the OS": {access.User(4711), "/mcp", nil, "uid:4711", 0, ""},
	} {
		w := httptest.NewRecorder()
		who := e.Enter(w, request(c.conn, c.path, c.header...))
		if c.key != "" {
			if who == nil || !strings.HasPrefix(who.Key(), c.key) || !e.Admits(who) {
				t.Errorf("%s: %v, %d", name, who, w.Code)
			}
			continue
		}
		if who != nil || w.Code != c.status || w.Header().Get("WWW-Authenticate") != c.says || strings.Contains(w.Body.String(), token) {
			t.Errorf("%s: %v %d %q %s", name, who, w.Code, w.Header().Get("WWW-Authenticate"), w.Body)
		}
		var answer struct {
			ID    *int
			Error struct{ Code int }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.ID != nil || answer.Error.Code == 0 {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}

// TestTokensThatAreNotTaken let nobody in, though they are there.
func TestTokensThatAreNotTaken(t *testing.T) {
	e, dir := open(t, func(c *config.Config) { c.Access = config.Access{Demanded: true} })
	token, _, err := tokens.Create(dir, "ci", "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.tokens.Refresh(); err != nil {
		t.Fatal(err)
	}
	if who := e.Enter(httptest.NewRecorder(), request(nil, "/mcp", "Authorization", "Bearer "+token)); who != nil {
		t.Errorf("%s is in", who.Key())
	}
}

func TestEverybodyShowsSomething(t *testing.T) {
	e, _ := open(t, func(c *config.Config) { withTokens(c); c.Clients = config.ClientsTokens })
	if who := e.Enter(httptest.NewRecorder(), request(access.Local(), "/mcp")); who != nil {
		t.Errorf("%s is in", who.Key())
	}
	if !e.Admits(access.Local()) || e.Admits(access.User(4711)) {
		t.Error("the user, who may have shown the token of its own, is out, or a user who has shown nothing is in")
	}
}

// TestRevoked is out within a second, and whoever else is in stays.
func TestRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, dir := open(t, withTokens)
		token, _, err := tokens.Create(dir, "ci", "", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := tokens.Create(dir, "short", "", time.Now().Add(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int32
		done := make(chan struct{})
		go func() { // ends with ctx
			defer close(done)
			e.Run(ctx, func() { calls.Add(1) })
		}()
		synctest.Wait()
		who := e.Enter(httptest.NewRecorder(), request(nil, "/mcp", "Authorization", "Bearer "+token))
		if who == nil || !e.Admits(who) {
			t.Fatal("refused")
		}
		before := calls.Load()
		if _, err := tokens.Revoke(dir, "ci"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if e.Admits(who) || calls.Load() != before+1 || e.Enter(httptest.NewRecorder(), request(nil, "/mcp", "Authorization", "Bearer "+token)) != nil {
			t.Errorf("a second later the holder is in; %d calls", calls.Load()-before)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if calls.Load() != before+2 {
			t.Errorf("%d calls when a token has expired", calls.Load()-before)
		}
		cancel()
		<-done
	})
}

// TestPeersThatFail are locked out for a minute, though not with what is good.
func TestPeersThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, dir := open(t, withTokens)
		token, _, err := tokens.Create(dir, "ci", "", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.tokens.Refresh(); err != nil {
			t.Fatal(err)
		}
		try := func(peer, text string) (int, string) {
			w, r := httptest.NewRecorder(), request(nil, "/mcp", "Authorization", "Bearer "+text)
			r.RemoteAddr = peer
			if e.Enter(w, r) != nil {
				return 200, ""
			}
			return w.Code, w.Header().Get("Retry-After")
		}
		for range failBurst + 1 {
			if code, _ := try("192.0.2.1:1", "bad"); code != 401 {
				t.Fatalf("%d within the burst", code)
			}
		}
		code, after := try("192.0.2.1:2", "bad")
		if code != 429 || after != "60" {
			t.Errorf("%d, again in %q", code, after)
		}
		if code, _ := try("192.0.2.1:3", token); code != 200 {
			t.Errorf("%d for a good token of a peer that is locked out", code)
		}
		if code, _ := try("192.0.2.2:1", "bad"); code != 401 {
			t.Errorf("%d for another peer", code)
		}
		time.Sleep(lockedOut)
		for i := range 12 { // ten a minute
			if code, _ := try("192.0.2.1:1", "bad"); (code == 401) != (i <= 10) {
				t.Errorf("%d for the %dth after a minute", code, i+1)
			}
		}
		for i := range 2 * maxPeers {
			try("198.51."+strconv.Itoa(i>>8)+"."+strconv.Itoa(i&255)+":1", "bad")
		}
		if n := len(e.peers.all); n != maxPeers || e.peers.order.Len() != maxPeers {
			t.Errorf("%d peers are remembered", n)
		}
	})
	if a, b := peerOf("[2001:db8::1]:1"), peerOf("[2001:db8::2]:9"); a != b || a == peerOf("[2001:db8:0:1::1]:1") {
		t.Errorf("%s and %s", a, b)
	}
}

func withIssuer(c *config.Config) {
	c.PublicURL = "https://gw.example.com"
	c.Access = config.Access{Demanded: true, Issuers: []config.Issuer{config.NewIssuer("https://idp.example.com")}}
	all := []string{config.PolicyAll}
	c.Grants = []config.Grant{{Label: "scope:mcp:read", Policies: all}, {Label: "scope:mcp:call", Policies: all}, {Label: "token:x", Policies: all}}
}

func TestChallengesAndMetadata(t *testing.T) {
	e, _ := open(t, withIssuer)
	for path, place := range map[string]string{
		"/mcp": "/mcp", "/mcp/team": "/mcp/team", "/groups/team/mcp": "/groups/team/mcp", "/sse": "/sse", "/groups/team/messages": "/mcp", "/readyz": "/mcp",
	} {
		w := httptest.NewRecorder()
		r := request(nil, path)
		r.Host = "evil.example.com"
		e.Enter(w, r)
		url := "https://gw.example.com/.well-known/oauth-protected-resource" + place
		if got := w.Header().Get("WWW-Authenticate"); got != `Bearer resource_metadata="`+url+`", scope="mcp:read mcp:call"` {
			t.Errorf("%s: %s", path, got)
		}
		w, r = httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		r.SetPathValue("path", strings.TrimPrefix(place, "/"))
		e.ServeMetadata(w, r)
		want := `{"resource":"https://gw.example.com` + place + `","resource_name":"everline","authorization_servers":["https://idp.example.com"],"scopes_supported":["mcp:read","mcp:call"],"bearer_methods_supported":["header"]}`
		if got := strings.TrimSpace(w.Body.String()); got != want || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %s", place, got)
		}
	}
	for _, path := range []string{"nothing", "groups//mcp", "mcp/a/b"} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.SetPathValue("path", path)
		if e.ServeMetadata(w, r); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	plain, _ := open(t, withTokens)
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if plain.ServeMetadata(w, r); w.Code != 404 {
		t.Errorf("without an issuer clients look for a login: %d", w.Code)
	}
}

// TestScopesThatCouldHelp are told to whom they could help, and not those that it has.
func TestScopesThatCouldHelp(t *testing.T) {
	e, _ := open(t, func(c *config.Config) {
		withIssuer(c)
		c.Access.Issuers[0].Require = map[string][]string{"scope": {"mcp"}}
		c.Grants = append(c.Grants, config.Grant{Label: "scope:mcp:off", Policies: []string{config.PolicyNone}})
	})
	jwt := func(scopes ...string) *access.Identity {
		return access.JWT("https://idp.example.com", "ann", scopes, nil, time.Time{})
	}
	const at = `Bearer resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource`
	for _, c := range []struct {
		who  *access.Identity
		path string
		want string
	}{
		{jwt("other"), "/mcp", at + `/mcp", scope="mcp mcp:read mcp:call", error="insufficient_scope"`},
		{jwt("mcp", "mcp:call"), "/groups/team/mcp", at + `/groups/team/mcp", scope="mcp:read", error="insufficient_scope"`},
		{jwt("mcp", "mcp:call", "mcp:read"), "/mcp", ""},
		{access.Token("aaaaaaaa", "x", "", time.Time{}), "/mcp", ""},
		{access.Local(), "/mcp", ""},
	} {
		h := http.Header{}
		e.NothingGranted(h, request(nil, c.path), c.who)
		if got := h.Get("WWW-Authenticate"); got != c.want {
			t.Errorf("%s at %s: %q", c.who.Key(), c.path, got)
		}
	}
}

// TestAnIssuerThatCannotBeAsked is no reason to throw a token away.
func TestAnIssuerThatCannotBeAsked(t *testing.T) {
	e, _ := open(t, withIssuer)
	const claims = `{"iss":"https://idp.example.com","sub":"ann","aud":"https://gw.example.com/mcp","exp":9999999999}`
	w := httptest.NewRecorder()
	who := e.Enter(w, request(nil, "/mcp", "Authorization", "Bearer "+forge(claims)))
	if after := w.Header().Get("Retry-After"); who != nil || w.Code != 503 || after == "" || w.Header().Get("WWW-Authenticate") != "" || !strings.Contains(w.Body.String(), `"retryAfterMs":`) {
		t.Errorf("%v %d %q: %s", who, w.Code, after, w.Body)
	}
}

func forge(claims string) string {
	enc := func(s string) string { return strings.TrimRight(base64Of(s), "=") }
	return enc(`{"alg":"ES256","kid":"x"}`) + "." + enc(claims) + "." + enc(strings.Repeat("s", 64))
}

func TestCertificates(t *testing.T) {
	uri, err := url.Parse("spiffe://example.com/ci")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		which config.CertName
		cert  *x509.Certificate
		chain bool
		key   string
	}{
		"by its URI":       {config.CertURI, &x509.Certificate{URIs: []*url.URL{uri}, NotAfter: time.Now().Add(time.Hour)}, true, "mtls:spiffe://example.com/ci"},
		"by its name":      {config.CertCN, &x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, NotAfter: time.Now().Add(time.Hour)}, true, "mtls:ci"},
		"without a name":   {config.CertURI, &x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, NotAfter: time.Now().Add(time.Hour)}, true, ""},
		"expired":          {config.CertCN, &x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, NotAfter: time.Now().Add(-time.Hour)}, true, ""},
		"of nobody's root": {config.CertCN, &x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, NotAfter: time.Now().Add(time.Hour)}, false, ""},
	} {
		e, _ := open(t, func(cfg *config.Config) { cfg.Access = config.Access{Demanded: true, MTLS: c.which} })
		r := request(nil, "/mcp")
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert}}
		if c.chain {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{c.cert}}
		}
		who := e.Enter(httptest.NewRecorder(), r)
		if c.key == "" && who != nil || c.key != "" && (who == nil || who.Key() != c.key || !e.Admits(who)) {
			t.Errorf("%s: %v", name, who)
		}
	}
}

// TestWhatAConfigurationTakesBack is out.
func TestWhatAConfigurationTakesBack(t *testing.T) {
	e, _ := open(t, withIssuer)
	for _, who := range []*access.Identity{
		access.Anonymous, access.Token("aaaaaaaa", "ci", "", time.Time{}), access.MTLS("x", time.Time{}), access.JWT("https://other.example.com", "x", nil, nil, time.Time{}),
	} {
		if e.Admits(who) {
			t.Errorf("%s stays in", who.Key())
		}
	}
	if !e.Admits(access.JWT("https://idp.example.com", "x", nil, nil, time.Now().Add(-time.Hour))) {
		t.Error("a token that has expired ends a session, which a new one goes on with")
	}
}

func BenchmarkEnterWithToken(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "state")
	token, _, err := tokens.Create(dir, "ci", "", time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	e := New(Options{StateDir: dir, Log: slog.New(slog.DiscardHandler)})
	c := config.New()
	withTokens(c)
	e.Use(c)
	if _, err := e.tokens.Refresh(); err != nil {
		b.Fatal(err)
	}
	r, w := request(nil, "/mcp", "Authorization", "Bearer "+token), httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		if e.Enter(w, r) == nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkEnterWithoutAuth(b *testing.B) {
	e := New(Options{StateDir: os.TempDir(), Log: slog.New(slog.DiscardHandler)})
	e.Use(config.New())
	r, w := request(access.Local(), "/mcp"), httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		if e.Enter(w, r) == nil {
			b.Fatal("refused")
		}
	}
}

func base64Of(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }
