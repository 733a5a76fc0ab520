package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/orphan"
	"github.com/everline/everline/internal/transport"
)

// A grandchild that has left group and session, and ignores what it can.
func TestFaultE1_SetsidGrandchild(t *testing.T) {
	eachWay(t, func(t *testing.T, childSpec specMaker) {
		spec := childSpec("serve")
		spec.CloseWait, spec.StopGrace = 200*time.Millisecond, 20*time.Millisecond
		p := openPeer(t, spec, transport.Options{})
		pid := p.grandchildThat("session")
		if err := p.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !isZombie(pid) {
			t.Error("it is there after Close")
		}
	})
}

// A server that forks and ends, as a daemon does: its end counts, and what it
// leaves behind does not stay.
func TestFaultE1_DoubleFork(t *testing.T) {
	eachWay(t, func(t *testing.T, childSpec specMaker) {
		p := openPeer(t, childSpec("serve"), transport.Options{})
		pid := p.grandchildThat("fork")
		wait(t, "the end", p.Done())
		if f := wantFault(t, p.Err(), fault.Exited, fault.Unknown); f.Exit != transport.CleanExit {
			t.Errorf("%#v", f)
		}
		if err := p.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		wantGone(t, pid)
	})
}

// A start that is given up at any moment leaves nothing.
func TestFaultE5_InterruptedStarts(t *testing.T) {
	eachWay(t, func(t *testing.T, childSpec specMaker) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				spec := childSpec("stubborn-noread")
				spec.CloseWait, spec.StopGrace = time.Millisecond, time.Millisecond
				c, err := Open(testContext(t), spec, transport.Options{Inbound: func(transport.Inbound) {}})
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithCancel(testContext(t))
				cancel()
				if err := c.Close(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if orphan.Alive(orphan.Instance()) {
			t.Error("something is left")
		}
	})
}

// shimOf finds the guard of a server.
func shimOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	parent, err := strconv.Atoi(string(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[1]))
	if err != nil || parent == os.Getpid() {
		t.Fatalf("process %d has no guard: %v", pid, err)
	}
	return parent
}

// Somebody kills the guard: the server and all that it started go with it, and
// that is the end of the link.
func TestShimKilled(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	pid := p.grandchildThat("session")
	if err := syscall.Kill(shimOf(t, p.Info().PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "the end", p.Done())
	f := wantFault(t, p.Err(), fault.Exited, fault.Unknown)
	if !strings.HasPrefix(f.Reason(), "the process that guards the server ended: killed by SIGKILL after ") {
		t.Errorf("the cause is %q", f.Reason())
	}
	wantGone(t, p.Info().PID)
	wantGone(t, pid)
}

// A process that shows no environment of its own is looked at twice; that it
// takes time to know that nothing is left does not hide why the link ended.
func TestShimKilledAmongNewborns(t *testing.T) {
	bare := exec.Command("sleep", "600")
	bare.Env = []string{} // as a process has none while it is being started
	if err := bare.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bare.Process.Kill(); _ = bare.Wait() }()
	p := openPeer(t, childSpec("serve"), transport.Options{})
	if err := syscall.Kill(shimOf(t, p.Info().PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "the end", p.Done())
	if f := wantFault(t, p.Err(), fault.Exited, fault.Unknown); !strings.Contains(f.Reason(), "SIGKILL") {
		t.Errorf("the cause is %q", f.Reason())
	}
}

// A stopped guard cannot do its work: it is ended, and its work done, for it.
func TestShimStopped(t *testing.T) {
	spec := childSpec("stubborn")
	spec.CloseWait, spec.StopGrace = time.Millisecond, time.Millisecond
	p := openPeer(t, spec, transport.Options{})
	pid := p.grandchildThat("session")
	if err := syscall.Kill(shimOf(t, p.Info().PID), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	wantGone(t, p.Info().PID)
	wantGone(t, pid)
}

// Signals that are meant for everybody, as at the shutdown of the system, do
// not end the guard before its server.
func TestShimIgnoresSignals(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	guard := shimOf(t, p.Info().PID)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGPIPE} {
		if err := syscall.Kill(guard, s); err != nil {
			t.Fatal(err)
		}
	}
	p.want("echo", `{"text":"x"}`, `"x"`)
	// And none of it is handed on: the server hears SIGTERM.
	if err := syscall.Kill(p.Info().PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wait(t, "the end", p.Done())
	if f := wantFault(t, p.Err(), fault.Exited, fault.Unknown); f.Exit != "signal: terminated" || !strings.HasPrefix(f.Reason(), "killed by SIGTERM after ") {
		t.Errorf("%v, %v", f.Exit, f)
	}
}

// Orphans that end while the server lives are reaped.
func TestShimReapsOrphans(t *testing.T) {
	p := openPeer(t, Spec{Command: "sh", Args: []string{"-c", `
		(sleep 0 & echo '{"method":"orphan","params":'$!'}')
		exec cat`}}, transport.Options{Inbound: func(transport.Inbound) {}})
	guard := shimOf(t, p.Info().PID)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := testContext(t); ; <-tick.C {
		children, err := exec.Command("ps", "-o", "stat=,comm=", "--ppid", strconv.Itoa(guard)).Output()
		if err == nil && strings.Count(string(children), "\n") == 1 && !strings.Contains(string(children), "Z") {
			return
		}
		if limit.Err() != nil {
			t.Fatalf("the guard's children are\n%s, %v", children, err)
		}
	}
}

// The descriptors of a guarded server are its three streams: neither ours nor
// the guard's, nor what this test was started with, are in it.
func TestServerHasThreeDescriptors(t *testing.T) {
	t.Run("shim", func(t *testing.T) {
		spec := childSpec("serve")
		spec.Command, spec.Args = "sh", []string{"-c", "exec cat"}
		p := openPeer(t, spec, transport.Options{})
		dir := fmt.Sprintf("/proc/%d/fd", p.Info().PID)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for limit := testContext(t); ; <-tick.C {
			name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Info().PID))
			fds, err := os.ReadDir(dir)
			if filepath.Base(name) == "cat" && err == nil && len(fds) == 3 {
				return // until then the shell and the loader have files of their own
			}
			if limit.Err() != nil {
				t.Fatalf("%d descriptors of %s, %v", len(fds), name, err)
			}
		}
	})
}

// Many generations leave neither descriptors here nor processes anywhere.
func TestLivesLeaveNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, childSpec specMaker) {
		one := func() {
			spec := childSpec("serve")
			p := openPeer(t, spec, transport.Options{})
			p.want("echo", `{"text":"x"}`, `"x"`)
			if err := p.Close(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		one()
		before := openFiles(t)
		for range 10 {
			one()
		}
		if after := openFiles(t); after > before {
			t.Errorf("%d files are open, there were %d", after, before)
		}
		if orphan.Alive(orphan.Instance()) {
			t.Error("a process is left")
		}
	})
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}
