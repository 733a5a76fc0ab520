package fleet

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/mcptest/authserver"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/transport"
	httplink "github.com/everline/everline/internal/transport/http"
	"github.com/everline/everline/internal/upstream"
)

const (
	notesAt  = "localhost:80"
	issuerAt = "issuer.localhost:80"
)

// A guarded is a fleet of one server, which wants a login, over HTTP on a network
// in memory.
type guarded struct {
	*Fleet
	t        *testing.T
	net      *authserver.Net
	issuer   *authserver.Server
	resource *authserver.Resource
	mcp      *mcptest.Server
	park     *park
	heard    atomic.Int64 // requests to the server
	closed   atomic.Bool  // valid where a story looks at it
}

// guard plays a story with a server behind a login; change may be nil.
func guard(t *testing.T, script authserver.Script, change func(*guarded, *config.Server, *Options), story func(g *guarded)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{t: t, net: authserver.NewNet(), issuer: authserver.New("http://issuer.localhost", script), park: newPark()}
		g.resource = authserver.NewResource("http://localhost/mcp", g.issuer)
		g.serve(mcptest.Modern)
		g.net.Serve(issuerAt, "127.0.0.1", g.issuer)
		g.net.Serve(notesAt, "127.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/mcp":
				g.heard.Add(1)
			case "/register": // of revision 2025-03-26
				g.issuer.ServeHTTP(w, r)
				return
			}
			g.resource.ServeHTTP(w, r)
		}))
		s := config.NewServer("notes")
		s.URL, s.Transport = "http://localhost/mcp", "http"
		o := g.park.options()
		o.RedirectURI = func() string { return "http://127.0.0.1:7433/oauth/callback" }
		o.Auth = func(a *auth.Options) { a.Dial, a.Resolve, a.NoKeyring = g.net.Dial, g.net.Resolve, true }
		ready := make(chan struct{})
		o.Start = func(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
			<-ready // g.Fleet is set
			return g.start(ctx, o)
		}
		if change != nil {
			change(g, &s, &o)
		}
		cfg := config.New()
		cfg.Servers = []config.Server{s}
		lock, err := ReadPins(cfg)
		if err != nil {
			t.Fatal(err)
		}
		o.Pins = lock
		g.Fleet = New(cfg, o)
		close(ready)
		g.net.Serve("127.0.0.1:7433", "127.0.0.1", g.credentials.manager.Handler())
		synctest.Wait()
		story(g)
		stop(t, g.Fleet)
		g.mcp.Close()
		g.net.Close()
	})
}

func (g *guarded) serve(era mcptest.Era) {
	if g.mcp != nil {
		g.mcp.Close()
	}
	g.mcp = mcptest.New(mcptest.Config{Era: era})
	g.resource.SetBehind(g.mcp.Handler())
}

func (g *guarded) start(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
	spec := httplink.Spec{URL: o.Server.URL, Headers: o.Server.Headers, Client: g.net.Client(), Auth: g.credentials.shown(&o.Server)}
	o.Open = func(ctx context.Context, _ transport.Kind, to transport.Options) (transport.Conn, error) {
		return httplink.Open(ctx, spec, to)
	}
	return opened(upstream.Start(ctx, o))
}

// approve is a person who follows a page to its end.
func (g *guarded) approve(page string) {
	resp, err := g.net.Client().Get(page)
	if err != nil {
		g.t.Error(err)
		return
	}
	_ = resp.Body.Close()
}

func (g *guarded) login() {
	g.t.Helper()
	l, err := g.credentials.manager.Login(g.t.Context(), "notes", auth.LoginOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	g.approve(l.URL())
	g.must(l.Wait(g.t.Context()))
	time.Sleep(time.Second)
}

func (g *guarded) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *guarded) seen(want string) *slot.View {
	g.t.Helper()
	synctest.Wait()
	v := g.Slot("notes").View()
	if string(v.Seen()) != want {
		g.t.Fatalf("it is %s, want %s; %v", v.Seen(), want, v.Cause)
	}
	return v
}

