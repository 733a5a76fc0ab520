//go:build unix

package daemon

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var (
	StopSignals   = []os.Signal{unix.SIGINT, unix.SIGTERM}
	reloadSignals = []os.Signal{unix.SIGHUP}
)

// errInUse is what listening on a taken address fails with.
const errInUse = unix.EADDRINUSE

// isAlive reports whether a process of this id runs, of any user.
func isAlive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}
