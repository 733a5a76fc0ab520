//go:build interop

package conformance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
)

const restarts = 4

// A real is a server that we did not write, and can be restarted.
type real struct {
	config  map[string]any
	tool    string
	params  string
	restart func(hub *everline.Hub)
}

// TestRestartUnderLoad restarts servers that we did not write, over every
// transport that they have, while clients call without pause. The calls are
// declared repeatable; none may fail.
func TestRestartUnderLoad(t *testing.T) {
	for name, start := range map[string]func(*testing.T) real{
		"go-sdk stateful":            func(t *testing.T) real { return goServer(t, stateful) },
		"go-sdk stateless":           func(t *testing.T) real { return goServer(t, stateless) },
		"go-sdk SSE":                 func(t *testing.T) real { return goServer(t, overSSE) },
		"server-everything HTTP":     func(t *testing.T) real { return everything(t, "streamableHttp", "http", "/mcp") },
		"server-everything SSE":      func(t *testing.T) real { return everything(t, "sse", "sse", "/sse") },
		"server-everything on stdio": everythingOnStdio,
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			hub := embed(t, r.config)
			st := up(t, hub, 0)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var callers sync.WaitGroup
			var calls atomic.Int64
			for range 8 {
				callers.Go(func() {
					for ctx.Err() == nil {
						if err := callOnce(hub, r.tool, r.params); err != nil {
							t.Errorf("call %d: %v", calls.Load(), err)
							return
						}
						calls.Add(1)
					}
				})
			}
			for range restarts {
				before := calls.Load()
				until(t, 60*time.Second, "calls go on", func() bool { return calls.Load() > before+20 })
				r.restart(hub)
			}
			before := calls.Load()
			until(t, 60*time.Second, "calls go on after the last restart", func() bool { return calls.Load() > before+20 })
			stop()
			callers.Wait()
			now := up(t, hub, 0)
			t.Logf("%d calls, era %s, version %s, generation %d after %d", calls.Load(), now.Era, now.Version, now.Generation, st.Generation)
		})
	}
}

// embed opens a hub with the one server s, whose calls may be repeated.
func embed(t *testing.T, server map[string]any) *everline.Hub {
	t.Helper()
	server["everline"] = map[string]any{"replay": "always"}
	text := asJSON(t, map[string]any{"mcpServers": map[string]any{"s": server}})
	cfg, err := config.Parse("interop.json", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := hub.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return hub
}

func up(t *testing.T, hub *everline.Hub, gen uint64) everline.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for {
		st, err := hub.Await(ctx, "s", gen)
		if err != nil {
			t.Fatalf("%+v, %v", st, err)
		}
		if st.State == "connected" {
			return st
		}
	}
}

func callOnce(hub *everline.Hub, tool, arguments string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	params := fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)
	_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: tool, Params: []byte(params)})
	return err
}

// The forms of go-sdk's own servers.
func stateful(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
}

func stateless(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
}

func overSSE(s *mcp.Server) http.Handler {
	return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil)
}

// goServer serves go-sdk's server from this process; a restart closes the port
// and every connection, and a new server with no memory takes its place.
func goServer(t *testing.T, form func(*mcp.Server) http.Handler) real {
	t.Helper()
	addr := freePort(t)
	var srv *http.Server
	ended := make(chan struct{})
	open := func() {
		s := mcp.NewServer(&mcp.Implementation{Name: "go", Version: "1"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
		})
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		srv, ended = &http.Server{Handler: form(s)}, make(chan struct{})
		go func(srv *http.Server, ended chan struct{}) { // ends with Close, which shut waits for
			defer close(ended)
			_ = srv.Serve(listener)
		}(srv, ended)
	}
	shut := func() {
		_ = srv.Close()
		<-ended
	}
	open()
	t.Cleanup(func() { shut() })
	server := map[string]any{"url": "http://" + addr}
	return real{config: server, tool: "greet", params: `{}`, restart: func(*everline.Hub) { shut(); open() }}
}

// everything runs server-everything over HTTP; a restart is a kill -9.
func everything(t *testing.T, mode, kind, path string) real {
	t.Helper()
	addr := freePort(t)
	_, port, _ := net.SplitHostPort(addr)
	var cmd *exec.Cmd
	open := func() {
		cmd = exec.Command(bin(t, "mcp-server-everything"), mode)
		cmd.Env = append(env(t), "PORT="+port)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, 60*time.Second, "server-everything listens", func() bool { return dials("localhost:" + port) })
	}
	shut := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	open()
	t.Cleanup(func() { shut() })
	server := map[string]any{"type": kind, "url": "http://localhost:" + port + path}
	return real{config: server, tool: "echo", params: `{"message":"hello"}`, restart: func(*everline.Hub) { shut(); open() }}
}

func dials(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func everythingOnStdio(t *testing.T) real {
	t.Helper()
	server := map[string]any{
		"command": bin(t, "mcp-server-everything"), "args": []string{"stdio"},
		"env": map[string]string{"PATH": pathOf(env(t))},
	}
	return real{config: server, tool: "echo", params: `{"message":"hello"}`, restart: func(hub *everline.Hub) {
		st := up(t, hub, 0)
		if p, err := os.FindProcess(st.PID); err == nil {
			_ = p.Kill() // one that has just ended is no failure
		}
		up(t, hub, st.Generation)
	}}
}

// pathOf is the PATH of an environment; the last one counts.
func pathOf(env []string) (path string) {
	for _, v := range env {
		if len(v) > 5 && v[:5] == "PATH=" {
			path = v[5:]
		}
	}
	return path
}
