//go:build unix

package statelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes the lock, or fails at once: with errHeld if another process has it.
func tryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	return err
}
