//go:build interop && unix

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/internal/mcptest"
)

var rewritePages = flag.Bool("rewrite", false, "write the page of clients anew")

// A kind is a client that the page of clients has a row for.
type kind struct {
	name string // as the page has it
	over string // "http", "sse", or "stdio" by way of everline stdio
	// sessions tells whether it has a session that can be lost.
	sessions bool
	open     func(t *testing.T, target string) stepper
}

// A stepper makes one call; nil if the tool has answered.
type stepper func(tool string, arguments map[string]any) error

func clientKinds() []kind {
	script := func(name string) func(*testing.T, string) stepper {
		return func(t *testing.T, target string) stepper {
			cmd := exec.Command(bin(t, "node"), "steps.mjs", name, target)
			cmd.Dir = "clients"
			return stepsOf(t, cmd)
		}
	}
	program := func(name string) func(*testing.T, string) stepper {
		return func(t *testing.T, target string) stepper {
			return stepsOf(t, exec.Command(goClients(t), name, target, name, "steps"))
		}
	}
	return []kind{
		{"TypeScript SDK 1", "http", true, script("ts1-http")},
		{"TypeScript SDK 1", "sse", true, script("ts1-sse")},
		{"TypeScript SDK 1", "stdio", true, script("ts1-stdio")},
		{"TypeScript SDK 2", "http", true, script("ts2-http")},
		{"TypeScript SDK 2", "stdio", true, script("ts2-stdio")},
		{"TypeScript SDK 2, 2026-07-28", "http", false, script("ts2-modern-http")},
		{"TypeScript SDK 2, 2026-07-28", "stdio", false, script("ts2-modern-stdio")},
		{"go-sdk", "http", true, goSDK("2025-11-25")},
		{"go-sdk", "stdio", true, goSDK("2025-11-25")},
		{"go-sdk, 2026-07-28", "http", false, goSDK("2026-07-28")},
		{"go-sdk, 2026-07-28", "stdio", false, goSDK("2026-07-28")},
		{"go-sdk 1.0", "http", true, program("gosdk-1.0")},
		{"mcp-go", "http", true, program("mcp-go")},
		{"AI SDK", "http", true, script("ai")},
		{"LangChain's adapters", "http", true, script("langchain")},
		{"mcp-use", "http", true, script("mcp-use")},
		{"supergateway", "http", true, script("supergateway")},
		{"a raw one, which keeps its session id whatever it hears", "http", true, script("raw")},
	}
}

// stepsOf starts a client's program, which speaks as clients/steps.mjs does.
func stepsOf(t *testing.T, cmd *exec.Cmd) stepper {
	t.Helper()
	cmd.Env = append(env(t), "MCP_USE_ANONYMIZED_TELEMETRY=false", "SCARF_ANALYTICS=false", "NODE_NO_WARNINGS=1")
	var errs strings.Builder
	cmd.Stderr = &errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := readLines(t, scanner(stdout))
	t.Cleanup(func() {
		_ = stdin.Close()
		late := time.AfterFunc(40*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		for range l.ch { // until the program has ended
		}
		_ = cmd.Wait() // what it did is in its lines
		if t.Failed() {
			t.Logf("the client on stderr:\n%s", errs.String())
		}
	})
	next := func(limit time.Duration) (said struct {
		Ready bool    `json:"ready"`
		Error *string `json:"error"`
	}) {
		for !said.Ready && said.Error == nil { // some programs talk
			_ = json.Unmarshal([]byte(l.next(limit)), &said)
		}
		return said
	}
	next(time.Minute)
	return func(tool string, arguments map[string]any) error {
		if err := json.NewEncoder(stdin).Encode(map[string]any{"name": tool, "arguments": arguments}); err != nil {
			return err
		}
		if said := next(time.Minute); *said.Error != "" {
			return fmt.Errorf("%s", *said.Error)
		}
		return nil
	}
}

// goSDK is the client of the go-sdk that everline itself is tested with, in this process.
func goSDK(revision string) func(*testing.T, string) stepper {
	return func(t *testing.T, target string) stepper {
		var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: target, MaxRetries: 20}
		if command := []string(nil); json.Unmarshal([]byte(target), &command) == nil {
			transport = &mcp.CommandTransport{Command: exec.Command(command[0], command[1:]...)}
		}
		session, err := mcp.NewClient(&mcp.Implementation{Name: "clients", Version: "1"}, nil).
			Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() }) // everline may be gone
		return func(tool string, arguments map[string]any) error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
			if err == nil && result.IsError {
				err = fmt.Errorf("the tool failed: %s", asJSON(t, result.Content))
			}
			return err
		}
	}
}

