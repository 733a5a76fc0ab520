package auth

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest/authserver"
)

func TestParseChallenge(t *testing.T) {
	const m = "https://mcp.test/.well-known/oauth-protected-resource"
	for field, want := range map[string]challenge{
		`Bearer resource_metadata="` + m + `", scope="a b"`:                                         {metadata: m, scopes: []string{"a", "b"}},
		`Basic realm="x", Bearer error="invalid_token", resource_metadata="` + m + `"`:              {metadata: m, code: "invalid_token"},
		`Bearer realm="", resource_metadata="` + m + `"`:                                            {metadata: m},
		`Bearer scope="", resource_metadata="` + m + `"`:                                            {metadata: m},
		`Bearer error="invalid_token" error_description="it is over" resource_metadata="` + m + `"`: {metadata: m, code: "invalid_token", text: "it is over"},
		`bearer realm="" resource_metadata=` + m + `, scope=a`:                                      {metadata: m, scopes: []string{"a"}},
		`DPoP error="use_dpop_nonce"`:                                                               {code: "use_dpop_nonce"},
		`Bearer`:                                                                                    {},
		`Basic realm="", error="no"`:                                                                {},
		``:                                                                                          {},
		`Bearer error_description="scope=x realm=", error="insufficient_scope", scope="w"`: {code: "insufficient_scope", text: "scope=x realm=", scopes: []string{"w"}},
	} {
		got := parseChallenge([]string{field})
		if got.metadata != want.metadata || got.code != want.code || got.text != want.text || scopeText(got.scopes) != scopeText(want.scopes) {
			t.Errorf("%s:\n got %+v\nwant %+v", field, got, want)
		}
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer realm="", resource_metadata="https://x", error="a" error_description="b"`)
	f.Fuzz(func(_ *testing.T, field string) { parseChallenge([]string{field}) })
}

// found runs one discovery on a rig's network.
func (r *rig) found(spec Spec, challenge string) (*hunt, error) {
	r.Helper()
	spec.TLS = r.net.ClientTLS()
	o := r.options()
	web, err := newWeb(&spec, o.Dial, o.Resolve, o.Warn)
	if err != nil {
		r.Fatal(err)
	}
	h := &hunt{web: web, spec: &spec, oldEndpoints: spec.OldEndpoints, challenge: parseChallenge([]string{challenge}), known: func(string) bool { return false }, secrets: &secrets{}}
	return h, h.run(r.Context())
}

func resourceOf(resource string, issuers ...string) map[string]any {
	return map[string]any{"resource": resource, "authorization_servers": issuers}
}

func TestDiscoverResource(t *testing.T) {
	const (
		path = protectedResource + "/mcp"
		root = protectedResource
	)
	good := resourceOf(siteURL, issuerURL)
	for name, c := range map[string]struct {
		prm       map[string]any
		challenge string
		resource  string // "" for an error
		err       error
		passing   bool
		warning   string
	}{
		"where the challenge says":     {prm: map[string]any{"/.well-known/oauth-protected-resource/x": good}, challenge: `Bearer resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/x"`, resource: siteURL},
		"at the path":                  {prm: map[string]any{path: good}, resource: siteURL},
		"at the root":                  {prm: map[string]any{root: good}, resource: siteURL},
		"405 and then the root":        {prm: map[string]any{path: 405, root: good}, resource: siteURL},
		"a page, then the root":        {prm: map[string]any{path: "<html>", root: good}, resource: siteURL},
		"503 ends it":                  {prm: map[string]any{path: 503, root: good}, passing: true},
		"429 ends it":                  {prm: map[string]any{path: 429, root: good}, passing: true},
		"401 is no absence":            {prm: map[string]any{path: 401}, err: ErrNoLogin},
		"another resource":             {prm: map[string]any{path: resourceOf("https://other.test/mcp", issuerURL), root: good}, err: ErrResourceMismatch},
		"another path":                 {prm: map[string]any{path: resourceOf("https://mcp.test/other", issuerURL)}, err: ErrResourceMismatch},
		"half a segment":               {prm: map[string]any{path: resourceOf("https://mcp.test/mc", issuerURL)}, err: ErrResourceMismatch},
		"another scheme":               {prm: map[string]any{path: resourceOf("http://mcp.test/mcp", issuerURL)}, err: ErrResourceMismatch},
		"the whole origin":             {prm: map[string]any{root: resourceOf("https://mcp.test", issuerURL)}, resource: "https://mcp.test", warning: "for all of"},
		"a slash at the end":           {prm: map[string]any{path: resourceOf("https://MCP.test:443/mcp/", issuerURL)}, resource: "https://MCP.test:443/mcp/"},
		"the challenge leads away":     {challenge: `Bearer resource_metadata="http://other.test/x"`, err: errAny},
		"the challenge is no URL":      {challenge: `Bearer resource_metadata="file:///etc/passwd"`, err: errAny},
		"nothing anywhere":             {err: ErrNoLogin},
		"no issuer is as none at all":  {prm: map[string]any{path: map[string]any{"resource": siteURL}}, err: ErrNoLogin},
		"metadata of no resource":      {prm: map[string]any{path: map[string]any{"authorization_servers": []string{issuerURL}}}, err: ErrResourceMismatch},
		"an issuer that is not usable": {prm: map[string]any{path: resourceOf(siteURL, "http://as.test")}, err: errAny},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, authserver.Script{}, func(r *rig) {
				if c.prm == nil {
					c.prm = map[string]any{}
				}
				r.mcp.SetPRM(c.prm)
				h, err := r.found(Spec{URL: siteURL}, c.challenge)
				var later *passing
				switch {
				case c.passing != errors.As(err, &later):
					r.Errorf("%v", err)
				case c.passing:
				case c.err != nil:
					if err == nil || !errors.Is(c.err, errAny) && !errors.Is(err, c.err) {
						r.Errorf("%v", err)
					}
				case err != nil:
					r.Errorf("%v, after %+v", err, h.steps)
				case h.site.resource != c.resource || !strings.Contains(strings.Join(h.site.warnings, " "), c.warning) || (c.warning == "") != (len(h.site.warnings) == 0):
					r.Errorf("resource %q, %q", h.site.resource, h.site.warnings)
				}
				if len(r.as.Requests("/authorize"))+len(r.as.Requests("/register")) > 0 {
					r.Error("somebody was sent somewhere")
				}
			})
		})
	}
}

