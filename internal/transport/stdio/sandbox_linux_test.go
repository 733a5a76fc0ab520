package stdio

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/sandbox"
	"github.com/everline/everline/internal/transport"
)

// needSandbox says loudly that a kernel cannot show what these tests are about.
func needSandbox(t *testing.T) {
	t.Helper()
	if can := sandbox.Supported(); !can.Net {
		t.Skipf("NOT TESTED HERE: the kernel has Landlock ABI %d, and the sandbox can enforce %s; run this on Linux 6.7 or newer", can.ABI, can)
	}
}

// in runs a script as a server and returns what it wrote to stderr.
func in(t *testing.T, r *sandbox.Rules, script string) string {
	t.Helper()
	out := make(chan string, 1000)
	spec := Spec{Command: "/bin/bash", Args: []string{"-c", script}, Sandbox: r, SandboxRequired: true}
	c, err := Open(testContext(t), spec, transport.Options{Inbound: func(transport.Inbound) {}, Stderr: func(line string) { out <- line }})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Close(testContext(t)); err != nil {
		t.Error(err)
	}
	close(out)
	var all []string
	for line := range out {
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

// TestSandbox has a real process, and what it starts, try what it may and may not.
func TestSandbox(t *testing.T) {
	needSandbox(t)
	dir := t.TempDir()
	state, work, other := filepath.Join(dir, "state"), filepath.Join(dir, "work"), filepath.Join(dir, "other")
	for _, d := range []string{state, work, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "file"), []byte("content of "+filepath.Base(d)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(state, "file"), filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\n")
			_ = c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	script := fmt.Sprintf(`exec 3>&2 2>/dev/null
		try() { if (eval "$2"); then echo "$1 yes"; else echo "$1 no"; fi >&3; }
		try state 'cat %[1]s/file >/dev/null'
		try link 'cat %[2]s/link >/dev/null'
		try wstate 'echo x > %[1]s/new'
		try other 'cat %[3]s/file >/dev/null'
		try wother 'echo x > %[3]s/new'
		try work 'echo x > %[2]s/new && mv %[2]s/new %[2]s/moved && rm %[2]s/moved'
		try child 'bash -c "cat %[1]s/file" >/dev/null'
		try null 'echo x > /dev/null'
		try net 'exec 4<>/dev/tcp/127.0.0.1/%[4]d && read -r x <&4'
		try kill 'kill -0 %[5]d'`, state, work, other, port, os.Getpid())
	for name, c := range map[string]struct {
		rules sandbox.Rules
		want  string
	}{
		"all but what is everline's":  {sandbox.Rules{Net: true}, "state no link no wstate no other yes wother no work no child no null yes net yes kill no"},
		"one folder to write":         {sandbox.Rules{Write: []string{work}, Net: true}, "state no link no wstate no other yes wother no work yes child no null yes net yes kill no"},
		"one folder to read, no net":  {sandbox.Rules{Read: []string{work}, Write: []string{work}}, "state no link no wstate no other no wother no work yes child no null yes net no kill no"},
		"one port":                    {sandbox.Rules{Ports: []uint16{uint16(port)}}, "state no link no wstate no other yes wother no work no child no null yes net yes kill no"},
		"what is everline's is named": {sandbox.Rules{Read: []string{dir}, Write: []string{dir, state}, Net: true}, "state no link no wstate no other yes wother yes work yes child no null yes net yes kill no"},
	} {
		c.rules.Denied = []string{state}
		if got := strings.ReplaceAll(in(t, &c.rules, script), "\n", " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		_ = os.Remove(filepath.Join(other, "new"))
	}
	free := strings.ReplaceAll(in(t, nil, script), "\n", " ")
	if strings.Contains(free, " no") {
		t.Errorf("without a sandbox: %s", free)
	}
}

// Where the sandbox cannot be had, a server that needs it does not run, and says what
// to do; another one runs, and says what is not enforced.
func TestSandboxThatCannotBeHad(t *testing.T) {
	spec := childSpec("echo")
	spec.Sandbox, spec.plain, spec.SandboxRequired = &sandbox.Rules{Net: true}, true, true
	_, err := Open(testContext(t), spec, transport.Options{})
	f := fault.From("", err)
	if err == nil || f.Kind != fault.Invalid || f.Outcome != fault.NotSent || !strings.Contains(f.Reason(), "the sandbox cannot be had") || f.Remedy == "" {
		t.Errorf("%v", err)
	}
	spec.SandboxRequired = false
	p := openPeer(t, spec, transport.Options{})
	if n := p.Info().Notices; len(n) != 1 || !strings.Contains(n[0], "the sandbox is not enforced") {
		t.Errorf("notices %q", n)
	}
}
