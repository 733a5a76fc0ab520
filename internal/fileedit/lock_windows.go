package fileedit

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// tryLockFolder makes a file that only one may have open, and that is gone when
// it is closed: by unlock, or with the process.
func tryLockFolder(dir string) (unlock func(), busy bool) {
	name, err := windows.UTF16PtrFromString(filepath.Join(dir, ".everline-lock"))
	if err != nil {
		return func() {}, false
	}
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE|windows.DELETE, 0, nil, windows.OPEN_ALWAYS,
		windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	switch {
	case err == nil:
		return func() { _ = windows.CloseHandle(h) }, false
	case errors.Is(err, windows.ERROR_SHARING_VIOLATION), errors.Is(err, windows.ERROR_DELETE_PENDING), errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return nil, true // denied is what a file says that is about to be gone
	default:
		return func() {}, false
	}
}
