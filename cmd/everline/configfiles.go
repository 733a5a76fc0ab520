package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

// formatFlag is the help of --format.
func formatFlag() string {
	return "how the files are written, in place of what they look like: " + strings.Join(config.Formats(), ", ")
}

// backupName is the name under which a file is kept before it is changed.
func backupName(path string, now time.Time) string {
	return path + ".before-everline-" + now.Format("20060102-150405")
}

// maxEdited bounds what is read of a file that is to be edited.
const maxEdited = 8 << 20

// readEdited reads a file that may be new; a new one is empty.
func readEdited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileFault("read", path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEdited))
	if err != nil {
		return nil, fileFault("read", path, err)
	}
	return data, nil
}

func fileFault(op, path string, err error) error {
	return &fault.Fault{Kind: fault.Invalid, Op: op + " " + path, Outcome: fault.NotSent, Err: err, Remedy: "check the path and who may write there"}
}

// writeEdited replaces a file as a whole, where a link points to if it is one,
// and keeps its permissions. backup, if not "", gets what was there before.
func writeEdited(path string, was, text []byte, backup string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	mode := fs.FileMode(0o600) // entries may have secrets in them
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fileFault("write", path, err)
	}
	if backup != "" && was != nil {
		if err := replaceFile(backup, was, mode); err != nil {
			return fileFault("write", backup, err)
		}
	}
	if err := replaceFile(path, text, mode); err != nil {
		return fileFault("write", path, err)
	}
	return nil
}

// replaceFile writes beside the file and renames, so that whoever reads it
// sees the old text or the new one.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".everline-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // is gone where the rename worked
	_, err = f.Write(text)
	for _, step := range []func() error{func() error { return f.Chmod(mode) }, f.Sync, f.Close} {
		if e := step(); err == nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// difference shows which lines an edit takes out and puts in; what is common
// at both ends is left out, but for a line or two around.
func difference(was, is string) string {
	a, b := strings.SplitAfter(was, "\n"), strings.SplitAfter(is, "\n")
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	const around = 2
	var out strings.Builder
	line := func(sign, text string) {
		if text = strings.TrimRight(text, "\r\n"); text != "" || sign != " " {
			fmt.Fprintf(&out, "%s %s\n", sign, printable(text))
		}
	}
	for i := max(0, head-around); i < head; i++ {
		line(" ", a[i])
	}
	for _, text := range a[head : len(a)-tail] {
		line("-", text)
	}
	for _, text := range b[head : len(b)-tail] {
		line("+", text)
	}
	for i := len(a) - tail; i < min(len(a), len(a)-tail+around); i++ {
		line(" ", a[i])
	}
	return out.String()
}

// An editResult is what the editing commands print for machines.
type editResult struct {
	File    string  `json:"file"`
	Changed bool    `json:"changed"`
	DryRun  bool    `json:"dryRun"`
	Backup  *string `json:"backup"` // null if nothing was there before, or nothing was changed
}

// finishEdit writes what an editing command made, or shows it.
func (a *app) finishEdit(path string, was, text []byte, dryRun, keep bool, done string) error {
	r := editResult{File: path, Changed: string(was) != string(text), DryRun: dryRun}
	if r.Changed && !dryRun {
		if backup := backupName(path, time.Now()); keep && was != nil {
			r.Backup = &backup
		}
		to := ""
		if r.Backup != nil {
			to = *r.Backup
		}
		if err := writeEdited(path, was, text, to); err != nil {
			return err
		}
	}
	if a.forMachines() {
		return writeLine(a.out, r)
	}
	switch {
	case !r.Changed:
		fmt.Fprintf(a.out, "%s: nothing to change\n", path)
	case dryRun:
		fmt.Fprintf(a.out, "%s would become:\n%s", path, difference(string(was), string(text)))
	default:
		fmt.Fprintf(a.out, "%s: %s\n", path, done)
		if r.Backup != nil {
			fmt.Fprintf(a.out, "  before: %s\n", *r.Backup)
		}
	}
	return nil
}
