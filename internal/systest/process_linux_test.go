package systest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// The tests of this file are about the processes of servers, seen through a
// hub, with guards.

const processEnv = "EVERLINE_PROCESS_CHILD"

// processChild is the test binary as a server that costs next to nothing
// itself, so that what is measured is ours. Its tools: small; big, whose
// answer has n bytes; eat, which answers with the size of its request.
func processChild() {
	if os.Getenv(processEnv) == "" {
		return
	}
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		line, err := in.ReadSlice('\n')
		head := string(line[:min(len(line), 400)])
		size := len(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = in.ReadSlice('\n')
			size += len(line)
		}
		if err != nil {
			os.Exit(0)
		}
		answerHead(out, head, size)
		_ = out.Flush()
	}
}

func answerHead(out *bufio.Writer, head string, size int) {
	id := between(head, `"id":`, ",")
	reply := func(result string) { fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result) }
	switch between(head, `"method":"`, `"`) {
	case "initialize":
		reply(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"lean","version":"1"}}`)
	case "tools/list":
		reply(`{"tools":[{"name":"small","inputSchema":{"type":"object"}},{"name":"big","inputSchema":{"type":"object"}},{"name":"eat","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		switch between(head, `"name":"`, `"`) {
		case "big":
			n, _ := strconv.Atoi(between(head, `"n":`, "}"))
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
			chunk := bytes.Repeat([]byte("b"), 64<<10)
			for ; n > 0; n -= len(chunk) {
				_, _ = out.Write(chunk[:min(n, len(chunk))])
			}
			_, _ = out.WriteString(`"}]}}` + "\n")
		default:
			reply(`{"content":[{"type":"text","text":"` + strconv.Itoa(size) + `"}]}`)
		}
	default:
		if id != "" {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", id)
		}
	}
}

func between(s, before, after string) string {
	_, rest, ok := strings.Cut(s, before)
	if !ok {
		return ""
	}
	v, _, _ := strings.Cut(rest, after)
	return v
}

// tag marks the processes of a test; tagged counts those that are alive.
func tag(t *testing.T, server map[string]any) (map[string]any, func() []int) {
	mark := fmt.Sprintf("EVERLINE_TEST_TAG=%s-%d", t.Name(), time.Now().UnixNano())
	name, value, _ := strings.Cut(mark, "=")
	env := map[string]string{name: value, "GORACE": "atexit_sleep_ms=0"}
	if old, ok := server["env"].(map[string]string); ok {
		for k, v := range old {
			env[k] = v
		}
	}
	server["env"] = env
	return server, func() []int {
		var pids []int
		dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range dirs {
			if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(mark)) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				pids = append(pids, pid)
			}
		}
		return pids
	}
}

// until waits for something that nothing tells of.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(soon); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("waited too long for ", what)
		}
	}
}

// shell is a server behind a script.
func shell(script string, s map[string]any) map[string]any {
	command := s["command"].(string)
	s["command"], s["args"] = "sh", []string{"-c", strings.ReplaceAll(script, "SERVER", command)}
	return s
}

// stubborn is a wrapper that ignores SIGTERM, as is its child in a session of
// its own.
const stubborn = `trap "" TERM; setsid sleep 1000 </dev/null >/dev/null 2>&1 & SERVER; exit 3`

func guarded(t *testing.T, s servers, opts everline.Options) *everline.Hub {
	everline.RunShim()
	return open(t, s, opts)
}

