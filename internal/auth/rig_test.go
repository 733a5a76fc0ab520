package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest/authserver"
)

const (
	siteURL    = "https://mcp.test/mcp"
	issuerURL  = "https://as.test"
	publicIP   = "93.184.216.34"
	callbackAt = "127.0.0.1:7433"
	serverName = "docs"
)

// A rig is a server, its issuer, a person with a browser, and a manager, on a
// network in memory.
type rig struct {
	*testing.T
	net *authserver.Net
	as  *authserver.Server
	mcp *authserver.Resource
	dir string

	mu     sync.Mutex // guards the rest
	opened []string   // by the manager
	warned []string
}

// inBubble runs a test whose clock stands still while anything is done.
func inBubble(t *testing.T, script authserver.Script, test func(r *rig)) {
	t.Helper()
	dir := stateDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, net: authserver.NewNet(), as: authserver.New(issuerURL, script), dir: dir}
		r.mcp = authserver.NewResource(siteURL, r.as)
		authserver.Start(r.net, publicIP, []*authserver.Resource{r.mcp}, r.as)
		t.Cleanup(func() {
			r.net.Close()
			time.Sleep(time.Minute) // TLS says goodbye to whoever is still there
		})
		test(r)
	})
}

func (r *rig) options() Options {
	return Options{
		StateDir: r.dir, NoKeyring: true, Dial: r.net.Dial, Resolve: r.net.Resolve, noWatch: true,
		RedirectURI: func() string { return "http://" + callbackAt + callbackPath },
		Warn:        func(text string) { r.mu.Lock(); r.warned = append(r.warned, text); r.mu.Unlock() },
	}
}

// opens makes a manager open logins by itself, in a browser that approves.
func (r *rig) opens(o *Options) {
	o.Browser = func(ctx context.Context, url string) error {
		r.mu.Lock()
		r.opened = append(r.opened, url)
		r.mu.Unlock()
		go func() { _, _ = r.browse(ctx, url) }()
		return nil
	}
}

func (r *rig) tabs() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.opened)
}

func (r *rig) warnings() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.warned, "\n")
}

// manager is one process; change may be nil.
func (r *rig) manager(change func(*Options)) *Manager {
	o := r.options()
	if change != nil {
		change(&o)
	}
	m := New(o)
	r.Cleanup(m.Close)
	return m
}

func (r *rig) spec() Spec {
	return Spec{Server: serverName, URL: siteURL, Place: "mcp.json:3", TLS: r.net.ClientTLS()}
}

// serveCallback lets browsers reach the manager.
func (r *rig) serveCallback(m *Manager) { r.net.Serve(callbackAt, "127.0.0.1", m.Handler()) }

// browse is a person who opens a page and follows it to its end.
func (r *rig) browse(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := r.net.Client().Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

// logIn logs in with a browser whose callback a manager serves.
func (r *rig) logIn(m *Manager, o LoginOptions) {
	r.Helper()
	if err := r.tryLogIn(m, o); err != nil {
		r.Fatalf("login: %v", err)
	}
}

func (r *rig) tryLogIn(m *Manager, o LoginOptions) error {
	l, err := m.Login(r.Context(), serverName, o)
	if err != nil {
		return err
	}
	if u := l.URL(); u != "" {
		if _, err := r.browse(r.Context(), u); err != nil {
			return err
		}
	}
	return l.Wait(r.Context())
}

// call is a request as the transport sends it: a ticket, one more if that is
// refused, and no third.
func (r *rig) call(s Source) *fault.Fault {
	for try := 0; ; try++ {
		t, f := s.Header(r.Context())
		if f != nil {
			return f
		}
		status, challenge, err := r.send(t.Value)
		switch {
		case err != nil:
			return fault.From("call", err)
		case status == http.StatusOK:
			t.Accepted()
			return nil
		case try > 0:
			return &fault.Fault{Kind: fault.Unauthorized, Op: "call", Status: status, Err: errors.New("refused again")}
		}
		if f := s.Refused(r.Context(), t, status, challenge); f != nil {
			return f
		}
	}
}

func (r *rig) send(authorization string) (int, []string, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, siteURL, strings.NewReader("{}"))
	if err != nil {
		return 0, nil, err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := r.net.Client().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header["Www-Authenticate"], nil
}

func (r *rig) mustCall(s Source) {
	r.Helper()
	if f := r.call(s); f != nil {
		r.Fatalf("call: %v (%s)", f, f.Remedy)
	}
}

func (r *rig) wantFault(f *fault.Fault, kind fault.Kind, text, remedy string) {
	r.Helper()
	if f == nil || f.Kind != kind || f.Outcome != fault.NotSent || !strings.Contains(f.Error(), text) || !strings.Contains(f.Remedy, remedy) {
		r.Fatalf("got %+v, want kind %s, %q, remedy %q", f, kind, text, remedy)
	}
}

func (r *rig) wantPhase(s Source, want Phase) *State {
	r.Helper()
	st := s.State()
	if st.Phase != want {
		r.Fatalf("phase %s (%s), want %s", st.Phase, st.Cause, want)
	}
	return st
}

func (r *rig) wantRefreshes(n int) {
	r.Helper()
	if got := len(r.as.Grants("refresh_token")); got != n {
		r.Fatalf("%d refreshes, want %d", got, n)
	}
}

// loggedIn is a manager whose server has been logged in to.
func (r *rig) loggedIn(change func(*Options)) (*Manager, Source) {
	r.Helper()
	m := r.manager(change)
	r.serveCallback(m)
	s := m.Source(r.spec())
	r.logIn(m, LoginOptions{})
	r.mustCall(s)
	return m, s
}

// down answers the token endpoint with a status and a page.
func down(status int, body string) func(http.ResponseWriter, url.Values, int) bool {
	return func(w http.ResponseWriter, _ url.Values, _ int) bool {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

var bg = context.Background()

func contextWithTimeout(r *rig, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), d)
}
