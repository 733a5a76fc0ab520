package shim

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestParentIn(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (sh) S 7 12 12 0": 7, "12 (a) b) R 7) S 42 1": 42, "1 (x) S 0": 0,
	} {
		if got, ok := parentIn([]byte(stat)); !ok || got != want {
			t.Errorf("%q: %d, %v", stat, got, ok)
		}
	}
	for _, stat := range []string{"", "12 (sh", "12 (sh)", "12 (sh) S", "12 (sh) S x"} {
		if got, ok := parentIn([]byte(stat)); ok {
			t.Errorf("%q: %d", stat, got)
		}
	}
}

func TestDescendants(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo up; wait")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 3))
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := descendants()
	if err != nil || !slices.Contains(all, cmd.Process.Pid) || len(all) < 2 || slices.Contains(all, os.Getpid()) {
		t.Errorf("%v, %v", all, err)
	}
	new(guard).kill()
	_ = cmd.Wait() // says that it was killed
	if all, err = descendants(); err != nil || slices.Contains(all, cmd.Process.Pid) {
		t.Errorf("%v, %v", all, err)
	}
}
