// Package owned tells whether files and folders are the user's own to change,
// and opens files at paths that others can guess. It judges by owners and
// permissions alone, and knows nothing of what is in a file.
//
// On Windows, and on any other system without the owners and permissions of
// Unix, nothing is refused: there the access list that a folder of the user's
// profile hands down is what keeps others out.
package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/everline/everline/fault"
)

// File refuses a file that somebody else could have written: that another user
// owns (root's are fine), that its group or everybody may write, or that is
// reached through a folder or a link that another user may replace. What is on
// a file system that nobody may write is fine. What is not there, is no error.
// Errors are of kind fault.Invalid, and name the command that fixes it.
func File(path string) error { return judgeFile(path) }

// Folder refuses a folder that is not the user's alone: another user's, or one
// in which its group or everybody may do anything. What is not there is an
// error. Errors are of kind fault.Invalid, and name the command that fixes it.
func Folder(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no folder")
	}
	if err != nil {
		return refused(path, "name another folder with --state-dir", err)
	}
	return judgeFolder(path, info)
}

// MakeFolder makes a folder that is the user's alone, unless it is there, and
// then is Folder.
func MakeFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return refused(path, "name another folder with --state-dir", err)
	}
	return Folder(path)
}

// Open opens a file of our own at a path that others can guess, as os.OpenFile
// does. It follows no link, and nothing is changed where the path is anything
// else than a regular file of the user's with this one name.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := openSame(path, flag&^os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = judgeOpened(info)
	}
	if err == nil && flag&os.O_TRUNC != 0 {
		err = f.Truncate(0)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

// Write writes a file of our own at a path that others can guess, as
// os.WriteFile does, under the rules of Open.
func Write(path string, data []byte, perm fs.FileMode) error {
	f, err := Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

var (
	errLink    = errors.New("it is a link, which somebody else may have put there")
	errSpecial = errors.New("it is no regular file")
)

func refused(path, remedy string, err error) error {
	return &fault.Fault{Kind: fault.Invalid, Op: "use " + path, Outcome: fault.NotSent, Err: err, Remedy: remedy}
}

func refusedf(path, remedy, format string, args ...any) error {
	return refused(path, remedy, fmt.Errorf(format, args...))
}