// A wire is what lies between a client and everline: it can be cut, and is read.
type wire struct {
	l       net.Listener
	to      string
	streams atomic.Int64 // answers that came as a stream
	all     sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	ended bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{l: l, to: to, open: map[net.Conn]struct{}{}}
	w.all.Go(func() { // ends with the listener
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			w.all.Go(func() { w.carry(client) }) // ends with the connection
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		w.cut()
		w.all.Wait()
	})
	return w
}

func (w *wire) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer server.Close()
	if !w.hold(client, server) {
		return
	}
	done := make(chan struct{})
	go func() { // ends with the connections, which the end of carry closes
		defer close(done)
		defer client.Close()
		w.answers(client, server)
	}()
	_, _ = io.Copy(server, client) // the end of either is that of both
	_ = server.Close()
	<-done
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, client)
	delete(w.open, server)
}

func (w *wire) hold(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.open[c] = struct{}{}
	}
	return !w.ended
}

// answers carries what everline says, and counts the streams that begin in it: a
// head is sent in one piece.
func (w *wire) answers(client io.Writer, server io.Reader) {
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		if bytes.Contains(b[:n], []byte("text/event-stream")) {
			w.streams.Add(1)
		}
		if _, gone := client.Write(b[:n]); err != nil || gone != nil {
			return
		}
	}
}

// cut breaks every connection.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.(*net.TCPConn).SetLinger(0) // as a network that is gone
		_ = c.Close()
	}
}

// A scene is one client at one everline, to which something happens.
type scene struct {
	t       *testing.T
	kind    kind
	h       *held
	w       *wire
	web     *mcptest.Server
	journal string
	target  string // of the client
	call    stepper
	n       int
}

// happenings are what can happen to a client, as the page has it.
var happenings = []struct {
	name string
	make func(s *scene) (fails int, over bool)
}{
	{"a server restarts", (*scene).serverRestarts},
	{"the connection is cut during a call", (*scene).cutDuringCall},
	{"everline restarts", func(s *scene) (int, bool) { return s.restart(syscall.SIGTERM, false) }},
	{"everline is killed", func(s *scene) (int, bool) { return s.restart(syscall.SIGKILL, false) }},
	{"its session was put away", (*scene).idle},
	{"the key of its session is lost", func(s *scene) (int, bool) { return s.restart(syscall.SIGTERM, true) }},
}

// tries is how often a person makes a call that fails.
const tries = 4

// after makes calls until each server has answered one, and returns how many failed
// before; over if they all did.
func (s *scene) after() (fails int, over bool) {
	for _, tool := range []string{"one__work", "two__work"} {
		for try := 0; ; try++ {
			s.n++
			err := s.call(tool, map[string]any{"id": fmt.Sprint("call-", s.n)})
			if err == nil {
				break
			}
			s.t.Logf("%s: %v", tool, err)
			if fails++; try == tries {
				return fails, true
			}
			time.Sleep(500 * time.Millisecond) // the pace of somebody who tries again
		}
	}
	return fails, false
}

func (s *scene) status(server string) (st serverStatus) {
	g := &gateway{t: s.t, dir: s.h.state}
	for _, st = range g.status() {
		if st.Name == server {
			return st
		}
	}
	return serverStatus{}
}

