package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/conf/tree"
)

// TestTalkNeverWaits is a parent that starts everline with a pipe for stderr
// and never reads it.
func TestTalkNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		talk := newTalk(w)
		for i := range 2 * talkQueue {
			fmt.Fprintf(talk, "line %d\n", i)
		}
		began := time.Now()
		talk.close()
		if took := time.Since(began); took != talkFlush {
			t.Errorf("close took %s, want %s", took, talkFlush)
		}
		go func() { io.Copy(io.Discard, r) }() // ends with the writer's end
		<-talk.done
		r.Close()
	})
}

func TestTalkTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		talk := newTalk(w)
		fmt.Fprint(talk, "first\n")
		synctest.Wait() // the writer waits with the first line in hand
		for range talkQueue + 3 {
			fmt.Fprint(talk, "more\n")
		}
		text := make(chan string)
		go func() { // ends with the writer's end
			data, _ := io.ReadAll(r)
			text <- string(data)
		}()
		talk.close()
		w.Close()
		got := <-text
		if n := strings.Count(got, "more\n"); n != talkQueue || !strings.Contains(got, "3 lines were left out") {
			t.Errorf("%d lines of %d; %.200s", n, talkQueue, got)
		}
	})
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("unknown flag"), exitUsage},
		{ran{usage("", "no")}, exitUsage},
		{ran{exit(exitDegraded)}, exitDegraded},
		{ran{fault.New(fault.NotFound, "x", "y")}, exitFailed},
		{ran{errors.New("foreign")}, exitFailed},
		{ran{fault.New(fault.Unauthorized, "x", "y")}, exitAuth},
		{ran{fault.New(fault.Deadline, "x", "y")}, exitTimeout},
		{ran{called{fault.New(fault.Canceled, "x", "y")}}, exitInterrupt},
		{ran{context.DeadlineExceeded}, exitTimeout},
		{ran{&fault.Fault{Err: admin.ErrNotRunning}}, exitNotRunning},
		{ran{&fault.Fault{Op: tree.OpRead}}, exitConfig},
	} {
		var b strings.Builder
		if got := report(&b, c.err); got != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.want)
		}
	}
}

func TestReportSaysWhatToDo(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	report(&b, ran{&fault.Fault{
		Kind: fault.Unavailable, Op: "tools/call", Server: "db", Gen: 3, RetryAfter: 27 * time.Second,
		Stderr: []string{"no\x1b[2J route"}, Remedy: "everline logs db", Err: errors.New("exit 1 after 0.4 s"),
	}})
	const want = "everline: db (gen 3): tools/call: exit 1 after 0.4 s\n" +
		"  stderr: no<U+001B>[2J route\n  try again in 27 s\n  try: everline logs db\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestStatusTable is the example of the design, as text.
func TestStatusTable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 10, 5, 0, 0, time.Local)
	at := func(d time.Duration) *time.Time {
		v := now.Add(d)
		return &v
	}
	str := func(s string) *string { return &s }
	pid := 8123
	st := admin.Status{
		Endpoint: "http://127.0.0.1:7433/mcp", StartedAt: now.Add(-76 * time.Hour), Config: []string{"/etc/everline.json"},
		Warnings: []string{"everline.json:3: a: unknown key"},
		Servers: []admin.Server{
			{Name: "github", State: "connected", Generation: 4, Tools: 41, Transport: "stdio", PID: &pid, CatalogAt: at(-time.Hour), Since: at(-2 * time.Hour), Cause: str("older")},
			{Name: "linear", State: "auth_required", Tools: 23, Transport: "http", CatalogAt: at(-3 * time.Minute), Remedy: str("everline auth login linear")},
			{
				Name: "postgres", State: "disconnected", Generation: 12, Tools: 9, Transport: "stdio", CatalogAt: at(-7 * time.Minute), Since: at(-time.Minute),
				Cause: str("exit 1 after 0.4 s"), NextAttempt: at(27 * time.Second), Attempt: 4, Waiting: 2,
				Stderr: []string{"1", "2", "3", "FATAL: password"}, Remedy: str("everline logs postgres"),
			},
		},
	}
	const want = "everline   running 3d 4h   http://127.0.0.1:7433/mcp   everline.json 1 warning   3 servers: 1 connected \u00b7 1 auth_required \u00b7 1 disconnected\n" +
		" \u25cf github    connected      gen 4   41 tools  stdio  pid 8123  2h 0min\n" +
		" ! linear    auth_required  -       23 tools  http   last good 10:02\n" +
		"     try: everline auth login linear\n" +
		" \u2717 postgres  disconnected   gen 12  9 tools   stdio  60 s  last good 09:58  exit 1 after 0.4 s  next try in 27 s (attempt 5)  0 calls out, 2 waiting\n" +
		"     stderr: 2\n     stderr: 3\n     stderr: FATAL: password\n" +
		"     try: everline logs postgres\n" +
		"warning: everline.json:3: a: unknown key\n"
	if got := (statusPrinter{now: now}).page(st, st.Servers); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	st.Servers[0].Memory, st.Servers[0].P95 = new(int64(62_000_000)), new(310.0)
	st.Servers[2].Stderr = []string{"FATAL: password authentication failed for user \"app\", and then some more about it"}
	const narrow = "everline   running 3d 4h   http://127.0.0.1:7433/mcp   everline.json 1 warning\n" +
		"  3 servers: 1 connected \u00b7 1 auth_required \u00b7 1 disconnected\n" +
		" \u25cf github    connected      gen 4   41 tools  stdio  pid 8123  62 MB  2h 0min\n" +
		"     p95 310 ms\n" +
		" ! linear    auth_required  -       23 tools  http   last good 10:02\n" +
		"     try: everline auth login linear\n" +
		" \u2717 postgres  disconnected   gen 12  9 tools   stdio  60 s  last good 09:58\n" +
		"     exit 1 after 0.4 s  next try in 27 s (attempt 5)  0 calls out, 2 waiting\n" +
		"     stderr: FATAL: password authentication failed for user \"app\", and then some\n" +
		"             more about it\n" +
		"     try: everline logs postgres\n" +
		"warning: everline.json:3: a: unknown key\n"
	if got := (statusPrinter{now: now, width: 80}).page(st, st.Servers); got != narrow {
		t.Errorf("in 80 columns\n%s\nwant\n%s", got, narrow)
	}
	coloured := statusPrinter{now: now, colour: true}.page(st, st.Servers)
	if !strings.Contains(coloured, "\x1b[32m\u25cf\x1b[0m github") {
		t.Errorf("no colour: %q", coloured)
	}
}

func TestColoursOnlyOnTerminals(t *testing.T) {
	t.Parallel()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if colours(f) || colours(io.Discard) {
		t.Error("a file is coloured")
	}
}

func TestMayListen(t *testing.T) {
	t.Parallel()
	for address, fine := range map[string]bool{
		"127.0.0.1:0": true, "localhost:1": true, "[::1]:7433": true, ":1": true, "127.0.0.1": false, "127.0.0.1:x": false, "127.0.0.1:70000": false,
	} {
		if err := mayListen(address); (err == nil) != fine {
			t.Errorf("%s: %v", address, err)
		}
	}
}
