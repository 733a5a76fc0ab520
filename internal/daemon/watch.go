package daemon

import (
	"context"
	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/everline/everline/internal/conf/tree"
)

// settleTime is how long files must be left alone before they are read: an
// editor writes, renames and sets permissions in several steps.
const settleTime = 200 * time.Millisecond

// A fileWatch notices when the content of files has changed. It watches folders,
// not files, because editors replace files and links are turned elsewhere; and
// it compares contents, because most of what happens in a folder is about
// something else.
type fileWatch struct {
	files  []string
	seen   contents // what was read last
	events <-chan fsnotify.Event
	errors <-chan error
	// follow is called with the folders to watch, again after each change; a
	// link may have been turned to another one.
	follow  func(folders []string)
	changed func()
}

// watchFiles reloads when the configuration files change, until the daemon
// ends. Where the system has no watches left, reload by hand still works; what
// can be read only once is not watched.
func (d *daemon) watchFiles() {
	seen := maps.Clone(d.parts.found.seen)
	files := slices.DeleteFunc(slices.Clone(d.parts.found.Files), ReadOnce)
	maps.DeleteFunc(seen, func(file string, _ [sha256.Size]byte) bool { return !slices.Contains(files, file) })
	w, err := fsnotify.NewWatcher()
	if err != nil {
		d.parts.Log.Warn("the configuration files are not watched; everline reload applies changes", "cause", err)
		return
	}
	f := fileWatch{
		files: files, seen: seen, events: w.Events, errors: w.Errors,
		follow: func(folders []string) {
			for _, folder := range folders {
				if err := w.Add(folder); err != nil { // adding twice is fine
					d.parts.Log.Warn("a folder of the configuration is not watched; everline reload applies changes", "folder", folder, "cause", err)
				}
			}
		},
		changed: func() { d.reloadSeen(d.base) },
	}
	d.running.Go(func() { // ends with d.base
		defer func() { _ = w.Close() }() // nothing is watched any more
		f.run(d.base)
	})
}

// run ends with ctx. A change during a reload leads to another one.
func (f fileWatch) run(ctx context.Context) {
	f.follow(f.folders())
	timer := time.NewTimer(0) // what changed between the first reading and the watch
	defer timer.Stop()
	for {
		select {
		case <-f.events:
			timer.Reset(settleTime)
		case <-f.errors: //nolint:errcheck // an overflow: something may have been missed
			timer.Reset(settleTime)
		case <-timer.C:
			if now := contentsOf(f.files); !maps.Equal(now, f.seen) {
				f.seen = now
				f.follow(f.folders())
				f.changed()
			}
		case <-ctx.Done():
			return
		}
	}
}

// folders are those in which a change can change one of the files: its own,
// and that of every link on the way to it.
func (f fileWatch) folders() []string {
	var all []string
	add := func(folder string) {
		if !slices.Contains(all, folder) {
			all = append(all, folder)
		}
	}
	for _, file := range f.files {
		path, err := filepath.Abs(file)
		if err != nil {
			continue
		}
		for range 40 { // more links in a row than any system follows
			add(filepath.Dir(path))
			target, err := os.Readlink(path)
			if err != nil {
				break
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(path), target)
			}
			path = target
		}
		if real, err := filepath.EvalSymlinks(file); err == nil {
			if real, err = filepath.Abs(real); err == nil {
				add(filepath.Dir(real))
			}
		}
	}
	return all
}

// contents are digests by file. A file that cannot be read, which it is for a
// moment while it is replaced, has none.
type contents map[string][sha256.Size]byte

// contentsOf reads files that are not read once.
func contentsOf(files []string) contents {
	c := contents{}
	for _, file := range files {
		if text, err := tree.ReadFile(file); err == nil {
			c[file] = sha256.Sum256(text)
		}
	}
	return c
}

// ReadOnce reports whether a file is a pipe or a device, which gives what it has
// to one reader.
func ReadOnce(file string) bool {
	info, err := os.Stat(file)
	return err == nil && !info.Mode().IsRegular()
}
