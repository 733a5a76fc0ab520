package systest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/endpoint"
	"github.com/everline/everline/everlinetest"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/gosdk"
	"github.com/everline/everline/internal/mcptest"
)

// The pieces of the page on embedding are in this file, each between "doc:" and
// "end", so that they compile, and run. TestEmbedPage compares them.

// embedMain is main of the page, under another name.
var embedMain = func() {
	// doc: 1
	// func main() {
	everline.RunShim()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// }
	// end
}

var run = func(context.Context) error { return nil }

// embedOpen opens a hub for the everline.json of the working folder.
func embedOpen(ctx context.Context, use func(*everline.Hub) error) error {
	// doc: 2
	cfg, err := config.Load("everline.json")
	if err != nil {
		return err
	}
	hub, err := everline.Open(ctx, cfg, everline.Options{StateDir: "state", Name: "my-agent", Version: "1.0"})
	if err != nil {
		return err
	}
	defer hub.Close(ctx)
	// end
	return use(hub)
}

func embedConfig(url string) *config.Config {
	// doc: 3
	s := config.NewServer("search")
	s.Transport, s.URL, s.Overlap = "auto", url, true
	s.CallTimeout = 30 * time.Second
	cfg := config.New()
	cfg.Servers = []config.Server{s}
	// end
	return cfg
}

func embedList(ctx context.Context, hub *everline.Hub) {
	// doc: 4
	if err := hub.Connected(ctx, "memory"); err != nil {
		log.Print(err)
	}
	for tool := range hub.Tools() {
		fmt.Println(tool.Name, tool.Description, string(tool.InputSchema))
	}
	// end
}

func embedCall(ctx context.Context, hub *everline.Hub) (string, error) {
	// doc: 5
	result, err := hub.CallTool(ctx, "echo", map[string]any{"message": "hello"})
	if err != nil {
		return "", err
	}
	return result.Text(), nil
	// end
}

func embedOwnName(ctx context.Context, hub *everline.Hub, args any) (*everline.ToolResult, error) {
	// doc: 6
	result, err := hub.CallTool(ctx, "echo", args, func(c *everline.Call) { c.Server = "memory" })
	// end
	return result, err
}

func embedFailed(err error) string {
	// doc: 7
	f, ok := fault.As(err)
	switch {
	case !ok:
		return ""
	case f.Kind == fault.RPC:
		return fmt.Sprintf("the server itself answered with an error: %s", f.RPC.Raw)
	case f.Outcome == fault.NotSent && f.RetryAfter > 0:
		return fmt.Sprintf("nothing was done; try again in %s", f.RetryAfter)
	default:
		return f.Text() // what happened, whether it was done, and what to do now
	}
	// end
}

// doc: 8
func ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	switch method {
	case "elicitation/create":
		return []byte(`{"action":"decline"}`), nil
	case "roots/list":
		return []byte(`{"roots":[]}`), nil
	default:
		return nil, fault.New(fault.Unsupported, method, "this client does not do that")
	}
}

// end

func embedAsked(ctx context.Context, hub *everline.Hub, args any) error {
	// doc: 9
	me := everline.NewClient(ask, nil)
	_, err := hub.CallTool(ctx, "echo", args, everline.AskedBy(me))
	// end
	return err
}

// doc: 10
type withToken struct{ base http.RoundTripper }

func (w withToken) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+tokenOf(req.Context()))
	return w.base.RoundTrip(req)
}

// end

func embedHeaders(ctx context.Context, cfg *config.Config) (*everline.Hub, error) {
	// doc: 11
	hub, err := everline.Open(ctx, cfg, everline.Options{
		RoundTripper: func(server string, base http.RoundTripper) http.RoundTripper { return withToken{base} },
	})
	// end
	return hub, err
}

func tokenOf(context.Context) string { return "tok" }

func embedWatch(ctx context.Context, hub *everline.Hub) {
	// doc: 12
	for _, s := range hub.Status() {
		fmt.Println(s.Name, s.State, s.Generation, s.Since)
	}
	for event := range hub.Watch(ctx) {
		fmt.Println(event.About().Server, event)
	}
	// end
}

func embedEndpoint(hub *everline.Hub) (http.Handler, *endpoint.Endpoint) {
	// doc: 13
	e := endpoint.New(hub, endpoint.Options{Name: "my-agent"})
	mux := http.NewServeMux()
	mux.Handle("/mcp", e.Handler())
	// end
	return mux, e
}

func embedSDK(ctx context.Context, hub *everline.Hub) (*mcp.ClientSession, error) {
	// doc: 14
	client := mcp.NewClient(&mcp.Implementation{Name: "my-agent", Version: "1.0"}, nil)
	session, err := client.Connect(ctx, gosdk.Transport(hub), nil)
	// end
	return session, err
}

