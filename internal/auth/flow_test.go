package auth

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest/authserver"
)

// TestFaultX1LoginsAtOnce: several processes, and several callers in each, want
// the same login: one window, one registration, and all can work.
func TestFaultX1LoginsAtOnce(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		var sources []Source
		for i := range 3 {
			m := r.manager(r.opens)
			if i == 0 {
				r.serveCallback(m)
			}
			sources = append(sources, m.Source(r.spec()))
		}
		var wait sync.WaitGroup
		wait.Go(func() { all(3, func() { r.mustCall(sources[0]) }) })
		time.Sleep(time.Millisecond) // the one that browsers reach is first
		for _, s := range sources[1:] {
			wait.Go(func() { all(3, func() { r.mustCall(s) }) })
		}
		wait.Wait()
		if n := len(r.as.Requests("/register")); n != 1 || r.tabs() != 1 {
			t.Errorf("%d registrations, %d windows", n, r.tabs())
		}
	})
	inBubble(t, authserver.Script{}, func(r *rig) { // the command line, while a login is open
		one, two := r.manager(nil), r.manager(nil)
		r.serveCallback(one)
		one.Source(r.spec())
		s := two.Source(r.spec())
		first, err := one.Login(r.Context(), serverName, LoginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		same, err := one.Login(r.Context(), serverName, LoginOptions{})
		if err != nil || same != first || one.FindLogin(first.ID) != first {
			t.Errorf("%v, %v", same, err)
		}
		other, err := two.Login(r.Context(), serverName, LoginOptions{})
		if err != nil || other.URL() != "" || !other.Elsewhere() {
			t.Fatalf("%+v, %v", other, err)
		}
		if _, err := r.browse(r.Context(), first.URL()); err != nil {
			t.Fatal(err)
		}
		if err := other.Wait(r.Context()); err != nil {
			t.Error(err)
		}
		r.mustCall(s)
		if one.FindLogin(first.ID) != nil {
			t.Error("a login that is over is still found")
		}
	})
	inBubble(t, authserver.Script{}, func(r *rig) { // the first one is given up
		one, two := r.manager(nil), r.manager(nil)
		one.Source(r.spec())
		two.Source(r.spec())
		first, _ := one.Login(r.Context(), serverName, LoginOptions{})
		other, err := two.Login(r.Context(), serverName, LoginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first.Cancel()
		if err := other.Wait(r.Context()); err == nil {
			t.Error("nobody has logged in")
		}
		if l, err := two.Login(r.Context(), serverName, LoginOptions{}); err != nil || l.URL() == "" {
			t.Errorf("%v", err)
		}
	})
}

// The table of RFC 9207: what the answer says of its issuer decides before
// anything else in it is looked at.
func TestIssuerOfAnAnswer(t *testing.T) {
	evil, none, slash, ours := "https://evil.test", "-", issuerURL+"/", issuerURL
	for name, c := range map[string]struct {
		iss    *string
		listed bool
		good   bool
	}{
		"listed and there": {&ours, true, true}, "listed and missing": {&none, true, false}, "listed and another": {&evil, true, false},
		"listed, with a slash": {&slash, true, false}, "not listed, there": {&ours, false, true}, "not listed, missing": {&none, false, true},
		"not listed, another": {&evil, false, false}, "not listed, with a slash": {&slash, false, false},
	} {
		for _, refused := range []bool{false, true} {
			inBubble(t, authserver.Script{Iss: c.iss, IssListed: c.listed}, func(r *rig) {
				if refused {
					r.as.Change(func(s *authserver.Script) { s.Authorize = func(url.Values) string { return "access_denied" } })
				}
				m := r.manager(nil)
				r.serveCallback(m)
				m.Source(r.spec())
				err := r.tryLogIn(m, LoginOptions{})
				switch {
				case c.good && !refused && err != nil, (!c.good || refused) && err == nil:
					t.Errorf("%s: %v", name, err)
				case !c.good && (strings.Contains(err.Error(), "access_denied") || strings.Contains(err.Error(), "scripted")):
					t.Errorf("%s: words of another issuer are shown: %v", name, err)
				case c.good && refused && !strings.Contains(err.Error(), "access_denied: scripted"):
					t.Errorf("%s: %v", name, err)
				case !c.good && len(r.as.Requests("/token")) > 0:
					t.Errorf("%s: the code was redeemed", name)
				}
			})
		}
	}
}

func TestCallback(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m := r.manager(nil)
		m.Source(r.spec())
		l, err := m.Login(r.Context(), serverName, LoginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(l.URL())
		q := u.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("prompt") != "" || len(q.Get("state")) < 43 || q.Get("redirect_uri") != l.RedirectURI() {
			t.Errorf("%v", q)
		}
		get := func(query string) *http.Response {
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, callbackPath+"?"+query, nil))
			return w.Result()
		}
		for _, query := range []string{"", "state=", "state=guessed&code=x", "code=x", "state=<script>&error=<script>"} {
			resp := get(query)
			page := body(t, resp)
			if resp.StatusCode != 400 || strings.Contains(page, "script>&") || strings.Contains(page, "guessed") {
				t.Errorf("%q: %d, %s", query, resp.StatusCode, page)
			}
			if resp.Header.Get("Referrer-Policy") != "no-referrer" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%v", resp.Header)
			}
		}
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, callbackPath+"?state="+q.Get("state"), nil))
		if w.Code != 405 {
			t.Errorf("POST: %d", w.Code)
		}
		resp := get(url.Values{"state": {q.Get("state")}, "iss": {issuerURL}, "error": {"access_denied"}, "error_description": {"<b>no\u202e\x00</b>"}}.Encode())
		if page := body(t, resp); resp.StatusCode != 400 || !strings.Contains(page, "access_denied: &lt;b&gt;no&lt;U+202E&gt;") {
			t.Errorf("%d, %s", resp.StatusCode, page)
		}
		if resp := get("code=x&state=" + q.Get("state")); !strings.Contains(body(t, resp), "not known here") {
			t.Error("a state is answered twice")
		}
		if err := l.Wait(r.Context()); fault.KindOf(err) != fault.Unauthorized {
			t.Errorf("%v", err)
		}
	})
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(b.String(), "\r\n\r\n")
	return text
}

