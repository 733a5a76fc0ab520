package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// A slowTool is a daemon with one server, whose tool "work" takes until the test
// ends, and its endpoint.
func slowTool(t *testing.T) (d *daemon, url string, started <-chan struct{}, release func()) {
	t.Helper()
	began, free := make(chan struct{}, 8), make(chan struct{})
	up := mcptest.New(mcptest.Config{})
	up.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
		began <- struct{}{}
		<-free
		return nil
	})
	server := httptest.NewServer(up.Handler())
	t.Cleanup(server.Close)
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	cfg, err := config.Parse("everline.json", []byte(`{"everline": {"drainTimeout": "1m", "firstListWait": "30s"}, "mcpServers": {"a": {"url": "`+server.URL+`/mcp"}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err = start(t.Context(), parts{Options: quiet, found: Loaded{Config: cfg}, stateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.server = d.serve(d.gateway.Listener(l), d.endpoint())
	return d, "http://" + l.Addr().String(), began, release
}

// soon waits for less than the drain of slowTool.
func soon[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(45 * time.Second):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

func askMCP(ctx context.Context, url, session, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	return http.DefaultClient.Do(req)
}

func TestFaultW7TheEndpointStaysWhileOthersDrain(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("the client waits ", waits), func(t *testing.T) {
			d, url, started, release := slowTool(t)
			defer http.DefaultClient.CloseIdleConnections()
			resp, err := askMCP(t.Context(), url, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			session := resp.Header.Get("Mcp-Session-Id")
			if resp, err = askMCP(t.Context(), url, session, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); err != nil { // which waits for the first one
				t.Fatal(err)
			}
			listed, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !strings.Contains(string(listed), `"work"`) {
				t.Fatalf("listed %s", listed)
			}
			call, leave := context.WithCancel(t.Context())
			defer leave()
			answered := make(chan int, 1)
			go func() { // ends with the call
				resp, err := askMCP(call, url, session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{}}}`)
				if err != nil {
					answered <- 0
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				answered <- resp.StatusCode
			}()
			soon(t, "the call starts", started)
			if !waits {
				leave()
				soon(t, "the client leaves", answered)
			}
			ended := make(chan error, 1)
			go func() { ended <- d.close(context.Background()) }() // ends within its own deadlines
			if waits {
				for {
					resp, err := http.Get(url + "/readyz")
					if err != nil {
						t.Fatalf("the port is closed while a call is out: %v", err)
					}
					resp.Body.Close()
					if resp.StatusCode == http.StatusServiceUnavailable {
						break
					}
				}
				resp, err := askMCP(t.Context(), url, session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
					t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
				}
				release()
				if code := soon(t, "the answer", answered); code != http.StatusOK {
					t.Errorf("the call that was out: %d", code)
				}
			}
			if err := soon(t, "the end", ended); err != nil {
				t.Error(err)
			}
			if _, err := http.Get(url + "/readyz"); err == nil {
				t.Error("the port is open after the end")
			}
		})
	}
}
