package upstream

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/transport"
)

// sdkServer is a server that we did not write.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{Instructions: "hello", PageSize: 2})
	type in struct {
		Text string `json:"text"`
	}
	for _, name := range []string{"a", "b", "c"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(ctx context.Context, r *mcp.CallToolRequest, i in) (*mcp.CallToolResult, any, error) {
				if token := r.Params.GetProgressToken(); token != nil {
					_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: i.Text}}}, nil, nil
			})
	}
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
	return s
}

// Servers of go-sdk, on every transport and of both eras.
func TestAgainstGoSDKServers(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler func(*mcp.Server) http.Handler
		era     Era
	}{
		{"stateful", func(s *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
		}, Era{Transport: transport.HTTP, Version: "2025-11-25"}},
		{"stateless", func(s *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
		}, Era{Transport: transport.HTTP, Version: "2026-07-28", Modern: true}},
		{"stateless JSON", func(s *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
		}, Era{Transport: transport.HTTP, Version: "2026-07-28", Modern: true}},
		{"SSE", func(s *mcp.Server) http.Handler {
			return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil)
		}, Era{Transport: transport.SSE, Version: "2024-11-05"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sdkServer()
			web := httptest.NewServer(c.handler(s))
			t.Cleanup(func() {
				web.CloseClientConnections()
				web.Close()
			})
			opts, h := options(config.Server{Transport: "auto", URL: web.URL})
			u := start(t, opts)
			got := u.Info().Era
			if got.Transport != c.era.Transport || got.Modern != c.era.Modern {
				t.Errorf("era %+v, want %+v", got, c.era)
			}
			cat := listAll(t, u, nil)
			if len(cat.Items[catalog.Tools]) != 3 || len(cat.Items[catalog.Prompts]) != 1 || cat.Instructions != "hello" || !cat.Items[0][0].ReadOnly {
				t.Errorf("catalog %+v", cat)
			}
			progress := make(chan string, 4)
			out, err := u.Call(t.Context(), &Call{
				Method: "tools/call", Name: "b",
				Params:   []byte(`{"name":"x__b","arguments":{"text":"hi"},"_meta":{"progressToken":"tok"}}`),
				Progress: func(p []byte) { progress <- string(p) },
			})
			if err != nil || !strings.Contains(string(out.Raw), `"text":"hi"`) {
				t.Fatalf("%s, %v", out.Raw, err)
			}
			if c.name != "stateless JSON" {
				select {
				case p := <-progress:
					if !strings.Contains(p, `"progress":1`) {
						t.Errorf("progress %s", p)
					}
				case <-time.After(30 * time.Second):
					t.Error("no progress")
				}
			}
			if err := u.Ping(t.Context()); err != nil {
				t.Errorf("Ping: %v", err)
			}
			awaitChange(t, s, h)
		})
	}
}

// awaitChange changes the server's tools until the change is heard: the
// standing stream opens in the background.
func awaitChange(t *testing.T, s *mcp.Server, h *heard) {
	t.Helper()
	for i := 0; h.count(catalog.Tools) == 0; i++ {
		if i == 100 {
			t.Fatal("no change was heard")
		}
		s.RemoveTools("c")
		mcp.AddTool(s, &mcp.Tool{Name: "c"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
		select {
		case <-h.news:
		case <-time.After(50 * time.Millisecond):
		}
	}
}
