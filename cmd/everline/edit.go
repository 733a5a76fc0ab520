package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/owned"
)

// readEdited reads a file that may be new; a new one is nil.
func readEdited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileFault("read", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	var data []byte
	if err == nil && info.Size() <= tree.MaxFile {
		data, err = io.ReadAll(io.LimitReader(f, tree.MaxFile+1)) // a pipe has no size
	}
	if err == nil && max(info.Size(), int64(len(data))) > tree.MaxFile { // what is cut short must not be written back
		err = fmt.Errorf("the file has more than %d MiB, which is no configuration", tree.MaxFile>>20)
	}
	if err != nil {
		return nil, fileFault("read", path, err)
	}
	return data, nil
}

func fileFault(op, path string, err error) error {
	remedy := "check the path and who may write there"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		remedy = "make room on the file system of " + path + ", and type this again: what was there before still is"
	}
	return &fault.Fault{Kind: fault.Invalid, Op: op + " " + path, Outcome: fault.NotSent, Err: err, Remedy: remedy}
}

// An edit is a change of one file, which others may change at the same time.
type edit struct {
	path   string
	dryRun bool
	// backup, if not nil, is the path under which what was there before is kept;
	// "" keeps nothing.
	backup func(was []byte) string
	// change makes the new text of the old one, which is nil where there is no
	// file. A new one that is nil removes the file. It is called again where somebody else was faster.
	change func(was []byte) ([]byte, error)
	// before, if not nil, is called before the file gets its new text, while no
	// other everline writes it. Nothing is changed where it fails.
	before func(was, text []byte) error
	held   string // a folder that this process has locked; "" for none
}

// edited is what became of an edit.
type edited struct {
	was, text []byte
	backup    string // "" for none
}

var (
	errOvertaken  = errors.New("somebody else changes the file all the time")
	errFolderBusy = errors.New("another everline does not end changing files in this folder")
)

// editPatience is how long an edit is tried while others change the same file.
const editPatience = 10 * time.Second

// run changes the file, or with dryRun only says how. Nothing that others write
// meanwhile is lost: the edit is made anew on it.
func (e edit) run() (edited, error) {
	if info, err := os.Stat(e.path); err == nil && !info.Mode().IsRegular() {
		return edited{}, fileFault("edit", e.path, errors.New("it is no regular file"))
	}
	for end := time.Now().Add(editPatience); ; {
		was, err := readEdited(e.path)
		if err != nil {
			return edited{}, err
		}
		text, err := e.change(was)
		r := edited{was: was, text: text}
		if err != nil || e.dryRun || bytes.Equal(was, text) {
			return r, err
		}
		r.backup, err = e.write(was, text)
		if errors.Is(err, errOvertaken) && time.Now().Before(end) {
			continue
		}
		if errors.Is(err, errOvertaken) || errors.Is(err, errFolderBusy) {
			return r, &fault.Fault{
				Kind: fault.Conflict, Op: "edit " + e.path, Outcome: fault.NotSent, Err: fmt.Errorf("nothing was changed: %w", err),
				Remedy: "end the program that writes there, and type this again",
			}
		}
		return r, err
	}
}

// write replaces the file as a whole, where a link points to if it is one, and
// keeps its permissions. errOvertaken says that it is no longer as it was.
func (e edit) write(was, text []byte) (backup string, err error) {
	path := followed(e.path)
	mode := fs.FileMode(0o600) // entries may have secrets in them
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fileFault("write", path, err)
	}
	if !isSameFolder(e.held, filepath.Dir(path)) {
		unlock, err := lockFolder(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		defer unlock()
	}
	same := func() error {
		if now, err := readEdited(path); err != nil || !bytes.Equal(now, was) {
			return errOvertaken
		}
		return nil
	}
	if err := same(); err != nil {
		return "", err
	}
	if e.before != nil {
		if err := e.before(was, text); err != nil {
			return "", err
		}
	}
	if backup, err = e.keep(was); err != nil {
		return "", err
	}
	if text == nil {
		if err = same(); err == nil {
			err = os.Remove(path)
		}
	} else {
		err = replaceFile(path, text, mode, same)
	}
	if err != nil && !errors.Is(err, errOvertaken) {
		err = fileFault("write", path, err)
	}
	return backup, err
}

func isSameFolder(a, b string) bool {
	first, err := os.Stat(a)
	second, secondErr := os.Stat(b)
	return err == nil && secondErr == nil && os.SameFile(first, second)
}

// followed is where a path leads if it is a link, also where nothing is there
// yet.
func followed(path string) string {
	for range 40 { // more links in a row than any system follows
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// keep keeps what was there, in a folder and a file that are the user's alone:
// there may be secrets in it.
func (e edit) keep(was []byte) (backup string, err error) {
	if e.backup != nil && was != nil {
		backup = e.backup(was)
	}
	if backup == "" {
		return "", nil
	}
	if err := owned.MakeFolder(filepath.Dir(backup)); err != nil {
		return "", err
	}
	if err := replaceFile(backup, was, 0o600, nil); err != nil {
		return "", fileFault("write", backup, err)
	}
	return backup, nil
}

// backupPath is where a file is kept before it is changed: beside the state, and
// not where it would be put under version control. A file has one.
func (a *app) backupPath(path string) string {
	key, err := linkKey(path)
	if err != nil {
		key = path
	}
	name := filepath.Base(key) + "." + digest([]byte(key))[:12] + ".before-everline"
	return filepath.Join(a.stateDir, "backups", name)
}

// replaceFile writes beside the file and renames, so that whoever reads it
// sees the old text or the new one. still, if not nil, is asked right before.
func replaceFile(path string, text []byte, mode fs.FileMode, still func() error) error {
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
	if err == nil && still != nil {
		err = still()
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// lockRetry is how often a folder is looked at that another everline has locked.
const lockRetry = 5 * time.Millisecond

// lockFolder keeps other everlines from changing files in a folder until unlock.
// Where the system knows no such lock it does nothing: an edit that was
// overtaken is found out all the same, but for the moment of the rename.
func lockFolder(dir string) (unlock func(), err error) {
	tick := time.NewTicker(lockRetry)
	defer tick.Stop()
	for end := time.Now().Add(editPatience); ; <-tick.C {
		unlock, busy := tryLockFolder(dir)
		if !busy {
			return unlock, nil
		}
		if time.Now().After(end) {
			return nil, errFolderBusy
		}
	}
}
