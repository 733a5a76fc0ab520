//go:build unix

package stdio

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
)

// wantGone waits until a process is no more.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := testContext(t)
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !isZombie(pid) {
		select {
		case <-tick.C:
		case <-limit.Done():
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// isZombie reports whether a process has ended and only waits to be reaped by
// process 1, which is none of our business.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// A specMaker is childSpec, with or without a shim.
type specMaker func(mode string) Spec

// eachWay runs a test of what becomes of processes with a shim, and without.
func eachWay(t *testing.T, test func(*testing.T, specMaker)) {
	t.Run("shim", func(t *testing.T) { test(t, childSpec) })
	t.Run("group", func(t *testing.T) {
		test(t, func(mode string) Spec {
			spec := childSpec(mode)
			spec.plain = true
			return spec
		})
	})
}

func (p *peer) grandchild() int { return p.grandchildThat("") }

// grandchildThat starts one that is in a session of its own ("session"), or
// whose parent ends ("fork").
func (p *peer) grandchildThat(how string) int {
	p.t.Helper()
	raw, err := p.call("grandchild", `{"text":"`+how+`"}`)
	if err != nil {
		p.t.Fatal(err)
	}
	pid, err := strconv.Atoi(raw)
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

func TestFaultE1CloseLeavesNothing(t *testing.T) { eachWay(t, testFaultE1CloseLeavesNothing) }

func testFaultE1CloseLeavesNothing(t *testing.T, childSpec specMaker) {
	spec := childSpec("stubborn")
	spec.CloseWait, spec.StopGrace = 20*time.Millisecond, 20*time.Millisecond
	p := openPeer(t, spec, transport.Options{})
	pid := p.grandchild()
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	wantGone(t, p.Info().PID)
	wantGone(t, pid)
}

// A wrapper that ends as it should, and leaves its child behind.
func TestFaultE1WrapperEndsFirst(t *testing.T) { eachWay(t, testFaultE1WrapperEndsFirst) }

func testFaultE1WrapperEndsFirst(t *testing.T, childSpec specMaker) {
	spec := childSpec("serve")
	spec.CloseWait, spec.StopGrace = 200*time.Millisecond, 20*time.Millisecond
	p := openPeer(t, spec, transport.Options{})
	pid := p.grandchild()
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	wantGone(t, pid)
}

// The direct child is killed, its child holds stdout open: the exit counts.
func TestFaultE4GrandchildHoldsStdout(t *testing.T) { eachWay(t, testFaultE4GrandchildHoldsStdout) }

func testFaultE4GrandchildHoldsStdout(t *testing.T, childSpec specMaker) {
	spec := childSpec("serve")
	spec.CloseWait, spec.StopGrace = time.Hour, time.Hour // a crash is no time for patience
	p := openPeer(t, spec, transport.Options{})
	pid := p.grandchild()
	done := make(chan error, 1)
	go func() { // ends with the process
		_, err := p.call("never", `{}`)
		done <- err
	}()
	for p.mux.Waiting() == 0 {
		p.want("echo", `{"text":"x"}`, `"x"`)
	}
	p.want("echo", `{"text":"x"}`, `"x"`)
	if err := syscall.Kill(p.Info().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f := wantFault(t, <-done, fault.Exited, fault.Unknown)
	if f.Exit != "signal: killed" {
		t.Errorf("%#v", f)
	}
	wantGone(t, pid)
}

func TestFaultE4KilledWhileIdle(t *testing.T) { eachWay(t, testFaultE4KilledWhileIdle) }

func testFaultE4KilledWhileIdle(t *testing.T, childSpec specMaker) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	if err := syscall.Kill(p.Info().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "the end", p.Done())
	if f := wantFault(t, p.Err(), fault.Exited, fault.Unknown); f.Exit != "signal: killed" {
		t.Errorf("%#v", f)
	}
}

func TestFaultE2CloseIsBounded(t *testing.T) { eachWay(t, testFaultE2CloseIsBounded) }

func testFaultE2CloseIsBounded(t *testing.T, childSpec specMaker) {
	spec := childSpec("stubborn")
	spec.CloseWait, spec.StopGrace = 50*time.Millisecond, 100*time.Millisecond
	p := openPeer(t, spec, transport.Options{})
	p.want("echo", `{"text":"first the answer"}`, `"first the answer"`)
	begun := time.Now()
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 150*time.Millisecond || took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	wantGone(t, p.Info().PID)
}

// The caller's context cuts the patience short, not the killing.
func TestFaultE2CloseObeysItsContext(t *testing.T) { eachWay(t, testFaultE2CloseObeysItsContext) }

func testFaultE2CloseObeysItsContext(t *testing.T, childSpec specMaker) {
	spec := childSpec("stubborn")
	spec.CloseWait, spec.StopGrace = time.Hour, time.Hour
	p := openPeer(t, spec, transport.Options{})
	p.want("echo", `{"text":"up"}`, `"up"`)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	wantGone(t, p.Info().PID)
}

// A script whose interpreter is found through PATH, and is not there.
func TestFaultE7InterpreterNotFound(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "server")
	write := func(line string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(line+"\n"), 0o700); err != nil { //nolint:gosec // must be executable
			t.Fatal(err)
		}
	}
	write("#!/usr/bin/env fake-node")
	spec := Spec{Command: "server", Env: []string{"PATH=" + dir + ":/usr/bin:/bin"}}
	p := openPeer(t, spec, transport.Options{})
	wait(t, "the end", p.Done())
	if f := wantFault(t, p.Err(), fault.Exited, fault.Unknown); f.Exit != "exit 127" || f.Remedy == "" || len(f.Stderr) == 0 {
		t.Errorf("%#v", f)
	}

	write("#!/no/such/interpreter")
	_, err := Open(testContext(t), spec, transport.Options{})
	if f := wantFault(t, err, fault.Missing, fault.NotSent); f.Remedy == "" {
		t.Errorf("%#v", f)
	}
	if err := os.Chmod(script, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(testContext(t), spec, transport.Options{})
	wantFault(t, err, fault.Spawn, fault.NotSent)
}

// The child's streams are ordinary blocking ones, whatever ours are.
func TestChildStreamsBlock(t *testing.T) {
	p := openPeer(t, Spec{Command: "sh", Args: []string{"-c", "exec cat"}}, transport.Options{Inbound: func(transport.Inbound) {}})
	if err := p.Send(testContext(t), []byte(`{"method":"m"}`)); err != nil {
		t.Fatal(err)
	}
	if closed(p.Done()) {
		t.Error(p.Err())
	}
}

// What a process and its children have used is known once they have ended, however
// they did.
func TestCPUOfWhatHasEnded(t *testing.T) {
	eachWay(t, func(t *testing.T, childSpec specMaker) {
		for _, end := range []string{"close", "kill"} {
			p := openPeer(t, childSpec("serve"), transport.Options{})
			p.want("burn", `{}`, `"burnt"`)
			if got := p.Info().CPU; got != 0 {
				t.Errorf("%s before its end", got)
			}
			if end == "kill" {
				if err := syscall.Kill(p.Info().PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				wait(t, "the end of the link", p.Done())
			}
			if err := p.Close(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if got := p.Info().CPU; got < burnt || got > 100*burnt {
				t.Errorf("%s: %s, and it has used %s", end, got, burnt)
			}
		}
	})
}
