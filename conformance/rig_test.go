//go:build conformance || interop

package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/internal/mcptest"
)

// binaries are built once, in TestMain.
var binaries struct{ dir, everline, everything, driver string }

func TestMain(m *testing.M) {
	mcptest.RunChild()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "everline-conformance-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binaries.dir, binaries.everline, binaries.everything = dir, filepath.Join(dir, "everline"), filepath.Join(dir, "everything-server")
		binaries.driver = filepath.Join(dir, "driver")
		for out, pkg := range map[string]string{
			binaries.driver:     "github.com/everline/everline/conformance/driver",
			binaries.everline:   "github.com/everline/everline/cmd/everline",
			binaries.everything: "github.com/modelcontextprotocol/go-sdk/conformance/everything-server",
		} {
			if msg, err := exec.Command("go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "building %s: %v\n%s", pkg, err, msg)
				return 1
			}
		}
		return m.Run()
	}())
}

// bin is the path of a program that npm installed.
func bin(t *testing.T, name string) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join("node_modules", ".bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("%s is not installed; run: npm ci --prefix conformance (%v)", name, err)
	}
	return p
}

// env is our environment with the npm programs, node among them, first on PATH.
func env(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "PATH="+filepath.Dir(bin(t, "node"))+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs a program until the test ends, its output in the test's log if it fails.
func start(t *testing.T, stop time.Duration, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = env(t)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // waited for in the cleanup
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-done:
		case <-time.After(stop):
			t.Errorf("%s did not stop within %s of an interrupt", filepath.Base(path), stop)
			_ = cmd.Process.Kill()
			<-done
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", filepath.Base(path), out.String())
		}
	})
	return cmd
}

// A gateway is a running everline.
type gateway struct {
	t        *testing.T
	url, dir string
}

// serve starts everline with the servers of an mcpServers object, and returns
// once all of them are connected.
func serve(t *testing.T, servers map[string]any) *gateway {
	t.Helper()
	return serveFile(t, map[string]any{"mcpServers": servers})
}

// serveFile is serve for a whole configuration.
func serveFile(t *testing.T, config map[string]any) *gateway {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "everline.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, dir: filepath.Join(dir, "state")}
	start(t, 20*time.Second, binaries.everline, "serve", "--config", file, "--listen", "127.0.0.1:0", "--state-dir", g.dir)
	until(t, 60*time.Second, "every server is connected", func() bool {
		all := g.status()
		for _, s := range all {
			if s.State != "connected" {
				return false
			}
		}
		return g.url != "" && len(all) == len(config["mcpServers"].(map[string]any))
	})
	return g
}

type serverStatus struct {
	Name       string `json:"name"`
	State      string `json:"state"`
	Generation uint64 `json:"generation"`
	PID        int    `json:"pid"`
	Tools      int    `json:"tools"`
	Sessions   []struct {
		PID int `json:"pid"`
	} `json:"sessions"`
}

// status asks as a user would; nil while everline is not up yet.
func (g *gateway) status() []serverStatus {
	out, err := exec.Command(binaries.everline, "status", "--state-dir", g.dir, "-o", "json").Output()
	if err != nil && len(out) == 0 {
		return nil
	}
	var st struct {
		Endpoint string         `json:"endpoint"`
		Servers  []serverStatus `json:"servers"`
	}
	if err := json.Unmarshal(out, &st); err != nil {
		g.t.Fatalf("everline status -o json printed %q: %v", out, err)
	}
	g.url = st.Endpoint
	return st.Servers
}

// kill ends a server's processes, those of single clients too, with SIGKILL.
func (g *gateway) kill(server string) {
	g.t.Helper()
	for _, s := range g.status() {
		if s.Name != server {
			continue
		}
		pids := []int{s.PID}
		for _, o := range s.Sessions {
			pids = append(pids, o.PID)
		}
		for _, pid := range pids {
			p, err := os.FindProcess(pid)
			if err != nil {
				g.t.Fatal(err)
			}
			if err := p.Kill(); err != nil {
				g.t.Fatalf("killing %s, pid %d: %v", server, pid, err)
			}
		}
		return
	}
	g.t.Fatalf("no server %s", server)
}

// until polls cond with a deadline; the poll is paced by the program it runs.
func until(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// listening tells whether something answers HTTP at the address.
func listening(addr string) bool {
	resp, err := http.Get("http://" + addr + "/")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return true
}

// lines reads a program's output line by line, each within limit.
type lines struct {
	t  *testing.T
	ch chan string
}

func readLines(t *testing.T, s *bufio.Scanner) *lines {
	l := &lines{t: t, ch: make(chan string, 16)}
	go func() { // ends with the program
		defer close(l.ch)
		for s.Scan() {
			l.ch <- s.Text()
		}
	}()
	return l
}

func (l *lines) next(limit time.Duration) string {
	l.t.Helper()
	select {
	case line, ok := <-l.ch:
		if !ok {
			l.t.Fatal("the program ended early")
		}
		return line
	case <-time.After(limit):
		l.t.Fatalf("no line within %s", limit)
	}
	return ""
}
