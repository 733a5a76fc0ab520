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

// isAlive tells whether there is a process of this id, whoever has started it.
func isAlive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}