func (g *guarded) call(limit time.Duration) *fault.Fault {
	ctx, cancel := context.WithTimeout(g.t.Context(), limit)
	defer cancel()
	_, err := g.Slot("notes").Call(ctx, &upstream.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo","arguments":{}}`)}, config.ReplayNever)
	return fault.From("", err)
}

// hangs is a token endpoint that answers nothing for so long.
func hangs(d time.Duration) func(http.ResponseWriter, url.Values, int) bool {
	return func(w http.ResponseWriter, _ url.Values, _ int) bool {
		time.Sleep(d)
		w.WriteHeader(http.StatusGatewayTimeout)
		return true
	}
}

// J1: while the issuer is away a server that is to be started is not tried, and
// what cannot be tried has not failed: no loss is counted, no time of the fast
// retries is spent. As soon as there is a token it is started.
func TestIssuerAwayIsNoOutageOfTheServer(t *testing.T) {
	for name, away := range map[string]func(g *guarded){
		"refused": func(g *guarded) { g.net.Down(issuerAt) },
		"slow": func(g *guarded) {
			g.issuer.Change(func(s *authserver.Script) { s.Token = hangs(time.Minute) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			guard(t, authserver.Script{Lifetime: 5 * time.Minute}, nil, func(g *guarded) {
				g.login()
				g.seen("connected")
				broken := func(*http.Request) (int, string) { return http.StatusBadGateway, "" }
				g.resource.SetRefuse(broken)
				g.must(g.Slot("notes").Reconnect(g.t.Context()))
				time.Sleep(time.Minute)
				attempt := g.Slot("notes").View().State.Attempt
				away(g)
				time.Sleep(10 * time.Minute) // the token is over
				lost := g.Slot("notes").View().State.Attempt
				heard := g.heard.Load()
				for range 3 * 60 {
					time.Sleep(time.Minute)
					v := g.Slot("notes").View()
					if s := v.Seen(); s == "failed" || s == "misconfigured" || s == "auth_required" || v.State.Attempt != lost {
						t.Fatalf("it is %s, attempt %d: %v", s, v.State.Attempt, v.Cause)
					}
				}
				if f := g.call(time.Second); f == nil || f.Outcome != fault.NotSent || f.Kind != fault.Unavailable && f.Kind != fault.Deadline || f.RetryAfter <= 0 && f.Kind == fault.Unavailable {
					t.Errorf("%+v", f)
				}
				if n := g.heard.Load() - heard; n != 0 || attempt < 3 {
					t.Errorf("%d requests without a token, %d attempts before", n, attempt)
				}
				g.net.Up(issuerAt)
				g.issuer.Change(func(s *authserver.Script) { s.Token = nil })
				for g.heard.Load() == heard { // as soon as there is a token
					time.Sleep(time.Second)
				}
				time.Sleep(time.Minute)
				if v := g.Slot("notes").View(); v.Seen() == "failed" {
					t.Fatalf("after %d attempts: %v", v.State.Attempt, v.Cause)
				}
				g.resource.SetRefuse(nil)
				time.Sleep(31 * time.Second) // it is tried fast still
				g.seen("connected")
			})
		})
	}
}

// J2: what only a login can help is not asked now and then, and no call asks it.
func TestADeadLoginIsNotProbed(t *testing.T) {
	guard(t, authserver.Script{}, nil, func(g *guarded) {
		v := g.seen("auth_required")
		if !v.Next.IsZero() || v.Remedy() != "run: everline auth login notes" {
			t.Errorf("next %s, %q", v.Next, v.Remedy())
		}
		g.login()
		g.issuer.Kill()
		if f := g.call(time.Minute); f == nil || f.Kind != fault.Unauthorized || f.Outcome != fault.NotSent {
			t.Errorf("%+v", f)
		}
		time.Sleep(time.Minute)
		v = g.seen("auth_required")
		heard, asked := g.heard.Load(), len(g.issuer.Requests(""))
		for range 60 {
			time.Sleep(time.Minute)
			if f := g.call(time.Minute); f == nil || f.Kind != fault.Unauthorized && f.Kind != fault.Unavailable || f.Outcome != fault.NotSent {
				t.Fatalf("%+v", f)
			}
		}
		if !v.Next.IsZero() || g.heard.Load() != heard || len(g.issuer.Requests("")) != asked {
			t.Errorf("next %s, %d requests to the server, %d to the issuer", v.Next, g.heard.Load()-heard, len(g.issuer.Requests(""))-asked)
		}
		attempt := g.Slot("notes").View().State.Attempt
		if attempt != 0 {
			t.Errorf("%d losses", attempt)
		}
		g.login()
		g.seen("connected") // within a second
	})
}

// J2, the other half: what others may put right is looked at, by itself and for a
// call, which asks at most once in 30 s.
func TestAHeaderThatIsRefusedIsProbed(t *testing.T) {
	guard(t, authserver.Script{}, func(_ *guarded, s *config.Server, _ *Options) {
		s.Headers = map[string]string{"Authorization": "Bearer old"}
	}, func(g *guarded) {
		if v := g.seen("auth_required"); v.Next.IsZero() || !strings.Contains(v.Remedy(), `"headers"`) {
			t.Errorf("next %s, %q", v.Next, v.Remedy())
		}
		heard := g.heard.Load()
		time.Sleep(11 * time.Minute)
		if n := g.heard.Load() - heard; n < 2 || n > 4 {
			t.Errorf("%d looks in 11 min", n)
		}
		heard = g.heard.Load()
		for range 60 {
			_ = g.call(time.Second)
			time.Sleep(time.Second)
		}
		if n := g.heard.Load() - heard; n < 2 || n > 4 {
			t.Errorf("%d looks for 60 calls in a minute", n)
		}
		g.resource.SetOpen(func(*http.Request) bool { return true })
		time.Sleep(30 * time.Second)
		if f := g.call(time.Minute); f != nil {
			t.Error(f)
		}
	})
}

// A start that waits for a refresh for longer than a server may take to say what
// it speaks says nothing of that: it is no older server, whether it was known or
// not.
func TestAnEraIsNotFoundByARefresh(t *testing.T) {
	for _, known := range []bool{true, false} {
		guard(t, authserver.Script{}, nil, func(g *guarded) {
			start := g.login
			if known {
				g.login()
				start = func() { g.must(g.Slot("notes").Reconnect(g.t.Context())) }
			}
			refuse := atomic.Bool{} // every token until a refresh
			refuse.Store(true)
			g.resource.SetRefuse(func(*http.Request) (int, string) {
				if refuse.Load() {
					return http.StatusUnauthorized, "Bearer"
				}
				return 0, ""
			})
			g.issuer.Change(func(s *authserver.Script) {
				s.Token = func(w http.ResponseWriter, form url.Values, _ int) bool {
					if form.Get("grant_type") != "refresh_token" {
						return false
					}
					time.Sleep(6 * time.Second) // two requests take longer than a probe
					if form.Has("resource") {
						authserver.Refuse(w, "invalid_target", "")
						return true
					}
					refuse.Store(false)
					return false
				}
			})
			before := g.mcp.Count("initialize")
			start()
			time.Sleep(30 * time.Second)
			v := g.seen("connected")
			if n := g.mcp.Count("initialize") - before; n != 0 || !v.Info.Era.Modern || v.State.Attempt != 0 {
				t.Errorf("known %t: %d times initialize, %+v, attempt %d", known, n, v.Info.Era, v.State.Attempt)
			}
		})
	}
}

// A start has its time for the server, and a refresh in its midst has its own.
func TestARefreshIsNotTheStartsTime(t *testing.T) {
	for _, took := range []time.Duration{5500 * time.Millisecond, 7500 * time.Millisecond, 8 * time.Second} {
		refreshInAStart(t, took)
	}
}

func refreshInAStart(t *testing.T, took time.Duration) {
	t.Helper()
	change := func(g *guarded, s *config.Server, _ *Options) {
		g.serve(mcptest.Legacy)
		s.StartupTimeout = 5 * time.Second
	}
	guard(t, authserver.Script{}, change, func(g *guarded) {
		g.login()
		g.seen("connected")
		g.issuer.Revoke()
		g.issuer.Change(func(s *authserver.Script) {
			s.Token = func(http.ResponseWriter, url.Values, int) bool { time.Sleep(took); return false }
		})
		g.must(g.Slot("notes").Reconnect(g.t.Context()))
		time.Sleep(took + 2*time.Second)
		if v := g.seen("connected"); v.State.Attempt != 0 {
			t.Errorf("refreshed within %s: attempt %d", took, v.State.Attempt)
		}
	})
}

// A person who logs in takes longer than a start may: that is no loss either.
func TestAPersonMayTakeTheirTime(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Modern, mcptest.Legacy} {
		change := func(g *guarded, _ *config.Server, o *Options) {
			g.serve(era)
			o.Browser = func(_ context.Context, page string) error {
				time.AfterFunc(2*time.Minute, func() { g.approve(page) })
				return nil
			}
		}
		guard(t, authserver.Script{}, change, func(g *guarded) {
			for n := range 2 { // the second time it is known what the server speaks
				for range 110 {
					time.Sleep(time.Second)
					if v := g.Slot("notes").View(); v.State.Attempt != 0 || v.State.Serving != 0 {
						t.Fatalf("%s, attempt %d: %v", v.Seen(), v.State.Attempt, v.Cause)
					}
				}
				time.Sleep(20 * time.Second)
				g.seen("connected")
				if got := len(g.issuer.Grants("authorization_code")); got != n+1 {
					t.Errorf("%d logins", got)
				}
				g.issuer.Kill()
				g.must(g.Slot("notes").Reconnect(g.t.Context()))
			}
		})
	}
}

// A server is not silent while it is not asked: calls and pings that wait for a
// token are no reason to end a connection.
func TestARefreshIsNoSilence(t *testing.T) {
	guard(t, authserver.Script{}, func(_ *guarded, s *config.Server, _ *Options) { s.PingAfter = 3 * time.Second }, func(g *guarded) {
		g.login()
		gen := g.Slot("notes").View().State.Serving
		g.issuer.Revoke()
		g.issuer.Change(func(s *authserver.Script) { s.Token = hangs(12 * time.Second) })
		begun := time.Now()
		for time.Since(begun) < 5*time.Minute {
			if f := g.call(time.Minute); f == nil || f.Kind != fault.Unavailable || f.Outcome != fault.NotSent {
				t.Fatalf("%+v", f)
			}
			time.Sleep(time.Second)
		}
		g.issuer.Change(func(s *authserver.Script) { s.Token = nil })
		time.Sleep(6 * time.Minute)
		if f := g.call(time.Minute); f != nil {
			t.Error(f)
		}
		if v := g.seen("connected"); v.State.Serving != gen {
			t.Errorf("generation %d became %d: %v", gen, v.State.Serving, v.Cause)
		}
		if n := g.park.count(func(e event.Event) bool { _, ok := e.(event.Lost); return ok }); n != 0 {
			t.Errorf("lost %d times", n)
		}
	})
}

// A server that has agreed to a revision whose logins were not published is logged
// in to at its own root; one of a newer revision is not.
func TestEndpointsOfOldRevisions(t *testing.T) {
	for version, want := range map[string]string{"2025-03-26": "http://localhost/authorize", "2025-06-18": ""} {
		change := func(g *guarded, _ *config.Server, _ *Options) {
			g.mcp.Close()
			g.mcp = mcptest.New(mcptest.Config{Versions: []string{version}})
			g.resource.SetBehind(g.mcp.Handler())
			g.resource.SetPRM(map[string]any{})
			g.resource.SetChallenge("Bearer")
			g.resource.SetOpen(func(r *http.Request) bool { return !g.closed.Load() })
		}
		guard(t, authserver.Script{}, change, func(g *guarded) {
			g.seen("connected")
			g.closed.Store(true)
			_ = g.call(time.Minute)
			l, err := g.credentials.manager.Login(g.t.Context(), "notes", auth.LoginOptions{})
			if want == "" {
				if err == nil {
					t.Errorf("%s: it is sent to %s", version, l.URL())
				}
				return
			}
			if err != nil || !strings.HasPrefix(l.URL(), want) {
				t.Errorf("%s: %v", version, err)
			}
		})
	}
}
