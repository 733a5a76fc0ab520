package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestFileWatch changes files in the ways in which editors and deployments do,
// and counts how often that is told.
func TestFileWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "everline.json")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "one")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events, told := make(chan fsnotify.Event), 0
		f := fileWatch{
			files: []string{file}, seen: contentsOf([]string{file}), events: events,
			follow: func([]string) {}, changed: func() { told++ },
		}
		done := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(done)
			f.run(ctx)
		}()
		expect := func(what string, want int) {
			t.Helper()
			time.Sleep(settleTime)
			synctest.Wait()
			if told != want {
				t.Errorf("%s: told %d times, want %d", what, told, want)
			}
		}
		expect("nothing happened", 0)
		events <- fsnotify.Event{}
		expect("something else in the folder", 0)
		for _, text := range []string{"", "tw", "two"} { // truncated, and written in pieces
			write(file, text)
			events <- fsnotify.Event{}
			time.Sleep(settleTime / 2)
		}
		expect("written in place", 1)
		write(file+"~", "three")
		if err := os.Rename(file+"~", file); err != nil {
			t.Fatal(err)
		}
		events <- fsnotify.Event{}
		expect("replaced", 2)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		events <- fsnotify.Event{}
		expect("removed", 3)
		write(file, "three")
		events <- fsnotify.Event{}
		expect("made again", 4)
		cancel()
		<-done
	})
}

// TestFileWatchMissesNothingAtTheStart changes the file after it was read and
// before it is watched.
func TestFileWatchMissesNothingAtTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "everline.json")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		f := fileWatch{files: []string{file}, seen: contents{file: {}}, follow: func([]string) {}, changed: func() { told++; cancel() }}
		f.run(ctx)
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}

// TestFileWatchFollowsLinks has a link to a link to the file, as deployments
// mount configurations.
func TestFileWatchFollowsLinks(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"etc", "mount", "mount/v1"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(root, "etc", "everline.json")
	links := []struct{ target, link string }{
		{"../mount/everline.json", file},
		{"data/everline.json", filepath.Join(root, "mount", "everline.json")},
		{"v1", filepath.Join(root, "mount", "data")},
	}
	for _, l := range links {
		if err := os.Symlink(l.target, l.link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "mount", "v1", "everline.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := fileWatch{files: []string{file}}.folders()
	for _, want := range []string{"etc", "mount", "mount/v1"} {
		if !slices.Contains(got, filepath.Join(root, want)) {
			t.Errorf("%s is not watched: %q", want, got)
		}
	}
}
