package statelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte lies far behind the content, which stays readable for others:
// locks of Windows keep readers out.
const lockedByte = 1 << 30

// tryLock takes the lock, or fails at once: with errHeld if another process has it.
func tryLock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockedByte})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}