func embedInTests(t *testing.T) string {
	// doc: 15
	server := everlinetest.New(everlinetest.Tool{Name: "echo", ReadOnly: true})
	defer server.Close()
	cfg := config.New()
	cfg.Servers = []config.Server{server.Config("mine")}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close(context.Background())
	if err := hub.Connected(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	server.LoseSessions() // or Crash and Restart, Hang and Resume, SetTools
	result, err := hub.CallTool(t.Context(), "echo", map[string]any{"still": "here"})
	if err != nil {
		t.Fatal(err)
	}
	// end
	return string(result.Structured)
}

// TestEmbedRuns runs the pieces, with a server of this machine.
func TestEmbedRuns(t *testing.T) {
	site := mcptest.Web(t, mcptest.New(mcptest.Config{}))
	t.Chdir(t.TempDir())
	text, err := json.Marshal(map[string]any{"mcpServers": servers{"memory": web(site)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("everline.json", text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	var result string
	run = func(ctx context.Context) error {
		return embedOpen(ctx, func(hub *everline.Hub) error {
			if _, err := hub.Await(ctx, "memory", 0); err != nil {
				return err
			}
			embedList(ctx, hub)
			var err error
			if result, err = embedCall(ctx, hub); err != nil {
				return err
			}
			if r, err := embedOwnName(ctx, hub, map[string]any{}); err != nil || r.Server != "memory" {
				return fmt.Errorf("by its own name: %+v, %w", r, err)
			}
			watching, cancel := context.WithCancel(ctx)
			cancel()
			embedWatch(watching, hub)
			return embedAsked(ctx, hub, map[string]any{"message": "again"})
		})
	}
	embedMain()
	if !strings.Contains(result, "hello") {
		t.Errorf("the call was answered with %s", result)
	}
	if got := embedInTests(t); got != `{"still":"here"}` {
		t.Errorf("the call over a lost session was answered with %s", got)
	}
	cfg := embedConfig(site.URL + "/mcp")
	hub, err := embedHeaders(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close(ctx)
	embedServes(ctx, t, hub)
	if st, err := hub.Await(ctx, "search", 0); err != nil || st.State != "connected" {
		t.Errorf("%+v, %v", st, err)
	}
}

// embedServes uses the two ways in which a hub is served within a program.
func embedServes(ctx context.Context, t *testing.T, hub *everline.Hub) {
	t.Helper()
	if err := hub.Connected(ctx, "search"); err != nil {
		t.Fatal(err)
	}
	session, err := embedSDK(ctx, hub)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := session.ListTools(ctx, nil); err != nil || len(list.Tools) != 3 {
		t.Errorf("over the SDK: %+v, %v", list, err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	h, e := embedEndpoint(hub)
	web := httptest.NewServer(h)
	session, err = mcp.NewClient(&mcp.Implementation{Name: "other"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := session.ListTools(ctx, nil); err != nil || len(list.Tools) != 3 {
		t.Errorf("over HTTP: %+v, %v", list, err)
	}
	if err := errors.Join(session.Close(), e.Close(ctx)); err != nil {
		t.Error(err)
	}
	web.Close()
	http.DefaultClient.CloseIdleConnections()
}

func TestEmbedFailures(t *testing.T) {
	for want, f := range map[string]*fault.Fault{
		"the server itself answered": {Kind: fault.RPC, RPC: &fault.RPCError{Raw: []byte(`{"code":1}`)}},
		"try again in 3s":            {Kind: fault.Unavailable, Outcome: fault.NotSent, RetryAfter: 3 * time.Second},
		"nothing was executed":       {Kind: fault.Disabled, Op: "tools/call", Outcome: fault.NotSent, Err: errors.New("gone")},
		"is unknown":                 {Kind: fault.Deadline, Op: "tools/call", Err: errors.New("late")},
	} {
		if got := embedFailed(f); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestEmbedPage compares the page with the pieces of this file.
func TestEmbedPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/embed.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("embed_test.go")
	if err != nil {
		t.Fatal(err)
	}
	pieces := regexp.MustCompile(`(?ms)^(\t*)// doc: (\d+)\n(.*?)^\t*// end$`).FindAllStringSubmatch(string(source), -1)
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(pieces) != len(blocks) || len(blocks) < 5 {
		t.Fatalf("%d pieces here, %d on the page", len(pieces), len(blocks))
	}
	for i, p := range pieces {
		code := regexp.MustCompile(`(?m)^`+p[1]).ReplaceAllString(p[3], "")
		if strings.HasPrefix(code, "// func main") { // a function of that name cannot be in a test
			code = strings.NewReplacer("// func main", "func main", "// }", "}").Replace(regexp.MustCompile(`(?m)^([^/])`).ReplaceAllString(code, "\t$1"))
		}
		if strings.TrimSpace(code) != strings.TrimSpace(blocks[i][1]) {
			t.Errorf("block %d of the page:\n%s\nhere:\n%s", i+1, blocks[i][1], code)
		}
	}
}
