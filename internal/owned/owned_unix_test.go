//go:build unix

package owned

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/everline/everline/fault"
)

func write(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path) // one that we may not write, where there is one
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func folder(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// somebodyElse is a user who is neither root nor us.
const somebodyElse = 54321

// giveAway makes a path another user's: really, where we may do that, and else
// by taking us for yet another one.
func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Lchown(path, somebodyElse, -1) == nil {
		return
	}
	geteuid = func() int { return somebodyElse }
	t.Cleanup(func() { geteuid = os.Geteuid })
}

func wantRefusal(t *testing.T, err error, text, remedy string) {
	t.Helper()
	f := fault.From("", err)
	if err == nil || f.Kind != fault.Invalid || !strings.Contains(err.Error(), text) || !strings.Contains(f.Remedy, remedy) {
		t.Errorf("got %v (%+v), want %q and the remedy %q", err, f, text, remedy)
	}
}

// TestFaultV2Permissions has each way in which others could write what everline starts.
func TestFaultV2Permissions(t *testing.T) {
	dir := t.TempDir()
	for mode, word := range map[os.FileMode]string{0o600: "", 0o644: "", 0o444: "", 0o664: "its group may write", 0o646: "every user may write", 0o666: "every user may write"} {
		path := write(t, filepath.Join(dir, "f.json"), mode)
		err := File(path)
		if word == "" && err != nil {
			t.Errorf("%o: %v", mode, err)
		}
		if word != "" {
			wantRefusal(t, err, word, "chmod go-w "+path)
		}
	}
	open := filepath.Join(folder(t, filepath.Join(dir, "open"), 0o777), "f.json")
	wantRefusal(t, File(write(t, open, 0o600)), "every user may write the folder", "chmod go-w "+filepath.Dir(open))
	deep := write(t, filepath.Join(filepath.Dir(open), "sub", "f.json"), 0o600)
	wantRefusal(t, File(deep), "every user may write the folder", "chmod go-w "+filepath.Dir(open))
	sticky := folder(t, filepath.Join(dir, "sticky"), 0o777|os.ModeSticky)
	if err := File(write(t, filepath.Join(sticky, "f.json"), 0o600)); err != nil {
		t.Errorf("in a sticky folder: %v", err)
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink("open/f.json", link); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, File(link), "every user may write the folder", "chmod go-w")
	t.Chdir(filepath.Dir(open))
	wantRefusal(t, File("f.json"), "every user may write the folder", "chmod go-w")
	if err := File(filepath.Join(dir, "none.json")); err != nil {
		t.Errorf("what is not there is refused: %v", err)
	}
	odd := write(t, filepath.Join(dir, "it's mine.json"), 0o666)
	wantRefusal(t, File(odd), "every user", `chmod go-w '`+dir+`/it'\''s mine.json'`)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := File(pipe); err != nil {
		t.Errorf("a pipe of ours: %v", err)
	}
	if err := os.Chmod(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, File(pipe), "every user may write it", "chmod go-w")
}

// TestFaultV2ForeignOwner has the file, the link to it and the folder of another user.
func TestFaultV2ForeignOwner(t *testing.T) {
	for name, give := range map[string]string{"the file": "f.json", "the link": "link.json", "the folder": "."} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "f.json"), 0o644)
			link := filepath.Join(dir, "link.json")
			if err := os.Symlink("f.json", link); err != nil {
				t.Fatal(err)
			}
			giveAway(t, filepath.Join(dir, give))
			wantRefusal(t, File(link), "belongs to another user", "sudo chown ")
		})
	}
}

func TestFaultV4Folder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := MakeFolder(dir); err != nil {
		t.Errorf("a new one: %v", err)
	}
	for _, mode := range []os.FileMode{0o777, 0o755, 0o770, 0o701, 0o777 | os.ModeSticky} {
		folder(t, dir, mode)
		wantRefusal(t, MakeFolder(dir), "other users may use the folder", "chmod go-rwx "+dir)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != mode.Perm() {
			t.Errorf("it was changed: %v, %v", info, err)
		}
	}
	wantRefusal(t, MakeFolder(write(t, filepath.Join(t.TempDir(), "f"), 0o600)), "", "--state-dir")
	folder(t, dir, 0o700)
	giveAway(t, dir)
	wantRefusal(t, Folder(dir), "belongs to another user", "--state-dir")
}

// TestFaultV5Open plants what could make a write go somewhere else.
func TestFaultV5Open(t *testing.T) {
	dir := t.TempDir()
	victim := write(t, filepath.Join(dir, "victim"), 0o600)
	path := filepath.Join(dir, "lock")
	for name, plant := range map[string]func() error{
		"a link":                  func() error { return os.Symlink(victim, path) },
		"a link to nothing":       func() error { return os.Symlink(filepath.Join(dir, "new"), path) },
		"a second name":           func() error { return os.Link(victim, path) },
		"a pipe nobody reads":     func() error { return syscall.Mkfifo(path, 0o600) },
		"a folder":                func() error { return os.Mkdir(path, 0o700) },
		"a link through a folder": func() error { return os.Symlink(dir, path) },
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if err := Write(path, []byte("1234567"), 0o600); err == nil {
			t.Errorf("%s was written", name)
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "{}" {
			t.Errorf("%s: the victim has %q, %v", name, text, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
			t.Errorf("%s: a file was made", name)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"a long text", "short"} {
		if err := Write(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	giveAway(t, path)
	if err := Write(path, []byte("x"), 0o600); err == nil {
		t.Error("another user's file was written")
	}
	if _, err := Open(filepath.Join(dir, "none"), os.O_RDWR, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