func TestFaultE1_DisableAndRemoveLeaveNothing(t *testing.T) {
	quick := map[string]any{"stopGrace": "50ms"}
	a, alive := tag(t, with(shell(stubborn, child(mcptest.Config{})), quick))
	hub := guarded(t, servers{"a": a}, everline.Options{})
	ready(t, hub, "a", 0)
	if n := len(alive()); n != 3 {
		t.Fatalf("%d processes, want 3: wrapper, server, grandchild", n)
	}
	if err := hub.Disable(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the disabled server", func() bool { return len(alive()) == 0 })
	if err := hub.Enable(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	ready(t, hub, "a", 1)
	if _, err := hub.Apply(within(t), servers{}.config(t)); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the removed server", func() bool { return len(alive()) == 0 })
}

// Closing many servers that will not go takes as long as closing one.
func TestFaultE2_CloseManyAtOnce(t *testing.T) {
	all := servers{}
	var alive []func() []int
	for i := range 6 {
		s, f := tag(t, with(shell(stubborn, child(mcptest.Config{})), map[string]any{"stopGrace": "500ms"}))
		all[fmt.Sprintf("s%d", i)] = s
		alive = append(alive, f)
	}
	hub := guarded(t, all, everline.Options{})
	for name := range all {
		ready(t, hub, name, 0)
	}
	begun := time.Now()
	if err := hub.Close(within(t)); err != nil {
		t.Error(err)
	}
	// One takes 500 ms for its stdin and as long for SIGTERM; six in a row take 6 s.
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("took %v", took)
	}
	for _, f := range alive {
		if n := len(f()); n > 0 {
			t.Errorf("%d processes are left", n)
		}
	}
}

// Twenty callers and a reconnect meet a slow start: there is one process.
func TestFaultE3_E6_OneProcessPerServer(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	s, alive := tag(t, child(mcptest.Config{StartDelay: 300 * time.Millisecond, Journal: journal}))
	hub := guarded(t, servers{"a": s}, everline.Options{})
	ready(t, hub, "a", 0)
	if err := hub.Reconnect(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	most := 0
	stop := make(chan struct{})
	var watch, all sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				most = max(most, len(alive()))
			}
		}
	})
	for range 20 {
		all.Go(func() {
			if _, err := call(t, hub, "echo", `{}`); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	close(stop)
	watch.Wait()
	data, err := os.ReadFile(journal)
	if n := bytes.Count(data, []byte("initialize")); err != nil || n > 2 || most > 1 {
		t.Errorf("%d handshakes, up to %d processes at a time, %v", n, most, err)
	}
}

// A server that is killed is back at once, and what was in flight ended at once.
func TestFaultE4_KilledServer(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	s, _ := tag(t, child(mcptest.Config{Journal: journal}))
	hub := guarded(t, servers{"a": s}, everline.Options{})
	st := ready(t, hub, "a", 0)
	failed := make(chan error, 1)
	go func() { // ends with the process
		_, err := call(t, hub, "work", `{"id":"x","ms":60000}`)
		failed <- err
	}()
	until(t, "the server to have the call", func() bool { return mcptest.JournalCount(journal, "exec x") == 1 })
	p, err := os.FindProcess(st.PID)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	f := fault.From("", <-failed)
	if f == nil || f.Outcome != fault.Unknown || f.Exit != "signal: killed" || !strings.Contains(f.Error(), "killed by SIGKILL after ") {
		t.Errorf("%#v", f)
	}
	if again := ready(t, hub, "a", st.Generation); again.PID == st.PID {
		t.Errorf("%+v", again)
	}
	mustCall(t, hub, "echo", `{}`)
}

// Everline stops while servers are in their handshake, or wait for a place to
// start.
func TestFaultE5_StopDuringTheHandshake(t *testing.T) {
	all := servers{}
	var alive []func() []int
	for i := range 6 {
		s, f := tag(t, with(shell(stubborn, child(mcptest.Config{Deaf: true})), map[string]any{"stopGrace": "20ms"}))
		all[fmt.Sprintf("s%d", i)] = s
		alive = append(alive, f)
	}
	cfg := all.config(t)
	cfg.MaxStarting = 2
	everline.RunShim()
	hub, err := everline.Open(within(t), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "two servers that have started", func() bool {
		n := 0
		for _, f := range alive {
			n += len(f())
		}
		return n >= 2
	})
	begun := time.Now()
	if err := hub.Close(within(t)); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	for _, f := range alive {
		if n := len(f()); n > 0 {
			t.Errorf("%d processes are left", n)
		}
	}
}

// A script whose interpreter is on no PATH says so, and with PATH added works.
func TestFaultE7_BarePath(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"server": "#!/usr/bin/env fake-node\n", "fake-node": "#!/bin/sh\nexec " + os.Args[0] + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // must be executable
			t.Fatal(err)
		}
	}
	bare := child(mcptest.Config{})
	bare["command"], bare["args"] = filepath.Join(dir, "server"), []string{}
	hub := guarded(t, servers{"a": bare}, everline.Options{})
	until(t, "the cause", func() bool {
		st, _ := hub.Server("a")
		return st.Cause != nil && st.Cause.Exit == "exit 127" && strings.Contains(st.Cause.Remedy, "PATH=") && strings.Contains(strings.Join(st.Cause.Stderr, " "), "fake-node")
	})
	fixed := child(mcptest.Config{})
	fixed["command"], fixed["args"] = filepath.Join(dir, "server"), []string{}
	env := fixed["env"].(map[string]string)
	env["PATH"] = dir + ":/usr/bin:/bin"
	if _, err := hub.Apply(within(t), servers{"a": fixed}.config(t)); err != nil {
		t.Fatal(err)
	}
	ready(t, hub, "a", 0)
}

