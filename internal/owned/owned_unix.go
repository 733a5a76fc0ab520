//go:build unix

package owned

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	othersWrite = 0o022 // the group, and everybody
	worldWrites = 0o002
	others      = 0o077
)

// geteuid is replaced by tests.
var geteuid = os.Geteuid

// maxLinks is how many links in a row are followed on the way to a file.
const maxLinks = 40

// judgeFile walks to the file by itself, one name after the other, so that each
// folder and each link on the way is judged, and not only where they lead.
func judgeFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil // whoever opens it says so
	}
	if !info.Mode().IsRegular() { // a pipe or a terminal, which has no way to it
		if info.Mode().Type() == fs.ModeNamedPipe {
			return judge(path, info, othersWrite)
		}
		return judge(path, info, 0)
	}
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return refused(path, "name the file by its whole path", err)
		}
		path = wd + "/" + path // not cleaned: ".." is where a link leads
	}
	return walk("/", strings.Split(path, "/"), maxLinks)
}

func walk(dir string, names []string, links int) error {
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if name == ".." {
			dir = filepath.Dir(dir)
		}
		if name == "" || name == "." || name == ".." {
			continue
		}
		at := filepath.Join(dir, name)
		info, err := os.Lstat(at)
		if err != nil {
			return nil // a name that only the system understands, as of a file that is deleted
		}
		if info.Mode().Type() != fs.ModeSymlink {
			if err := judgeStep(at, info); err != nil {
				return err
			}
			dir = at
			continue
		}
		target, err := os.Readlink(at)
		if err == nil && links == 0 {
			err = errors.New("too many links lead to each other")
		}
		if err != nil {
			return refused(at, "name the file itself", err)
		}
		if err := judge(at, info, 0); err != nil {
			return err
		}
		links--
		if filepath.IsAbs(target) {
			dir = "/"
		}
		names = append(strings.Split(target, "/"), names...)
	}
	return nil
}

// judgeStep judges a folder on the way, in which everybody may write only where
// nobody can replace what is another's, and the file itself.
func judgeStep(path string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return judge(path, info, othersWrite)
	case info.Mode()&fs.ModeSticky != 0:
		return judge(path, info, 0)
	default:
		return judge(path, info, worldWrites)
	}
}

// judge refuses what another user owns, and what has one of the permissions.
func judge(path string, info fs.FileInfo, banned fs.FileMode) error {
	foreign := !ours(info)
	if !foreign && info.Mode().Perm()&banned == 0 || readOnly(path) {
		return nil
	}
	what, fix := "it", "chmod go-w "+quoted(path)
	if info.IsDir() {
		what = "the folder " + path
	}
	if foreign {
		return refusedf(path, "look at it, then: sudo chown "+me()+" "+quoted(path), "%s belongs to another user (uid %d), who can change what everline starts", what, uid(info))
	}
	if info.Mode().Perm()&worldWrites != 0 {
		return refusedf(path, fix, "every user may write %s (mode %#o)", what, info.Mode().Perm())
	}
	return refusedf(path, fix, "its group may write %s (mode %#o)", what, info.Mode().Perm())
}

func judgeFolder(path string, info fs.FileInfo) error {
	if uid(info) != geteuid() {
		return refusedf(path, "name another folder with --state-dir", "the folder %s belongs to another user (uid %d)", path, uid(info))
	}
	if perm := info.Mode().Perm(); perm&others != 0 {
		return refusedf(path, "chmod go-rwx "+quoted(path), "other users may use the folder %s (mode %#o)", path, perm)
	}
	return nil
}

// judgeOpened wants a regular file of ours, with no other name by which it is
// somebody's data.
func judgeOpened(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return errSpecial
	case uid(info) != geteuid():
		return errors.New("it belongs to another user")
	case ok && st.Nlink > 1:
		return errors.New("it has a second name, which somebody else may have given it")
	default:
		return nil
	}
}

// openSame opens what is at the path itself, and waits for nobody at a pipe.
func openSame(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EMLINK) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errLink}
	}
	return f, err
}

// ours tells whether a file belongs to the user, or to root, who can change
// everything anyway.
func ours(info fs.FileInfo) bool { return uid(info) == geteuid() || uid(info) == 0 }

func uid(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// Owner is the user id of whoever owns a folder; false if that cannot be told.
func Owner(path string) (id int, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return uid(info), true
}
