package doctor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// examine runs the doctor and gives its findings by check and server.
func examine(t *testing.T, o Options) (map[string]Finding, bool) {
	t.Helper()
	if o.StateDir == "" {
		o.StateDir = filepath.Join(t.TempDir(), "state")
	}
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	all := map[string]Finding{}
	failed := Run(context.Background(), o, func(f Finding) {
		key := strings.TrimPrefix(f.Server+"/"+f.Check, "/")
		if was, twice := all[key]; !twice || was.Verdict == OK {
			all[key] = f
		}
		if f.Verdict == Fail && f.Remedy == "" {
			t.Errorf("%s has no remedy: %s", key, f.Text)
		}
	})
	return all, failed
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("everline.json", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func putProgram(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestCommandsAreFound has a program on the PATH, one where only login shells
// look, one whose path is written out, and one that is nowhere.
func TestCommandsAreFound(t *testing.T) {
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	putProgram(t, filepath.Join(bin, "onpath"))
	for _, version := range []string{"v18.0.0", "v22.0.0"} {
		putProgram(t, filepath.Join(home, ".nvm", "versions", "node", version, "bin", "npx"))
	}
	written := filepath.Join(home, "elsewhere", "tool")
	putProgram(t, written)
	cfg := parse(t, `{"everline": {"listen": "127.0.0.1:0"}, "mcpServers": {
		"a": {"command": "onpath"}, "b": {"command": "npx"}, "c": {"command": `+strconv.Quote(written)+`},
		"d": {"command": "nothing"}, "e": {"command": "onpath", "env": {"PATH": "/none"}}}}`)
	got, failed := examine(t, Options{
		Config: cfg, Home: home, Running: &admin.Status{}, // so that nothing is started
		Env: func(name string) (string, bool) { return bin, name == "PATH" },
	})
	for key, want := range map[string]Verdict{"a/command": OK, "b/command": Fail, "c/command": OK, "d/command": Fail, "e/command": Fail} {
		if got[key].Verdict != want {
			t.Errorf("%s: %+v, want %s", key, got[key], want)
		}
	}
	if remedy := got["b/command"].Remedy; !strings.Contains(remedy, "v22.0.0/bin/npx") {
		t.Errorf("the remedy for npx is %q, which is not the newest one", remedy)
	}
	if !failed {
		t.Error("nothing failed")
	}
}

// TestPortInUse has the port of the endpoint taken by this process.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := parse(t, `{"everline": {"listen": "`+l.Addr().String()+`"}, "mcpServers": {}}`)
	got, failed := examine(t, Options{Config: cfg, PortOwner: func(int) int { return 4711 }})
	if f := got["port"]; f.Verdict != Fail || !strings.Contains(f.Text, "process 4711") || !failed {
		t.Errorf("%+v", f)
	}
}

// TestWhatRunsIsRead has an everline with a server in each kind of state.
func TestWhatRunsIsRead(t *testing.T) {
	remedy, cause := "everline auth login b", "401"
	cfg := parse(t, `{"mcpServers": {"a": {"url": "unix:///a"}, "b": {"url": "unix:///b"}, "c": {"url": "unix:///c"}, "d": {"url": "unix:///d"}, "e": {"url": "unix:///e", "disabled": true}}}`)
	running := &admin.Status{
		Version: "1", Endpoint: "http://127.0.0.1:1/mcp",
		Servers: []admin.Server{
			{Name: "a", State: "connected", Tools: 2},
			{Name: "b", State: "auth_required", Remedy: &remedy, Cause: &cause},
			{Name: "c", State: "connecting"},
		},
		Orphans: []admin.Orphan{{Server: "a", PID: 7}},
	}
	long := strings.Repeat("x", longestForMost+1)
	got, failed := examine(t, Options{Config: cfg, Running: running, Version: "2", Tools: []admin.Tool{{Name: long, Tokens: manyTokens + 1}}})
	for key, want := range map[string]Verdict{
		"a/server": OK, "b/server": Fail, "c/server": Warn, "d/server": Fail, "e/server": OK,
		"gateway": Warn, "a/orphans": Fail, "names": Fail, "tokens": Warn, "port": OK, "state": OK,
	} {
		if got[key].Verdict != want {
			t.Errorf("%s: %+v, want %s", key, got[key], want)
		}
	}
	if got["b/server"].Remedy != remedy || !failed {
		t.Errorf("%+v", got["b/server"])
	}
	if one, _ := examine(t, Options{Config: cfg, Running: running, Server: "a"}); len(one) != 2 || one["a/server"].Verdict != OK || one["a/orphans"].Verdict != Fail {
		t.Errorf("of one server: %+v", one)
	}
}

// TestHandshakeByPhases has a server that comes up, one that ends in a phase,
// and one that never answers.
func TestHandshakeByPhases(t *testing.T) {
	up := handshake(config.Server{Name: "a", Command: "run", Args: []string{"a b"}}, everline.Status{State: "connected", Era: "legacy", Version: "2025-06-18", Handshake: []everline.HandshakePhase{
		{Name: "spawn", Took: 4 * time.Millisecond}, {Name: "first byte", Took: 310 * time.Millisecond}, {Name: "list", Took: 2300 * time.Microsecond},
	}}, nil, time.Second)
	if up.Verdict != OK || up.Text != "connected, legacy 2025-06-18: spawn 4 ms, first byte 310 ms, list 2 ms" || len(up.Phases) != 3 || up.Phases[2].MS != 2.3 {
		t.Errorf("%+v", up)
	}
	ended := handshake(config.Server{Name: "a", Command: "run", Args: []string{"a b"}}, everline.Status{State: "disconnected", Cause: &fault.Fault{
		Kind: fault.Exited, Op: "initialize", Err: errors.New("exit 1 after 0.4 s"), Stderr: []string{"no", "wrong key"}, Remedy: "x",
	}}, context.DeadlineExceeded, time.Second)
	if ended.Verdict != Fail || ended.Text != "in the phase initialize: exit 1 after 0.4 s; its last words: wrong key" || ended.Remedy != "x" {
		t.Errorf("%+v", ended)
	}
	silent := handshake(config.Server{Name: "a", Command: "run", Args: []string{"a b"}}, everline.Status{State: "connecting"}, context.DeadlineExceeded, time.Second)
	if silent.Verdict != Fail || silent.Text != "no answer within 1s" || silent.Remedy == "" {
		t.Errorf("%+v", silent)
	}
}

// TestOnlyHereItCannotStart has a variable that is set where everline runs,
// and not where the doctor does.
func TestOnlyHereItCannotStart(t *testing.T) {
	cfg := parse(t, `{"mcpServers": {"a": {"command": "x", "env": {"K": "${NOT_SET_HERE}"}}}}`)
	for state, want := range map[event.State]Verdict{"connected": Warn, "misconfigured": Fail} {
		got, _ := examine(t, Options{Config: cfg, Running: &admin.Status{Servers: []admin.Server{{Name: "a", State: state}}}})
		if got["a/config"].Verdict != want {
			t.Errorf("%s: %+v", state, got["a/config"])
		}
	}
}

// What is found out about one server is not mixed with what is about others.
func TestFaultU20(t *testing.T) {
	cfg := parse(t, `{"mcpServers":{"a":{"command":"nowhere-a","nonsense":1},"b":{"command":"nowhere-b","gibberish":1}}}`)
	running := &admin.Status{Orphans: []admin.Orphan{{Server: "a", PID: 1, Ended: true}, {Server: "b", PID: 2, Ended: true}}}
	got, _ := examine(t, Options{Config: cfg, Server: "a", Running: running})
	if f, ok := got["a/config"]; !ok || !strings.Contains(f.Text, "nonsense") {
		t.Errorf("its own warning is missing: %v", got)
	}
	if f, ok := got["a/orphans"]; !ok || !strings.Contains(f.Text, "process 1 ") {
		t.Errorf("its own orphan is missing: %v", got)
	}
	for key := range got {
		if !strings.HasPrefix(key, "a/") {
			t.Errorf("%s is not about a", key)
		}
	}
}

// A search for the way to log in that fails is told question by question, each with
// its address and answer; one that succeeds, in a line.
func TestLoginIsExplained(t *testing.T) {
	documents := map[string]string{}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := documents[r.URL.Path]
		switch {
		case strings.HasPrefix(r.URL.Path, "/mcp"):
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
		case text == "503":
			w.WriteHeader(http.StatusServiceUnavailable)
		case known:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	const resource, issuer = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
	published := `{"resource": "` + site.URL + `/mcp", "authorization_servers": ["` + site.URL + `"]}`
	meta := `"issuer": "` + site.URL + `", "authorization_endpoint": "` + site.URL + `/a", "token_endpoint": "` + site.URL + `/t"`
	for name, c := range map[string]struct {
		resource, issuer string
		verdict          Verdict
		texts            []string
		remedy           string
	}{
		"found":      {published, `{` + meta + `, "registration_endpoint": "` + site.URL + `/r"}`, OK, []string{"logged in to at the issuer " + site.URL}, ""},
		"no clients": {published, `{` + meta + `}`, Fail, []string{"registers no clients by itself"}, `http://127.0.0.1:7433/oauth/callback, and set its "clientId"`},
		"away":       {"503", "", Fail, []string{"asked " + site.URL + "/mcp: 401 Unauthorized", "asked " + site.URL + resource + ": 503 Service Unavailable", "answers 503"}, "try again"},
		"other":      {`{"resource": "https://else.example/mcp", "authorization_servers": ["x"]}`, "", Fail, []string{resource + ": 200 OK", "of another resource"}, `set "resource"`},
		"impostor":   {published, `{"issuer": "https://else.example"}`, Fail, []string{issuer + ": 200 OK: it is of https://else.example", "another issuer"}, `set "issuer"`},
		"file":       {published, strings.Replace(`{`+meta+`}`, site.URL+"/a", "file:///etc/passwd", 1), Fail, []string{"authorization_endpoint"}, "tell whoever runs"},
		"nothing":    {"", "", Fail, []string{resource + ": 404 Not Found", issuer + ": 404 Not Found"}, `"authorizationServerMetadata"`},
	} {
		t.Run(name, func(t *testing.T) {
			clear(documents)
			for path, text := range map[string]string{resource: c.resource, issuer: c.issuer} {
				if text != "" {
					documents[path] = text
				}
			}
			cfg := parse(t, `{"mcpServers": {"a": {"url": "`+site.URL+`/mcp"}}}`)
			state := filepath.Join(t.TempDir(), "none")
			var last Finding
			var texts []string
			Run(t.Context(), Options{Config: cfg, Server: "a", Env: os.LookupEnv, Timeout: 5 * time.Second, StateDir: state}, func(f Finding) {
				if f.Check == "login" {
					last = f
					texts = append(texts, f.Text)
				}
			})
			if last.Verdict != c.verdict || !strings.Contains(last.Remedy, c.remedy) || strings.Contains(last.Remedy, "everline doctor") {
				t.Errorf("%+v", last)
			}
			for _, want := range c.texts {
				if !strings.Contains(strings.Join(texts, "\n"), want) {
					t.Errorf("%q is not in\n%s", want, strings.Join(texts, "\n"))
				}
			}
			if _, err := os.Stat(state); err == nil {
				t.Error("a state folder was made")
			}
		})
	}
}
