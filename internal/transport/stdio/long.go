package stdio

import (
	"bytes"

	"github.com/everline/everline/internal/wire"
)

// A longLine is a line, or its beginning, in the pieces that it was read into.
type longLine struct {
	parts [][]byte
	segs  []*segment // what the parts are in; a part may be in none
	size  int64
}

func (l *longLine) add(part []byte, seg *segment) {
	l.parts = append(l.parts, part)
	if seg != nil {
		l.segs = append(l.segs, seg)
	}
	l.size += int64(len(part))
}

// head returns what the line begins with.
func (l *longLine) head() []byte { return l.parts[0][:min(len(l.parts[0]), lineEdge)] }

// join returns the whole line in memory of its own, and gives the pieces back.
func (l *longLine) join() []byte {
	line := wire.Room(int(l.size))
	for _, part := range l.parts {
		line = wire.Append(line, part)
	}
	l.give()
	return line
}

func (l *longLine) give() {
	for _, s := range l.segs {
		s.give()
	}
	l.parts, l.segs = nil, nil
}

// lengthen makes room for a line that fills the largest buffer.
func (r *lineReader) lengthen() {
	if r.long == nil {
		r.long = &longLine{}
		if r.widen != nil {
			r.widen()
			r.widen = nil
		}
	}
	r.long.add(r.buf[r.lo:r.hi], r.seg)
	r.seg = takeSegment()
	r.buf = r.seg.bytes
	r.lo, r.hi, r.scanned = 0, 0, 0
}

// endLong returns the long line, whose end is the used part of the buffer, and
// goes on in another one.
func (r *lineReader) endLong(end []byte) *longLine {
	line := r.long
	r.long = nil
	line.add(end, r.seg)
	r.seg = nil
	if r.hi-r.lo < readBuffer {
		r.moveTo(make([]byte, readBuffer))
	} else {
		r.seg = takeSegment()
		r.moveTo(r.seg.bytes)
	}
	return line
}

// A pendingAnswer is a large answer that is being put together.
type pendingAnswer struct {
	size int
	done chan bool // gets whether it was a message
}

// takeLong takes in a long line. What looks like an answer is left to a
// goroutine; a request or a notification is not, because their order counts.
func (r *lineReader) takeLong(line *longLine) {
	if !wire.BeginsAnswer(line.head()) {
		r.sort(line.join(), func(b []byte) []byte { return b })
		return
	}
	r.awaitLarge()
	r.pending = &pendingAnswer{size: int(line.size), done: make(chan bool, 1)}
	r.mux.LargeComes()
	// It ends after work that waits for nothing; awaitLarge waits for it.
	go func(done chan<- bool, first bool) {
		text := line.join()
		if first {
			text = bytes.TrimPrefix(text, bom)
		}
		done <- r.mux.DeliverLarge(trimLine(text))
	}(r.pending.done, !r.begun)
	r.begun = true
}

// release ends the use of everything that is not the reader's alone.
func (r *lineReader) release() {
	r.awaitLarge()
	if r.long != nil {
		r.long.give()
	}
	if r.seg != nil {
		r.seg.give()
		r.seg, r.buf = nil, nil
	}
}

// awaitLarge waits until the large answer before has been delivered.
func (r *lineReader) awaitLarge() {
	if r.pending != nil {
		r.took(r.pending.size, <-r.pending.done)
		r.pending = nil
	}
}