var errAny = errors.New("any")

// TestFaultX9Slashes: what the server writes is what is sent.
func TestFaultX9Slashes(t *testing.T) {
	for _, resource := range []string{"https://mcp.test/mcp/", "https://mcp.test", "https://mcp.test/", siteURL} {
		inBubble(t, authserver.Script{NeedResource: true}, func(r *rig) {
			r.mcp.SetPRM(map[string]any{
				protectedResource + "/mcp": resourceOf(resource, issuerURL),
				protectedResource:          resourceOf("https://mcp.test/another", "https://wrong.test"),
			})
			r.mcp.SetOpen(func(q *http.Request) bool { return r.as.Accepts(q.Header.Get("Authorization"), resource, "") })
			r.loggedIn(nil)
			for _, req := range append(r.as.Requests("/authorize"), r.as.Requests("/token")...) {
				if got := req.Form.Get("resource"); got != resource {
					t.Errorf("%s has %q, want %q", req.Path, got, resource)
				}
			}
		})
	}
}

func TestDiscoverIssuer(t *testing.T) {
	for name, c := range map[string]struct {
		issuer  string
		script  authserver.Script
		listed  []string
		spec    Spec
		err     error
		passing bool
		warning string
	}{
		"RFC 8414":                   {issuer: issuerURL, script: authserver.Script{Only: authorizationServer}},
		"OpenID":                     {issuer: issuerURL, script: authserver.Script{Only: openIDConfiguration}},
		"RFC 8414 with a path":       {issuer: issuerURL + "/t", script: authserver.Script{Only: authorizationServer + "/t"}},
		"OpenID with a path":         {issuer: issuerURL + "/t", script: authserver.Script{Only: openIDConfiguration + "/t"}},
		"OpenID behind the path":     {issuer: issuerURL + "/t", script: authserver.Script{Only: "/t" + openIDConfiguration}},
		"behind a page for all URLs": {issuer: issuerURL, script: authserver.Script{Only: openIDConfiguration, Any: pageBefore(authorizationServer, 200, "text/html")}},
		"behind a 403":               {issuer: issuerURL, script: authserver.Script{Only: openIDConfiguration, Any: pageBefore(authorizationServer, 403, "text/html")}},
		"500 ends it":                {issuer: issuerURL, script: authserver.Script{Any: pageBefore(authorizationServer, 500, "text/html")}, passing: true},
		"none":                       {issuer: issuerURL, script: authserver.Script{Only: "/nowhere"}, err: ErrNoLogin},
		"of another issuer":          {issuer: issuerURL, script: authserver.Script{Metadata: map[string]any{"issuer": "https://evil.test"}}, err: ErrIssuerMismatch},
		"of another path":            {issuer: issuerURL, script: authserver.Script{Metadata: map[string]any{"issuer": issuerURL + "/t"}}, err: ErrIssuerMismatch},
		"in capitals":                {issuer: issuerURL, script: authserver.Script{Metadata: map[string]any{"issuer": "https://AS.test"}}, err: ErrIssuerMismatch},
		"with a slash":               {issuer: issuerURL, script: authserver.Script{Metadata: map[string]any{"issuer": issuerURL + "/"}}, warning: "another slash"},
		"the first that answers":     {issuer: issuerURL, listed: []string{"https://gone.test", issuerURL}},
		"the configured one":         {issuer: issuerURL, listed: []string{"https://gone.test", issuerURL}, spec: Spec{Issuer: issuerURL}},
		"a configured one not named": {issuer: issuerURL, spec: Spec{Issuer: "https://mine.test"}, err: ErrIssuerMismatch},
		"a client of one of several": {issuer: issuerURL, listed: []string{"https://gone.test", issuerURL}, spec: Spec{ClientID: "me"}, err: ErrIssuerMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.script, func(r *rig) {
				r.as.Issuer = c.issuer
				if c.listed == nil {
					c.listed = []string{c.issuer}
				}
				r.mcp.SetPRM(map[string]any{protectedResource + "/mcp": resourceOf(siteURL, c.listed...)})
				c.spec.URL = siteURL
				h, err := r.found(c.spec, "")
				var later *passing
				switch {
				case c.passing != errors.As(err, &later), c.err != nil && !errors.Is(err, c.err), c.err == nil && !c.passing && err != nil:
					r.Errorf("%v, after %+v", err, h.steps)
				case err != nil:
				case strings.TrimSuffix(h.site.meta.Issuer, "/") != c.issuer || !strings.Contains(strings.Join(h.site.warnings, " "), c.warning):
					r.Errorf("issuer %q, warnings %q", h.site.meta.Issuer, h.site.warnings)
				}
			})
		})
	}
}

