package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/mcptest"
)

// raceOptions keep the race detector from sleeping for a second at the end of
// each process that a test starts, which is once per command of a story.
const raceOptions = "atexit_sleep_ms=10"

func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" {
		_ = os.Setenv("GORACE", raceOptions) // cannot fail with such a name
	}
	testscript.Main(m, map[string]func(){
		"everline":  everlineOfStory,
		"mcpserver": mcpserver,
		"npx":       npx,
		"xdg-open":  browse,
	})
}

// everlineOfStory is the program, but it does not wait for an everline that is
// about to start: most stories that run a command without one know that none is.
func everlineOfStory() {
	if os.Getenv(patienceVar) == "" {
		startPatience = 20 * time.Millisecond
	}
	main()
}

// patienceVar is set by stories that are about the patience of commands.
const patienceVar = "EVERLINE_TEST_PATIENCE"

// mcpserver is the scripted server on stdio. Its arguments are lines for
// stderr, before it serves; MCPSERVER_TOOLS names a file with a tool per line.
func mcpserver() {
	var cfg mcptest.Config
	if text, err := os.ReadFile(os.Getenv("MCPSERVER_TOOLS")); err == nil {
		cfg.Tools = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	for _, line := range os.Args[1:] {
		os.Stderr.WriteString(line + "\n")
	}
	if err := mcptest.New(cfg).Serve(os.Stdin, os.Stdout); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// TestScripts runs the user stories. -rewrite is not needed: they match, they
// do not compare whole outputs.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, stories("testdata/script"))
}

// tell runs one story of testdata/faults, in parallel with other tests.
func tell(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	p := stories("")
	p.Files = []string{"testdata/faults/" + name + ".txtar"}
	testscript.Run(t, p)
}

func stories(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/xdg")
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/conf")
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"await":   await,
			"occupy":  occupy,
			"hup":     hup,
			"web":     web,
			"denied":  denied,
			"linked":  linked,
			"guarded": guarded,
			"pasted":  pasted,
		},
	}
}

// exits CODE program args... runs a program that must exit with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// awaitLimit is how long await repeats a program.
const awaitLimit = time.Minute

// await PATTERN program args... runs a program again and again until its
// stdout matches; with "!" until it fails or its stdout does not match.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] await PATTERN program args...")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(awaitLimit); ; <-tick.C {
		err := ts.Exec(args[1], args[2:]...)
		if matches := err == nil && want.MatchString(ts.ReadFile("stdout")); matches != neg {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s did not come, or go, in time; last: %v", args[0], err)
		}
	}
}

// occupy VAR listens on a port of its own until the script ends, and sets VAR
// to it.
func occupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: occupy VAR")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Setenv(args[0], port)
}

// hup sends SIGHUP to the everline that runs.
func hup(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: hup")
	}
	ts.Check(ts.Exec("everline", "status", "-o", "json"))
	var st admin.Status
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &st))
	p, err := os.FindProcess(st.PID)
	ts.Check(err)
	ts.Check(p.Signal(syscall.SIGHUP))
}
