package admin

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte lies far behind the content, which stays readable for others:
// locks of Windows keep readers out.
const lockedByte = 1 << 30

// tryLock takes the lock or fails at once.
func tryLock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockedByte})
}
