package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/trust"
)

// usedFiles are the files that a command reads: those that were named, else
// those of the everline that runs on the state folder, else the one that serve
// would read.
func (a *app) usedFiles(ctx context.Context, named []string) ([]string, error) {
	if len(named) == 0 {
		if files := a.runningFiles(ctx); len(files) > 0 {
			return files, nil
		}
	}
	return trust.Files(named)
}

// runningFiles are those of the everline that runs, if they can be read again;
// nil if none runs.
func (a *app) runningFiles(ctx context.Context) []string {
	st, err := a.glance().Status(ctx)
	if err != nil || slices.ContainsFunc(st.Config, daemon.ReadOnce) {
		return nil
	}
	return st.Config
}

// oneFile is the file that a command changes: the one that was named, else the
// one that the running everline reads, else the one that serve would read, else
// a new ./everline.json. Of several that are read it is the one that has the
// servers, which a command that adds one has none of.
func (a *app) oneFile(ctx context.Context, named string, servers []string) (string, error) {
	running := a.runningFiles(ctx)
	if named != "" {
		if len(running) > 0 && !slices.ContainsFunc(running, func(file string) bool { return isSameFile(file, named) }) {
			fmt.Fprintf(a.stderr, "the everline that runs reads %s, and not this file\n", printable(strings.Join(running, ", ")))
		}
		return named, nil
	}
	if len(running) > 0 {
		path, err := holder(running, servers)
		if err == nil {
			err = present(path)
		}
		return path, err
	}
	files, err := trust.Files(nil)
	if err != nil {
		return trust.UsualNames[0], nil
	}
	return files[0], nil
}

// holder is the one of several files that has all of these servers.
func holder(files, servers []string) (string, error) {
	if len(files) == 1 {
		return files[0], nil
	}
	var found []string
	for _, file := range files {
		data, err := fileedit.Read(file)
		has := func(name string) bool { return edit.HasServer(clients.Everline, file, data, name) }
		if err == nil && len(servers) > 0 && !slices.ContainsFunc(servers, func(name string) bool { return !has(name) }) {
			found = append(found, file)
		}
	}
	if len(found) == 0 {
		return "", usage("--config "+files[0], "the everline that runs reads several files: %s", strings.Join(files, ", "))
	}
	return found[0], nil // of two the first one counts for everline, too
}

// present refuses a file that is missing: to create it again would take all
// servers away that were in it.
func present(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &fault.Fault{
		Kind: fault.NotFound, Op: "edit " + path, Outcome: fault.NotSent, Err: errors.New("the file that the running everline reads is missing"),
		Remedy: "put it back, or name another one with --config",
	}
}

// isTakenUp reports whether the everline that runs reads a file, and takes it as
// it is.
func (a *app) isTakenUp(ctx context.Context, path string) bool {
	st, err := a.glance().Status(ctx)
	return err == nil && st.ConfigError == nil && slices.ContainsFunc(st.Config, func(file string) bool { return isSameFile(file, path) })
}

func isSameFile(a, b string) bool {
	if fileedit.Same(a, b) { // which compares any two that are there
		return true
	}
	first, err := filepath.Abs(a)
	second, secondErr := filepath.Abs(b)
	return err == nil && secondErr == nil && first == second
}
