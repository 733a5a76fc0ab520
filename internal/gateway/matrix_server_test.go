package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/config"
	words "github.com/everline/everline/internal/mcp"
)

// versions are all protocol versions, the oldest first.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// dualVersion stands for the versions of a server that speaks both eras.
const dualVersion = "both-eras"

// matrixEnv makes this test binary a stdio server of go-sdk that speaks the
// version it names.
const matrixEnv = "EVERLINE_TEST_MATRIX_VERSION"

// runMatrixChild does nothing in a test process.
func runMatrixChild() {
	version := os.Getenv(matrixEnv)
	if version == "" {
		return
	}
	_ = matrixServer("stdio", version).Run(context.Background(), &mcp.StdioTransport{}) // the end of stdin is its end
	os.Exit(0)
}

// matrixServer is a server that speaks one version and has one tool for each
// thing that the matrix tries.
func matrixServer(transport, version string) *mcp.Server {
	nothing := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	s := mcp.NewServer(&mcp.Implementation{Name: "matrix", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   nothing,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	s.AddReceivingMiddleware(pinned(version))
	uri := "test:///" + transport + "/" + version
	s.AddResource(&mcp.Resource{URI: uri, Name: "r"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: "content"}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "hello"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}}, nil
	})
	limit := patience
	if transport == "stateless" {
		limit = 2 * time.Second // what nobody can answer or cancel is not waited for
	}
	s.AddReceivingMiddleware(bounded(limit))
	addPlainTools(s, uri)
	addAskingTools(s)
	return s
}

// pinned lets a server speak one version.
func pinned(version string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		if version == dualVersion {
			return next
		}
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			switch p := r.GetParams().(type) {
			case *mcp.InitializeParams:
				p.ProtocolVersion = version
			}
			if method == words.ServerDiscover && version != words.ModernVersion || method == words.Initialize && version == words.ModernVersion {
				return nil, &jsonrpc.Error{Code: words.CodeMethodNotFound, Message: "method not found"}
			}
			return next(ctx, method, r)
		}
	}
}

// bounded ends what a server does after a time.
func bounded(limit time.Duration) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method != words.ToolsCall {
				return next(ctx, method, r) // a stream may be long
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return next(ctx, method, r)
		}
	}
}

type toolFunc func(context.Context, *mcp.CallToolRequest) (string, error)

func addTool(s *mcp.Server, name string, fn toolFunc) {
	mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		text, err := fn(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}

func addPlainTools(s *mcp.Server, uri string) {
	addTool(s, "echo", func(context.Context, *mcp.CallToolRequest) (string, error) { return "echo", nil })
	addTool(s, "progress", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		return "done", r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
	})
	addTool(s, "log", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		return "done", r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: uri})
	})
	addTool(s, "touch", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
		return "done", s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
	})
	var grown, canceled atomic.Int64
	addTool(s, "grow", func(context.Context, *mcp.CallToolRequest) (string, error) {
		addTool(s, fmt.Sprint("new", grown.Add(1)), func(context.Context, *mcp.CallToolRequest) (string, error) { return "", nil })
		return "done", nil
	})
	addTool(s, "wait", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
		if os.Getenv(matrixEnv) != "" {
			fmt.Fprintln(os.Stderr, waits) // shown by Logs
		}
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.Canceled) {
			canceled.Add(1)
		}
		return "", ctx.Err()
	})
	addTool(s, "canceled", func(context.Context, *mcp.CallToolRequest) (string, error) {
		return strconv.FormatInt(canceled.Load(), 10), nil
	})
}

// addAskingTools adds the tools that ask the client, in the way of the request's era.
func addAskingTools(s *mcp.Server) {
	elicit, sample := &mcp.ElicitParams{Message: "?"}, &mcp.CreateMessageParams{MaxTokens: 1}
	inputs := map[string]mcp.InputRequest{"elicitation": elicit, "sampling": sample, "roots": &mcp.ListRootsParams{}}
	older := map[string]func(context.Context, *mcp.ServerSession) error{
		"elicitation": func(ctx context.Context, s *mcp.ServerSession) error { _, err := s.Elicit(ctx, elicit); return err },
		"sampling": func(ctx context.Context, s *mcp.ServerSession) error {
			_, err := s.CreateMessage(ctx, sample)
			return err
		},
		"roots": func(ctx context.Context, s *mcp.ServerSession) error { _, err := s.ListRoots(ctx, nil); return err },
	}
	for name, ask := range inputs {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
			modern := r.Params.Meta[words.MetaVersion] != nil
			if modern && r.Params.InputResponses["k"] == nil {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"k": ask}}, nil, nil
			}
			if !modern {
				if err := older[name](ctx, r.Session); err != nil {
					return nil, nil, err
				}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "got"}}}, nil, nil
		})
	}
}

// matrixHandler serves over Streamable HTTP, in the modern era or without sessions or with.
func matrixHandler(s *mcp.Server, stateless bool) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: stateless})
}

func serveAt(t *testing.T, h http.Handler) string {
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// matrixServers are servers of every version, and of both eras, on every transport that
// they have. Their names are "<transport>-<version>", for Streamable HTTP without sessions
// "stateless-<version>".
func matrixServers(t *testing.T) []config.Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all []config.Server
	add := func(form, transport, version, url string) {
		c := config.NewServer(form + "-" + version)
		c.Transport, c.URL = config.Transport(transport), url
		if transport == "stdio" {
			c.Command, c.Env = exe, map[string]string{matrixEnv: version, "GORACE": "atexit_sleep_ms=0"}
		}
		all = append(all, c)
	}
	for _, v := range versions {
		add("stdio", "stdio", v, "")
		add("stateless", "http", v, serveAt(t, matrixHandler(matrixServer("stateless", v), true)))
		if v == words.ModernVersion {
			continue // which has no sessions, and no HTTP+SSE
		}
		add("http", "http", v, serveAt(t, matrixHandler(matrixServer("http", v), false)))
		s := matrixServer("sse", v)
		add("sse", "sse", v, serveAt(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil)))
	}
	add("stdio", "stdio", dualVersion, "")
	s := matrixServer("http", dualVersion)
	modern, legacy := matrixHandler(s, true), matrixHandler(s, false)
	add("http", "http", dualVersion, serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(words.HeaderVersion) == words.ModernVersion {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.ServeHTTP(w, r)
	})))
	return all
}
