//go:build interop

package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// loginLimit bounds one client's way from the refusal to its first list, programs of
// npm that start included.
const loginLimit = 2 * time.Minute

// A loggedIn client was let in with a token that it got from the issuer.
type loggedIn interface {
	caller
	tools(t *testing.T) []string
}

// TestClientsLogIn has clients that nobody here wrote find the issuer by way of
// everline, get a token from it by authorization code and PKCE, and use it: what they
// see is what a scope and the subject of that token are granted.
func TestClientsLogIn(t *testing.T) {
	i := startIssuer(t, "3600")
	g := guarded(t, i, map[string]any{"scope:mcp:read": "text", "sub:alice": "image", "sub:bob": "all"})
	want := []string{"test_image_content", "test_simple_text"}
	for name, login := range map[string]func(*testing.T, *gateway) loggedIn{
		"go-sdk 2025-11-25":   func(t *testing.T, g *gateway) loggedIn { return loginGo(t, g, "2025-11-25") },
		"go-sdk 2026-07-28":   func(t *testing.T, g *gateway) loggedIn { return loginGo(t, g, "2026-07-28") },
		"typescript sdk 1":    func(t *testing.T, g *gateway) loggedIn { return loginTypeScript(t, g, "sdk") },
		"typescript client 2": func(t *testing.T, g *gateway) loggedIn { return loginTypeScript(t, g, "client") },
		"mcp-remote":          loginRemote,
		"inspector":           loginInspector,
	} {
		t.Run(name, func(t *testing.T) {
			before := i.count("authorization_code")
			c := login(t, g)
			if got := c.tools(t); !slices.Equal(got, want) {
				t.Errorf("it sees %q, and is granted %q", got, want)
			}
			if got := c.call(t, "test_simple_text", map[string]any{}); !strings.Contains(got, "simple text response") {
				t.Errorf("the tool that its scope grants answers %s", got)
			}
			if got := c.call(t, "test_image_content", map[string]any{}); !strings.Contains(got, "image/png") {
				t.Errorf("the tool that its subject is granted answers %s", got)
			}
			if n := i.count("authorization_code") - before; n != 1 {
				t.Errorf("the issuer gave %d tokens for codes, for one login", n)
			}
		})
	}
}

// TestAClientStepsUp has go-sdk's client come with a token that grants nothing, and get
// a better one because the refusal says which scope is missing. It logs in at most once
// for a request, so the first connection fails.
func TestAClientStepsUp(t *testing.T) {
	i := startIssuer(t, "3600")
	g := guarded(t, i, map[string]any{"scope:mcp:read": "text"})
	var asked [][]string
	handler := handlerGo(t, func(scopes []string) []string {
		asked = append(asked, scopes)
		if len(asked) == 1 {
			return []string{"mcp:call"} // which is granted nothing
		}
		return scopes
	}, func(page string) error { return approveAs([]string{"bob", "alice"}[len(asked)-1], page) })
	if _, err := connectGo(t, g, "2025-11-25", handler); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("with a token that grants nothing: %v", err)
	}
	c, err := connectGo(t, g, "2025-11-25", handler)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.tools(t); !slices.Equal(got, []string{"test_simple_text"}) {
		t.Errorf("it sees %q", got)
	}
	if len(asked) != 2 || !slices.Equal(asked[1], []string{"mcp:read"}) || i.count("authorization_code") != 2 {
		t.Errorf("it was asked for the scopes %q, and logged in %d times", asked, i.count("authorization_code"))
	}
}

// guarded is an everline that only lets in who has a token of the issuer.
func guarded(t *testing.T, i *issuer, grants map[string]any) *gateway {
	t.Helper()
	return serveFile(t, map[string]any{
		"everline": map[string]any{
			"clients": "tokens",
			"auth": map[string]any{
				"oidc": []any{map[string]any{"issuer": i.url}},
				"policies": map[string]any{
					"text": map[string]any{"tools": []string{"fixtures.test_simple_text"}}, "image": map[string]any{"tools": []string{"fixtures.test_image_*"}},
				},
				"grants": grants,
			},
		},
		"mcpServers": map[string]any{"fixtures": map[string]any{"command": binaries.everything}},
	})
}

