package auth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest/authserver"
)

// TestFaultL1SharedRefresh has many callers, and two processes, that meet one
// token that is refused: one refresh, and the login lives on.
func TestFaultL1SharedRefresh(t *testing.T) {
	t.Run("ten calls", func(t *testing.T) {
		inBubble(t, authserver.Script{}, func(r *rig) {
			_, s := r.loggedIn(nil)
			r.as.Revoke()
			all(10, func() { r.mustCall(s) })
			r.wantRefreshes(1)
			r.mustCall(s)
			if r.as.Families() != 1 {
				t.Error("the login is dead")
			}
		})
	})
	t.Run("two processes", func(t *testing.T) {
		inBubble(t, authserver.Script{Lifetime: time.Minute}, func(r *rig) {
			_, one := r.loggedIn(nil)
			two := r.manager(nil).Source(r.spec())
			r.mustCall(two)
			r.as.Change(func(script *authserver.Script) { // long enough for both to be at it
				script.Token = func(http.ResponseWriter, url.Values, int) bool { time.Sleep(100 * time.Millisecond); return false }
			})
			both := func() {
				var wait sync.WaitGroup
				for range 10 {
					wait.Go(func() { r.mustCall(one) })
					wait.Go(func() { r.mustCall(two) })
				}
				wait.Wait()
			}
			var n int
			for range 5 {
				time.Sleep(2 * time.Minute) // over for both
				n = len(r.as.Grants("refresh_token"))
				both()
				r.wantRefreshes(n + 1)
			}
			r.as.Revoke() // in both at the same time, before it is over
			both()
			r.wantRefreshes(n + 2)
			if r.as.Families() != 1 {
				t.Error("the login is dead")
			}
		})
	})
}

// all runs a function n times at the same time.
func all(n int, f func()) {
	var wait sync.WaitGroup
	for range n {
		wait.Go(f)
	}
	wait.Wait()
}

