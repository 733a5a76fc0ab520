//go:build unix

package statelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Try takes the lock of an open file, or fails immediately: with ErrHeld if
// another open file has it, of this process or of another. Closing the file
// gives it back.
func Try(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}
