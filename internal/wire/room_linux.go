package wire

import (
	"os"
	"syscall"
	"unsafe"
)

const populateWrite = 23 // MADV_POPULATE_WRITE of linux/mman.h

// mapPages maps the pages of b, as writing to each of them would. Kernels
// before 5.14 refuse, and then each page is mapped when it is written to.
func mapPages(b []byte) {
	page := os.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(page-1))
	if whole := (len(b) - skip) &^ (page - 1); whole > 0 {
		_ = syscall.Madvise(b[skip:skip+whole], populateWrite)
	}
}