func pageBefore(path string, status int, media string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html>"))
		return true
	}
}

// Revisions until 2025-03-26 know no metadata of a resource.
func TestDiscoverOldServers(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		r.mcp.SetPRM(map[string]any{})
		if _, err := r.found(Spec{URL: siteURL}, ""); !errors.Is(err, ErrNoLogin) {
			t.Errorf("%v", err)
		}
		h, err := r.found(Spec{URL: siteURL, OldEndpoints: true}, "")
		if err != nil || h.site.meta.AuthorizationEndpoint != "https://mcp.test/authorize" || len(h.site.warnings) != 1 {
			t.Errorf("%v, %+v", err, h.site)
		}
		h, err = r.found(Spec{URL: siteURL, MetadataURL: issuerURL + authorizationServer}, "")
		if err != nil || h.site.meta.Issuer != issuerURL || h.site.resource != siteURL {
			t.Errorf("%v, %+v", err, h.site)
		}
		if _, err = r.found(Spec{URL: siteURL, MetadataURL: issuerURL + authorizationServer, Issuer: "https://pinned.test"}, ""); !errors.Is(err, ErrIssuerMismatch) {
			t.Errorf("%v", err)
		}
		r.mcp.SetPRM(map[string]any{protectedResource + "/mcp": 500})
		if _, err := r.found(Spec{URL: siteURL, OldEndpoints: true}, ""); err == nil || !forNow(err) {
			t.Errorf("trouble was taken for absence: %v", err)
		}
	})
	inBubble(t, authserver.Script{}, func(r *rig) { // its own issuer
		r.as.Issuer = "https://old.test"
		r.net.Serve("old.test:443", publicIP, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasPrefix(q.URL.Path, protectedResource) {
				http.NotFound(w, q)
				return
			}
			r.as.ServeHTTP(w, q)
		}))
		h, err := r.found(Spec{URL: "https://old.test/sse"}, "")
		if err != nil || h.site.meta.Issuer != "https://old.test" || h.site.resource != "https://old.test/sse" {
			t.Errorf("%v, %+v", err, h.site)
		}
	})
}

