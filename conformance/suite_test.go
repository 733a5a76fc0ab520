//go:build conformance

package conformance

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// upstreams are the ways in which the suite's fixture server is reached: what it
// can do over each of them differs. Over a pipe, and at the one URL of dual, it
// speaks both eras and can ask clients in each; stateless speaks both and can ask
// in one, stateful one alone.
var upstreams = map[string]func(t *testing.T) map[string]any{
	"stdio": func(t *testing.T) map[string]any {
		return map[string]any{"command": binaries.everything, "everline": map[string]any{"eras": "both"}}
	},
	"dual": func(t *testing.T) map[string]any {
		return map[string]any{"type": "http", "url": dispatcher(t, overHTTP(t, "-stateless=true"), overHTTP(t, "-stateless=false"))}
	},
	"stateful":  func(t *testing.T) map[string]any { return overHTTP(t, "-stateless=false") },
	"stateless": func(t *testing.T) map[string]any { return overHTTP(t, "-stateless=true") },
	"isolated": func(t *testing.T) map[string]any {
		server := overHTTP(t, "-stateless=false")
		server["everline"] = map[string]any{"isolation": "session"}
		return server
	},
}

// dispatcher is one URL for a server that speaks both eras: the SDK has a handler
// for each, and leaves it to its user to tell the requests apart. It reads a request
// whole before it passes it on: a ReverseProxy looks for more of a body after its last
// byte has gone out, and where the answer has begun by then the body is closed, which
// ends the connection and the answer with it ("unexpected EOF").
func dispatcher(t *testing.T, modern, legacy map[string]any) string {
	t.Helper()
	to := func(server map[string]any) *httputil.ReverseProxy {
		at, err := url.Parse(server["url"].(string))
		if err != nil {
			t.Fatal(err)
		}
		return &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = at, at.Host }}
	}
	m, l := to(modern), to(legacy)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its client has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Header.Get("MCP-Protocol-Version") == "2026-07-28" {
			m.ServeHTTP(w, r)
			return
		}
		l.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL + "/mcp"
}

func overHTTP(t *testing.T, mode string) map[string]any {
	t.Helper()
	addr := freePort(t)
	start(t, 20*time.Second, binaries.everything, "-http="+addr, mode)
	until(t, 20*time.Second, "the fixture server listens", func() bool { return listening(addr) })
	return map[string]any{"type": "http", "url": "http://" + addr + "/mcp"}
}

// TestServerSuite runs the official suite's server side against everline in
// front of the fixture server. The files in expected-failures list the scenarios that
// everline does not pass yet; the suite fails for any other, and also for one
// of these that passes, so that the list cannot go stale.
func TestServerSuite(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for name, upstream := range upstreams {
			t.Run(revision+"/"+name, func(t *testing.T) {
				g := serve(t, map[string]any{"fixtures": upstream(t)})
				cmd := exec.Command(bin(t, "conformance"), "server", "--url", g.url, "--requirements", revision,
					"--expected-failures", filepath.Join("expected-failures", revision+"-"+name+".yml"), "-o", filepath.Join("results", revision+"-"+name))
				cmd.Env = env(t)
				out, err := cmd.CombinedOutput()
				t.Logf("%s", tail(out, 6000))
				if err != nil && !settled(out, byChance[revision+"/"+name]) {
					t.Errorf("the suite ended with %v", err)
				}
			})
		}
	}
}

// byChance names a scenario whose end is the fixture's own chance: toward a
// client of 2025-11-25 it asks for its two inputs in the random order of a map
// and gives up at the first that is refused, so that the one which the client
// did declare is asked for, or is not.
var byChance = map[string]string{"2026-07-28/stateful": "input-required-result-capability-check"}

var (
	escapes  = regexp.MustCompile("\x1b\\[[0-9;]*m")
	complete = regexp.MustCompile(`(?m)^Total: \d+ passed`)
	differs  = regexp.MustCompile(`(?m)^  [✗✓] (\S+)$`) // under the headings of what is not as the baseline says
)

// settled tells whether a suite that came to its end differs from its baseline
// in nothing but the one scenario.
func settled(out []byte, chance string) bool {
	out = escapes.ReplaceAll(out, nil)
	names := differs.FindAllSubmatch(out, -1)
	for _, name := range names {
		if string(name[1]) != chance {
			return false
		}
	}
	return complete.Match(out) && len(names) > 0
}

// TestWhatTheFixtureCannotDo runs each scenario that is expected to fail behind everline
// against the fixture alone, where it must fail as well: nothing is excused that a direct
// connection can do.
func TestWhatTheFixtureCannotDo(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^  - (\S+)$`)
	for upstream, mode := range map[string]string{"stateful": "-stateless=false", "isolated": "-stateless=false", "stateless": "-stateless=true", "dual": "", "stdio": ""} {
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			text, err := os.ReadFile(filepath.Join("expected-failures", revision+"-"+upstream+".yml"))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range lines.FindAllSubmatch(text, -1) {
				scenario := string(line[1])
				t.Run(revision+"/"+upstream+"/"+scenario, func(t *testing.T) {
					if mode == "" {
						t.Fatal("in front of a server of both eras nothing is excused")
					}
					if passes(t, mode, scenario, revision) {
						t.Error("it passes without everline")
					}
				})
			}
		}
	}
	for _, mode := range []string{"-stateless=false", "-stateless=true"} { // it is the scenarios that fail, and not this test
		if !passes(t, mode, "tools-list", "2025-11-25") {
			t.Errorf("with %s nothing passes", mode)
		}
	}
}

// passes runs one scenario against the fixture alone.
func passes(t *testing.T, mode, scenario, revision string) bool {
	cmd := exec.Command(bin(t, "conformance"), "server", "--url", overHTTP(t, mode)["url"].(string), "--scenario", scenario,
		"--spec-version", revision, "-o", filepath.Join("results", "alone"))
	cmd.Env = env(t)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", tail(out, 4000))
	return err == nil && len(failedCheck.FindAll(escapes.ReplaceAll(out, nil), -1)) == 0
}

// TestClientSuite runs the official suite's client side against the library.
// The expected-failures files list what is not there yet; the suite fails
// for any other scenario, and also for one of these that passes.
func TestClientSuite(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			cmd := exec.Command(bin(t, "conformance"), "client", "--command", binaries.driver, "--requirements", revision,
				"--expected-failures", "client-expected-failures-"+revision+".yml", "-o", filepath.Join("results", "client-"+revision))
			cmd.Env = env(t)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", tail(out, 6000))
			if err != nil {
				t.Errorf("the suite ended with %v", err)
			}
		})
	}
}

// Two scenarios are of an older revision alone, and belong to no requirements.
func TestClientSuiteOldLogins(t *testing.T) {
	for _, scenario := range []string{"oauth-metadata-backcompat", "oauth-endpoint-fallback"} {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.Command(bin(t, "conformance"), "client", "--command", binaries.driver, "--scenario", "auth/2025-03-26-"+scenario, "--spec-version", "2025-03-26")
			cmd.Env = env(t)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("the suite ended with %v\n%s", err, tail(out, 6000))
			}
		})
	}
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		return b[len(b)-n:]
	}
	return b
}
