//go:build interop && unix

package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/internal/mcptest"
)

// restartsOfEverline is how often each client lives through one, half of them
// kill -9. EVERLINE_RESTARTS=50 is the long run, and EVERLINE_CLIENTS names some
// of the clients.
func restartsOfEverline(t *testing.T) int {
	t.Helper()
	text := os.Getenv("EVERLINE_RESTARTS")
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("EVERLINE_RESTARTS: %v", err)
	}
	return n
}

// A held is everline as a service manager runs it: the manager keeps the
// socket, and starts the next process as soon as one has ended.
type held struct {
	t             *testing.T
	socket        *os.File
	address       string
	config, state string
	cmd           *exec.Cmd
	out           strings.Builder
}

func hold(t *testing.T, servers map[string]any) *held {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h := &held{t: t, socket: socket, address: l.Addr().String(), config: filepath.Join(dir, "everline.json"), state: filepath.Join(dir, "state")}
	_ = l.Close() // the socket goes on in its file
	if err := os.WriteFile(h.config, []byte(asJSON(t, map[string]any{"mcpServers": servers})), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	t.Cleanup(func() {
		h.end(syscall.SIGTERM)
		_ = socket.Close()
		if t.Failed() {
			t.Logf("output of everline:\n%s", h.out.String())
		}
	})
	return h
}

func (h *held) start() {
	h.t.Helper()
	h.cmd = exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"`, "sh", binaries.everline, "serve", "--config", h.config, "--state-dir", h.state)
	h.cmd.Env, h.cmd.ExtraFiles = env(h.t), []*os.File{h.socket}
	h.cmd.Stdout, h.cmd.Stderr = &h.out, &h.out
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *held) end(how syscall.Signal) {
	_ = h.cmd.Process.Signal(how)
	_ = h.cmd.Wait() // it was asked to end, or killed
}

// A restarted is a client's program, under which everline is restarted, and that calls without pause.
type restarted struct {
	kind  string
	stdin io.Closer
	calls atomic.Int64
	ready chan struct{}
	done  chan struct{} // its output is over

	mu       sync.Mutex
	failed   []string
	repeated int
	sessions int // that the library had to open anew, because it had given one up by itself
	slowest  int64
	ids      []string // the last try of each call
}

type callLine struct {
	Ready bool   `json:"ready"`
	ID    string `json:"id"`
	Tries int    `json:"tries"`
	MS    int64  `json:"ms"`
	Error string `json:"error"`

	Sessions int `json:"sessions"`
}

func startRestarted(t *testing.T, kind, target string) *restarted {
	t.Helper()
	if kind == "gosdk" {
		return startSDK(t, target)
	}
	var cmd *exec.Cmd
	switch kind {
	case "gosdk-1.0", "mcp-go":
		cmd = exec.Command(goClients(t), kind, target, kind)
	default:
		cmd = exec.Command(bin(t, "node"), "restart.mjs", kind, target, kind)
		cmd.Dir = "clients"
	}
	cmd.Env = append(env(t), "MCP_USE_ANONYMIZED_TELEMETRY=false", "SCARF_ANALYTICS=false", "NODE_NO_WARNINGS=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &restarted{kind: kind, stdin: stdin, ready: make(chan struct{}), done: make(chan struct{})}
	go c.read(stdout) // ends with the program, which the cleanup ends
	t.Cleanup(func() {
		_ = stdin.Close()
		select {
		case <-c.done:
		case <-time.After(40 * time.Second):
			t.Errorf("%s does not end", kind)
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait() // what it did is in its lines
		if t.Failed() {
			t.Logf("%s on stderr:\n%s", kind, errs.String())
		}
	})
	return c
}

// startSDK is a client of the go-sdk that everline itself is tested with, in this
// process.
func startSDK(t *testing.T, target string) *restarted {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	client := mcp.NewClient(&mcp.Implementation{Name: "gosdk", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: target, MaxRetries: 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &restarted{kind: "gosdk", stdin: closer(stop), ready: make(chan struct{}), done: make(chan struct{})}
	close(c.ready)
	out, in := io.Pipe()
	go c.read(out) // ends with the calls
	go func() {    // ends with ctx
		defer in.Close()
		lines := json.NewEncoder(in)
		for n := 0; ctx.Err() == nil; n++ {
			l, begun := callLine{ID: fmt.Sprintf("gosdk-%d", n)}, time.Now()
			for ; time.Since(begun) < 30*time.Second && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				l.Tries++
				tool := []string{"one__work", "two__work"}[n%2]
				_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"id": fmt.Sprintf("%s-%d", l.ID, l.Tries)}})
				if err == nil {
					break
				}
			}
			if ctx.Err() != nil {
				return
			}
			if l.MS = time.Since(begun).Milliseconds(); err != nil {
				l.Error = err.Error()
			}
			if lines.Encode(l) != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-c.done
		_ = session.Close() // everline may be gone
	})
	return c
}

type closer func()

func (c closer) Close() error { c(); return nil }

func (c *restarted) read(out io.Reader) {
	defer close(c.done)
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l callLine
		if json.Unmarshal(s.Bytes(), &l) != nil {
			continue // supergateway and others talk
		}
		if l.Ready {
			close(c.ready)
			continue
		}
		c.mu.Lock()
		if l.Error != "" {
			c.failed = append(c.failed, l.ID+": "+l.Error)
		}
		c.repeated += l.Tries - 1
		c.sessions += l.Sessions
		c.slowest = max(c.slowest, l.MS)
		c.ids = append(c.ids, fmt.Sprintf("%s-%d", l.ID, l.Tries))
		c.mu.Unlock()
		c.calls.Add(1)
	}
}