// What lets somebody in by a URL goes to no issuer.
func TestSecretsInURLs(t *testing.T) {
	for raw, want := range map[string]string{
		"https://user:pass@mcp.test/mcp#x": "https://mcp.test/mcp", "https://mcp.test/a@b?c=@": "https://mcp.test/a@b?c=@", "https://mcp.test": "https://mcp.test",
		"https://key@mcp.test": "https://mcp.test", "unix:///run/x.sock#/mcp": "unix:///run/x.sock",
	} {
		if got, user := withoutUser(raw); got != want || user != (len(raw)-len(got) > 2 && strings.HasPrefix(raw, "https") && raw != want) {
			t.Errorf("%s: %s, %v", raw, got, user)
		}
	}
	inBubble(t, authserver.Script{}, func(r *rig) {
		spec := r.spec()
		spec.URL = "https://user:pass@mcp.test/mcp"
		s := r.manager(nil).Source(spec)
		r.wantFault(s.Refused(r.Context(), Ticket{}, 401, []string{"Bearer"}), fault.Unauthorized, "configured headers", "")
		h, err := r.found(Spec{URL: siteURL + "?apiKey=secret", MetadataURL: issuerURL + authorizationServer}, "")
		if err != nil || h.site.resource != siteURL {
			t.Errorf("%v, %q", err, h.site.resource)
		}
	})
}

// A discovery that fails says what was asked, and how it was answered.
func TestExplain(t *testing.T) {
	inBubble(t, authserver.Script{Only: "/nowhere"}, func(r *rig) {
		m := r.manager(nil)
		m.Source(r.spec())
		e, err := m.Explain(r.Context(), serverName)
		steps := e.Steps
		if err == nil || len(steps) != 4 || steps[0].URL != siteURL || steps[0].Status != 401 ||
			steps[1].URL != "https://mcp.test/.well-known/oauth-protected-resource/mcp" || steps[1].Status != 200 || steps[3].Status != 404 {
			t.Errorf("%+v, %v", steps, err)
		}
		if f, _ := fault.As(err); f == nil || !strings.Contains(f.Remedy, "everline doctor docs") {
			t.Errorf("%+v", f)
		}
	})
}

// A login that no 401 came before finds metadata that only a challenge names.
func TestLoginAsksForTheChallenge(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		const away = "/.well-known/oauth-protected-resource/of/its/own"
		r.mcp.SetPRM(map[string]any{away: map[string]any{"resource": siteURL, "authorization_servers": []string{issuerURL}}})
		r.mcp.SetChallenge(`Bearer resource_metadata="https://mcp.test` + away + `"`)
		m := r.manager(nil)
		r.serveCallback(m)
		s := m.Source(r.spec())
		r.logIn(m, LoginOptions{})
		r.mustCall(s)
		if e, err := m.Explain(r.Context(), serverName); err != nil || e.Issuer != issuerURL || e.Resource != siteURL || !e.Registers {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// Trouble with a discovery is bounded, and no verdict.
func TestDiscoveryIsShared(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		r.mcp.SetPRM(map[string]any{protectedResource + "/mcp": 503})
		s := r.manager(nil).Source(r.spec())
		all(10, func() { r.wantFault(r.call(s), fault.Unavailable, "answers 503", "everline doctor") })
		r.wantPhase(s, Retrying)
		for range 60 {
			_ = r.call(s)
			time.Sleep(time.Second)
		}
		n := 0
		for _, at := range r.net.Dialed() {
			if at == "mcp.test:443" {
				n++
			}
		}
		if n > 70+12 { // the calls, and a few questions
			t.Errorf("%d connections", n)
		}
		r.mcp.SetPRM(nil)
		time.Sleep(lastWait)
		r.wantFault(r.call(s), fault.Unauthorized, "nobody has logged in", "auth login")
	})
}