func (c goClient) tools(t *testing.T) []string {
	t.Helper()
	r, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	return sorted(names)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

func loginGo(t *testing.T, g *gateway, revision string) loggedIn {
	t.Helper()
	c, err := connectGo(t, g, revision, handlerGo(t, nil, approve))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handlerGo is go-sdk's handler of authorization codes; filter may be nil, and chooses
// the scopes that are asked for.
func handlerGo(t *testing.T, filter func([]string) []string, approve func(page string) error) auth.OAuthHandler {
	t.Helper()
	back := make(chan auth.AuthorizationResult, 1)
	callback := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		back <- auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}
	}))
	t.Cleanup(callback.Close)
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL: callback.URL + "/back", ScopeFilter: filter,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "interop", RedirectURIs: []string{callback.URL + "/back"}, TokenEndpointAuthMethod: "none",
		}},
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if err := approve(args.URL); err != nil {
				return nil, err
			}
			r := <-back // approve has been there
			return &r, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func connectGo(t *testing.T, g *gateway, revision string, handler auth.OAuthHandler) (goClient, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), loginLimit)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: g.url, OAuthHandler: handler}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return goClient{s}, err
}

// scriptLogin is login.mjs.
type scriptLogin struct {
	scriptClient
	listed []string
}

func (c scriptLogin) tools(*testing.T) []string { return c.listed }

func loginTypeScript(t *testing.T, g *gateway, sdk string) loggedIn {
	t.Helper()
	c := scriptLogin{scriptClient: startScript(t, "login.mjs", sdk, g.url)}
	var first struct{ Open string }
	if err := json.Unmarshal([]byte(c.out.next(loginLimit)), &first); err != nil {
		t.Fatal(err)
	}
	if err := approve(first.Open); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(c.out.next(loginLimit)), &c.listed); err != nil {
		t.Fatal(err)
	}
	c.listed = sorted(c.listed)
	return c
}

// loginRemote is go-sdk's client by way of mcp-remote, which logs in.
func loginRemote(t *testing.T, g *gateway) loggedIn {
	t.Helper()
	cmd := exec.Command(bin(t, "mcp-remote"), g.url, "--transport", "http-only")
	cmd.Env = append(env(t), "MCP_REMOTE_CONFIG_DIR="+t.TempDir(), "BROWSER=true")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	approved := approveIn(said)
	ctx, cancel := context.WithTimeout(t.Context(), loginLimit)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := <-approved; err != nil {
			t.Error(err)
		}
	})
	return goClient{s}
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/auth\?\S+`)

// approveIn approves what a program asks a person to open, and reads what it says to
// the end. The channel gets the outcome then.
func approveIn(said io.Reader) <-chan error {
	done := make(chan error, 1)
	go func() { // ends with the program
		err := error(nil)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if page := address.FindString(lines.Text()); page != "" {
				err = approve(page)
			}
		}
		done <- err
	}()
	return done
}

// inspectorLogin is the command line of the inspector, which keeps its login in a
// folder.
type inspectorLogin struct {
	g    *gateway
	home string
}

func loginInspector(t *testing.T, g *gateway) loggedIn {
	t.Helper()
	return inspectorLogin{g, t.TempDir()}
}

func (c inspectorLogin) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), loginLimit)
	defer cancel()
	args = append([]string{"--cli", c.g.url, "--transport", "http", "--callback-url", "http://127.0.0.1:0/oauth/callback", "--format", "json"}, args...)
	cmd := exec.CommandContext(ctx, bin(t, "inspector"), args...)
	cmd.Env = append(env(t), "HOME="+c.home, "MCP_AUTO_OPEN_ENABLED=true", "MCP_INSPECTOR_SECRET_STORE=file", "BROWSER=true")
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stderr = said
	var answer strings.Builder
	prompted, copied := io.Pipe()
	cmd.Stdout = io.MultiWriter(&answer, copied)
	onOut, onErr := approveIn(prompted), approveIn(out)
	err = cmd.Run()
	copied.Close()
	said.Close()
	for _, approved := range []<-chan error{onOut, onErr} {
		if err := <-approved; err != nil {
			t.Error(err)
		}
	}
	if err != nil {
		t.Fatalf("inspector: %v\n%s", err, answer.String())
	}
	return answer.String()
}

func (c inspectorLogin) tools(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`"name":\s*"(test_[a-z_]+)"`).FindAllStringSubmatch(c.run(t, "--method", "tools/list"), -1) {
		names = append(names, m[1])
	}
	return sorted(names)
}

func (c inspectorLogin) call(t *testing.T, name string, _ map[string]any) string {
	t.Helper()
	return c.run(t, "--stored-auth-only", "--method", "tools/call", "--tool-name", name)
}