// Two answers at the same time are one.
func TestAnswersAtOnce(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		r.as.Change(func(script *authserver.Script) {
			script.Token = func(http.ResponseWriter, url.Values, int) bool { time.Sleep(time.Second); return false }
		})
		m := r.manager(nil)
		r.serveCallback(m)
		m.Source(r.spec())
		l, err := m.Login(r.Context(), serverName, LoginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(l.URL())
		all(3, func() {
			_, _ = r.browse(r.Context(), "http://"+callbackAt+callbackPath+"?code=x&state="+u.Query().Get("state"))
		})
		if n := len(r.as.Requests("/token")); n != 1 {
			t.Errorf("%d requests for one state", n)
		}
	})
}

// A code is redeemed once: a second try would burn it, and what it gave.
func TestCodeIsRedeemedOnce(t *testing.T) {
	inBubble(t, authserver.Script{Token: down(503, "")}, func(r *rig) {
		m := r.manager(nil)
		r.serveCallback(m)
		s := m.Source(r.spec())
		if err := r.tryLogIn(m, LoginOptions{}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%v", err)
		}
		if n := len(r.as.Requests("/token")); n != 1 {
			t.Errorf("%d requests", n)
		}
		r.as.Change(func(s *authserver.Script) { s.Token = nil })
		r.logIn(m, LoginOptions{})
		r.mustCall(s)
	})
}

func TestLoginGivenUp(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m := r.manager(nil)
		r.serveCallback(m)
		m.Source(r.spec())
		l, err := m.Login(r.Context(), serverName, LoginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := l.Wait(r.Context()); err == nil || time.Since(began) != flowFor {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		resp, _ := r.browse(r.Context(), l.URL())
		if resp != 400 || len(r.as.Requests("/token")) > 0 {
			t.Errorf("a late answer is taken: %d", resp)
		}
		r.logIn(m, LoginOptions{}) // the page may not have known the client: it is registered anew
		if n := len(r.as.Requests("/register")); n != 2 {
			t.Errorf("%d registrations", n)
		}
		r.logIn(m, LoginOptions{Force: true})
		if n := len(r.as.Requests("/register")); n != 2 {
			t.Errorf("%d registrations", n)
		}
	})
}

