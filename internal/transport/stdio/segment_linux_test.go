package stdio

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// What large messages needed is given back to the system some time after them.
func TestSegmentsAreGivenBack(t *testing.T) {
	const many = 32
	before := resident(t)
	line := longLine{}
	for range many {
		s := newSegment()
		for i := 0; i < segmentSize; i += 4096 {
			s.bytes[i] = 1
		}
		line.add(s.bytes, s)
	}
	full := resident(t)
	if full < before+many*segmentSize/2 {
		t.Fatalf("%d segments need %d bytes: this measures nothing", many, full-before)
	}
	line.give()
	for range 200 { // the collector empties the pool at its second round, and cleans up beside us
		runtime.GC()
		if resident(t) < before+many*segmentSize/4 {
			return
		}
	}
	t.Errorf("%d bytes are resident, %d before", resident(t), before)
}

func resident(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(data)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
