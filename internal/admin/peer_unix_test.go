//go:build linux || darwin

package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/orphan"
)

// TestFaultV4StateFolder refuses a folder in which others could put a socket.
func TestFaultV4StateFolder(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o770, 0o755, 0o711} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(dir)
		if err == nil {
			l.Close()
		}
		if f := fault.From("", err); err == nil || f.Kind != fault.Invalid || f.Remedy != "chmod go-rwx "+dir {
			t.Errorf("%o: %v", mode, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
			t.Errorf("%o: %v was made", mode, left)
		}
	}
}

// TestFaultV4Peers is who may ask, and by whom one may be answered.
func TestFaultV4Peers(t *testing.T) {
	for _, c := range []struct {
		them, me        int
		asks, servesOwn bool // in a folder of mine
	}{{1000, 1000, true, true}, {0, 1000, true, true}, {1001, 1000, false, false}, {1000, 0, false, false}, {0, 0, true, true}} {
		if sameUser(c.them, c.me) != c.asks || mayServe(c.them, c.me, c.me) != c.servesOwn {
			t.Errorf("%+v", c)
		}
	}
	if !mayServe(1000, 0, 1000) || mayServe(1001, 0, 1000) || mayServe(1001, 1000, 1001) {
		t.Error("root is served by the owner of the folder alone, and others by themselves")
	}
}

// TestFaultV4PeerIsKnown compares what the system says with what is true.
func TestFaultV4PeerIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := (&Listener{Listener: l}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if got, want := server.RemoteAddr().String(), fmt.Sprintf("pid %d of uid %d", os.Getpid(), os.Geteuid()); got != want {
		t.Errorf("the client is %q, want %q", got, want)
	}
	p, known := peerOf(client)
	if !known || p.uid != os.Geteuid() || p.pid != os.Getpid() {
		t.Errorf("the server is %+v, %v", p, known)
	}
}

// TestFaultV5Lock has a link where the lock and the record of the socket are made.
func TestFaultV5Lock(t *testing.T) {
	for _, name := range []string{"everline.lock", pathName} {
		dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30), "state") // so that a record is made
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		victim := filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(dir)
		if err == nil {
			l.Close()
		}
		if name == "everline.lock" && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v", err)
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
			t.Errorf("%s: the victim has %q, %v", name, text, err)
		}
	}
}

func child(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	})
	return cmd
}

func TestFaultV6Below(t *testing.T) {
	me, below := os.Getpid(), child(t, "sleep", "60").Process.Pid
	if !Below(below, me) || Below(os.Getppid(), me) || Below(me, below) || Below(1, me) {
		t.Error("who descends from whom is not seen")
	}
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if !Below(ended.Process.Pid, me) {
		t.Error("a process that is no more may be anybody's")
	}
}

// TestFaultV6OnlyLook has requests of a process below this one.
func TestFaultV6OnlyLook(t *testing.T) {
	h := newFake(t)
	handler := New(Options{Hub: h, Journal: NewJournal(), StateDir: t.TempDir()}).Handler()
	server := peerAddr{pid: child(t, "sleep", "60").Process.Pid}
	for _, from := range []net.Addr{server, peerAddr{pid: os.Getppid()}, peerAddr{pid: os.Getpid()}, peerAddr{}, &net.UnixAddr{Name: "@"}} {
		for route, body := range map[string]string{
			"GET /v1/status": "", "POST /v1/pins/approve": "{}", "POST /v1/call": `{"tool":"x"}`, "POST /v1/reload": "",
			"POST /v1/did/token_create": "{}", "POST /v1/did/trust?dryRun=1": "{}", "POST /v1/servers/up/disable": "", "POST /v1/servers/up/drill": `{"fault":"kill"}`, "POST /v1/servers/up/ping": "",
		} {
			method, path, _ := strings.Cut(route, " ")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			r, err := http.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.RemoteAddr = from.String()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			cancel()
			if refused := w.Code == http.StatusForbidden; refused != (from == server && method != http.MethodGet) {
				t.Errorf("%s from %s: %d %s", route, from, w.Code, w.Body)
			}
		}
	}
}

// TestFaultV6OverTheSocket asks as a child does, and is answered with a fault
// that says why.
func TestFaultV6OverTheSocket(t *testing.T) {
	if dir := os.Getenv("EVERLINE_TEST_ASK"); dir != "" {
		_, err := NewClient(dir, 0).Approve(t.Context(), Approval{})
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.Forbidden {
			t.Fatalf("not refused: %v", err)
		}
		if _, err := NewClient(dir, 0).Version(t.Context()); err != nil {
			t.Fatalf("looking is refused: %v", err)
		}
		return
	}
	c := serve(t, newFake(t), NewJournal())
	if _, err := c.Approve(t.Context(), Approval{}); err != nil {
		t.Errorf("from this process: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestFaultV6OverTheSocket$")
	cmd.Env = append(os.Environ(), "EVERLINE_TEST_ASK="+c.stateDir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFaultV6Grandchildren has processes that a server has started and left behind.
func TestFaultV6Grandchildren(t *testing.T) {
	start := func(script, mark string) int {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = append(os.Environ(), orphan.MarkVar+"="+mark)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Fscan(out, &pid); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // says that it was killed
		})
		return pid
	}
	const below, away = "sleep 60 & echo $!; wait", "setsid sleep 60 >/dev/null 2>&1 & echo $!"
	ask := func(pid int) bool { return fromServer(peerAddr{pid: pid}.String()) }
	if pid := start(below, "other-1."); !ask(pid) {
		t.Error("a grandchild is no server")
	}
	if runtime.GOOS != "linux" {
		return // where the system does not tell marks
	}
	left := start(away, orphan.NewMark())
	settled := func(pid int) { // the shell in between has ended, and what it started is not just replaced, with no environment to read
		read := func(file string) string {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		for Below(pid, os.Getpid()) || read("comm") != "sleep\n" || read("environ") == "" { // it has its name before its environment
			runtime.Gosched()
		}
	}
	settled(left)
	if !ask(left) {
		t.Error("what has left its server, and has its mark, is no server")
	}
	stranger := start(away, "other-1.")
	settled(stranger)
	if ask(stranger) {
		t.Error("a stranger's process is a server")
	}
}