// Real processes, with their own memory and clock.
func TestFaultL1RealProcesses(t *testing.T) {
	site := &pairOnLoopback{}
	web := httptest.NewServer(site)
	defer web.Close()
	site.as = authserver.New(web.URL, authserver.Script{Lifetime: 2 * time.Second})
	site.mcp = authserver.NewResource(web.URL+"/mcp", site.as)
	dir := stateDir(t)
	m := New(Options{StateDir: dir, NoKeyring: true})
	defer m.Close()
	m.Source(Spec{Server: serverName, URL: web.URL + "/mcp"})
	l, err := m.Login(t.Context(), serverName, LoginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(l.URL())
	if err == nil {
		resp.Body.Close()
		err = l.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var running []*exec.Cmd
	for range 3 {
		cmd := child(t, "call", dir, web.URL+"/mcp")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if n, most := len(site.as.Grants("refresh_token")), int(time.Since(began)/time.Second)+3; n < 2 || n > most { // each at half its life
		t.Errorf("%d refreshes of tokens of 2 s, and at most %d were due", n, most)
	}
	if site.as.Families() != 1 {
		t.Error("the login is dead")
	}
}

// pairOnLoopback is an issuer and its resource at one address.
type pairOnLoopback struct {
	as  *authserver.Server
	mcp *authserver.Resource
}

func (p *pairOnLoopback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/mcp" || strings.HasPrefix(r.URL.Path, protectedResource) {
		p.mcp.ServeHTTP(w, r)
		return
	}
	p.as.ServeHTTP(w, r)
}

// callForAWhile is another process that uses a login.
func callForAWhile(args []string) error {
	m := New(Options{StateDir: args[0], NoKeyring: true})
	defer m.Close()
	s := m.Source(Spec{Server: serverName, URL: args[1]})
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err := callOnce(s, args[1]); err != nil {
			return err
		}
	}
	return nil
}

func callOnce(s Source, at string) error {
	for range 2 {
		t, f := s.Header(bg)
		if f != nil {
			return f
		}
		req, err := http.NewRequestWithContext(bg, http.MethodPost, at, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", t.Value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		if f := s.Refused(bg, t, resp.StatusCode, resp.Header["Www-Authenticate"]); f != nil {
			return f
		}
	}
	return errors.New("refused twice")
}

// TestFaultL2IssuerAway: whatever is not a definite refusal changes nothing, and
// ends by itself.
func TestFaultL2IssuerAway(t *testing.T) {
	for name, broken := range map[string]func(r *rig){
		"refused": func(r *rig) { r.net.Down("as.test:443") },
		"500":     func(r *rig) { r.as.Change(func(s *authserver.Script) { s.Token = down(500, "oops") }) },
		"timeout": func(r *rig) {
			r.as.Change(func(s *authserver.Script) {
				s.Token = func(_ http.ResponseWriter, _ url.Values, _ int) bool { time.Sleep(20 * time.Second); return true }
			})
		},
		"500 in OAuth's words": func(r *rig) {
			r.as.Change(func(s *authserver.Script) { s.Token = down(500, `{"error":"invalid_grant"}`) })
		},
		"no JSON": func(r *rig) { r.as.Change(func(s *authserver.Script) { s.Token = down(200, "<html>") }) },
		"empty":   func(r *rig) { r.as.Change(func(s *authserver.Script) { s.Token = down(200, "{}") }) },
		"server_error": func(r *rig) {
			r.as.Change(func(s *authserver.Script) {
				s.Token = func(w http.ResponseWriter, _ url.Values, _ int) bool {
					authserver.Refuse(w, "server_error", "")
					return true
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, authserver.Script{Lifetime: 10 * time.Minute}, func(r *rig) {
				m, s := r.loggedIn(r.opens)
				tabs := r.tabs()
				broken(r)
				time.Sleep(9*time.Minute + 40*time.Second) // 20 s before the end: a refresh is due, and fails
				for range 60 {
					time.Sleep(time.Second)
					f := r.call(s)
					if st := s.State(); f != nil && (f.Kind != fault.Unavailable || f.RetryAfter <= 0 || st.Phase != Retrying && st.Phase != Refreshing) {
						t.Fatalf("%+v while %s", f, st.Phase)
					}
				}
				r.net.Up("as.test:443")
				r.as.Change(func(s *authserver.Script) { s.Token = nil })
				time.Sleep(lastWait)
				r.mustCall(s)
				r.wantPhase(s, OK)
				if n := len(r.as.Requests("/authorize")); n != 1 || r.tabs() != tabs || r.as.Families() != 1 {
					t.Errorf("%d logins, %d tabs, %d families", n, r.tabs(), r.as.Families())
				}
				_ = m
			})
		})
	}
}

// TestFaultL3RefusedBeforeExpiry: the server's 401 counts, whatever the clock says.
func TestFaultL3RefusedBeforeExpiry(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		_, before := r.mcp.Counts() // the login has asked for the challenge
		r.as.Revoke()
		r.mustCall(s)
		r.wantRefreshes(1)
		_, refused := r.mcp.Counts()
		if refused != before+1 {
			t.Errorf("%d refusals", refused-before)
		}
		time.Sleep(time.Hour / 2)
		// A server that refuses fresh tokens, too: one refresh, one more try, no loop.
		r.mcp.SetRefuse(func(*http.Request) (int, string) { return 401, "Bearer" })
		for range 20 {
			if f := r.call(s); f == nil || f.Kind != fault.Unauthorized {
				t.Fatalf("%v", f)
			}
		}
		r.wantRefreshes(2)
		r.mcp.SetRefuse(nil)
		r.mustCall(s)
		r.wantPhase(s, OK)
		time.Sleep(5 * time.Minute)
		r.mcp.SetRefuse(func(*http.Request) (int, string) { return 401, "Bearer" })
		for range 3600 { // an hour of it
			_ = r.call(s)
			time.Sleep(time.Second)
		}
		if n := len(r.as.Grants("refresh_token")); n > 24 {
			t.Errorf("%d refreshes in an hour of refusals", n)
		}
	})
}

