package admin

import (
	"maps"
	"os"
	"runtime"
	"testing"
)

func TestSumTrees(t *testing.T) {
	got := sumTrees(map[int]process{
		1: {0, 1}, 10: {1, 10}, 11: {10, 100}, 12: {11, 1000}, 20: {1, 5},
		30: {31, 7}, 31: {30, 8}, // a ring
	})
	want := map[int]int64{1: 1 + 10 + 100 + 1000 + 5, 10: 1110, 11: 1100, 12: 1000, 20: 5, 30: 15, 31: 15}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestMemoryOfThisProcess asks the system about this test itself.
func TestMemoryOfThisProcess(t *testing.T) {
	var m memory
	got := m.resident(os.Getpid())
	if runtime.GOOS != "linux" {
		if got != 0 {
			t.Errorf("%d bytes on a system that does not tell", got)
		}
		return
	}
	if got < 1<<20 || got > 8<<30 {
		t.Errorf("%d bytes", got)
	}
	if m.resident(1<<30) != 0 {
		t.Error("a process that is not there has memory")
	}
}