// TestFaultX17HostileAddresses: nothing is sent to where a server should not lead.
func TestFaultX17HostileAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		prm  string // issuer that the resource names
		set  func(r *rig)
		host string // that must not be connected to
	}{
		"a metadata address": {prm: "https://169.254.169.254", host: "169.254.169.254:443"},
		"loopback":           {prm: "https://127.0.0.1", host: "127.0.0.1:443"},
		"http loopback":      {prm: "http://127.0.0.1:9000", host: "127.0.0.1:9000"},
		"IPv4 in IPv6":       {prm: "https://[::ffff:10.0.0.1]", host: "[::ffff:10.0.0.1]:443"},
		"a name of it": {prm: "https://evil.test", host: "evil.test:443", set: func(r *rig) {
			r.net.Serve("evil.test:443", "10.1.2.3", r.as)
		}},
		"a name that changes": {prm: issuerURL, host: "as.test:443", set: func(r *rig) { r.net.Rename("as.test", "192.168.1.1") }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, authserver.Script{}, func(r *rig) {
				r.mcp.SetPRM(map[string]any{protectedResource + "/mcp": resourceOf(siteURL, c.prm)})
				if c.set != nil {
					c.set(r)
				}
				h, err := r.found(Spec{URL: siteURL}, "")
				if err == nil || forNow(err) {
					t.Errorf("%v, %+v", err, h.steps)
				}
				for _, at := range r.net.Dialed() {
					if at == c.host {
						t.Error("a connection was made")
					}
				}
			})
		})
	}
	t.Run("it redirects a question", func(t *testing.T) {
		inBubble(t, authserver.Script{Any: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://169.254.169.254/latest", http.StatusFound)
			return true
		}}, func(r *rig) {
			if _, err := r.found(Spec{URL: siteURL}, ""); err == nil {
				t.Error("it was followed")
			}
			for _, at := range r.net.Dialed() {
				if strings.HasPrefix(at, "169") {
					t.Error("a connection was made")
				}
			}
		})
	})
	t.Run("it redirects to http", func(t *testing.T) {
		inBubble(t, authserver.Script{Any: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://as.test/x", http.StatusFound)
			return true
		}}, func(r *rig) {
			r.net.Serve("as.test:80", publicIP, r.as)
			if _, err := r.found(Spec{URL: siteURL}, ""); err == nil || slices.Contains(r.net.Dialed(), "as.test:80") {
				t.Error("it was followed")
			}
		})
	})
	t.Run("the token endpoint redirects", func(t *testing.T) {
		inBubble(t, authserver.Script{}, func(r *rig) {
			thief := authserver.New("https://thief.test", authserver.Script{})
			r.net.Serve("thief.test:443", publicIP, thief)
			_, s := r.loggedIn(nil)
			r.as.Change(func(script *authserver.Script) {
				script.Token = func(w http.ResponseWriter, _ url.Values, _ int) bool {
					w.Header().Set("Location", "https://thief.test/token")
					w.WriteHeader(http.StatusTemporaryRedirect)
					return true
				}
			})
			r.as.Revoke()
			r.wantFault(r.call(s), fault.Unavailable, "answers 307", "")
			if n := len(thief.Requests("")); n > 0 {
				t.Errorf("%d requests to the thief", n)
			}
		})
	})
}