// A token that was let in and is taken back is renewed however young it is, and
// not without an end: a server may be out of order.
func TestTokensAreTakenBackAgainAndAgain(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		for range 5 {
			time.Sleep(time.Second)
			r.as.Revoke()
			r.mustCall(s)
			r.mustCall(s)
		}
		r.wantRefreshes(5)
		r.as.Revoke()
		if f := r.call(s); f == nil || f.Kind != fault.Unauthorized {
			t.Errorf("%v", f)
		}
		time.Sleep(time.Minute) // it is renewed by itself
		r.wantRefreshes(6)
		r.mustCall(s)
		r.wantRefreshes(6)
		for range 60 {
			time.Sleep(2 * time.Minute)
			r.as.Revoke()
			r.mustCall(s)
		}
		r.wantRefreshes(66)

		// What it accepts for one request it refuses for all others.
		n := 0
		r.mcp.SetRefuse(func(*http.Request) (int, string) {
			if n++; n%3 != 0 {
				return 401, "Bearer"
			}
			return 0, ""
		})
		for range 3600 {
			time.Sleep(time.Second)
			_ = r.call(s)
		}
		if n := len(r.as.Grants("refresh_token")) - 66; n > 150 {
			t.Errorf("%d refreshes in an hour", n)
		}
	})
}

// One refusal of a healthy server costs one refresh at most, and parks nothing.
func TestOneRefusalInAThousand(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		n := 0
		r.mcp.SetRefuse(func(*http.Request) (int, string) {
			if n++; n%500 == 0 {
				return 401, "Bearer"
			}
			return 0, ""
		})
		for range 1000 {
			r.mustCall(s)
		}
		r.wantRefreshes(2)
		for range 1000 { // for hours
			r.mustCall(s)
			time.Sleep(10 * time.Second)
		}
		if n := len(r.as.Grants("refresh_token")); n > 8 {
			t.Errorf("%d refreshes", n)
		}
	})
}

// Without a refresh token one refusal is that call's: the token may be good.
func TestRefusalWithoutRefreshToken(t *testing.T) {
	inBubble(t, authserver.Script{NoRefresh: true}, func(r *rig) {
		_, s := r.loggedIn(nil)
		n := 0
		r.mcp.SetRefuse(func(*http.Request) (int, string) {
			if n++; n == 1 {
				return 401, "Bearer"
			}
			return 0, ""
		})
		r.wantFault(r.call(s), fault.Unauthorized, "the server refuses the token", "auth login docs")
		if st := s.State(); !st.Suspect || st.Dead {
			t.Errorf("%+v", st)
		}
		r.mustCall(s)
		time.Sleep(time.Hour)
		synctest.Wait()
		r.wantPhase(s, NeedsLogin)
		r.wantFault(r.call(s), fault.Unauthorized, "", "auth login docs")
	})
}

// TestFaultX2RefusedForGood: no browser is opened, and a login works without a
// restart, in whatever process it is made.
func TestFaultX2RefusedForGood(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m, s := r.loggedIn(nil)
		r.as.Kill()
		r.wantFault(r.call(s), fault.Unauthorized, "invalid_grant", "run: everline auth login docs")
		st := r.wantPhase(s, NeedsLogin)
		if !st.Dead {
			t.Error("a probe is thought to help")
		}
		for range 5 {
			r.wantFault(r.call(s), fault.Unauthorized, "invalid_grant", "run: everline auth login docs")
		}
		r.wantRefreshes(1)
		again := r.manager(nil).Source(r.spec())
		r.wantFault(r.call(again), fault.Unauthorized, "invalid_grant", "run: everline auth login docs")
		_, refused := r.mcp.Counts()
		r.wantFault(r.call(again), fault.Unauthorized, "invalid_grant", "run: everline auth login docs")
		if _, now := r.mcp.Counts(); now != refused {
			t.Error("a token that is known to be refused is sent")
		}
		r.wantRefreshes(1)
		r.logIn(m, LoginOptions{})
		r.mustCall(s)
		if n := len(r.as.Requests("/register")); n != 1 {
			t.Errorf("%d registrations", n)
		}
	})
}

