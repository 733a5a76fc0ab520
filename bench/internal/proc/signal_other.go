//go:build !unix

package proc

import (
	"errors"
	"os"
)

var terminate = os.Kill

var errUnix = errors.New("this measurement needs a Unix system")

// Freeze stops a process in its tracks, as if it hung, until Thaw.
func Freeze(int) error { return errUnix }

// Thaw lets a frozen process go on.
func Thaw(int) error { return errUnix }

// Kill ends a process at once.
func Kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