// One server's variables do not reach another, an empty value stays one, and
// the file of variables counts less than the list.
func TestFaultE8_Environment(t *testing.T) {
	t.Setenv("EVERLINE_TEST_SECRET", "of ours")
	dir := t.TempDir()
	vars := filepath.Join(dir, "vars")
	if err := os.WriteFile(vars, []byte("FROM_FILE=1\nBOTH=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "env")
	a := shell("env > "+out+".tmp; mv "+out+".tmp "+out+"; exec SERVER", child(mcptest.Config{}))
	env := a["env"].(map[string]string)
	env["EMPTY"], env["BOTH"] = "", "list"
	a["envFile"] = vars
	b := child(mcptest.Config{})
	b["env"].(map[string]string)["OTHER"] = "of b"
	hub := guarded(t, servers{"a": a, "b": b}, everline.Options{})
	ready(t, hub, "a", 0)
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(data), "\n")
	for _, want := range []string{"EMPTY=", "FROM_FILE=1", "BOTH=list", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %q", want, got)
		}
	}
	for _, never := range []string{"OTHER=", "EVERLINE_TEST_SECRET=", "EVERLINE_SHIM=", "GOMAXPROCS=", "GOGC="} {
		if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, never) }) {
			t.Errorf("%s leaked", never)
		}
	}
}

// A cancelled call ends alone: the server stays, the late answer is dropped.
func TestFaultE9_CancelKeepsTheServer(t *testing.T) {
	hub := guarded(t, servers{"a": child(mcptest.Config{})}, everline.Options{})
	st := ready(t, hub, "a", 0)
	ctx, cancel := context.WithCancel(within(t))
	failed := make(chan error, 1)
	go func() { // ends with cancel
		_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: "work", Params: []byte(`{"name":"work","arguments":{"id":"x","ms":300}}`)})
		failed <- err
	}()
	until(t, "the call to be out", func() bool { st, _ := hub.Server("a"); return st.Out == 1 })
	cancel()
	if f := fault.From("", <-failed); f == nil || f.Kind != fault.Canceled {
		t.Errorf("%#v", f)
	}
	mustCall(t, hub, "echo", `{}`)
	mustCall(t, hub, "work", `{"id":"y","ms":400}`) // longer than the cancelled one would have taken
	if now, _ := hub.Server("a"); now.PID != st.PID || now.Generation != st.Generation || now.State != "connected" {
		t.Errorf("%+v", now)
	}
}

// A banner and rubbish on stdout are told, and break neither this server nor
// another.
func TestFaultF1_NoiseIsShown(t *testing.T) {
	const script = `printf '\nLoading npm...\n\033[31mred\033[0m\n42\n[1,2]\n'; head -c 10240 /dev/zero | tr '\0' x; echo; exec SERVER`
	hub := guarded(t, servers{"a": shell(script, child(mcptest.Config{})), "b": child(mcptest.Config{})}, everline.Options{})
	ready(t, hub, "a", 0)
	ready(t, hub, "b", 0)
	mustCall(t, hub, "a__echo", `{}`)
	mustCall(t, hub, "b__echo", `{}`)
	st, _ := hub.Server("a")
	if st.Noise == 0 || !slices.ContainsFunc(st.Warnings, func(w string) bool { return strings.Contains(w, "no messages of the protocol") }) {
		t.Errorf("%d lines of noise, warnings %q", st.Noise, st.Warnings)
	}
}

