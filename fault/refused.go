package fault

import (
	"errors"
	"runtime"
	"syscall"
)

// Refused tells whether a connection was refused: the host is there, and nobody
// listens at the port. Windows has a number of its own for it.
func Refused(err error) bool {
	const wsaRefused = 10061
	var no syscall.Errno
	return errors.As(err, &no) && (no == syscall.ECONNREFUSED || runtime.GOOS == "windows" && no == wsaRefused)
}
