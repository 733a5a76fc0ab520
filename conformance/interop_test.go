//go:build interop

package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A probe is one call that proves that a server works.
type probe struct {
	server, tool string
	arguments    map[string]any
	want         string // part of the answer's text
}

// servers are real ones, as their users configure them.
func servers(t *testing.T) (map[string]any, []probe) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "note.txt"), []byte("kept on disk"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{
			"everything": map[string]any{"command": bin(t, "mcp-server-everything"), "args": []string{"stdio"}},
			"files":      map[string]any{"command": bin(t, "mcp-server-filesystem"), "args": []string{folder}},
			"memory": map[string]any{
				"command": bin(t, "mcp-server-memory"),
				"env":     map[string]string{"MEMORY_FILE_PATH": filepath.Join(folder, "memory.jsonl")},
			},
		}, []probe{
			{"everything", "echo", map[string]any{"message": "hello"}, "hello"},
			{"files", "read_text_file", map[string]any{"path": filepath.Join(folder, "note.txt")}, "kept on disk"},
			{"memory", "read_graph", map[string]any{}, "entities"},
		}
}

// A caller is a client that stays connected while servers die.
type caller interface {
	call(t *testing.T, name string, arguments map[string]any) string
}

func TestInterop(t *testing.T) {
	configured, probes := servers(t)
	g := serve(t, configured)
	clients := map[string]func(*testing.T, *gateway) caller{
		"go-sdk 2025-11-25": func(t *testing.T, g *gateway) caller { return dialGo(t, g, "2025-11-25") },
		"go-sdk 2025-03-26": func(t *testing.T, g *gateway) caller { return dialGo(t, g, "2025-03-26") },
		"go-sdk 2026-07-28": func(t *testing.T, g *gateway) caller { return dialGo(t, g, "2026-07-28") },
		"typescript sdk":    dialTypeScript,
		"inspector":         dialInspector,
		"mcp-remote":        dialRemote,
	}
	for name, dial := range clients {
		t.Run(name, func(t *testing.T) {
			c := dial(t, g)
			for _, p := range probes {
				p.check(t, c, "before")
				g.kill(p.server)
				p.check(t, c, "after a kill")
			}
		})
	}
}

func (p probe) check(t *testing.T, c caller, when string) {
	t.Helper()
	if got := c.call(t, p.server+"__"+p.tool, p.arguments); !strings.Contains(got, p.want) {
		t.Errorf("%s: %s of %s answered %q, which lacks %q", when, p.tool, p.server, got, p.want)
	}
}

// goClient is go-sdk's client, pinned to a revision.
type goClient struct{ *mcp.ClientSession }

func dialGo(t *testing.T, g *gateway, revision string) caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: g.url}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if got := s.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("negotiated %s, want %s", got, revision)
	}
	return goClient{s}
}

func (c goClient) call(t *testing.T, name string, arguments map[string]any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return asJSON(t, r)
}

// dialRemote connects go-sdk's client by way of mcp-remote, which speaks stdio
// with the client and HTTP with everline.
func dialRemote(t *testing.T, g *gateway) caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.Command(bin(t, "mcp-remote"), g.url, "--allow-http", "--transport", "http-only")
	cmd.Env = append(env(t), "MCP_REMOTE_CONFIG_DIR="+t.TempDir())
	s, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return goClient{s}
}

// TestRemoteBeforeAGoServer lists and calls by way of mcp-remote and everline,
// restarts the server under them, and does so again.
func TestRemoteBeforeAGoServer(t *testing.T) {
	for how, server := range map[string]map[string]any{
		"shared":             {"command": binaries.everything},
		"a life per session": {"command": binaries.everything, "everline": map[string]any{"isolation": "session"}},
	} {
		t.Run(how, func(t *testing.T) {
			g := serve(t, map[string]any{"fixtures": server})
			c := dialRemote(t, g).(goClient)
			p := probe{"", "test_simple_text", map[string]any{}, "simple text response"}
			for _, when := range []string{"before", "after a kill"} {
				tools, err := c.ListTools(t.Context(), nil)
				if err != nil || len(tools.Tools) < 10 {
					t.Fatalf("%s: %d tools, %v", when, len(tools.Tools), err)
				}
				if got := c.call(t, p.tool, p.arguments); !strings.Contains(got, p.want) {
					t.Errorf("%s: %s answered %q", when, p.tool, got)
				}
				if when == "before" {
					g.kill("fixtures")
				}
			}
		})
	}
}

// scriptClient is client.mjs, which stays connected and takes calls on stdin.
type scriptClient struct {
	in  *json.Encoder
	out *lines
}

func dialTypeScript(t *testing.T, g *gateway) caller {
	t.Helper()
	c := startScript(t, "client.mjs", g.url)
	if names := c.out.next(30 * time.Second); !strings.Contains(names, "everything__echo") {
		t.Errorf("the TypeScript client lists %s", names)
	}
	return c
}

// startScript starts a script until the test ends.
func startScript(t *testing.T, args ...string) scriptClient {
	t.Helper()
	cmd := exec.Command(bin(t, "node"), args...)
	cmd.Env, cmd.Stderr = env(t), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := scriptClient{json.NewEncoder(in), readLines(t, scanner(out))}
	t.Cleanup(func() {
		in.Close()
		for range c.out.ch { // until the program has ended
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the TypeScript client: %v", err)
		}
	})
	return c
}

func (c scriptClient) call(t *testing.T, name string, arguments map[string]any) string {
	t.Helper()
	if err := c.in.Encode(map[string]any{"name": name, "arguments": arguments}); err != nil {
		t.Fatal(err)
	}
	return c.out.next(30 * time.Second)
}

// inspectorClient runs the inspector's command line anew for each call.
type inspectorClient struct{ g *gateway }

func dialInspector(_ *testing.T, g *gateway) caller { return inspectorClient{g} }

func (c inspectorClient) call(t *testing.T, name string, arguments map[string]any) string {
	t.Helper()
	args := []string{"--cli", c.g.url, "--transport", "http", "--method", "tools/call", "--tool-name", name}
	for k, v := range arguments {
		args = append(args, "--tool-arg", fmt.Sprintf("%s=%v", k, v))
	}
	cmd := exec.Command(bin(t, "inspector"), args...)
	cmd.Env = env(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("inspector: %v\n%s", err, out)
	}
	return string(out)
}

func scanner(r interface{ Read([]byte) (int, error) }) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	return s
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
