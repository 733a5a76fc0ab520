package fleet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
)

// problemsOf are the problems that a fleet tells of, in one line each.
func problemsOf(f *Fleet) []string {
	var all []string
	for _, p := range f.Problems() {
		all = append(all, strings.TrimSpace(p.About+" "+p.Server)+": "+p.Text)
	}
	return all
}

func wantProblems(t *testing.T, f *Fleet, want ...string) {
	t.Helper()
	got := problemsOf(f)
	if len(got) != len(want) {
		t.Fatalf("the problems are %q, want %d", got, len(want))
	}
	for i, text := range want {
		if !strings.HasPrefix(got[i], text) {
			t.Errorf("problem %d is %q, want %q", i, got[i], text)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Where state cannot be written it is said, for as long as it is so. A file in
// the place of the folder refuses root, too.
func TestFaultS12(t *testing.T) {
	dir, pins := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "pins")
	write(t, dir, "")
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("send", "Sends.")}})
		p.add("b", mcptest.Config{Tools: []string{tool("take", "Takes.")}})
		var warned atomic.Int64 // by the saver and by the starts
		o := p.options()
		o.StateDir = dir
		o.Warn = func(_, text string) {
			if strings.Contains(text, "cannot be kept") {
				warned.Add(1)
			}
		}
		cfg := configOf("a", "b")
		cfg.Pins, cfg.PinsFile = config.PinsWarn, filepath.Join(pins, "lock.json")
		p.down["a"], p.down["b"] = true, true
		f := start(t, cfg, o)
		defer stop(t, f)
		write(t, pins, "") // since the start
		p.fail("a", false, mcptest.Config{Tools: []string{tool("send", "Sends.")}})
		p.fail("b", false, mcptest.Config{Tools: []string{tool("take", "Takes.")}})
		time.Sleep(time.Minute)
		synctest.Wait() // the saver has done what was due at that moment
		wantProblems(t, f,
			"pins: the lock file cannot be used: ",
			"state: the list of the servers' processes cannot be kept on disk: ",
			"state: what was approved at first sight cannot be kept on disk: ",
			"state a: the catalog cannot be kept on disk: ", "state b: the catalog cannot be kept on disk: ")
		since := f.Problems()[0].Since
		time.Sleep(10 * saveRetry)
		synctest.Wait()
		if p := f.Problems()[0]; !p.Since.Equal(since) || p.Remedy == "" {
			t.Errorf("after a while the first is %+v, since %s", p, since)
		}
		if n := warned.Load(); n != 4 { // the processes, the pins, two catalogs
			t.Errorf("the log was told %d times", n)
		}
		for _, file := range []string{dir, pins} {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(saveRetry + time.Second)
		synctest.Wait()
		wantProblems(t, f)
	})
	saved, err := (&catalog.Store{Dir: dir}).Load(configOf("a").Servers[0].Identity())
	if err != nil || saved == nil || saved.Catalog == nil {
		t.Errorf("what could not be written is not there now: %v %v", saved, err)
	}
}

// The problem of a server that is removed goes with it.
func TestFaultS12_Removed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	write(t, dir, "")
	keptIn(t, dir, configOf("a"), true, func(t *testing.T, f *Fleet, _ *park) {
		time.Sleep(time.Second)
		if !slices.ContainsFunc(problemsOf(f), func(p string) bool { return strings.HasPrefix(p, "state a:") }) {
			t.Errorf("the problems are %q", problemsOf(f))
		}
		if _, err := f.Apply(t.Context(), configOf()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if slices.ContainsFunc(problemsOf(f), func(p string) bool { return strings.HasPrefix(p, "state a:") }) {
			t.Errorf("the problems are %q", problemsOf(f))
		}
	})
}

func TestFaultS12_Remedy(t *testing.T) {
	ps := &problems{core: newCore(Options{StateDir: "/var/st"})}
	for err, want := range map[error]string{
		&os.PathError{Op: "write", Path: "/var/st/x", Err: syscall.ENOSPC}: "make room on the file system of /var/st",
		&os.PathError{Op: "write", Path: "/var/st/x", Err: syscall.EDQUOT}: "make room on the file system of /var/st",
		&os.PathError{Op: "open", Path: "/var/st/x", Err: syscall.EROFS}:   "let everline write in /var/st, or name another folder with --state-dir",
	} {
		if got := ps.writeRemedy(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// Everybody who asks is told the same of a lock file that does not say what is
// in force.
func TestFaultU15(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("send", "Sends.")}})
		cfg := configOf("a")
		cfg.Pins, cfg.PinsFile = config.PinsEnforce, filepath.Join(t.TempDir(), "lock.json")
		f := start(t, cfg, p.options())
		defer stop(t, f)
		wantProblems(t, f) // before anything was approved there is no file
		time.Sleep(time.Second)
		wantProblems(t, f)
		good := readFile(t, cfg.PinsFile)
		for name, c := range map[string]struct{ text, want string }{
			"conflict":  {"<<<<<<< HEAD\n" + good, "pins: the lock file cannot be used: "},
			"cut":       {good[:len(good)/2], "pins: the lock file cannot be used: "},
			"empty":     {"", "pins: the lock file cannot be used: "},
			"wrong sum": {strings.Replace(good, "Sends.", "Sends!", 1), "pins: the lock file cannot be used: "},
			"other":     {`{"version":1,"servers":{}}`, "pins: the lock file " + cfg.PinsFile + " has been changed"},
		} {
			time.Sleep(time.Second)
			write(t, cfg.PinsFile, c.text)
			wantProblems(t, f, c.want)
			if remedy := f.Problems()[0].Remedy; !strings.Contains(remedy, "everline reload") {
				t.Errorf("%s: the remedy is %q", name, remedy)
			}
			time.Sleep(time.Second)
			write(t, cfg.PinsFile, strings.ReplaceAll(good, "\n", "\r\n"))
			wantProblems(t, f)
		}
		if err := os.Remove(cfg.PinsFile); err != nil {
			t.Fatal(err)
		}
		wantProblems(t, f, "pins: the lock file "+cfg.PinsFile+" is gone")
		if _, err := f.Approve(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
		wantProblems(t, f)
		if readFile(t, cfg.PinsFile) != good {
			t.Error("approving has not written the file anew")
		}
	})
}
