// Package fileedit changes files that belong to the user: the configuration,
// the files of other MCP clients, and the small records beside the state. It
// keeps what others write at the same time, and decides nothing about servers.
package fileedit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// Read reads a file that is to be edited; it returns nil for one that does not
// exist yet.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, Fault("read", path, err)
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
		return nil, Fault("read", path, err)
	}
	return data, nil
}

// Fault returns the error of a file operation that failed. The operation is a
// verb, such as "read".
func Fault(op, path string, err error) error {
	remedy := "check the path and who may write there"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		remedy = "make room on the file system of " + path + ", and type this again: what was there before still is"
	}
	return &fault.Fault{Kind: fault.Invalid, Op: op + " " + path, Outcome: fault.NotSent, Err: err, Remedy: remedy}
}

// An Edit is a change of one file, which others may change at the same time.
type Edit struct {
	Path   string
	DryRun bool
	// Backup, if not nil, returns the path under which the old text is kept;
	// "" keeps nothing.
	Backup func(old []byte) string
	// Change makes the new text from the old one, which is nil where there is no
	// file. A new text that is nil removes the file. Change is called again if
	// another program wrote the file first.
	Change func(old []byte) ([]byte, error)
	// Before, if not nil, is called before the file gets its new text, while no
	// other everline writes it. If it fails, nothing is changed.
	Before func(old, text []byte) error
	Held   string // a folder that this process has locked already; "" for none
	// Private keeps the file from everybody but its owner: the new text has a secret.
	Private bool
}

// A Result is what became of an edit.
type Result struct {
	Old, Text []byte
	Backup    string // "" for none
}

var (
	errOvertaken  = errors.New("somebody else changes the file all the time")
	errFolderBusy = errors.New("another everline does not end changing files in this folder")
)

// patience is how long an edit is tried while others change the same file.
const patience = 10 * time.Second

// Run changes the file, or with DryRun only says how. It loses nothing that
// others write meanwhile: it makes the edit again on their text.
func (e Edit) Run() (Result, error) {
	if info, err := os.Stat(e.Path); err == nil && !info.Mode().IsRegular() {
		return Result{}, Fault("edit", e.Path, errors.New("it is no regular file"))
	}
	for end := time.Now().Add(patience); ; {
		old, err := Read(e.Path)
		if err != nil {
			return Result{}, err
		}
		text, err := e.Change(old)
		r := Result{Old: old, Text: text}
		if err != nil || e.DryRun || bytes.Equal(old, text) {
			return r, err
		}
		r.Backup, err = e.write(old, text)
		if errors.Is(err, errOvertaken) && time.Now().Before(end) {
			continue
		}
		if errors.Is(err, errOvertaken) || errors.Is(err, errFolderBusy) {
			return r, &fault.Fault{
				Kind: fault.Conflict, Op: "edit " + e.Path, Outcome: fault.NotSent, Err: fmt.Errorf("nothing was changed: %w", err),
				Remedy: "end the program that writes there, and type this again",
			}
		}
		return r, err
	}
}

// write replaces the file as a whole, at the end of a link if it is one, and
// keeps its permissions. It fails with errOvertaken if the file has changed.
func (e Edit) write(old, text []byte) (backup string, err error) {
	path := Followed(e.Path)
	mode := fs.FileMode(0o600) // entries may have secrets in them
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if e.Private {
		mode &= 0o700
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", Fault("write", path, err)
	}
	if !Same(e.Held, filepath.Dir(path)) {
		unlock, err := lockFolder(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		defer unlock()
	}
	unchanged := func() error {
		if now, err := Read(path); err != nil || !bytes.Equal(now, old) {
			return errOvertaken
		}
		return nil
	}
	if err := unchanged(); err != nil {
		return "", err
	}
	if e.Before != nil {
		if err := e.Before(old, text); err != nil {
			return "", err
		}
	}
	if backup, err = e.keep(old); err != nil {
		return "", err
	}
	if text == nil {
		if err = unchanged(); err == nil {
			err = os.Remove(path)
		}
	} else {
		err = replaceFile(path, text, mode, unchanged)
	}
	if err != nil && !errors.Is(err, errOvertaken) {
		err = Fault("write", path, err)
	}
	return backup, err
}

// keep keeps the old text in a folder and a file that are the user's alone:
// there may be secrets in it.
func (e Edit) keep(old []byte) (backup string, err error) {
	if e.Backup != nil && old != nil {
		backup = e.Backup(old)
	}
	if backup == "" {
		return "", nil
	}
	if err := owned.MakeFolder(filepath.Dir(backup)); err != nil {
		return "", err
	}
	if err := owned.Replace(backup, old, 0o600); err != nil {
		return "", Fault("write", backup, err)
	}
	return backup, nil
}

// BackupPath is where a file is kept before it is changed: beside the state, and
// not where it would be put under version control. Each file has one.
func BackupPath(stateDir, path string) string {
	key, err := linkKey(path)
	if err != nil {
		key = path
	}
	sum := sha256.Sum256([]byte(key))
	name := filepath.Base(key) + "." + hex.EncodeToString(sum[:])[:12] + ".before-everline"
	return filepath.Join(stateDir, "backups", name)
}

// replaceFile writes beside the file and renames, so that readers see the old
// text or the new one. ready is asked right before the rename: owned.Replace has
// no such moment.
func replaceFile(path string, text []byte, mode fs.FileMode, ready func() error) error {
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
	if err == nil {
		err = ready()
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Same reports whether two paths lead to one file or folder that exists.
func Same(a, b string) bool {
	first, err := os.Stat(a)
	second, secondErr := os.Stat(b)
	return err == nil && secondErr == nil && os.SameFile(first, second)
}

// Followed is where a path leads if it is a link, even if nothing exists there
// yet.
func Followed(path string) string {
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

// lockRetry is how often lockFolder tries a folder that another everline has
// locked.
const lockRetry = 5 * time.Millisecond

// lockFolder keeps other everlines from changing files in a folder until unlock.
// Where the system knows no such lock it does nothing; an edit that was
// overtaken is still noticed, except in the moment of the rename.
func lockFolder(dir string) (unlock func(), err error) {
	tick := time.NewTicker(lockRetry)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		unlock, busy := tryLockFolder(dir)
		if !busy {
			return unlock, nil
		}
		if time.Now().After(end) {
			return nil, errFolderBusy
		}
	}
}
