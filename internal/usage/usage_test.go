package usage

import (
	"maps"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestSum(t *testing.T) {
	of := func(parent int, n int64) process { return process{parent, Tree{1, n, time.Duration(n)}} }
	tree := func(processes int, n int64) Tree { return Tree{processes, n, time.Duration(n)} }
	got := sum(map[int]process{
		1: of(0, 1), 10: of(1, 10), 11: of(10, 100), 12: of(11, 1000), 20: of(1, 5),
		30: of(31, 7), 31: of(30, 8), // a ring
	})
	want := Trees{
		1: tree(5, 1+10+100+1000+5), 10: tree(3, 1110), 11: tree(2, 1100), 12: tree(1, 1000), 20: tree(1, 5),
		30: tree(2, 15), 31: tree(2, 15),
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if all := got.Of(11, 20, 0); all != tree(3, 1105) {
		t.Errorf("%v", all)
	}
}

// What the system says of this test itself, before and behind some work of its own
// and of a child that it has waited for.
func TestThisProcess(t *testing.T) {
	var r Recent
	before := r.Trees().Of(os.Getpid())
	if runtime.GOOS != "linux" {
		if before != (Tree{}) {
			t.Errorf("%v on a system that does not tell", before)
		}
		return
	}
	if before.Processes < 1 || before.Resident < 1<<20 || before.Resident > 8<<30 {
		t.Errorf("%v", before)
	}
	child := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	took := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	if used := Read().Of(os.Getpid()).CPU - before.CPU; used < took-4*10*time.Millisecond {
		t.Errorf("%s were used, and the child alone had %s", used, took)
	}
	if r.Trees().Of(1<<30) != (Tree{}) {
		t.Error("a process that is not there holds something")
	}
}