// TestFaultX3Overnight: eight hours of refusals open no window and ask nothing.
func TestFaultX3Overnight(t *testing.T) {
	inBubble(t, authserver.Script{Lifetime: time.Minute}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Kill()
		before := len(r.as.Requests(""))
		for range 8 * 60 {
			time.Sleep(time.Minute)
			_ = r.call(s)
		}
		if n := len(r.as.Requests("")) - before; n > 1 || r.tabs() > 0 {
			t.Errorf("%d requests, %d windows", n, r.tabs())
		}
	})
}

// TestFaultX4NoOAuthAnswer: the page of a firewall is not the issuer's word.
func TestFaultX4NoOAuthAnswer(t *testing.T) {
	for name, token := range map[string]func(http.ResponseWriter, url.Values, int) bool{
		"403 page": down(403, "<html>blocked</html>"), "503": down(503, ""),
		"429": func(w http.ResponseWriter, _ url.Values, _ int) bool {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(429)
			return true
		},
		"403 JSON":        down(403, `{"message":"Forbidden"}`),
		"error of a kind": down(400, `{"error":{"code":4}}`),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, authserver.Script{Lifetime: 10 * time.Minute}, func(r *rig) {
				_, s := r.loggedIn(nil)
				r.as.Change(func(s *authserver.Script) { s.Token = token })
				asked := len(r.as.Requests("/token"))
				time.Sleep(11 * time.Minute)
				r.wantFault(r.call(s), fault.Unavailable, "as.test/token", "")
				st := r.wantPhase(s, Retrying)
				for range 5 * 60 {
					_ = r.call(s)
					time.Sleep(time.Second)
				}
				if n := len(r.as.Requests("/token")) - asked; n < 3 || n > 15 {
					t.Errorf("%d requests in five minutes", n)
				}
				if name == "429" && time.Until(st.RetryAt) > time.Minute {
					t.Error("Retry-After is not honoured")
				}
				r.as.Change(func(s *authserver.Script) { s.Token = nil })
				time.Sleep(lastWait)
				r.mustCall(s)
			})
		})
	}
}

// TestFaultX5EmptySecret: a public client has no secret, and no empty one.
func TestFaultX5EmptySecret(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Revoke()
		r.mustCall(s)
		for _, req := range r.as.Requests("/token") {
			if req.Form.Has("client_secret") || req.Auth != "" || req.Form.Get("client_id") == "" {
				t.Errorf("%v, %q", req.Form, req.Auth)
			}
		}
	})
}

// TestFaultX6ConfidentialClient: a refresh goes to the issuer that the token is
// from, with the secret and the method of the registration.
func TestFaultX6ConfidentialClient(t *testing.T) {
	for _, basic := range []bool{false, true} {
		inBubble(t, authserver.Script{Secret: "s3cr+t/of:client", Basic: basic}, func(r *rig) {
			other := authserver.New("https://mcp.test", authserver.Script{}) // at the server's own origin
			r.net.Serve("other.test:443", publicIP, other)
			_, s := r.loggedIn(nil)
			r.as.Revoke()
			r.mustCall(s)
			r.wantRefreshes(1)
			again := r.manager(nil).Source(r.spec())
			r.as.Revoke()
			r.mustCall(again)
			r.wantRefreshes(2)
			if n := len(other.Requests("")); n > 0 {
				t.Errorf("%d requests to another issuer", n)
			}
		})
	}
}

