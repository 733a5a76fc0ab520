package stdio

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newSegment maps a segment, as one large page where there are such pages: the
// reader waits while its memory is new, and a large page is new once. That is
// asked for memory of our own because the runtime would have to live with the
// advice for as long as the process lives.
func newSegment() *segment {
	all, err := unix.Mmap(-1, 0, 2*segmentSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return &segment{bytes: make([]byte, segmentSize)}
	}
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(all))) & (segmentSize - 1)
	s := &segment{bytes: all[skip : skip+segmentSize : skip+segmentSize]}
	_ = unix.Madvise(s.bytes, unix.MADV_HUGEPAGE)                         // it works without
	_ = unix.Madvise(s.bytes, unix.MADV_POPULATE_WRITE)                   // it works without
	runtime.AddCleanup(s, func(all []byte) { _ = unix.Munmap(all) }, all) // a mapping that exists can be ended
	return s
}
