package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeRoot is a folder that looks like our own cgroup, with processes in it.
func fakeRoot(t *testing.T, controllers, procs string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "cgroup.controllers", controllers)
	write(t, dir, "cgroup.procs", procs)
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func everybody(int) bool { return true }

func TestDelegated(t *testing.T) {
	dir := fakeRoot(t, "cpuset cpu io memory pids\n", "17\n18\n")
	r, err := open(dir, everybody)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, leaf, "cgroup.procs"); got != "18" { // the last one that moved; the kernel keeps both
		t.Errorf("moved %q", got)
	}
	if got := read(t, dir, "cgroup.subtree_control"); got != "+cpu" {
		t.Errorf("the last controller that was enabled is %q", got)
	}
	g, err := r.New("one", Limits{Memory: 1 << 20, Pids: 7, CPU: 0.5})
	if err != nil || len(g.Unmet()) > 0 {
		t.Fatal(err, g.Unmet())
	}
	for file, want := range map[string]string{"memory.max": "1048576", "pids.max": "7", "cpu.max": "50000 100000"} {
		if got := read(t, g.Dir(), file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if err := Enter(g.Dir(), 4711); err != nil || read(t, g.Dir(), "cgroup.procs") != "4711" {
		t.Error(err)
	}
	g.remove = func(path string) error {
		if got := read(t, path, "cgroup.kill"); got != "1" {
			t.Errorf("killed %q", got)
		}
		return os.RemoveAll(path)
	}
	if err := g.End(); err != nil {
		t.Error(err)
	}
	if _, err := r.New("one", Limits{Pids: 1}); err != nil { // its place is free again
		t.Error(err)
	}
}

func TestSomeControllers(t *testing.T) {
	r, err := open(fakeRoot(t, "pids\n", ""), everybody)
	if err != nil {
		t.Fatal(err)
	}
	g, err := r.New("one", Limits{Memory: 1 << 20, Pids: 7})
	if err != nil || len(g.Unmet()) != 1 || !strings.HasPrefix(g.Unmet()[0], "memory: ") {
		t.Errorf("%v, %v", err, g.Unmet())
	}
	if _, err := os.Stat(filepath.Join(g.Dir(), "cpu.max")); !os.IsNotExist(err) {
		t.Error("what was not asked for was limited")
	}
}

func TestUnavailable(t *testing.T) {
	if _, err := open(t.TempDir(), everybody); err == nil {
		t.Error("a folder that is no cgroup is one")
	}
	if _, err := open(fakeRoot(t, "cpuset io\n", ""), everybody); err == nil || !strings.Contains(fmt.Sprint(err), "none of the controllers") {
		t.Errorf("no controllers: %v", err)
	}
	stranger := func(pid int) bool { return pid != 18 }
	dir := fakeRoot(t, "pids\n", "17\n18\n")
	if _, err := open(dir, stranger); err == nil || !strings.Contains(fmt.Sprint(err), "other processes") {
		t.Errorf("a stranger: %v", err)
	}
	if entries, _ := os.ReadDir(dir); slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() }) {
		t.Error("something was changed although it cannot be used")
	}
}

// What an everline that was killed has left is removed, and nobody else's.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{leaf, Prefix + "abc-1", Prefix + "abc-12", Prefix + "abcd-1", "abc-1"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(path string) error {
		if got := read(t, path, "cgroup.kill"); got != "1" {
			t.Errorf("killed %q", got)
		}
		return os.RemoveAll(path)
	}
	if err := sweep(dir, "abc-", remove); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"abc-1", leaf, Prefix + "abcd-1"}; !slices.Equal(left, want) {
		t.Errorf("left is %q", left)
	}
	stuck := func(string) error { return os.ErrPermission }
	if err := sweep(dir, "abcd-", stuck); err == nil {
		t.Error("one that would not go is not told")
	}
}

// A group that will not go is told, after a bounded time.
func TestEndIsBounded(t *testing.T) {
	r, err := open(fakeRoot(t, "pids\n", ""), everybody)
	if err != nil {
		t.Fatal(err)
	}
	g, err := r.New("one", Limits{Pids: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.End(); err == nil || !strings.Contains(fmt.Sprint(err), g.Dir()) { // a real folder with files in it
		t.Errorf("got %v", err)
	}
}

func TestCPUMax(t *testing.T) {
	for cpu, want := range map[float64]string{0.001: "1000 100000", 0.25: "25000 100000", 2: "200000 100000"} {
		if got := cpuMax(cpu); got != want {
			t.Errorf("%v: %q, want %q", cpu, got, want)
		}
	}
}

func TestNone(t *testing.T) {
	if !(Limits{}).None() || (Limits{CPU: 1}).None() {
		t.Error("None is wrong")
	}
}
