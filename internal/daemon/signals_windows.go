package daemon

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

var (
	StopSignals   = []os.Signal{os.Interrupt, windows.SIGTERM}
	reloadSignals []os.Signal // there is no such signal
)

// errInUse is what listening on a taken address fails with.
const errInUse = windows.WSAEADDRINUSE

// isAlive reports whether a process of this id runs, of any user.
func isAlive(pid int) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	defer func() { _ = windows.CloseHandle(h) }() // nothing was written
	state, err := windows.WaitForSingleObject(h, 0)
	return err != nil || state == uint32(windows.WAIT_TIMEOUT)
}
