package fileedit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// TestEditsAtTheSameTime adds a line from many sides; all of them are there.
func TestEditsAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "f")
	const sides = 16
	var all sync.WaitGroup
	for i := range sides {
		all.Go(func() { // is waited for below
			_, err := Edit{Path: path, Change: func(was []byte) ([]byte, error) {
				return fmt.Appendf(bytes.Clone(was), "line %d\n", i), nil
			}}.Run()
			if err != nil {
				t.Errorf("side %d: %v", i, err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != sides {
		t.Errorf("%v:\n%s", err, text)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestEditIsMadeAnew has another program that writes the file in between, once
// while the edit is thought out and once while it is written.
func TestEditIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	theirs := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	theirs("0")
	tries, backup := 0, filepath.Join(filepath.Dir(path), "backups", "f")
	made, err := Edit{
		Path: path, Backup: func([]byte) string { return backup },
		Change: func(was []byte) ([]byte, error) {
			if tries++; tries == 1 {
				theirs("1")
			}
			return append(bytes.Clone(was), "+ours"...), nil
		},
		Before: func(was, _ []byte) error {
			if string(was) == "1" {
				theirs("2")
			}
			return nil
		},
	}.Run()
	if err != nil || tries != 3 {
		t.Errorf("%d tries: %v", tries, err)
	}
	if text, _ := os.ReadFile(path); string(text) != "2+ours" {
		t.Errorf("the file has %q", text)
	}
	all, _ := filepath.Glob(filepath.Join(filepath.Dir(backup), "*"))
	if text, _ := os.ReadFile(made.Backup); string(text) != "2" || len(all) != 1 {
		t.Errorf("the backup has %q; there are %v", text, all)
	}
}

// TestEditWaitsForAnother holds the folder for a while.
func TestEditWaitsForAnother(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, busy := tryLockFolder(dir); !busy {
		t.Error("two have the folder")
	}
	done := make(chan error, 1)
	go func() { // ends once the folder is free
		_, err := Edit{Path: filepath.Join(dir, "f"), Change: func([]byte) ([]byte, error) { return []byte("x"), nil }}.Run()
		done <- err
	}()
	unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLargeFilesAreNotCut has a file that is too large to be a configuration.
func TestLargeFilesAreNotCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, tree.MaxFile+1); err != nil { // takes no space on the disk
		t.Fatal(err)
	}
	_, err := Edit{Path: path, Change: func(was []byte) ([]byte, error) { return append(was, 'x'), nil }}.Run()
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != tree.MaxFile+1 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestEditFollowsLinks writes where a link leads, also to what is not there yet.
func TestEditFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join("real", "f"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := (Edit{Path: link, Change: func([]byte) ([]byte, error) { return []byte("x"), nil }}).Run(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "real", "f")); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}
}

// TestBackupsHaveTheirOwnNames has two files of one name, and one by a link.
func TestBackupsHaveTheirOwnNames(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink(filepath.Join("one", "f.json"), link); err != nil {
		t.Fatal(err)
	}
	one, other := BackupPath(state, filepath.Join(dir, "one", "f.json")), BackupPath(state, filepath.Join(dir, "other", "f.json"))
	if one == other || one != BackupPath(state, link) || filepath.Dir(one) != filepath.Join(state, "backups") {
		t.Errorf("%s, %s, %s", one, other, BackupPath(state, link))
	}
}

// TestEditLeavesWhatItCannotMake keeps the file where the edit fails.
func TestEditLeavesWhatItCannotMake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "f")
	failed := errors.New("no")
	if _, err := (Edit{Path: path, Change: func([]byte) ([]byte, error) { return nil, failed }}).Run(); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("a folder was made for nothing")
	}
}
