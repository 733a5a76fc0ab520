package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/demo"
	"github.com/everline/everline/internal/doctor"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/show"
)

// denied VAR CHALLENGE serves nothing but 401 with the challenge until the
// script ends, and sets VAR to its URL.
func denied(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: denied VAR CHALLENGE")
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if args[1] != "" {
			w.Header().Set("WWW-Authenticate", args[1])
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	ts.Defer(site.Close)
	ts.Setenv(args[0], site.URL+"/mcp")
}

// linked FILE DIR INPUT starts what a client's FILE says, in the folder, with an
// empty environment but for what finds the test's own server, and gives it the
// input.
func linked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: linked FILE DIR INPUT")
	}
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &file))
	link := file.Servers["everline"]
	cmd := exec.Command(link.Command, link.Args...)
	cmd.Dir, cmd.Stdin = ts.MkAbs(args[1]), strings.NewReader(ts.ReadFile(args[2]))
	cmd.Args[0] = "everline" // by its name the test's program knows what it is
	cmd.Env = []string{"HOME=" + ts.MkAbs(args[1]), "PATH=" + ts.Getenv("PATH"), "XDG_RUNTIME_DIR=" + ts.Getenv("TMPDIR")}
	cmd.Stderr = ts.Stderr()
	out, err := cmd.Output()
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), string(out))
}

func TestFaultU4(t *testing.T) { tell(t, "u4") }

func asFault(err error) *fault.Fault { return fault.From("", err) }

func TestFaultU6(t *testing.T) {
	for _, c := range []struct {
		servers []admin.Server
		state   event.State
		stuck   string // the name; "" for none
	}{
		{[]admin.Server{{Name: "a", State: "connecting"}}, "connected", ""},
		{[]admin.Server{{Name: "a", State: "disconnected"}}, "connected", ""},
		{[]admin.Server{{Name: "a", State: "failed"}}, "connected", "a"},
		{[]admin.Server{{Name: "a", State: "failed", NextAttempt: new(time.Now())}}, "connected", ""},
		{[]admin.Server{{Name: "a", State: "misconfigured"}}, "connected", "a"},
		{[]admin.Server{{Name: "a", State: "auth_required"}}, "connected", "a"},
		{[]admin.Server{{Name: "a", State: "auth_required"}}, "auth_required", ""},
		{[]admin.Server{{Name: "a", State: "disabling"}}, "disabled", ""},
		{[]admin.Server{{Name: "a", State: "connected"}, {Name: "b", State: "misconfigured"}}, "connected", "b"},
		{[]admin.Server{{Name: "a", State: "connecting"}, {Name: "b", State: "misconfigured"}}, "connected", ""},
	} {
		got := ""
		if s := stuckOne(c.servers, c.state); s != nil {
			got = s.Name
		}
		if got != c.stuck {
			t.Errorf("%+v, waited for to be %s: %q is stuck, want %q", c.servers, c.state, got, c.stuck)
		}
	}
	tell(t, "u6")
}

// What a command cannot write for want of room says so: the trusted list, a
// configuration, a client's file and its backup are all written in one way.
func TestFaultS12(t *testing.T) {
	t.Parallel()
	err := fileedit.Fault("write", "/st/trusted.json", &fs.PathError{Op: "write", Path: "/st/x", Err: syscall.ENOSPC})
	if f := asFault(err); !strings.Contains(f.Remedy, "make room") {
		t.Errorf("on a full file system: %+v", f)
	}
	st := admin.Status{Problems: []admin.Problem{
		{About: "state", Server: "a", Text: "the catalog cannot be kept on disk: no space", Remedy: "make room on /st", Since: time.Unix(0, 0)},
		{About: "state", Text: "the list of the servers' processes cannot be kept on disk: no space", Since: time.Unix(0, 0)},
	}, Servers: []admin.Server{{Name: "a", State: "connected"}, {Name: "b", State: "connected"}}, StartedAt: time.Unix(0, 0)}
	p := statusPrinter{now: time.Unix(90, 0)}
	all := p.page(st, st.Servers)
	for _, want := range []string{
		"2 problems", "\nwarning: a: the catalog cannot be kept on disk: no space (for 90 s)\n     try: make room on /st\n",
		"\nwarning: the list of the servers' processes cannot be kept on disk: no space (for 90 s)\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("status has no %q:\n%s", want, all)
		}
	}
	p.server = "b"
	if got := p.page(st, st.Servers[1:]); strings.Contains(got, "cannot be kept") {
		t.Errorf("status of another server:\n%s", got)
	}
}

func TestFaultS14(t *testing.T) { tell(t, "s14") }

func TestFaultU15(t *testing.T) { tell(t, "u15") }

// TestFaultU18 is a terminal of 80 columns, and a program that is not on PATH.
func TestFaultU18(t *testing.T) {
	r := demo.Report{Seconds: 120, Restarts: 80, Calls: 123_456, Lists: 12_345, RecoveryMsP50: 1234}
	for width := 30; width <= 200; width++ {
		got := demoText(r, width)
		if show.Width(got) >= width || !strings.Contains(got, "123456 calls, 0 failed") || width >= 60 && !strings.HasSuffix(got, "back in 1234 ms") {
			t.Errorf("in %d columns: %q", width, got)
		}
	}
	long := doctor.Finding{Check: "server", Server: "a", Verdict: doctor.Fail, Text: strings.Repeat("it does not answer ", 20), Remedy: "everline logs a"}
	for line := range strings.Lines(findingText(long, false, 80)) {
		if show.Width(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("the doctor writes %q", line)
		}
	}
	was := show.Program
	defer func() { show.Program = was }()
	show.Program = "go run ./cmd/everline"
	for remedy, want := range map[string]string{
		"everline logs a":                    "try: go run ./cmd/everline logs a",
		"run: everline enable a":             "run: go run ./cmd/everline enable a",
		"look at it, then: everline trust x": "try: look at it, then: go run ./cmd/everline trust x",
		"everline import, or everline add":   "try: go run ./cmd/everline import, or go run ./cmd/everline add",
		"let everline write there":           "try: let everline write there",
		"did you mean everline.json?":        "did you mean everline.json?",
	} {
		if got := advice(remedy); got != want {
			t.Errorf("%s: %q, want %q", remedy, got, want)
		}
	}
	if !isBuiltToRun("/tmp/go-build123/b001/exe/everline") || isBuiltToRun("/home/go-builder/bin/everline") || isBuiltToRun("/usr/bin/everline") {
		t.Error("what go run has built is not told from what is installed")
	}
}

func TestFaultU19(t *testing.T) { tell(t, "u19") }

func TestFaultU20(t *testing.T) { tell(t, "u20") }