// A client that the issuer does not know any more is registered again, once.
func TestRegistrationDies(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m, s := r.loggedIn(nil)
		r.as.Change(func(script *authserver.Script) {
			script.Token = func(w http.ResponseWriter, form url.Values, _ int) bool {
				if form.Get("client_id") != "client-000001" {
					return false
				}
				authserver.Refuse(w, "invalid_client", "unknown")
				return true
			}
		})
		r.as.Revoke()
		r.wantFault(r.call(s), fault.Unauthorized, "invalid_client", "auth login docs")
		r.logIn(m, LoginOptions{})
		r.mustCall(s)
		if n := len(r.as.Requests("/register")); n != 2 {
			t.Errorf("%d registrations", n)
		}
	})
}

// The issuer is another one now: nothing of the old one is used there.
func TestIssuerMoves(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(r.opens)
		next := authserver.New("https://next.test", authserver.Script{})
		authserver.Start(r.net, publicIP, nil, next)
		r.mcp.SetServers(next)
		r.as.Kill()
		r.mustCall(s)
		if n := len(next.Requests("/register")); n != 1 || r.tabs() != 1 {
			t.Errorf("%d registrations, %d windows", n, r.tabs())
		}
		for _, req := range next.Requests("") {
			for _, v := range req.Form {
				if strings.Contains(v[0], "refresh-secret") || strings.HasPrefix(v[0], "client-000001") && len(next.Requests("/register")) == 0 {
					t.Errorf("%v", req.Form)
				}
			}
		}
		if st := s.State(); st.Issuer != "https://next.test" {
			t.Errorf("%+v", st)
		}
	})
	for _, refreshes := range []bool{true, false} { // the old one goes on as if nothing were
		inBubble(t, authserver.Script{NoRefresh: !refreshes}, func(r *rig) {
			m, s := r.loggedIn(nil)
			next := authserver.New("https://next.test", authserver.Script{})
			authserver.Start(r.net, publicIP, nil, next)
			time.Sleep(movedAfter) // what the login found is believed for so long
			r.mcp.SetServers(next)
			_ = r.call(s)
			r.wantFault(r.call(s), fault.Unauthorized, "has moved to the issuer https://next.test", "auth login docs")
			r.wantPhase(s, NeedsLogin)
			r.logIn(m, LoginOptions{})
			r.mustCall(s)
			if st := r.wantPhase(s, OK); st.Issuer != "https://next.test" {
				t.Errorf("%+v", st)
			}
		})
	}
}

// One of several issuers that is away is still the one that was logged in to.
func TestIssuerIsAwayAndHasNotMoved(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		other := authserver.New("https://next.test", authserver.Script{})
		authserver.Start(r.net, publicIP, nil, other)
		r.mcp.SetServers(r.as, other)
		_, s := r.loggedIn(nil)
		r.as.Revoke()
		r.mustCall(s)
		r.net.Down("as.test:443")
		r.as.Revoke()
		for range 20 {
			_ = r.call(s)
			time.Sleep(time.Minute)
		}
		if st := s.State(); st.Phase == NeedsLogin || len(other.Requests("/register")) > 0 {
			t.Errorf("%+v", st)
		}
		r.net.Up("as.test:443")
		time.Sleep(lastWait)
		r.mustCall(s)
	})
}