// A server that floods its stderr keeps working, and the rate is shown.
func TestFaultF2_FloodIsShown(t *testing.T) {
	const script = `while yes "a line of eighty characters, and of no use to anybody who would like to know more" | head -c 1048576 >&2; do sleep 0.1; done & exec SERVER`
	hub := guarded(t, servers{"a": shell(script, child(mcptest.Config{}))}, everline.Options{})
	ready(t, hub, "a", 0)
	until(t, "a warning of the flood", func() bool {
		mustCall(t, hub, "echo", `{}`)
		st, _ := hub.Server("a")
		return st.StderrRate >= 64<<10 && slices.ContainsFunc(st.Warnings, func(w string) bool { return strings.Contains(w, "floods its stderr") })
	})
	if lines, err := hub.Logs("a"); err != nil || len(lines) == 0 || len(lines) > 1000 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

// Limits are kept, or it is said why they are not.
func TestLimitsAreToldWhereUnavailable(t *testing.T) {
	hub := guarded(t, servers{"a": with(child(mcptest.Config{}), map[string]any{"limits": map[string]any{"pids": 500}})}, everline.Options{})
	st := ready(t, hub, "a", 0)
	told := slices.ContainsFunc(st.Warnings, func(w string) bool { return strings.HasPrefix(w, "limits are not enforced: ") })
	if kept := inGroup(st.PID); kept == told {
		t.Errorf("in a group of its own: %v; warnings: %q", kept, st.Warnings)
	}
}

// inGroup tells whether a process is in a cgroup that we made.
func inGroup(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && strings.Contains(string(data), "/everline-")
}

// pipeSize is the size of the large messages.
const pipeSize = 32 << 20

// A pipeTest is how much passes, and what small calls may take beside it.
type pipeTest struct {
	rounds int // of a large result and a large argument each
	limit  time.Duration
}

// pipes returns the size of the test: the whole one, for a machine that has
// nothing else to do, with EVERLINE_PIPE_STRICT.
func pipes() pipeTest {
	if os.Getenv("EVERLINE_PIPE_STRICT") != "" {
		return pipeTest{rounds: 30, limit: 50 * time.Millisecond}
	}
	return pipeTest{rounds: 1, limit: 10 * time.Second}
}

// Large messages in both directions pass while small calls go on. All small
// calls count that begin while a large one is under way, which is all the time
// of the test, because each large one follows the one before it at once. There
// is a small one every 2 ms, whatever became of those before it. Their answers
// are behind the large one in the same pipe, so that none of them can be there
// before it is through: that takes about 10 ms for 32 MiB between two processes
// that do nothing else.
//
// The first round is told apart. In it the processes get their memory, and how
// fast a system maps a hundred new megabytes is not ours: on some virtual
// machines it takes longer than all the rest.
func TestFaultF3_LargeMessagesHoldNobodyUp(t *testing.T) {
	hub := guarded(t, servers{"a": {"command": os.Args[0], "env": map[string]string{processEnv: "1", "GORACE": "atexit_sleep_ms=0"}}}, everline.Options{})
	ready(t, hub, "a", 0)
	argument := slices.Concat([]byte(`{"name":"eat","arguments":{"text":"`), bytes.Repeat([]byte("a"), pipeSize), []byte(`"}}`))
	size := pipes()
	smallBeside(t, hub, argument, 1)
	if p99 := smallBeside(t, hub, argument, size.rounds); p99 > size.limit {
		t.Errorf("99 %% within %v, want %v", p99, size.limit)
	}
}

// smallBeside makes small calls while large ones pass, and returns what 99 of
// 100 took at most.
func smallBeside(t *testing.T, hub *everline.Hub, argument []byte, rounds int) time.Duration {
	t.Helper()
	large := make(chan error, 1)
	go func() { large <- largeCalls(t, hub, argument, rounds) }() // ends with its calls
	var mu sync.Mutex
	var times []time.Duration
	var all sync.WaitGroup
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		all.Go(func() {
			begun := time.Now()
			if _, err := call(t, hub, "small", `{}`); err != nil {
				t.Error(err)
			}
			mu.Lock()
			times = append(times, time.Since(begun))
			mu.Unlock()
		})
		select {
		case err := <-large:
			if done = true; err != nil {
				t.Error(err)
			}
		case <-tick.C:
		}
	}
	all.Wait()
	slices.Sort(times)
	p99 := times[len(times)*99/100]
	t.Logf("%d small calls: median %v, 99 %% within %v, longest %v", len(times), times[len(times)/2], p99, times[len(times)-1])
	return p99
}

// largeCalls asks for a large result and sends a large argument, in turn.
func largeCalls(t *testing.T, hub *everline.Hub, argument []byte, rounds int) error {
	ctx := within(t)
	ask := everline.Call{Method: "tools/call", Name: "big", Params: fmt.Appendf(nil, `{"name":"big","arguments":{"n":%d}}`, pipeSize)}
	give := everline.Call{Method: "tools/call", Name: "eat", Params: argument}
	var results, arguments []time.Duration
	for range rounds {
		begun := time.Now()
		result, err := hub.Call(ctx, &ask)
		if err != nil || len(result) < pipeSize {
			return fmt.Errorf("the large result has %d bytes, %w", len(result), err)
		}
		half := time.Now()
		size, err := hub.Call(ctx, &give)
		if err != nil || !bytes.Contains(size, []byte(`"text":"335`)) { // a little more than 32 MiB
			return fmt.Errorf("the server saw %.100s, %w", size, err)
		}
		results, arguments = append(results, half.Sub(begun)), append(arguments, time.Since(half))
	}
	slices.Sort(results)
	slices.Sort(arguments)
	t.Logf("32 MiB, median of %d: as a result %v, as an argument %v", rounds, results[rounds/2], arguments[rounds/2])
	return nil
}
