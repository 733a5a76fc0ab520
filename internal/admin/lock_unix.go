//go:build unix

package admin

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes the lock or fails at once.
func tryLock(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}
