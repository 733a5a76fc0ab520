package watch

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A Command is what a server's process is started with.
type Command struct {
	Name string
	Args []string
	Dir  string // "" is the present folder
	Path string // where a Name without a separator is looked for, as in PATH
}

// Files are those that a command names, as they were at one moment.
type Files struct {
	paths []string      // as they were when Look was called
	infos []os.FileInfo // of these; nil where there is none
	later []string      // as they are when Wait is called
}

// Look takes a picture of a command's program, wherever that may be installed,
// and of its folder. It is to be taken before a start, so that no repair is
// missed. The arguments that look like paths are looked at from Wait on: a
// server may write to those itself while it starts.
func Look(c Command) *Files {
	f := &Files{paths: c.programs()}
	if c.Dir != "" {
		f.paths = append(f.paths, c.Dir)
	}
	f.infos = stat(f.paths)
	for _, arg := range c.Args {
		if path := pathIn(arg); path != "" {
			f.later = append(f.later, within(c.Dir, path))
		}
	}
	for _, name := range locks {
		f.later = append(f.later, within(c.Dir, filepath.FromSlash(name)))
	}
	return f
}

// programs are the paths at which the command is looked for.
func (c Command) programs() []string {
	var paths []string
	if filepath.Base(c.Name) != c.Name {
		paths = []string{within(c.Dir, c.Name)}
	} else {
		for _, dir := range filepath.SplitList(c.Path) {
			if filepath.IsAbs(dir) {
				paths = append(paths, filepath.Join(dir, c.Name))
			}
		}
	}
	if runtime.GOOS != "windows" {
		return paths
	}
	var all []string
	for _, path := range paths {
		all = append(all, path)
		for _, ext := range filepath.SplitList(os.Getenv("PATHEXT")) {
			all = append(all, path+ext)
		}
	}
	return all
}

// pathIn is the path that an argument holds, "" where it holds none: a name
// with a separator or an ending, alone or behind a flag and "=". What is written
// into a log repairs nothing.
func pathIn(arg string) string {
	if strings.HasPrefix(arg, "-") {
		_, value, ok := strings.Cut(arg, "=")
		if !ok {
			return ""
		}
		arg = value
	}
	if strings.HasSuffix(arg, ".log") || strings.Contains(arg, "://") || strings.ContainsAny(arg, "\n\x00") || len(arg) > 1024 {
		return ""
	}
	if filepath.Base(arg) == arg && filepath.Ext(arg) == "" {
		return ""
	}
	return arg
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// locks are written when the packages of a program have been installed.
var locks = []string{
	"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock",
	"node_modules/.package-lock.json", "uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "requirements.txt", "pyproject.toml",
	"package.json", "Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "packages.lock.json",
}

// Wait returns true once any of the files is not as it was, and false when ctx
// ends. A file that is still being written is waited for. The looks are quick
// until often.
func (f *Files) Wait(ctx context.Context, often time.Time) bool {
	paths := append(append([]string{}, f.paths...), f.later...)
	before := append(append([]os.FileInfo{}, f.infos...), stat(f.later)...)
	last := before
	for sleep(ctx, interval(time.Now(), often)) {
		now := stat(paths)
		if same(now, last) && !same(now, before) {
			return true
		}
		last = now
	}
	return false
}

func stat(paths []string) []os.FileInfo {
	infos := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		if info, err := os.Stat(path); err == nil {
			infos[i] = info
		}
	}
	return infos
}

// same compares two pictures. Of a folder only its identity counts: what is put
// into it is not what is missing.
func same(a, b []os.FileInfo) bool {
	for i := range a {
		switch {
		case (a[i] == nil) != (b[i] == nil):
			return false
		case a[i] == nil:
		case !os.SameFile(a[i], b[i]) || a[i].Mode() != b[i].Mode():
			return false
		case !a[i].IsDir() && (a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime())):
			return false
		}
	}
	return true
}
