//go:build interop && logins && unix

package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/mcptest"
)

const (
	tokenLife = "20"               // seconds
	killEvery = time.Minute        // of each of the two processes
	loginUser = "EVERLINE_AS_USER" // has "DIR URL": this process uses the login, and does nothing else
)

// A process of this test that uses the login as everline does, in place of a test.
func init() {
	if at := os.Getenv(loginUser); at != "" {
		dir, site, _ := strings.Cut(at, " ")
		useLogin(dir, site)
	}
}

// useLogin makes a request five times a second until it is killed, and prints
// what fails.
func useLogin(dir, site string) {
	m := auth.New(auth.Options{StateDir: dir})
	s := m.Source(auth.Spec{Server: "notes", URL: site})
	for {
		if err := useOnce(s, site); err != nil {
			fmt.Println("second process: " + err.Error())
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func useOnce(s auth.Source, site string) error {
	for range 2 {
		ticket, f := s.Header(context.Background())
		if f != nil {
			return f
		}
		req, err := http.NewRequest(http.MethodPost, site, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", ticket.Value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			return nil
		}
		if f := s.Refused(context.Background(), ticket, resp.StatusCode, resp.Header["Www-Authenticate"]); f != nil {
			return f
		}
	}
	return errors.New("refused twice")
}

// guard lets in who has a token for the site that is not over.
func guard(i *issuer, h http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(nil)
	site := "http://" + server.Listener.Addr().String()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{
				"resource": site + "/mcp", "authorization_servers": []string{i.url}, "scopes_supported": []string{"mcp:read", "offline_access"},
			})
		case admits(r.Header.Get("Authorization"), site+"/mcp"):
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+site+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	server.Start()
	return server
}

// admits looks at the claims alone: what is tested is who asks, not who answers.
func admits(authorization, resource string) bool {
	parts := strings.Split(authorization, ".")
	if len(parts) != 3 {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expires int64  `json:"exp"`
		For     string `json:"aud"`
	}
	return err == nil && json.Unmarshal(raw, &claims) == nil && claims.For == resource && time.Now().Unix() < claims.Expires
}

// login logs in to the server through everline's own command.
func login(t *testing.T, h *held) {
	t.Helper()
	cmd := exec.Command(binaries.everline, "auth", "login", "notes", "--no-browser", "-o", "jsonl", "--config", h.config, "--state-dir", h.state)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var step struct{ URL string }
	if err := json.NewDecoder(out).Decode(&step); err != nil {
		t.Fatal(err)
	}
	if err := approve(step.URL); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// An asker calls a tool again and again, each time on its own, and keeps what
// failed.
type asker struct {
	mu    sync.Mutex
	calls int
	token []string // what failed for the token's sake
	other map[string]int
}

func (c *asker) call(ctx context.Context, at string) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"soak","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader([]byte(body)))
	if err != nil {
		panic("bug: " + err.Error())
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
	} {
		req.Header.Set(name, value)
	}
	text := ""
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		var raw []byte
		raw, err = io.ReadAll(resp.Body)
		text = string(raw)
		_ = resp.Body.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	switch {
	case ctx.Err() != nil:
		c.calls--
	case err != nil:
		c.other["everline was killed"]++
	case strings.Contains(text, `"unauthorized"`), strings.Contains(text, "auth login"), strings.Contains(text, "token"):
		c.token = append(c.token, text)
	case !strings.Contains(text, `"result"`), strings.Contains(text, `"isError":true`):
		c.other[text]++
	}
}

// TestLoginsOutliveKills logs in once, to an issuer that rotates refresh tokens
// and forgives nothing, and then uses that from everline and from a second
// process, each of which is killed once a minute: nobody has to log in again, and
// no call fails for the token's sake.
func TestLoginsOutliveKills(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("EVERLINE_LOGINS"))
	if err != nil {
		t.Fatalf("EVERLINE_LOGINS: %v", err)
	}
	i := startIssuer(t, tokenLife)
	server := mcptest.New(mcptest.Config{Era: mcptest.Dual})
	site := guard(i, server.Handler())
	t.Cleanup(func() { server.Close(); site.CloseClientConnections(); site.Close() })
	h := hold(t, map[string]any{"notes": map[string]any{"url": site.URL + "/mcp"}})
	time.Sleep(3 * time.Second) // it serves its socket
	login(t, h)
	began, ctx := time.Now(), t.Context()
	ctx, stop := context.WithTimeout(ctx, long)
	defer stop()
	c := &asker{other: map[string]int{}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				c.call(ctx, "http://"+h.address+"/mcp")
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	second := &strings.Builder{}
	kills := 0
	wg.Go(func() { killNowAndThen(ctx, func() { h.end(syscall.SIGKILL); kills++; h.start() }) })
	wg.Go(func() {
		user := secondProcess(t, h.state, site.URL+"/mcp", second)
		killNowAndThen(ctx, func() {
			_ = user.Process.Kill()
			_ = user.Wait()
			user = secondProcess(t, h.state, site.URL+"/mcp", second)
		})
		_ = user.Process.Kill()
		_ = user.Wait()
	})
	wg.Wait()
	status, err := exec.Command(binaries.everline, "auth", "status", "notes", "-o", "json", "--config", h.config, "--state-dir", h.state).CombinedOutput()
	t.Logf("%s, %d kills of each process: %d calls, %d failed for the token's sake, others: %v; %d refreshes, %d invalid_grant, %d logins; second process: %q",
		time.Since(began).Round(time.Second), kills, c.calls, len(c.token), c.other, i.count("refresh_token"), i.count("refresh_token invalid_grant"),
		i.count("authorization_code"), second.String())
	if err != nil || !bytes.Contains(status, []byte(`"ok"`)) {
		t.Errorf("the login is %s %v", status, err)
	}
	failed := len(c.token)
	for _, n := range c.other {
		failed += n
	}
	if failed > c.calls/10 {
		t.Errorf("%d calls failed: nothing is shown", failed)
	}
	if len(c.token) > 0 || second.Len() > 0 || i.count("refresh_token invalid_grant") > 0 || i.count("authorization_code") != 1 {
		t.Errorf("calls failed for the token's sake: %.500q", c.token)
	}
}

// killNowAndThen kills at a moment of each minute that nobody knows.
func killNowAndThen(ctx context.Context, kill func()) {
	for {
		at := time.NewTimer(killEvery/2 + rand.N(killEvery))
		select {
		case <-at.C:
			kill()
		case <-ctx.Done():
			at.Stop()
			return
		}
	}
}

func secondProcess(t *testing.T, dir, site string, out io.Writer) *exec.Cmd {
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Error(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), loginUser+"="+dir+" "+site), out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Error(err)
	}
	return cmd
}