// TestFaultX10StepUp: a call that needs more is a login for all that was ever
// wanted; no refresh is tried, and it does not go on for ever.
func TestFaultX10StepUp(t *testing.T) {
	stepUp := func(r *rig, scope string) {
		r.mcp.SetRefuse(func(q *http.Request) (int, string) {
			if r.as.Accepts(q.Header.Get("Authorization"), siteURL, scope) {
				return 0, ""
			}
			return 403, `Bearer error="insufficient_scope", scope="` + scope + `"`
		})
	}
	inBubble(t, authserver.Script{}, func(r *rig) {
		r.mcp.SetChallenge(`Bearer scope="base"`)
		m := r.manager(r.opens)
		r.serveCallback(m)
		s := m.Source(r.spec())
		r.mustCall(s)
		for _, scope := range []string{"read", "write", "admin"} {
			stepUp(r, scope)
			r.mustCall(s)
		}
		r.wantRefreshes(0)
		var asked []string
		for _, req := range r.as.Requests("/authorize") {
			asked = append(asked, req.Form.Get("scope"))
		}
		if want := []string{"base", "base read", "base write read", "base admin write read"}; len(asked) != 4 || !slices.EqualFunc(asked, want, sameScopes) {
			t.Errorf("asked for %q", asked)
		}
		again := r.manager(r.opens) // after a restart the union is still known
		again.Source(r.spec())
		l, err := again.Login(r.Context(), serverName, LoginOptions{Force: true})
		if err != nil {
			t.Fatal(err)
		}
		if u, _ := url.Parse(l.URL()); !sameScopes(u.Query().Get("scope"), "base read write admin") {
			t.Errorf("asked for %q", u.Query().Get("scope"))
		}
		l.Cancel()
	})
	inBubble(t, authserver.Script{}, func(r *rig) { // a server that is never content
		_, s := r.loggedIn(r.opens)
		r.mcp.SetRefuse(func(*http.Request) (int, string) { return 403, `Bearer error="insufficient_scope", scope="more"` })
		for range 10 {
			_ = r.call(s)
		}
		if r.tabs() > maxStepUps {
			t.Errorf("%d windows", r.tabs())
		}
		r.wantFault(r.call(s), fault.Forbidden, "more", "auth login docs --scope more")
	})
	inBubble(t, authserver.Script{}, func(r *rig) { // the daemon opens nothing
		m, s := r.loggedIn(nil)
		stepUp(r, "write")
		r.wantFault(r.call(s), fault.Forbidden, "needs the scope write", "run: everline auth login docs --scope write")
		r.wantPhase(s, OK)
		r.logIn(m, LoginOptions{Scopes: []string{"write"}})
		r.mustCall(s)
		r.mcp.SetRefuse(func(*http.Request) (int, string) { return 403, "" })
		r.wantFault(r.call(s), fault.Forbidden, "forbids", "")
		r.wantPhase(s, OK)
		r.wantRefreshes(0)
	})
}

func sameScopes(a, b string) bool { return scopeSet(strings.Fields(a)) == scopeSet(strings.Fields(b)) }

// TestFaultX12Redirects: the port is opened first and registered then, and
// another port is another registration.
func TestFaultX12Redirects(t *testing.T) {
	inBubble(t, authserver.Script{Exact: true, NoLoopbackAddress: true}, func(r *rig) {
		m := r.manager(nil)
		r.net.Serve("localhost:7433", "127.0.0.1", m.Handler())
		m.Source(r.spec())
		r.logIn(m, LoginOptions{})
		r.logIn(m, LoginOptions{Force: true})
		if n := len(r.as.Requests("/register")); n != 2 { // refused with the address, taken with the name
			t.Errorf("%d registrations", n)
		}
		if got := r.as.Requests("/authorize")[0].Form.Get("redirect_uri"); got != "http://localhost:7433/oauth/callback" {
			t.Errorf("redirected to %s", got)
		}
	})
	site := &pairOnLoopback{} // ports are real
	web := httptest.NewServer(site)
	defer web.Close()
	site.as = authserver.New(web.URL, authserver.Script{Exact: true})
	site.mcp = authserver.NewResource(web.URL+"/mcp", site.as)
	m := New(Options{})
	defer m.Close()
	for range 2 { // two programs at the same time: one of them has another port
		other := New(Options{})
		defer other.Close()
		for _, one := range []*Manager{m, other} {
			one.Source(Spec{Server: serverName, URL: web.URL + "/mcp"})
		}
		var logins []*Login
		for _, one := range []*Manager{m, other} {
			l, err := one.Login(t.Context(), serverName, LoginOptions{Force: true})
			if err != nil {
				t.Fatal(err)
			}
			logins = append(logins, l)
		}
		if logins[0].RedirectURI() == logins[1].RedirectURI() {
			t.Errorf("both are redirected to %s", logins[0].RedirectURI())
		}
		for _, l := range logins {
			resp, err := http.Get(l.URL())
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if err := l.Wait(t.Context()); err != nil || resp.StatusCode != 200 {
				t.Errorf("%d, %v", resp.StatusCode, err)
			}
		}
	}
}