// An issuer that moves its endpoints is asked where they are.
func TestEndpointMoves(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Change(func(script *authserver.Script) {
			script.Metadata = map[string]any{"token_endpoint": issuerURL + "/v2/token"}
			script.Any = func(w http.ResponseWriter, q *http.Request) bool {
				switch q.URL.Path {
				case "/token":
					http.NotFound(w, q)
					return true
				case "/v2/token":
					q.URL.Path = "/token"
					w.Header().Set("X-Moved", "yes")
				}
				return w.Header().Get("X-Moved") == "" && q.URL.Path == "/token"
			}
		})
		r.as.Revoke()
		r.mustCall(s)
		r.as.Revoke()
		time.Sleep(time.Minute)
		r.mustCall(s)
		if n := len(r.as.Requests("/token")); n != 2 { // of the login, and the one that was not found
			t.Errorf("%d requests", n)
		}
	})
}

// TestFaultX7ResourceRefused: sent once, left out from then on.
func TestFaultX7ResourceRefused(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Change(func(s *authserver.Script) { s.NoResource = true })
		r.as.Revoke()
		r.mustCall(s)
		r.wantRefreshes(2)
		again := r.manager(nil).Source(r.spec())
		r.as.Revoke()
		r.mustCall(again)
		r.wantRefreshes(3)
	})
}

// TestFaultX8ResourceWanted: it is in all three requests, as the server wrote it.
func TestFaultX8ResourceWanted(t *testing.T) {
	inBubble(t, authserver.Script{NeedResource: true}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Revoke()
		r.mustCall(s)
		for _, path := range []string{"/authorize", "/token"} {
			for _, req := range r.as.Requests(path) {
				if got := req.Form.Get("resource"); got != siteURL {
					t.Errorf("%s has the resource %q", path, got)
				}
			}
		}
	})
}

// TestFaultX16Asleep: what ended while nobody looked is renewed before it is used.
func TestFaultX16Asleep(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m, s := r.loggedIn(nil)
		_, before := r.mcp.Counts() // the login has asked for the challenge
		c := s.(*source).cred.Load()
		c.mu.Lock()
		c.timer.Stop() // it does not fire while the machine sleeps
		c.mu.Unlock()
		time.Sleep(8 * time.Hour)
		r.mustCall(s)
		r.wantRefreshes(1)
		if _, refused := r.mcp.Counts(); refused != before {
			t.Error("a token that was over was sent")
		}
		m.Close() // everline itself was down
		time.Sleep(8 * time.Hour)
		r.mustCall(r.manager(nil).Source(r.spec()))
		r.wantRefreshes(2)
		if _, refused := r.mcp.Counts(); refused != before {
			t.Error("a token that was over was sent")
		}
	})
}

// A token is renewed ahead of its end where it is in use, and only there.
func TestProactiveRefresh(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		time.Sleep(43 * time.Minute) // 80 % of an hour, less jitter
		r.wantRefreshes(0)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		r.wantRefreshes(1)
		time.Sleep(10 * time.Hour) // nobody calls
		r.wantRefreshes(1)
		r.mustCall(s)
		r.wantRefreshes(2)
	})
}

func TestExpiryIsNeverMadeUp(t *testing.T) {
	inBubble(t, authserver.Script{NoExpiry: true, Lifetime: 30 * 24 * time.Hour}, func(r *rig) {
		_, s := r.loggedIn(nil)
		time.Sleep(29 * 24 * time.Hour)
		r.mustCall(s)
		r.wantRefreshes(0)
		time.Sleep(2 * 24 * time.Hour)
		r.mustCall(s)
		r.wantRefreshes(1)
	})
}

// What is handed out is on disk: kill -9 right after a refresh loses nothing.
func TestStoredBeforeUse(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Revoke()
		asked := s.State().Serial
		if f := s.Refused(r.Context(), Ticket{Serial: asked}, 401, nil); f != nil {
			t.Fatal(f)
		}
		ticket, f := s.Header(r.Context())
		if f != nil {
			t.Fatal(f)
		}
		stored, _ := testStore(t, r.dir)
		if rec := stored.mustRead(r.T).record(key{Resource: siteURL, Issuer: issuerURL}); rec == nil || "Bearer "+rec.Access != ticket.Value || rec.Serial != ticket.Serial {
			t.Errorf("stored %+v", rec)
		}
	})
}