func TestAllowedAddresses(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		server string
		allow  *bool
		addr   string
		want   bool
	}{
		{"https://mcp.test/mcp", nil, publicIP, true},
		{"https://mcp.test/mcp", nil, "10.0.0.1", false},
		{"https://mcp.test/mcp", nil, "100.64.1.1", false},
		{"https://mcp.test/mcp", nil, "::ffff:100.64.1.1", false},
		{"https://mcp.test/mcp", nil, "fd00::1", false},
		{"https://mcp.test/mcp", nil, "fe80::1", false},
		{"https://mcp.test/mcp", nil, "224.0.0.1", false},
		{"https://mcp.test/mcp", nil, "0.0.0.0", false},
		{"https://mcp.test/mcp", nil, "64:ff9b::a00:1", false},
		{"https://mcp.test/mcp", nil, "2606:4700::1", true},
		{"https://mcp.test/mcp", &yes, "10.0.0.1", true},
		{"https://mcp.test/mcp", &no, "10.0.0.1", false},
		{"http://10.0.0.5/mcp", nil, "10.0.0.1", true},
		{"http://10.0.0.5/mcp", nil, "127.0.0.1", true},
		{"http://10.0.0.5/mcp", nil, "169.254.169.254", false},
		{"http://10.0.0.5/mcp", &no, "10.0.0.1", false},
		{"http://localhost:1/mcp", nil, "127.0.0.1", true},
		{"http://[::1]/mcp", nil, "100.100.100.200", false},
		{"http://private.test/mcp", nil, "10.0.0.1", true},
		{"http://mixed.test/mcp", nil, "10.0.0.1", false},
	} {
		n := authserver.NewNet()
		n.Rename("mcp.test", publicIP)
		n.Rename("private.test", "10.9.9.9")
		n.Rename("mixed.test", "10.9.9.9", publicIP)
		w, err := newWeb(&Spec{URL: c.server, AllowPrivate: c.allow}, n.Dial, n.Resolve, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		ips, _ := n.Resolve(bg, c.addr)
		if err := w.allow(bg, ips[0]); (err == nil) != c.want {
			t.Errorf("%s of %s: %v", c.addr, c.server, err)
		}
	}
}

// Through a proxy only names can be judged.
func TestProxy(t *testing.T) {
	var warned []string
	w, err := newWeb(&Spec{URL: siteURL}, nil, nil, func(text string) { warned = append(warned, text) })
	if err != nil {
		t.Fatal(err)
	}
	proxy, _ := url.Parse("http://user:proxy-password@127.0.0.1:1")
	w.proxy = func(*http.Request) (*url.URL, error) { return proxy, nil }
	w.proxied.Proxy = w.proxy
	for _, at := range []string{"https://10.0.0.1/x", "https://localhost/x"} {
		var b *blocked
		if _, err := w.get(t.Context(), at); !errors.As(err, &b) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := w.get(t.Context(), issuerURL); err == nil || strings.Contains(err.Error(), "proxy-password") {
		t.Errorf("%v", err)
	}
	if len(warned) != 1 {
		t.Errorf("warned %q", warned)
	}
}

// TestFaultX18HostileEndpoints: a page to log in at is https, or nothing is opened.
func TestFaultX18HostileEndpoints(t *testing.T) {
	for _, endpoint := range []string{
		"file:///etc/passwd", "smb://host/share", "javascript:alert(1)", "https:///nohost", "http://as.test/authorize", "vscode://x/y",
		"https://user@as.test/", "$(touch /tmp/x)", "-a Calculator", "\\\\host\\share",
	} {
		inBubble(t, authserver.Script{Metadata: map[string]any{"authorization_endpoint": endpoint}}, func(r *rig) {
			m := r.manager(r.opens)
			s := m.Source(r.spec())
			f := r.call(s)
			if f == nil || f.Kind != fault.Invalid || r.tabs() > 0 {
				t.Errorf("%s: %v, %d tabs", endpoint, f, r.tabs())
			}
		})
		if !strings.HasPrefix(endpoint, "http") && OpenBrowser(t.Context(), endpoint) == nil {
			t.Errorf("%s was opened", endpoint)
		}
	}
}
