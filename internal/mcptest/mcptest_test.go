package mcptest_test

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/everline/everline/internal/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.RunChild()
	goleak.VerifyTestMain(m)
}

// pipes serves s on two pipes.
func pipes(t *testing.T, s *mcptest.Server) mcp.Transport {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(fromClient, toClient) }() // ended by the cleanup
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return &mcp.IOTransport{Reader: fromServer, Writer: toServer}
}

// A client that we did not write gets along with the server, whatever the
// transport and the era.
func TestAgainstGoSDKClient(t *testing.T) {
	process := func(cfg mcptest.Config) mcp.Transport {
		command, args, env := mcptest.Child(cfg)
		cmd := exec.Command(command, args...)
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}
	}
	for name, connect := range map[string]func(*testing.T) (mcp.Transport, *mcptest.Server){
		"legacy HTTP": func(t *testing.T) (mcp.Transport, *mcptest.Server) {
			s := mcptest.New(mcptest.Config{PageSize: 2})
			return &mcp.StreamableClientTransport{Endpoint: mcptest.Web(t, s).URL + "/mcp", HTTPClient: client(t)}, s
		},
		"modern HTTP": func(t *testing.T) (mcp.Transport, *mcptest.Server) {
			s := mcptest.New(mcptest.Config{Era: mcptest.Modern})
			return &mcp.StreamableClientTransport{Endpoint: mcptest.Web(t, s).URL + "/mcp", HTTPClient: client(t)}, s
		},
		"SSE": func(t *testing.T) (mcp.Transport, *mcptest.Server) {
			s := mcptest.New(mcptest.Config{})
			return &mcp.SSEClientTransport{Endpoint: mcptest.Web(t, s).URL + "/sse", HTTPClient: client(t)}, s
		},
		"legacy stream": func(t *testing.T) (mcp.Transport, *mcptest.Server) {
			s := mcptest.New(mcptest.Config{})
			return pipes(t, s), s
		},
		"modern stream": func(t *testing.T) (mcp.Transport, *mcptest.Server) {
			s := mcptest.New(mcptest.Config{Era: mcptest.Modern})
			return pipes(t, s), s
		},
		"process": func(*testing.T) (mcp.Transport, *mcptest.Server) { return process(mcptest.Config{}), nil },
	} {
		t.Run(name, func(t *testing.T) {
			transport, s := connect(t)
			changed := make(chan struct{}, 8)
			c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
			})
			session, err := c.Connect(t.Context(), transport, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			n := 0
			for _, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != 3 {
				t.Errorf("%d tools", n)
			}
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "work", Arguments: map[string]any{"id": "a"}})
			if err != nil || result.IsError {
				t.Fatalf("%+v, %v", result, err)
			}
			if s == nil {
				return
			}
			if s.Executions("a") != 1 || s.Executions("b") != 0 {
				t.Error("executions are not counted")
			}
			s.Await(t, "a standing stream", func() bool { return s.Listeners() > 0 })
			for told := false; !told; {
				s.Notify("notifications/tools/list_changed", "")
				select {
				case <-changed:
					told = true
				case <-time.After(20 * time.Millisecond): // a stream may not be attached yet
				case <-t.Context().Done():
					t.Fatal("no notice")
				}
			}
		})
	}
}

func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func post(t *testing.T, url, session, body string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := client(t).Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), resp.Header
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestSwitches(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	url := mcptest.Web(t, s).URL
	_, _, h := post(t, url, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	session := h.Get("Mcp-Session-Id")
	if session == "" || s.Sessions() != 1 {
		t.Fatalf("session %q, %d open", session, s.Sessions())
	}
	if status, _, _ := post(t, url, "", ping); status != 400 {
		t.Errorf("without a session: %d", status)
	}
	s.Next("ping", 2, mcptest.Reply{Status: 503, Header: map[string]string{"Retry-After": "3"}})
	for _, want := range []int{503, 503, 200} {
		if status, body, _ := post(t, url, session, ping); status != want {
			t.Errorf("status %d (%s), want %d", status, body, want)
		}
	}
	s.Next("ping", 1, mcptest.Reply{Cut: true})
	if status, _, _ := post(t, url, session, ping); status != 0 {
		t.Errorf("cut: %d", status)
	}
	work := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work","arguments":{"id":"w"}}}`
	s.Next("tools/call", 1, mcptest.Reply{Run: true, Cut: true})
	if status, _, _ := post(t, url, session, work); status != 0 || s.Executions("w") != 1 {
		t.Errorf("run and cut: %d, %d executions", status, s.Executions("w"))
	}
	if _, body, _ := post(t, url, session, work); !strings.Contains(body, `"n":2`) {
		t.Errorf("second run: %s", body)
	}
	s.On("ping", func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Error: `{"code":1,"message":"x"}`, ID: "null"}
	})
	if _, body, _ := post(t, url, session, ping); body != `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}` {
		t.Errorf("scripted: %s", body)
	}
	s.DropSessions()
	if status, body, _ := post(t, url, session, ping); status != 404 || !strings.Contains(body, "-32001") || s.Sessions() != 0 {
		t.Errorf("dropped: %d %s", status, body)
	}
	if s.Count("ping") != 6 || s.Count("gone") != 1 || s.Count("initialize") != 1 {
		t.Errorf("counted %d pings, %d gone, %d initialize", s.Count("ping"), s.Count("gone"), s.Count("initialize"))
	}
}
