package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/orphan"
	"github.com/everline/everline/internal/shim"
	"github.com/everline/everline/internal/transport"
)

// aSpare makes the spare that a start would have made some time later.
func aSpare(t *testing.T, s *Spares) int {
	t.Helper()
	s.fill()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready == nil {
		t.Fatal("no spare")
	}
	return s.ready.link.cmd.Process.Pid
}

// The next server is started by the spare, with everything that a shim does.
func TestSpareIsUsed(t *testing.T) {
	spares := NewSpares()
	t.Cleanup(spares.Close)
	pid := aSpare(t, spares)
	spec := childSpec("serve")
	spec.Spares = spares
	spec.CloseWait, spec.StopGrace = 20*time.Millisecond, 20*time.Millisecond
	p := openPeer(t, spec, transport.Options{})
	spares.mu.Lock()
	left := spares.ready
	spares.mu.Unlock()
	if left != nil {
		t.Error("one spare for two starts")
	}
	if got := shimOf(t, p.Info().PID); got != pid {
		t.Errorf("shim %d, spare was %d", got, pid)
	}
	p.want("echo", `{"text":"x"}`, `"x"`)
	grandchild := p.grandchildThat("session")
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	wantGone(t, grandchild)
}

// A spare that somebody has killed is reaped at once, and missed by nobody.
func TestSpareKilled(t *testing.T) {
	spares := NewSpares()
	t.Cleanup(spares.Close)
	pid := aSpare(t, spares)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "the end of the watch", spares.ready.watched)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("it was not reaped: %v", err)
	}
	spec := childSpec("serve")
	spec.Spares = spares
	p := openPeer(t, spec, transport.Options{})
	p.want("echo", `{"text":"x"}`, `"x"`)
}

// One that ends before it has its order costs the start of another.
func TestSpareGoneAtItsOrder(t *testing.T) {
	spares := NewSpares()
	t.Cleanup(spares.Close)
	pid := aSpare(t, spares)
	link := spares.take()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cmd, f := command(childSpec("serve").withDefaults())
	if f != nil {
		t.Fatal(f)
	}
	if _, err := link.start(procSpec{cmd: cmd}); !errors.Is(err, errShimGone) {
		t.Errorf("%v", err)
	}
	if orphan.Alive(orphan.Instance()) {
		t.Error("something is left")
	}
}

// A server that cannot be started is told as without a spare, which is used up.
func TestSpareForNothing(t *testing.T) {
	spares := NewSpares()
	t.Cleanup(spares.Close)
	aSpare(t, spares)
	file := t.TempDir() + "/script"
	if err := os.WriteFile(file, []byte("#!/no/such/program\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(testContext(t), Spec{Command: file, Spares: spares}, transport.Options{})
	wantFault(t, err, fault.Missing, fault.NotSent)
}

// A start makes the next spare after a while, and Close leaves none.
func TestSparesRefillAndClose(t *testing.T) {
	spares := NewSpares()
	if spares.take() != nil {
		t.Fatal("a spare before the first start")
	}
	limit := time.After(30 * time.Second)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for ready := false; !ready; {
		select {
		case <-look.C:
			spares.mu.Lock()
			ready = spares.ready != nil
			spares.mu.Unlock()
		case <-limit:
			t.Fatal("no spare after a start")
		}
	}
	spares.Close()
	if orphan.Alive(orphan.Instance()) {
		t.Error("it is left")
	}
	if spares.take() != nil {
		t.Error("a spare after Close")
	}
	spares.fill()
	if spares.ready != nil {
		t.Error("filled after Close")
	}
}

// BenchmarkStart tells what a spare saves.
func BenchmarkStart(b *testing.B) {
	for _, way := range []string{"plain", "shim", "spare"} {
		b.Run(way, func(b *testing.B) {
			spares := NewSpares()
			defer spares.Close()
			for b.Loop() {
				spec := childSpec("serve")
				spec.CloseWait, spec.plain = time.Second, way == "plain"
				if way == "spare" {
					b.StopTimer()
					spares.fill()
					for comm := []byte(nil); !bytes.HasPrefix(comm, []byte(shim.Name)); { // until it waits for its order
						comm, _ = os.ReadFile(fmt.Sprintf("/proc/%d/comm", spares.ready.link.cmd.Process.Pid))
					}
					spec.Spares = spares
					b.StartTimer()
				}
				c, err := Open(b.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := c.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