var buildGoClients = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries.dir, "goclients")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Dir = "goclients"
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building goclients: %w\n%s", err, out)
	}
	return path, err
})

func goClients(t *testing.T) string {
	t.Helper()
	path, err := buildGoClients()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFaultU2RestartOfEverline restarts everline, in order and by kill -9 in turn,
// under clients of nine code bases. None loses its session or a call that it may
// repeat, and nothing runs twice.
func TestFaultU2RestartOfEverline(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	work := `{"name":"work","inputSchema":{"type":"object","properties":{"id":{"type":"string"}}},"annotations":{"idempotentHint":true,"destructiveHint":false}}`
	web := mcptest.New(mcptest.Config{Name: "two", Tools: []string{work}, Journal: journal})
	site := mcptest.Web(t, web)
	servers := map[string]any{"two": map[string]any{"url": site.URL + "/mcp"}}
	for _, name := range []string{"one", "three", "four", "five"} {
		command, args, env := mcptest.Child(mcptest.Config{Name: name, Tools: []string{work}, Journal: journal})
		servers[name] = map[string]any{"command": command, "args": args, "env": env}
	}
	h := hold(t, servers)
	bridge := asJSON(t, []string{binaries.everline, "stdio", "--config", h.config, "--state-dir", h.state})
	url := "http://" + h.address
	var clients []*restarted
	for kind, target := range map[string]string{
		"ts1-http": url + "/mcp", "ts1-sse": url + "/sse", "ts1-stdio": bridge,
		"ts2-http": url + "/mcp", "ts2-sse": url + "/sse",
		"inspector": url + "/mcp", "supergateway": url + "/mcp", "ai": url + "/mcp", "langchain": url + "/mcp", "mcp-use": url + "/mcp",
		"raw": url + "/mcp", "gosdk": url + "/mcp", "gosdk-1.0": url + "/mcp", "mcp-go": url + "/mcp",
	} {
		if only := os.Getenv("EVERLINE_CLIENTS"); only == "" || slices.Contains(strings.Fields(only), kind) {
			clients = append(clients, startRestarted(t, kind, target))
		}
	}
	for _, c := range clients {
		select {
		case <-c.ready:
		case <-c.done:
			t.Fatalf("%s ended before it had a session", c.kind)
		case <-time.After(time.Minute):
			t.Fatalf("%s has no session after a minute", c.kind)
		}
	}
	few := map[string]int64{"inspector": 0} // calls that are enough for a round
	for _, c := range clients {
		if _, slow := few[c.kind]; !slow {
			few[c.kind] = 3
		}
	}
	slowestStop := time.Duration(0)
	for n := range restartsOfEverline(t) {
		before := make([]int64, len(clients))
		for i, c := range clients {
			before[i] = c.calls.Load()
		}
		for i, c := range clients {
			until(t, 20*time.Second, fmt.Sprintf("%s makes calls after restart %d", c.kind, n), func() bool {
				select {
				case <-c.done:
					t.Fatalf("%s has ended after restart %d: %v", c.kind, n, c.failed)
				default:
				}
				return c.calls.Load() > before[i]+few[c.kind]
			})
		}
		how := syscall.SIGTERM
		if n%2 == 1 {
			how = syscall.SIGKILL
		}
		begun := time.Now()
		h.end(how)
		slowestStop = max(slowestStop, time.Since(begun))
		h.start()
	}
	for _, c := range clients {
		_ = c.stdin.Close()
	}
	text := fmt.Sprintf("the slowest stop took %v", slowestStop)
	for _, c := range clients {
		<-c.done // bounded by the cleanup of a restarted that hangs
		text += fmt.Sprintf("\n%-14s %5d calls, %3d sent again by the client, slowest %d ms, %d sessions more, %d failed", c.kind, len(c.ids), c.repeated, c.slowest, c.sessions, len(c.failed))
		if c.sessions > 0 && c.kind != "gosdk-1.0" { // which gives a session up when a request cannot be sent
			t.Errorf("%s had to open %d sessions more", c.kind, c.sessions)
		}
		for _, f := range c.failed[:min(3, len(c.failed))] {
			t.Errorf("%s: %s", c.kind, f)
		}
	}
	t.Log(text)
	checkJournal(t, journal, web, clients)
}

// checkJournal: what was answered ran, and no try ran twice.
func checkJournal(t *testing.T, journal string, web *mcptest.Server, clients []*restarted) {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "exec "); ok {
			ran[id]++
		}
	}
	var twice []string
	for id, n := range ran {
		if n > 1 {
			twice = append(twice, id)
		}
	}
	slices.Sort(twice)
	if len(twice) > 0 {
		t.Errorf("%d calls ran twice: %v", len(twice), twice[:min(10, len(twice))])
	}
	for _, c := range clients {
		for _, id := range c.ids {
			if ran[id] == 0 && len(c.failed) == 0 {
				t.Errorf("%s was answered and did not run", id)
			}
		}
	}
}
