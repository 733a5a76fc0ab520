//go:build unix

package fileedit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLockFolder locks the folder itself, so that no file is left behind. The
// lock ends with the process at the latest.
func tryLockFolder(dir string) (unlock func(), busy bool) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}, false
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		_ = f.Close() // nothing was written
		return nil, true
	}
	return func() { _ = f.Close() }, false // and with it the lock
}
