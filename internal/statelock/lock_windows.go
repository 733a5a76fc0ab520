package statelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte lies far behind the content, which stays readable for others:
// locks of Windows keep readers out.
const lockedByte = 1 << 30

// Try takes the lock of an open file, or fails immediately: with ErrHeld if
// another open file has it, of this process or of another. Closing the file
// gives it back.
func Try(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockedByte})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrHeld
	}
	return err
}
