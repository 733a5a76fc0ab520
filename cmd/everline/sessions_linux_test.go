package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sessionCount is how many idle sessions are opened: a few in every test run,
// and EVERLINE_SESSIONS of them in "make long NAME=sessions", which also holds everline
// to the numbers below.
func sessionCount(t *testing.T) (n int, strict bool) {
	text := os.Getenv("EVERLINE_SESSIONS")
	if text == "" {
		return 100, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n, true
}

const (
	idleLimit   = 60 << 20 // bytes of everline with 10,000 sessions without streams
	streamLimit = 30 << 10 // bytes of one open stream
)

// A running is the binary itself, as users run it; where nothing is held to the
// numbers the test's, which is the same and some more.
type running struct {
	t    *testing.T
	pid  int
	url  string
	http *http.Client
}

func startRunning(t *testing.T, strict bool) *running {
	t.Helper()
	dir := t.TempDir()
	bin, file := filepath.Join(dir, "everline"), filepath.Join(dir, "everline.json")
	self, err := os.Executable()
	if err == nil && !strict {
		err = os.Symlink(self, bin)
	}
	if err == nil && strict {
		err = exec.Command("go", "build", "-o", bin, ".").Run()
	}
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "mcpserver"))
	}
	if err == nil {
		err = os.WriteFile(file, []byte(`{"mcpServers":{"srv":{"command":"`+dir+`/mcpserver"}}}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &running{t: t, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, MaxConnsPerHost: 0}}}
	addr := freeAddress(t)
	d.url = "http://" + addr + "/mcp"
	cmd := exec.Command(bin, "serve", "--config", file, "--listen", addr, "--state-dir", filepath.Join(dir, "state"))
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("everline ended with %v", err)
		}
		d.http.CloseIdleConnections()
	})
	d.until("everline answers", func() bool {
		resp, err := d.http.Get("http://" + addr + "/healthz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return d
}

func (d *running) until(what string, ok func() bool) {
	d.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(killWithin); !ok(); <-tick.C {
		if time.Now().After(end) {
			d.t.Fatalf("waited too long: %s", what)
		}
	}
}

// resident is the memory that the process has now, in bytes.
func (d *running) resident() int64 {
	d.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.pid))
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	d.t.Fatal("the process has no VmRSS")
	return 0
}

func (d *running) post(body, session string) (*http.Response, error) {
	req, err := http.NewRequest("POST", d.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	return d.http.Do(req)
}

// open opens a session as clients do, and calls a tool in it.
func (d *running) open() (string, error) {
	hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`
	id := ""
	for _, body := range []string{
		hello,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
	} {
		resp, err := d.post(body, id)
		if err != nil {
			return "", err
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode >= 300 {
			err = fmt.Errorf("%d %s", resp.StatusCode, answer)
		}
		if err != nil {
			return "", err
		}
		if id == "" {
			id = resp.Header.Get("Mcp-Session-Id")
		}
	}
	return id, nil
}

// sessions opens n sessions, eight at a time.
func (d *running) sessions(n int) []string {
	d.t.Helper()
	ids := make([]string, n)
	var work sync.WaitGroup
	for part := range 8 {
		work.Go(func() {
			for i := part; i < n; i += 8 {
				id, err := d.open()
				if err != nil {
					d.t.Error(err)
					return
				}
				ids[i] = id
			}
		})
	}
	work.Wait()
	return ids
}

// streams opens the standing stream of each session.
func (d *running) streams(ids []string) {
	d.t.Helper()
	for _, id := range ids {
		req, err := http.NewRequest("GET", d.url, nil)
		if err != nil {
			d.t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Mcp-Session-Id", id)
		resp, err := d.http.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			d.t.Fatalf("a stream: %v %v", resp, err)
		}
		d.t.Cleanup(func() { resp.Body.Close() })
		if line, err := bufio.NewReaderSize(resp.Body, 16).ReadString('\n'); err != nil || !bytes.HasPrefix([]byte(line), []byte(":")) {
			d.t.Fatalf("a stream begins with %q: %v", line, err)
		}
	}
}

// settled is the least that the process has in a while: the collector takes its
// time to give memory back.
func (d *running) settled(strict bool) int64 {
	least := d.resident()
	if !strict {
		return least
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 10 {
		<-tick.C
		least = min(least, d.resident())
	}
	return least
}

// TestSessionsAreCheap opens idle sessions, and then streams, and measures what
// the binary has for them.
func TestSessionsAreCheap(t *testing.T) {
	t.Parallel()
	n, strict := sessionCount(t)
	d := startRunning(t, strict)
	empty := d.settled(strict)
	ids := d.sessions(n)
	if t.Failed() {
		return
	}
	idle := d.settled(strict)
	open := ids[:min(n, 4000)]
	d.streams(open)
	streaming := d.settled(strict)
	each := (streaming - idle) / int64(len(open))
	report, _ := json.Marshal(map[string]any{
		"emptyBytes": empty, "sessions": n, "idleBytes": idle, "bytesPerSession": (idle - empty) / int64(n),
		"streams": len(open), "streamingBytes": streaming, "bytesPerStream": each,
	})
	t.Logf("%s", report)
	if !strict {
		return
	}
	if idle > idleLimit {
		t.Errorf("%d bytes with %d idle sessions, at most %d", idle, n, idleLimit)
	}
	if each > streamLimit {
		t.Errorf("%d bytes for an open stream, at most %d", each, streamLimit)
	}
}