func (s *store) mustRead(t *testing.T) *data {
	t.Helper()
	d, f := s.read(t.Context())
	if f != nil {
		t.Fatal(f)
	}
	return d
}

// The new token is seen by requests only once the file has it.
func TestStoredBeforeAnybodyGetsIt(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m, s := r.loggedIn(nil)
		before, _ := s.Header(r.Context())
		unlock, err := lockFile(r.Context(), filepath.Join(r.dir, storeLock)) // nobody can write
		if err != nil {
			t.Fatal(err)
		}
		r.as.Revoke()
		go func() { _ = s.Refused(r.Context(), before, 401, nil) }()
		for len(r.as.Grants("refresh_token")) == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		if now, _ := s.Header(r.Context()); now != before {
			t.Error("a token is handed out that is not stored")
		}
		unlock()
		time.Sleep(time.Second)
		if now, _ := s.Header(r.Context()); now == before {
			t.Error("the new token is not handed out")
		}
		_ = m
	})
}

// A disk that is full costs what a restart would find, and nothing else.
func TestUnwritableStore(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		path := filepath.Join(r.dir, storeFile)
		if err := os.Rename(path, path+".kept"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil { // a folder cannot be replaced by a file
			t.Fatal(err)
		}
		r.as.Revoke()
		if f := r.call(s); f != nil && f.Kind != fault.Unavailable {
			t.Errorf("%v", f)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_ = os.Rename(path+".kept", path)
		time.Sleep(time.Minute)
		r.mustCall(s)
		r.wantPhase(s, OK)
	})
}

// A caller that goes away ends no refresh, and waits no longer than it wants to.
func TestRefreshBelongsToNobody(t *testing.T) {
	inBubble(t, authserver.Script{Lifetime: time.Minute}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Change(func(script *authserver.Script) {
			script.Token = func(http.ResponseWriter, url.Values, int) bool { time.Sleep(5 * time.Second); return false }
		})
		time.Sleep(2 * time.Minute)
		before := len(r.as.Grants("refresh_token"))
		ctx, cancel := contextWithTimeout(r, time.Second)
		defer cancel()
		began := time.Now()
		if _, f := s.Header(ctx); f == nil || f.Kind != fault.Deadline || f.Outcome != fault.NotSent || time.Since(began) != time.Second {
			t.Errorf("%v after %v", f, time.Since(began))
		}
		time.Sleep(5 * time.Second)
		r.wantPhase(s, OK)
		r.mustCall(s)
		r.wantRefreshes(before + 1)
	})
}