// TestFaultX13TwoServersOneIssuer: each has its own token; two names of one
// server share one.
func TestFaultX13TwoServersOneIssuer(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m, s := r.loggedIn(nil)
		const otherURL = "https://mcp.test/other"
		second := authserver.NewResource(otherURL, r.as)
		r.net.Serve("two.test:443", publicIP, second)
		r.mcp.SetPRM(map[string]any{protectedResource + "/mcp": resourceOf(siteURL, issuerURL), protectedResource + "/other": resourceOf(otherURL, issuerURL)})
		spec := r.spec()
		spec.Server, spec.URL = "other", otherURL
		other := m.Source(spec)
		if f := other.Refused(r.Context(), Ticket{}, 401, nil); f == nil || f.Kind != fault.Unauthorized {
			t.Errorf("the login of another server is used: %v", f)
		}
		l, err := m.Login(r.Context(), "other", LoginOptions{})
		if err == nil {
			_, err = r.browse(r.Context(), l.URL())
		}
		if err == nil {
			err = l.Wait(r.Context())
		}
		ticket, f := other.Header(r.Context())
		if err != nil || f != nil || !r.as.Accepts(ticket.Value, otherURL, "") || r.as.Accepts(ticket.Value, siteURL, "") {
			t.Errorf("%v, %v", err, f)
		}
		r.mustCall(s)
		if n := len(r.as.Requests("/register")); n != 1 {
			t.Errorf("%d registrations with one issuer", n)
		}
		spec = r.spec()
		spec.Server = "same"
		same := m.Source(spec)
		r.mustCall(same)
		if n := len(r.as.Requests("/authorize")); n != 2 {
			t.Errorf("%d logins", n)
		}
		spec.Server, spec.URL = "slash", siteURL+"/" // written in another way
		r.mustCall(m.Source(spec))
		spec.Server, spec.URL, spec.ClientID = "mine", siteURL, "by-hand" // another client is another login
		if f := r.call(m.Source(spec)); f == nil || f.Kind != fault.Unauthorized {
			t.Errorf("%v", f)
		}
	})
}

// TestFaultX14OpenLists: a login needs no refusal before it, and a refusal in
// mid-session is enough to ask for one.
func TestFaultX14OpenLists(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		r.mcp.SetOpen(func(*http.Request) bool { return true })
		m := r.manager(nil)
		r.serveCallback(m)
		s := m.Source(r.spec())
		r.mustCall(s)
		r.mustCall(s)
		r.wantPhase(s, NoCredential)
		r.mcp.SetOpen(nil)
		r.wantFault(r.call(s), fault.Unauthorized, "nobody has logged in", "auth login docs")
		r.mcp.SetOpen(func(*http.Request) bool { return true })
		r.mustCall(s)
		r.logIn(m, LoginOptions{})
		r.mcp.SetOpen(nil)
		r.mustCall(s)
	})
}

// TestFaultX19HeaderAndLogin: both are an error of that server, and a header
// that is refused starts nothing.
func TestFaultX19HeaderAndLogin(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		spec := r.spec()
		spec.Static, spec.Kind = true, OAuth
		m := r.manager(r.opens)
		s := m.Source(spec)
		r.wantFault(r.call(s), fault.Invalid, "exclude each other", "docs (mcp.json:3)")
		r.wantPhase(s, Misconfigured)
		spec.Kind = Auto
		s = m.Source(spec)
		for range 5 {
			r.wantFault(s.Refused(r.Context(), Ticket{}, 401, []string{"Bearer"}), fault.Unauthorized, "refuses the configured headers", `correct "headers" of docs (mcp.json:3), then: everline reconnect docs`)
		}
		if n := len(r.as.Requests("")); n > 0 || r.tabs() > 0 {
			t.Errorf("%d requests, %d windows", n, r.tabs())
		}
		if _, err := m.Login(r.Context(), serverName, LoginOptions{}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v", err)
		}
	})
}

// TestFaultX23Identities: what one identity has logged in to is not another's.
func TestFaultX23Identities(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m := r.manager(nil)
		r.serveCallback(m)
		spec := r.spec()
		spec.Principal = "oidc:alice"
		alice := m.Source(spec)
		r.logIn(m, LoginOptions{})
		r.mustCall(alice)
		spec.Server, spec.Principal = "docs of bob", "oidc:bob"
		bob := m.Source(spec)
		r.wantFault(r.call(bob), fault.Unauthorized, "nobody has logged in", "")
		if ticket, f := bob.Header(r.Context()); f != nil || ticket.Value != "" {
			t.Errorf("%+v, %v", ticket, f)
		}
	})
}

