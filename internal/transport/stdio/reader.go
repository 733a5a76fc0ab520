package stdio

import (
	"bytes"
	"fmt"
	"io"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

const (
	readBuffer    = 32 << 10  // grows for longer lines
	maxReadBuffer = 256 << 10 // up to this; a longer line is a longLine
	noiseLine     = 64 << 10  // a longer line that begins as no message is not kept
	lineEdge      = 1 << 10   // how much of both ends of a line is searched for what it is
	maxNoiseLines = 10_000    // in a row, without a message between them
	maxNoiseBytes = 16 << 20  // the same
)

var bom = []byte("\xef\xbb\xbf")

// A lineReader cuts a stream into lines and gives the messages among them to a
// mux. Each message gets memory of its own of exactly its size. Memory is
// bounded, whatever the peer writes: by the limit for one message while it
// comes in, and by twice that while a large one is put together.
//
// One goroutine reads. A large answer is put together and checked by another
// one, at most one at a time, which run waits for: so that the small answers
// behind it wait only until it is through the pipe.
type lineReader struct {
	src   io.Reader
	max   int64
	mux   *transport.Mux
	begun bool // the first line was seen

	// widen, if not nil, is called once, when a line turns out to be large.
	widen func()

	buf     []byte
	seg     *segment // what buf is in, or nil
	lo, hi  int      // buf[lo:hi] was read and not used yet
	scanned int      // buf[lo:scanned] has no line end

	long    *longLine      // the beginning of a line that is longer than buf may be, or nil
	pending *pendingAnswer // a large answer that is being put together, or nil

	skip                  *skippedLine // the rest of an over-long line, or nil
	noiseLines, noiseSize int64        // since the last message
}

// A skippedLine is what is kept of a line that is too long to keep.
type skippedLine struct {
	head, tail []byte
	size       int64
	noise      bool // it begins as no message
}

func newLineReader(src io.Reader, limit int64, mux *transport.Mux) *lineReader {
	return &lineReader{src: src, max: limit, mux: mux, buf: make([]byte, readBuffer)}
}

// run reads to the end of the stream. It returns nil at its end, and a
// Protocol fault if the peer writes nothing but noise.
func (r *lineReader) run() error {
	defer r.release()
	for {
		for {
			line, ok := r.nextLine()
			if !ok {
				break
			}
			r.take(line)
		}
		r.checkLength()
		if f := r.absurd(); f != nil {
			return f
		}
		if err := r.fill(); err != nil {
			r.lastLine()
			if err == io.EOF { //nolint:errorlint // the reader's own contract
				return nil
			}
			return err
		}
	}
}

func (r *lineReader) nextLine() ([]byte, bool) {
	i := bytes.IndexByte(r.buf[r.scanned:r.hi], '\n')
	if i < 0 {
		r.scanned = r.hi
		return nil, false
	}
	line := r.buf[r.lo : r.scanned+i]
	r.lo = r.scanned + i + 1
	r.scanned = r.lo
	return line, true
}

// lastLine takes what the stream ended with, if it is whole but for its line end.
func (r *lineReader) lastLine() {
	rest := r.buf[r.lo:r.hi]
	r.lo = r.hi
	if r.long != nil {
		rest = r.endLong(rest).join()
	}
	if r.skip == nil && len(rest) > 0 && wire.Valid(trimLine(rest)) {
		r.sort(rest, bytes.Clone)
	}
}

func (r *lineReader) take(line []byte) {
	if r.skip == nil && r.sizeWith(line) > r.max {
		r.beginSkip(line)
	}
	if r.skip != nil {
		r.skip.add(line)
		r.endSkip()
		return
	}
	if r.long != nil {
		r.takeLong(r.endLong(line))
		return
	}
	r.sort(line, bytes.Clone)
}

// sort gives a line that begins as a message to the mux, in memory of its own,
// and counts the others.
func (r *lineReader) sort(line []byte, own func([]byte) []byte) {
	line = r.bare(line)
	switch {
	case len(line) == 0:
		r.noiseSize++ // harmless, but not without end
	case line[0] != '{' && line[0] != '[':
		r.mux.AddNoise(line)
		r.noted(len(line))
	default:
		r.took(len(line), r.mux.Deliver(own(line)))
	}
}

// took notes whether a line of this size was a message.
func (r *lineReader) took(size int, isMessage bool) {
	if isMessage {
		r.noiseLines, r.noiseSize = 0, 0
	} else {
		r.noted(size)
	}
}

// bare takes off what may be around a message.
func (r *lineReader) bare(line []byte) []byte {
	if !r.begun {
		r.begun = true
		line = bytes.TrimPrefix(line, bom)
	}
	return trimLine(line)
}

func trimLine(line []byte) []byte { return bytes.Trim(line, " \t\r\n") }

func (r *lineReader) noted(size int) {
	r.noiseLines++
	r.noiseSize += int64(size)
}

// absurd is the end of the patience with a peer that writes only noise.
func (r *lineReader) absurd() *fault.Fault {
	if r.quiet() {
		return nil
	}
	if r.awaitLarge(); r.quiet() { // there was a message after all
		return nil
	}
	return &fault.Fault{
		Kind:   fault.Protocol,
		Err:    fmt.Errorf("%d lines (%d bytes) on stdout without one JSON-RPC message between them", r.noiseLines, r.noiseSize),
		Remedy: "the server must write its messages, and nothing else, to stdout; check that the command starts it in stdio mode",
	}
}

func (r *lineReader) quiet() bool {
	return r.noiseLines < maxNoiseLines && r.noiseSize < maxNoiseBytes
}

// checkLength begins to skip a line that has grown too long.
func (r *lineReader) checkLength() {
	part := r.buf[r.lo:r.hi]
	if r.skip == nil {
		if !r.tooLong(part) {
			return
		}
		r.beginSkip(part)
	}
	r.skip.add(part)
	if r.skip.noise {
		r.noiseSize += int64(len(part))
	}
	r.lo, r.hi, r.scanned = 0, 0, 0
}

// tooLong reports whether a line with this part at its end will not be kept.
func (r *lineReader) tooLong(part []byte) bool {
	return r.sizeWith(part) > r.max || r.long == nil && len(part) > noiseLine && beginsAsNoise(part)
}

// sizeWith returns the size of the line so far, whose newest part this is.
func (r *lineReader) sizeWith(part []byte) int64 {
	size := int64(len(part))
	if r.long != nil {
		size += r.long.size
	}
	return size
}

func beginsAsNoise(part []byte) bool {
	start := bytes.TrimLeft(part, " \t\r\xef\xbb\xbf")
	return len(start) > 0 && start[0] != '{' && start[0] != '['
}

// beginSkip keeps of the line so far what a skipped line needs; part is its
// newest part, which is added later.
func (r *lineReader) beginSkip(part []byte) {
	r.skip = &skippedLine{}
	head := part
	if r.long != nil {
		head = r.long.head()
		for _, p := range r.long.parts {
			r.skip.add(p)
		}
	}
	r.skip.head = bytes.Clone(head[:min(len(head), lineEdge)])
	r.skip.noise = beginsAsNoise(head)
	if r.long != nil {
		r.long.give()
		r.long = nil
	}
}

func (s *skippedLine) add(part []byte) {
	s.size += int64(len(part))
	part = part[max(0, len(part)-lineEdge):]
	s.tail = append(s.tail, part...)
	s.tail = append(s.tail[:0], s.tail[max(0, len(s.tail)-lineEdge):]...)
}

// endSkip fails the call that the skipped line would have answered.
func (r *lineReader) endSkip() {
	s := r.skip
	r.skip = nil
	if !s.noise {
		if id, ok := s.id(); ok && r.mux.Fail(id, func(op string) *fault.Fault { return transport.TooLargeAnswer(op, s.size, r.max) }) {
			r.noiseLines, r.noiseSize = 0, 0
			return
		}
	}
	r.mux.AddNoise(s.head)
	r.noiseLines++
}

// id finds the message's id at its start or at its end: the two places where
// servers put it.
func (s *skippedLine) id() (int64, bool) {
	for name, val := range wire.Members(s.head) {
		switch name {
		case "id":
			return wire.ParseID(val)
		case "method":
			return 0, false
		}
	}
	pos := bytes.LastIndex(s.tail, []byte(`"id"`))
	if pos < 0 {
		return 0, false
	}
	msg, err := wire.Parse(append([]byte("{"), s.tail[pos:]...))
	if err != nil || msg.Method != "" {
		return 0, false
	}
	return wire.ParseID(msg.ID)
}

// fill makes room and reads once.
func (r *lineReader) fill() error {
	switch used := r.hi - r.lo; {
	case used == 0:
		if r.seg != nil && r.long == nil {
			r.seg.give()
			r.seg, r.buf = nil, make([]byte, readBuffer)
		}
		r.lo, r.hi, r.scanned = 0, 0, 0
	case r.hi < len(r.buf):
	case used <= len(r.buf)/2:
		r.moveTo(r.buf)
	case len(r.buf) < maxReadBuffer:
		r.moveTo(make([]byte, 2*len(r.buf)))
	default:
		r.lengthen()
	}
	n, err := r.src.Read(r.buf[r.hi:])
	r.hi += n
	if n > 0 {
		return nil // an error comes again
	}
	return err
}

func (r *lineReader) moveTo(buf []byte) {
	r.scanned -= r.lo
	r.hi = copy(buf, r.buf[r.lo:r.hi])
	r.lo = 0
	r.buf = buf
}
