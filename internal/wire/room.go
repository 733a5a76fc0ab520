package wire

import (
	"strings"
	"unsafe"
)

// largeRoom is the size from which new memory is worth the trouble of Room.
const largeRoom = 256 << 10

// Room returns an empty slice with room for n bytes, whose content is anything:
// it is for a caller that appends. Tens of megabytes from make cost several
// times what reading or writing as much costs, because the runtime clears them,
// and each page is mapped by a fault of its own. Room has them from the one
// place of the standard library that does not clear, and mapped in one go.
func Room(n int) []byte {
	if n < largeRoom {
		return make([]byte, 0, n)
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // now the text has an address; nobody else ever sees it
	room := unsafe.Slice(unsafe.StringData(b.String()), n)
	mapPages(room)
	return room[:0:n]
}

// Append is append for what may be large. The runtime cannot stop a goroutine
// in the middle of a copy, and stops all of them for the collector: a copy of
// tens of megabytes into new memory would hold everybody up.
func Append(dst, src []byte) []byte {
	if len(src) > largeRoom && cap(dst)-len(dst) < len(src) {
		dst = Append(Room(len(dst)+len(src)), dst)
	}
	for len(src) > largeRoom {
		dst = append(dst, src[:largeRoom]...)
		src = src[largeRoom:]
	}
	return append(dst, src...)
}