// TestFaultX29Scopes: what is configured is what is sent; what the issuer does
// not know is left out, once.
func TestFaultX29Scopes(t *testing.T) {
	list := map[string]any{"resource": siteURL, "authorization_servers": []string{issuerURL}, "scopes_supported": []string{"read", "write", "unknown"}}
	scopes := func(r *rig) (all []string) {
		for _, req := range r.as.Requests("/authorize") {
			all = append(all, req.Form.Get("scope"))
		}
		return all
	}
	inBubble(t, authserver.Script{Scopes: []string{"read", "write"}}, func(r *rig) {
		r.mcp.SetPRM(map[string]any{protectedResource + "/mcp": list})
		r.loggedIn(nil)
		if got := scopes(r); !slices.Equal(got, []string{"read write unknown", ""}) {
			t.Errorf("%q", got)
		}
	})
	inBubble(t, authserver.Script{Scopes: []string{"read", "write", "offline_access"}, Listed: []string{"offline_access", "unknown"}}, func(r *rig) {
		r.mcp.SetPRM(map[string]any{protectedResource + "/mcp": list})
		m := r.manager(nil)
		r.serveCallback(m)
		spec := r.spec()
		spec.Scopes = []string{"read"}
		m.Source(spec)
		r.logIn(m, LoginOptions{})
		spec.Scopes, spec.DropScopes = nil, []string{"unknown"}
		m.Source(spec)
		r.logIn(m, LoginOptions{Force: true})
		if got := scopes(r); !slices.Equal(got, []string{"read offline_access", "read write offline_access"}) {
			t.Errorf("%q", got)
		}
		if got := r.as.Requests("/authorize")[0].Form.Get("prompt"); got != "consent" {
			t.Errorf("prompt %q", got)
		}
		if got := r.as.Requests("/register")[0].JSON["scope"]; got != "read" {
			t.Errorf("registered with %v", got)
		}
	})
	inBubble(t, authserver.Script{Authorize: func(url.Values) string { return "invalid_scope" }}, func(r *rig) {
		r.mcp.SetPRM(map[string]any{protectedResource + "/mcp": list})
		m := r.manager(nil)
		r.serveCallback(m)
		m.Source(r.spec())
		err := r.tryLogIn(m, LoginOptions{})
		if err == nil || !strings.Contains(err.Error(), `"dropScopes"`) || len(scopes(r)) != 2 {
			t.Errorf("%v, %q", err, scopes(r))
		}
	})
}

// TestFaultX30ResourceAndScopes: where the scopes name the resource themselves
// it is left out, once, and that is remembered; else the setting is named.
func TestFaultX30ResourceAndScopes(t *testing.T) {
	for _, full := range []bool{true, false} {
		inBubble(t, authserver.Script{NoResource: true}, func(r *rig) {
			m := r.manager(nil)
			r.serveCallback(m)
			spec := r.spec()
			spec.Scopes = []string{"read"}
			if full {
				spec.Scopes = []string{"https://graph.test/read"}
			}
			s := m.Source(spec)
			err := r.tryLogIn(m, LoginOptions{})
			if !full {
				if err == nil || !strings.Contains(err.Error(), `"resourceParam": "never"`) {
					t.Errorf("%v", err)
				}
				spec.ResourceParam = "never"
				s = m.Source(spec)
				r.logIn(m, LoginOptions{})
			} else if err != nil {
				t.Fatal(err)
			}
			r.mustCall(s)
			n := len(r.as.Requests("/authorize"))
			r.logIn(m, LoginOptions{Force: true})
			if got := len(r.as.Requests("/authorize")); n != 2 || got != 3 {
				t.Errorf("%d and then %d questions", n, got)
			}
		})
	}
}

