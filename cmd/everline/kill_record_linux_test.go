package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/everline/everline/internal/audit"
)

// newRecorded is a folder with an everline that records each call, and answers none
// before its line is in the file.
func newRecorded(t *testing.T) *forest {
	dir := t.TempDir()
	f := &forest{t: t, dir: dir, state: filepath.Join(dir, "state"), file: filepath.Join(dir, "everline.json")}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "mcpserver"))
	}
	if err == nil {
		err = os.WriteFile(f.file, []byte(`{"everline":{"audit":{"level":"calls","strict":true}},"mcpServers":{"srv":{"command":"`+dir+`/mcpserver"}}}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// call makes one call, and tells whether it was answered.
func (r *serving) call(id int) bool {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"note":"%s"},"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, strings.Repeat("x", 100))
	req, err := http.NewRequest(http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		return false
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(text), `"result"`)
}

// everline runs a command on the state folder, and returns what it prints and its exit code.
func (f *forest) everline(args ...string) (out []byte, code int) {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: append([]string{"everline", "--state-dir", f.state}, args...), Env: append(os.Environ(), "HOME="+f.dir, "GORACE=atexit_sleep_ms=0")}
	out, err = cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out, exit.ExitCode()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return out, 0
}

// verdict is what everline audit verify says; the record must be whole.
func (f *forest) verdict(when string) (v audit.Verdict) {
	f.t.Helper()
	out, code := f.everline("audit", "verify", "-o", "json")
	if err := json.Unmarshal(out, &v); err != nil {
		f.t.Fatalf("%s: %v: %s", when, err, out)
	}
	if code != 0 || !v.Intact || v.Lost > 0 {
		f.t.Fatalf("%s: exit %d, %+v", when, code, v)
	}
	return v
}

// TestKillWhileCallsAreRecorded kills everline while it writes records: at most the
// last line is torn, everline audit verify says so, and each call that was answered
// has its line.
func TestKillWhileCallsAreRecorded(t *testing.T) {
	t.Parallel()
	rounds, _ := killRounds(t)
	f := newRecorded(t)
	var answered []int
	var next atomic.Int64
	torn := 0
	for round := range rounds {
		r := f.start()
		f.until("the first call", func() string {
			id := int(next.Add(1))
			if !r.call(id) {
				return "no answer; " + r.stderr.String()
			}
			answered = append(answered, id)
			return ""
		})
		var mu sync.Mutex // guards answered
		var clients sync.WaitGroup
		until, killed := int64(len(answered)+1+rand.IntN(200)), make(chan struct{})
		for range 8 {
			clients.Go(func() { // ends with everline
				for {
					id := int(next.Add(1))
					if !r.call(id) {
						return
					}
					mu.Lock()
					answered = append(answered, id)
					if int64(len(answered)) == until {
						close(killed)
					}
					mu.Unlock()
				}
			})
		}
		<-killed
		r.kill(t)
		clients.Wait()
		v := f.verdict(fmt.Sprint("round ", round))
		if len(v.Torn) > torn+1 || v.Killed != round+1 {
			t.Fatalf("round %d: %+v", round, v)
		}
		torn = len(v.Torn)
		f.recorded(answered)
	}
	t.Logf("%d rounds, %d calls answered, %d lines torn", rounds, len(answered), torn)
	f.tear(torn)
}

// recorded makes sure that calls have a line each.
func (f *forest) recorded(answered []int) {
	f.t.Helper()
	lines := map[string]int{}
	err := audit.Read(f.t.Context(), filepath.Join(f.state, "audit"), audit.Filter{Type: audit.TypeCall}, false, func(r *audit.Record, _ []byte) error {
		lines[r.Request.ID]++
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, id := range answered {
		if lines[fmt.Sprint(id)] != 1 {
			f.t.Fatalf("call %d was answered, and has %d lines", id, lines[fmt.Sprint(id)])
		}
	}
}

// tear cuts the last line in its middle, as a kill may: verify names it, and the next
// everline goes on behind it.
func (f *forest) tear(torn int) {
	files, err := filepath.Glob(filepath.Join(f.state, "audit", "audit-*.jsonl"))
	if err != nil || len(files) == 0 {
		f.t.Fatal(files, err)
	}
	slices.SortFunc(files, func(a, b string) int { // .10 comes behind .9
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	last := files[len(files)-1]
	info, err := os.Stat(last)
	if err == nil {
		err = os.Truncate(last, info.Size()-20)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if v := f.verdict("a torn line"); len(v.Torn) != torn+1 || v.Torn[torn].File != filepath.Base(last) {
		f.t.Errorf("torn: %+v", v.Torn)
	}
	if out, _ := f.everline("audit", "verify"); !strings.Contains(string(out), "torn: "+filepath.Base(last)+":") {
		f.t.Errorf("in words: %s", out)
	}
	if _, code := f.everline("token", "create", "behind"); code != 0 {
		f.t.Errorf("a command behind a torn line exits with %d", code)
	}
	if v := f.verdict("behind it"); len(v.Torn) != torn+1 {
		f.t.Errorf("%+v", v)
	}
	if out, _ := f.everline("audit", "-o", "jsonl"); !strings.Contains(string(out), `"action":"torn"`) || !strings.Contains(string(out), `"token":"behind"`) {
		f.t.Errorf("the record says nothing of it: %.300s", out)
	}
}
