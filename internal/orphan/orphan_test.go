package orphan

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// sleeper starts a process with a mark, which ends with the test at the latest.
func sleeper(t *testing.T, mark string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), MarkVar+"="+mark, "EVERLINE_ORPHAN_SLEEPS=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	})
	return cmd
}

func TestMain(m *testing.M) {
	if os.Getenv("EVERLINE_ORPHAN_SLEEPS") != "" {
		<-time.After(time.Minute)
	}
	os.Exit(m.Run())
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Marks can be read on Linux alone.
const linux = runtime.GOOS == "linux"

func TestMarks(t *testing.T) {
	a, b := NewMark(), NewMark()
	if a == b || !strings.HasPrefix(a, Instance()) || strings.HasPrefix(NewMark(), strings.TrimSuffix(a, ".")+".") {
		t.Errorf("%q, %q, %q", Instance(), a, b)
	}
}

func TestEnd(t *testing.T) {
	mine, other := NewMark(), NewMark()
	one, two := sleeper(t, mine), sleeper(t, other)
	found, ended := End(bounded(t), mine)
	if !ended || linux && (len(found) != 1 || found[0] != one.Process.Pid) {
		t.Errorf("found %v (%d, %d), ended: %v", found, one.Process.Pid, two.Process.Pid, ended)
	}
	if Alive(mine) || linux && !Alive(other) {
		t.Error("the wrong one was ended")
	}
}

func TestEndGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mark := NewMark()
	sleeper(t, mark)
	if _, ended := End(ctx, mark); ended && linux {
		t.Error("it looked again although there was no time")
	}
}

// plant writes the ledger of an everline that has ended without a word.
func plant(t *testing.T, dir string, rec record) string {
	t.Helper()
	data, err := json.Marshal(rec)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, folder), 0o700)
	}
	path := filepath.Join(dir, folder, "dead.json")
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	dead := strings.Repeat("x", len(Instance())-1) + "-"
	server, grandchild := sleeper(t, dead+"1."), sleeper(t, dead+"1.")
	path := plant(t, dir, record{
		Owner: Process{PID: os.Getpid(), Started: "another use of this id"}, Instance: dead,
		Processes: []Process{
			{Server: "db", PID: server.Process.Pid, Started: born(server.Process.Pid)},
			{Server: "gone", PID: os.Getpid(), Started: "not the same"}, // its id was given to us
		},
	})
	l := NewLedger(dir)
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	var groups []string
	l.groups = func(instance string) error {
		groups = append(groups, instance)
		return nil
	}
	found, err := l.Sweep(bounded(t))
	if err != nil || !slices.Equal(groups, []string{dead}) {
		t.Fatal(err, groups)
	}
	names := map[int]string{}
	for _, f := range found {
		if !f.Ended {
			t.Errorf("%+v", f)
		}
		names[f.PID] = f.Server
	}
	if linux && (len(names) != 2 || names[server.Process.Pid] != "db" || names[grandchild.Process.Pid] != "") {
		t.Errorf("found %+v", found)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the dead one's ledger is still there: %v", err)
	}
	if _, err := os.Stat(l.file); err != nil {
		t.Errorf("our own is not: %v", err)
	}
	if err := l.Remove(); err != nil {
		t.Error(err)
	}
	if err := l.Remove(); err != nil { // again
		t.Error(err)
	}
}

// What another everline on the same folder has started, and is using, stays.
func TestSweepLeavesTheLivingAlone(t *testing.T) {
	if born(os.Getpid()) == "" {
		return // nothing is ended where nothing can be proved
	}
	dir := t.TempDir()
	alive := strings.Repeat("y", len(Instance())-1) + "-"
	sleeper(t, alive+"1.")
	path := plant(t, dir, record{Owner: Process{PID: os.Getppid(), Started: born(os.Getppid())}, Instance: alive})
	l := NewLedger(dir)
	l.groups = func(string) error {
		t.Error("its cgroups were removed")
		return nil
	}
	if found, err := l.Sweep(bounded(t)); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := os.Stat(path); err != nil || linux && !Alive(alive) {
		t.Errorf("it was ended: %v", err)
	}
}

// A ledger that names no instance would make everything ours.
func TestSweepOfGarbage(t *testing.T) {
	dir := t.TempDir()
	mark := NewMark()
	sleeper(t, mark)
	for _, rec := range []record{{}, {Instance: Instance()[:3]}} {
		path := plant(t, dir, rec)
		found, err := NewLedger(dir).Sweep(bounded(t))
		if err != nil || len(found) > 0 || linux && !Alive(mark) {
			t.Errorf("%+v, %v", found, err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("it is still there: %v", err)
		}
	}
}

func TestLedgerKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	l := NewLedger(dir)
	l.Set("a", 1)
	l.Set("a", os.Getpid())
	l.Set("b", os.Getpid())
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatal(err)
	}
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil || len(rec.Processes) != 2 || rec.Processes[0].PID != os.Getpid() || rec.Instance != Instance() {
		t.Errorf("%s, %v", data, err)
	}
	before, _ := os.Stat(l.file)
	if err := l.Save(); err != nil { // nothing is new
		t.Error(err)
	}
	if after, _ := os.Stat(l.file); !os.SameFile(before, after) {
		t.Error("it was written again")
	}
}