// An issuer that hangs holds up its own servers, and no others.
func TestRefreshesAreIsolated(t *testing.T) {
	inBubble(t, authserver.Script{Lifetime: 5 * time.Minute}, func(r *rig) {
		m, _ := r.loggedIn(nil)
		slow := authserver.New("https://slow.test", authserver.Script{Lifetime: 5 * time.Minute})
		site := authserver.NewResource("https://other.test/mcp", slow)
		authserver.Start(r.net, publicIP, []*authserver.Resource{site}, slow)
		spec := r.spec()
		spec.Server, spec.URL = "other", "https://other.test/mcp"
		other := m.Source(spec)
		l, err := m.Login(r.Context(), "other", LoginOptions{})
		if err == nil {
			_, err = r.browse(r.Context(), l.URL())
		}
		if err == nil {
			err = l.Wait(r.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		slow.Change(func(script *authserver.Script) {
			script.Token = func(http.ResponseWriter, url.Values, int) bool { time.Sleep(time.Minute); return true }
		})
		time.Sleep(10 * time.Minute)
		go func() { _, _ = other.Header(r.Context()) }()
		time.Sleep(time.Second)
		second := r.manager(nil).Source(r.spec()) // another process
		began := time.Now()
		r.mustCall(second)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A configuration that is replaced while a refresh runs does not cause another.
func TestReplacedWhileRefreshing(t *testing.T) {
	for _, dir := range []bool{true, false} {
		inBubble(t, authserver.Script{}, func(r *rig) {
			m, s := r.loggedIn(func(o *Options) {
				if !dir {
					o.StateDir = ""
				}
			})
			r.as.Change(func(script *authserver.Script) {
				script.Token = func(http.ResponseWriter, url.Values, int) bool { time.Sleep(time.Second); return false }
			})
			time.Sleep(2 * time.Hour)
			before := len(r.as.Grants("refresh_token")) // ahead of the end of the first token
			go func() { _, _ = s.Header(r.Context()) }()
			time.Sleep(time.Second / 2)
			r.mustCall(m.Source(r.spec()))
			if n := len(r.as.Grants("refresh_token")) - before; n != 1 || r.as.Families() != 1 {
				t.Errorf("%d refreshes, %d families", n, r.as.Families())
			}
		})
	}
}

// A refresh that comes late does not replace a newer login.
func TestOlderNeverReplacesNewer(t *testing.T) {
	inBubble(t, authserver.Script{Subject: "alice"}, func(r *rig) {
		m, s := r.loggedIn(nil)
		r.as.Change(func(script *authserver.Script) {
			script.Token = func(_ http.ResponseWriter, form url.Values, _ int) bool {
				if form.Get("grant_type") == "refresh_token" {
					time.Sleep(5 * time.Second)
				}
				return false
			}
		})
		old, _ := s.Header(r.Context())
		r.as.Revoke()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Refused(r.Context(), old, 401, nil)
		}()
		time.Sleep(time.Second)
		r.as.Change(func(script *authserver.Script) { script.Subject = "bob" })
		r.logIn(m, LoginOptions{Force: true})
		<-done
		if st := s.State(); st.Subject != "bob" {
			t.Errorf("the login of %s is gone, %s is back", "bob", st.Subject)
		}
		stored, _ := testStore(t, r.dir)
		if rec := stored.mustRead(r.T).record(key{Resource: siteURL, Issuer: issuerURL}); rec.Subject != "bob" {
			t.Errorf("stored %+v", rec)
		}
	})
}

// An issuer that says invalid_request for a token that is over means it, after
// a while.
func TestInvalidRequestAgainAndAgain(t *testing.T) {
	inBubble(t, authserver.Script{Lifetime: time.Minute}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Change(func(script *authserver.Script) {
			script.Token = func(w http.ResponseWriter, _ url.Values, _ int) bool {
				authserver.Refuse(w, "invalid_request", "bad token")
				return true
			}
		})
		time.Sleep(time.Minute)
		began := time.Now()
		for s.State().Phase != NeedsLogin && time.Since(began) < time.Hour {
			_ = r.call(s)
			time.Sleep(10 * time.Second)
		}
		if took := time.Since(began); took < 9*time.Minute || took > 20*time.Minute {
			t.Errorf("dead after %v", took)
		}
	})
}

// What another process does is taken over: a login wakes, a logout ends.
func TestOtherProcess(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		daemon, cli := r.manager(nil), r.manager(nil)
		r.serveCallback(cli)
		s := daemon.Source(r.spec())
		cli.Source(r.spec())
		_ = r.call(s)
		st := r.wantPhase(s, NeedsLogin)
		r.logIn(cli, LoginOptions{})
		daemon.Reload(r.Context())
		select {
		case <-st.Changed:
		default:
			t.Error("nobody is woken")
		}
		r.wantPhase(s, OK)
		r.mustCall(s)
		if err := cli.Logout(r.Context(), serverName, true); err != nil {
			t.Fatal(err)
		}
		daemon.Reload(r.Context())
		r.wantPhase(s, NeedsLogin)
		r.wantFault(r.call(s), fault.Unauthorized, "nobody has logged in", "auth login")
		if n := len(r.as.Requests("/revoke")); n != 2 {
			t.Errorf("%d revocations", n)
		}
	})
}

// The folder is watched: no Reload is needed, in real time.
func TestWatchedStore(t *testing.T) {
	dir := stateDir(t)
	m := New(Options{StateDir: dir, NoKeyring: true})
	defer m.Close()
	s := m.Source(Spec{Server: serverName, URL: siteURL})
	m.watch() // as the first refusal does
	st := s.State()
	cli, _ := testStore(t, dir)
	_, f := cli.update(t.Context(), func(d *data) error {
		k := key{Resource: siteURL, Issuer: issuerURL}
		d.put(&record{Key: k, Access: "from-elsewhere"})
		d.Bindings[(&Spec{URL: siteURL}).place()] = k
		return nil
	})
	if f != nil {
		t.Fatal(f)
	}
	select {
	case <-st.Changed:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody is woken")
	}
	if ticket, f := s.Header(t.Context()); f != nil || ticket.Value != "Bearer from-elsewhere" {
		t.Errorf("%+v, %v", ticket, f)
	}
}

func TestHeaderIsFree(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	s := m.Source(Spec{Server: serverName, URL: siteURL})
	k := key{Resource: siteURL, Issuer: issuerURL}
	m.attach(s.(*source), k, &record{Key: k, Serial: 1, Access: "x", Expiry: time.Now().Add(time.Hour), Issued: time.Now(), Refresh: "y"})
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Header(bg) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHeader(b *testing.B) {
	m := New(Options{})
	defer m.Close()
	s := m.Source(Spec{Server: serverName, URL: siteURL})
	k := key{Resource: siteURL, Issuer: issuerURL}
	m.attach(s.(*source), k, &record{Key: k, Serial: 1, Access: "x", Expiry: time.Now().Add(time.Hour), Issued: time.Now(), Refresh: "y"})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.Header(bg)
	}
}

// Some issuers give a refresh token once, and mean it for all time.
func TestOldRefreshTokenIsKept(t *testing.T) {
	inBubble(t, authserver.Script{Reuse: true}, func(r *rig) {
		_, s := r.loggedIn(nil)
		r.as.Change(func(script *authserver.Script) { script.NoRefresh = true })
		for range 3 {
			time.Sleep(2 * time.Hour)
			r.mustCall(s)
		}
		r.wantPhase(s, OK)
	})
}

// A keyring that is locked is no matter of a server that wants nothing, and
// said of one that does.
func TestFaultX21LockedIsNotLoggedOut(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		ring := &fakeKeyring{kept: map[string]string{}}
		with := func(o *Options) { o.keyring = func() secretService { return ring } }
		r.loggedIn(with)
		ring.fail = errors.New("locked")
		s := r.manager(with).Source(r.spec())
		r.mcp.SetOpen(func(*http.Request) bool { return true })
		r.mustCall(s)
		r.mcp.SetOpen(nil)
		r.wantFault(r.call(s), fault.Unavailable, "locked", "unlock the keyring")
		if st := r.wantPhase(s, Retrying); st.Dead {
			t.Error("it is taken for logged out")
		}
		ring.fail = nil
		time.Sleep(lockedFor)
		r.mustCall(s)
		r.wantPhase(s, OK)
	})
}

// An issuer whose tokens are over as soon as they are issued is not asked for
// each call.
func TestExpiresAtOnce(t *testing.T) {
	inBubble(t, authserver.Script{Lifetime: time.Nanosecond}, func(r *rig) {
		r.mcp.SetOpen(func(*http.Request) bool { return true })
		_, s := r.loggedIn(nil)
		for range 600 {
			r.mustCall(s)
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(r.as.Grants("refresh_token")); n > 7 {
			t.Errorf("%d refreshes in a minute", n)
		}
	})
}