// Without a browser: the address of the page is pasted, and checked alike.
func TestPaste(t *testing.T) {
	inBubble(t, authserver.Script{IssListed: true}, func(r *rig) {
		m := r.manager(nil) // nobody serves its callback
		s := m.Source(r.spec())
		l, err := m.Login(r.Context(), serverName, LoginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		client := r.net.Client()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp, err := client.Get(l.URL())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		back := resp.Header.Get("Location")
		u, _ := url.Parse(back)
		for _, wrong := range []string{"", u.Query().Get("code"), "https://x/?state=guessed&code=y", "\x00"} {
			if err := l.Deliver(wrong); fault.KindOf(err) != fault.Invalid {
				t.Errorf("%q: %v", wrong, err)
			}
		}
		if err := l.Deliver(" " + back + "\n"); err != nil {
			t.Fatal(err)
		}
		if err := l.Wait(r.Context()); err != nil {
			t.Fatal(err)
		}
		r.mustCall(s)
		second, err := m.Login(r.Context(), serverName, LoginOptions{Force: true})
		if err != nil {
			t.Fatal(err)
		}
		resp, err = client.Get(second.URL())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		u, _ = url.Parse(resp.Header.Get("Location"))
		if err := second.DeliverCode(u.Query().Get("code")); err != nil {
			t.Error(err)
		}
		if err := second.DeliverCode("again"); err == nil {
			t.Error("a login takes two codes")
		}
	})
}

func TestDevice(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m := r.manager(nil)
		s := m.Source(r.spec())
		l, err := m.Login(r.Context(), serverName, LoginOptions{Device: true})
		if err != nil || l.URL() != issuerURL+"/activate" || l.UserCode() != "ABCD-EFGH" {
			t.Fatalf("%+v, %v", l, err)
		}
		if got, _ := r.as.Requests("/register")[0].JSON["grant_types"].([]any); !slices.Contains(got, any(grantDevice)) {
			t.Errorf("registered for %v", got)
		}
		slow := 0
		r.as.Change(func(script *authserver.Script) {
			script.Token = func(w http.ResponseWriter, _ url.Values, n int) bool {
				switch n {
				case 2:
					slow++
					authserver.Refuse(w, "slow_down", "")
					return true
				case 3:
					w.WriteHeader(502)
					return true
				}
				return false
			}
		})
		time.Sleep(2 * time.Minute)
		if n := len(r.as.Requests("/token")); n < 3 || n > 10 || slow != 1 {
			t.Errorf("%d questions in two minutes", n)
		}
		r.as.Approve()
		if err := l.Wait(r.Context()); err != nil {
			t.Fatal(err)
		}
		r.mustCall(s)
		r.as.Revoke()
		r.mustCall(s)
	})
	inBubble(t, authserver.Script{}, func(r *rig) {
		m := r.manager(nil)
		m.Source(r.spec())
		l, err := m.Login(r.Context(), serverName, LoginOptions{Device: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Wait(r.Context()); err == nil || !strings.Contains(err.Error(), "in time") {
			t.Errorf("%v", err)
		}
	})
	inBubble(t, authserver.Script{Metadata: map[string]any{"device_authorization_endpoint": nil}}, func(r *rig) {
		m := r.manager(nil)
		m.Source(r.spec())
		if _, err := m.Login(r.Context(), serverName, LoginOptions{Device: true}); err == nil || !strings.Contains(err.Error(), "--paste") {
			t.Errorf("%v", err)
		}
	})
}

// The order of MCP: the configured client, a hosted document, a registration.
func TestWhichClient(t *testing.T) {
	document := map[string]any{"client_id_metadata_document_supported": true}
	for name, c := range map[string]struct {
		script   authserver.Script
		spec     Spec
		client   string
		fail     string
		register int
	}{
		"configured":       {script: authserver.Script{Metadata: document}, spec: Spec{ClientID: "by-hand", ClientIDURL: "https://org.test/client"}, client: "by-hand"},
		"hosted":           {script: authserver.Script{Metadata: document}, spec: Spec{ClientIDURL: "https://org.test/client"}, client: "https://org.test/client"},
		"no document":      {script: authserver.Script{Metadata: document}, client: "client-000001", register: 1},
		"not supported":    {spec: Spec{ClientIDURL: "https://org.test/client"}, client: "client-000001", register: 1},
		"no way":           {script: authserver.Script{Metadata: map[string]any{"registration_endpoint": nil}}, fail: "http://127.0.0.1:7433/oauth/callback"},
		"no PKCE":          {script: authserver.Script{Metadata: map[string]any{"code_challenge_methods_supported": nil}}, fail: "PKCE"},
		"plain PKCE alone": {script: authserver.Script{Metadata: map[string]any{"code_challenge_methods_supported": []string{"plain"}}}, fail: "PKCE"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.script, func(r *rig) {
				m := r.manager(nil)
				r.serveCallback(m)
				for _, id := range []string{"by-hand", "https://org.test/client"} {
					r.as.Know(id, "http://"+callbackAt+callbackPath)
				}
				spec := r.spec()
				spec.ClientID, spec.ClientIDURL = c.spec.ClientID, c.spec.ClientIDURL
				s := m.Source(spec)
				err := r.tryLogIn(m, LoginOptions{})
				if c.fail != "" {
					if f, _ := fault.As(err); f == nil || !strings.Contains(f.Error()+f.Remedy, c.fail) {
						t.Errorf("%v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				r.mustCall(s)
				if got := r.as.Requests("/authorize")[0].Form.Get("client_id"); got != c.client || len(r.as.Requests("/register")) != c.register {
					t.Errorf("client %q, %d registrations", got, len(r.as.Requests("/register")))
				}
			})
		})
	}
}

// A client that was registered by hand and is refused is a matter of the
// configuration; a new secret there is used for what is logged in to already.
func TestConfiguredClientIsRefused(t *testing.T) {
	inBubble(t, authserver.Script{Secret: "first-secret"}, func(r *rig) {
		r.as.Know("by-hand", "http://"+callbackAt+callbackPath)
		m := r.manager(nil)
		r.serveCallback(m)
		spec := r.spec()
		spec.ClientID, spec.ClientSecret = "by-hand", "first-secret"
		s := m.Source(spec)
		r.logIn(m, LoginOptions{})
		r.mustCall(s)
		r.as.Change(func(script *authserver.Script) { script.Secret = "second-secret" })
		r.as.Revoke()
		r.wantFault(r.call(s), fault.Invalid, "invalid_client", "correct clientId/clientSecret of docs (mcp.json:3)")
		r.wantPhase(s, Misconfigured)
		spec.ClientSecret = "second-secret"
		s = m.Source(spec)
		r.mustCall(s)
		r.wantPhase(s, OK)
		if n := len(r.as.Requests("/authorize")); n != 1 {
			t.Errorf("%d logins", n)
		}
	})
}

func TestSweep(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m, _ := r.loggedIn(nil)
		has := func() bool {
			return m.store.mustRead(r.T).record(key{Resource: siteURL, Issuer: issuerURL}) != nil
		}
		for range 60 {
			m.Sweep(r.Context())
			time.Sleep(24 * time.Hour)
		}
		if !has() {
			t.Fatal("a login that is in use is forgotten")
		}
		m.Remove(serverName)
		for day := range 40 {
			m.Sweep(r.Context())
			if has() != (day <= 30) {
				t.Fatalf("day %d: %v", day, has())
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

// Nothing secret is in any fault, state, warning or page.
func TestNoSecretIsShown(t *testing.T) {
	inBubble(t, authserver.Script{Secret: "client-secret-value"}, func(r *rig) {
		var seen strings.Builder
		see := func(err error) {
			if f, ok := fault.As(err); ok {
				seen.WriteString(f.Error() + f.Remedy + "\n")
			}
		}
		m := r.manager(nil)
		r.serveCallback(m)
		s := m.Source(r.spec())
		echo := func(w http.ResponseWriter, form url.Values, _ int) bool {
			authserver.Refuse(w, "invalid_grant", form.Encode()+" "+form.Get("code")+form.Get("code_verifier")+form.Get("refresh_token")+form.Get("client_secret"))
			return true
		}
		r.as.Change(func(script *authserver.Script) { script.Token = echo })
		see(r.tryLogIn(m, LoginOptions{}))
		r.as.Change(func(script *authserver.Script) { script.Token = nil })
		r.logIn(m, LoginOptions{})
		r.as.Change(func(script *authserver.Script) { script.Token = echo })
		if f := r.call(s); f != nil {
			see(f)
		}
		r.as.Revoke()
		if f := r.call(s); f != nil {
			see(f)
		}
		st := s.State()
		seen.WriteString(st.Cause + st.Remedy + r.warnings())
		ticket := "secret-0"
		for _, secret := range []string{ticket, "client-secret-value"} {
			if strings.Contains(seen.String(), secret) {
				t.Errorf("%q is in:\n%s", secret, seen.String())
			}
		}
		for _, req := range r.as.Requests("/token") {
			for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret"} {
				if v := req.Form.Get(name); v != "" && strings.Contains(seen.String(), v) {
					t.Errorf("%s is in:\n%s", name, seen.String())
				}
			}
		}
		if strings.Count(seen.String(), hidden) < 4 {
			t.Errorf("nothing was hidden, so the test proves nothing:\n%s", seen.String())
		}
		synctest.Wait()
	})
}

// A lock that nobody has is not taken for another process's where the machine is so busy
// that the time for a look is over.
func TestAFreeLockIsHad(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, dir := range []string{"", t.TempDir()} {
		m := New(Options{StateDir: dir})
		defer m.Close()
		for range 50 {
			release, err := m.hold(over, key{}, loginLock)
			if err != nil {
				t.Fatalf("%q: %v", dir, err)
			}
			if _, err := m.hold(over, key{}, loginLock); err == nil {
				t.Fatalf("%q: it is had twice", dir)
			}
			release()
		}
	}
}