func (s *scene) serverRestarts() (int, bool) {
	was := s.status("one")
	if err := syscall.Kill(was.PID, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	s.web.DropSessions()
	until(s.t, time.Minute, "the server is back", func() bool {
		now := s.status("one")
		return now.State == "connected" && now.Generation > was.Generation
	})
	return s.after()
}

// cutDuringCall cuts the connection when the answer has begun, or the call has been
// there for so long that it would have.
func (s *scene) cutDuringCall() (fails int, over bool) {
	streams, done := s.w.streams.Load(), make(chan error, 1)
	go func() { // ends with the call
		defer close(done)
		done <- s.call("two__work", map[string]any{"id": "cut", "ms": 3000})
	}()
	until(s.t, time.Minute, "the server has the call", func() bool { return mcptest.JournalCount(s.journal, "exec cut") > 0 })
	late := time.Now().Add(2 * time.Second)
	until(s.t, time.Minute, "the answer begins", func() bool { return s.w.streams.Load() > streams || time.Now().After(late) })
	s.w.cut()
	if err := <-done; err != nil {
		s.t.Logf("the call that was cut: %v", err)
		fails++
	}
	more, over := s.after()
	return fails + more, over
}

func (s *scene) restart(how syscall.Signal, forget bool) (int, bool) {
	streams := s.w.streams.Load()
	s.h.end(how)
	if forget {
		if err := os.Remove(filepath.Join(s.h.state, "session.key")); err != nil {
			s.t.Fatal(err)
		}
	}
	s.h.start()
	until(s.t, time.Minute, "everline is back", func() bool { return s.status("one").State == "connected" && s.status("two").State == "connected" })
	if s.kind.over == "sse" { // whose messages belong to its stream
		until(s.t, time.Minute, "its stream is back", func() bool { return s.w.streams.Load() > streams })
	}
	return s.after()
}

// idle takes the client's connections away and opens as many other sessions as
// everline has room for: what is put away then is what half an hour puts away.
func (s *scene) idle() (int, bool) {
	s.w.cut()
	crowd(s.t, "http://"+s.h.address+"/mcp")
	return s.after()
}

// crowd opens more sessions than everline keeps in memory.
func crowd(t *testing.T, url string) {
	t.Helper()
	const callers, each = 8, 1300
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer web.CloseIdleConnections()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"crowd","version":"1"}}}`
				req, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(hello))
				req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
				resp, err := web.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("a session is refused with %d", resp.StatusCode)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestClientsThatBeginAgain makes to each client what can happen to it, and compares
// the page of clients with what each did.
func TestClientsThatBeginAgain(t *testing.T) {
	only := os.Getenv("EVERLINE_CLIENTS")
	var rows []string
	for _, k := range clientKinds() {
		if only != "" && !strings.Contains(k.name+" "+k.over, only) {
			continue
		}
		t.Run(strings.ReplaceAll(k.name+" over "+k.over, " ", "_"), func(t *testing.T) { rows = append(rows, row(t, k)) })
	}
	if t.Failed() || only != "" {
		return
	}
	var columns []string
	for _, h := range happenings {
		columns = append(columns, h.name)
	}
	page := fmt.Sprintf(clientsHead, strings.Join(columns, " | "), strings.Repeat("---|", len(columns))) + strings.Join(rows, "\n") + "\n" + clientsNotes
	file := filepath.Join("..", "docs", "reference", "clients.md")
	if *rewritePages {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(file); err != nil || string(old) != page {
		t.Errorf("%s is not what the run has found (%v); -rewrite writes:\n%s", file, err, page)
	}
}

func row(t *testing.T, k kind) string {
	s := begin(t, k)
	cells := []string{k.name, map[string]string{"http": "Streamable HTTP", "sse": "HTTP+SSE", "stdio": "`everline stdio`"}[k.over]}
	for _, h := range happenings {
		if !applies(k, h.name) {
			cells = append(cells, "–")
			continue
		}
		fails, over := h.make(s)
		cells = append(cells, did(fails, over))
		t.Logf("%s: %d failed, %s", h.name, fails, cells[len(cells)-1])
		if over {
			if k.name != "go-sdk 1.0" {
				t.Errorf("%s: every call fails from now on", h.name)
			}
			s.call = k.open(t, s.target)
		}
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// applies tells whether something can happen to a client: over a pipe there is no connection to
// cut, and who has no session does not lose it.
func applies(k kind, happening string) bool {
	switch happening {
	case "the connection is cut during a call":
		return k.over != "stdio"
	case "its session was put away":
		return k.sessions && k.over == "http"
	case "the key of its session is lost":
		return k.sessions
	default:
		return true
	}
}

func did(fails int, over bool) string {
	switch {
	case over:
		return "gives its session up"
	case fails == 0:
		return "goes on"
	default:
		return "a call fails, then goes on"
	}
}

func begin(t *testing.T, k kind) *scene {
	t.Helper()
	s := &scene{t: t, kind: k, journal: filepath.Join(t.TempDir(), "journal")}
	s.web = mcptest.New(mcptest.Config{Name: "two", Tools: []string{workTool}, Journal: s.journal})
	command, args, env := mcptest.Child(mcptest.Config{Name: "one", Tools: []string{workTool}, Journal: s.journal})
	s.h = hold(t, map[string]any{
		"one": map[string]any{"command": command, "args": args, "env": env},
		"two": map[string]any{"url": mcptest.Web(t, s.web).URL + "/mcp"},
	})
	until(t, time.Minute, "everline is there", func() bool { return s.status("one").State == "connected" && s.status("two").State == "connected" })
	s.w = newWire(t, s.h.address)
	url := "http://" + s.w.l.Addr().String()
	s.target = map[string]string{
		"http": url + "/mcp", "sse": url + "/sse",
		"stdio": asJSON(t, []string{binaries.everline, "stdio", "--config", s.h.config, "--state-dir", s.h.state}),
	}[k.over]
	s.call = k.open(t, s.target)
	if fails, over := s.after(); fails > 0 || over {
		t.Fatalf("%d calls failed before anything has happened", fails)
	}
	return s
}

const clientsHead = `# What clients do

