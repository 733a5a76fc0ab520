package wire

import (
	"bytes"
	"testing"
)

func TestRoomAndAppend(t *testing.T) {
	for _, size := range []int{0, 1, 4095, 256<<10 - 1, 256 << 10, 256<<10 + 1, 5<<20 + 77} {
		room := Room(size)
		if len(room) != 0 || cap(room) < size {
			t.Fatalf("%d: length %d, capacity %d", size, len(room), cap(room))
		}
		text := bytes.Repeat([]byte("0123456789 "), size/11+1)[:size]
		for _, dst := range [][]byte{room, nil, make([]byte, 0, 10)} {
			if got := Append(append(dst, "head"...), text); !bytes.Equal(got, append([]byte("head"), text...)) {
				t.Errorf("%d bytes: the copy is another text", size)
			}
		}
		if room = room[:size]; !bytes.Equal(append(room[:0], text...), text) {
			t.Errorf("%d: the memory does not keep what is written", size)
		}
	}
}