Written by ` + "`go test -tags interop ./conformance -run TestClientsThatBeginAgain -rewrite`" + `, as the run has found it. Each client makes calls of tools
that may not be repeated, on a server that is a command and one that is a URL; then something happens, and it makes calls again.

| client | over |` + " %s |\n|---|---|%s\n"

const clientsNotes = `
- *goes on*: no call fails, and the client does nothing for it. *A call fails, then goes on*: the one that was under way; the next is
  answered. *Gives its session up*: the library ends it, whatever comes; its program has to connect again.
- *A server restarts*: a ` + "`kill -9`" + ` of the command; the URL forgets its sessions. Each client sees the same, since it has none with a server.
- *The connection is cut*: reset in the middle of a call of three seconds. Clients that come back for the rest of an answer get it; for
  those of 2026-07-28 the end of the connection cancels the call, as that revision has it. Over HTTP+SSE the answer went out on the stream
  that was cut: the client waits for it until its own time is over.
- *Everline restarts*: in order, and by ` + "`kill -9`" + `, under the socket that a service manager holds. Calls that are under way then:
  [how to restart and upgrade](../how-to/restart-and-upgrade.md).
- *Its session was put away*: nothing was heard of it for half an hour, or 10,000 others came after it.
- *The key of its session is lost*: the state folder was lost, or the session is older than its key. What the client has declared goes on; its log
  level and subscriptions are lost.

A dash: there is no connection to cut, no session to lose. ` + "`everline stdio`" + ` holds a stream open, so its session is not put away.
With 2026-07-28 there are no sessions. Python's ` + "`mcp`" + ` is not among the clients: none of the registries that the run installs from has it.
`

// workTool may not be repeated.
const workTool = `{"name":"work","inputSchema":{"type":"object","properties":{"id":{"type":"string"},"ms":{"type":"number"}}}}`
