package transport

import (
	"bytes"
	"fmt"
	"io"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

const (
	readBuffer     = 32 << 10 // grows for longer lines
	keepReadBuffer = 1 << 20  // the largest buffer that is kept between lines
	noiseLine      = 64 << 10 // a longer line that begins as no message is not kept
	lineEdge       = 1 << 10  // how much of both ends of a skipped line is searched for its id
	maxNoiseLines  = 10_000   // in a row, without a message between them
	maxNoiseBytes  = 16 << 20 // likewise
)

// A lineReader cuts a stream into lines and gives the messages among them to a
// mux. Memory is bounded by the limit for one message, whatever the peer
// writes, and each message gets memory of its own of exactly its size.
type lineReader struct {
	src   io.Reader
	max   int64
	mux   *linkMux
	begun bool // the first line was seen

	// widen, if not nil, is called once, when a line turns out to be large.
	widen func()

	buf     []byte
	lo, hi  int // buf[lo:hi] was read and not used yet
	scanned int // buf[lo:scanned] has no line end

	skip                  *skippedLine // the rest of an over-long line, or nil
	noiseLines, noiseSize int64        // since the last message
}

// A skippedLine is what is kept of a line that is too long to keep.
type skippedLine struct {
	head, tail []byte
	size       int64
	noise      bool // it begins as no message
}

func newLineReader(src io.Reader, limit int64, mux *linkMux) *lineReader {
	return &lineReader{src: src, max: limit, mux: mux, buf: make([]byte, readBuffer)}
}

// run reads to the end of the stream. It returns nil at its end, and a
// Protocol fault if the peer writes nothing but noise.
func (r *lineReader) run() error {
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
	if r.skip == nil && r.lo < r.hi && wire.Valid(trimLine(r.buf[r.lo:r.hi])) {
		r.take(r.buf[r.lo:r.hi])
	}
}

func (r *lineReader) take(line []byte) {
	if r.skip != nil {
		r.skip.add(line)
		r.endSkip()
		return
	}
	if !r.begun {
		r.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	line = trimLine(line)
	switch {
	case len(line) == 0:
		r.noiseSize++ // harmless, but not without end
	case line[0] != '{' && line[0] != '[':
		r.mux.addNoise(line)
		r.noted(len(line))
	case r.mux.deliver(r.own(line)):
		r.noiseLines, r.noiseSize = 0, 0
	default:
		r.noted(len(line))
	}
}

// own returns the line in memory that is its own. A large one keeps the buffer
// that it mostly fills: touching as much new memory again costs more than its
// way through the pipe.
func (r *lineReader) own(line []byte) []byte {
	if len(line) <= keepReadBuffer || len(line) < len(r.buf)/2 {
		return bytes.Clone(line)
	}
	r.moveTo(make([]byte, max(readBuffer, r.hi-r.lo)))
	return line
}

func trimLine(line []byte) []byte { return bytes.Trim(line, " \t\r\n") }

func (r *lineReader) noted(size int) {
	r.noiseLines++
	r.noiseSize += int64(size)
}

// absurd is the end of the patience with a peer that writes only noise.
func (r *lineReader) absurd() *fault.Fault {
	if r.noiseLines < maxNoiseLines && r.noiseSize < maxNoiseBytes {
		return nil
	}
	return &fault.Fault{
		Kind:   fault.Protocol,
		Err:    fmt.Errorf("%d lines (%d bytes) on stdout without one JSON-RPC message between them", r.noiseLines, r.noiseSize),
		Remedy: "the server must write its messages, and nothing else, to stdout; check that the command starts it in stdio mode",
	}
}

// checkLength begins to skip a line that has grown too long.
func (r *lineReader) checkLength() {
	part := r.buf[r.lo:r.hi]
	if r.skip == nil {
		start := bytes.TrimLeft(part, " \t\r\xef\xbb\xbf")
		noise := len(start) > 0 && start[0] != '{' && start[0] != '['
		if int64(len(part)) <= r.max && (!noise || len(part) <= noiseLine) {
			return
		}
		r.skip = &skippedLine{head: bytes.Clone(part[:min(len(part), lineEdge)]), noise: noise}
	}
	r.skip.add(part)
	if r.skip.noise {
		r.noiseSize += int64(len(part))
	}
	r.lo, r.hi, r.scanned = 0, 0, 0
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
		if id, ok := s.id(); ok && r.mux.fail(id, func(op string) *fault.Fault { return tooLargeAnswer(op, s.size, r.max) }) {
			r.noiseLines, r.noiseSize = 0, 0
			return
		}
	}
	r.mux.addNoise(s.head)
	r.noiseLines++
}

// tooLargeAnswer says Answered: the request was executed, and executing it
// again would not make the answer fit.
func tooLargeAnswer(op string, size, limit int64) *fault.Fault {
	return &fault.Fault{
		Kind: fault.TooLarge, Op: op, Outcome: fault.Answered,
		Err: fmt.Errorf("the answer has %d bytes; the limit for one message is %d", size, limit),
	}
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
	at := bytes.LastIndex(s.tail, []byte(`"id"`))
	if at < 0 {
		return 0, false
	}
	msg, err := wire.Parse(append([]byte("{"), s.tail[at:]...))
	if err != nil || msg.Method != "" {
		return 0, false
	}
	return wire.ParseID(msg.ID)
}

// fill makes room and reads once.
func (r *lineReader) fill() error {
	switch used := r.hi - r.lo; {
	case used == 0:
		if len(r.buf) > keepReadBuffer {
			r.buf = make([]byte, readBuffer)
		}
		r.lo, r.hi, r.scanned = 0, 0, 0
	case r.hi < len(r.buf):
	case used > len(r.buf)/2:
		if used > keepReadBuffer && r.widen != nil {
			r.widen()
			r.widen = nil
		}
		r.moveTo(make([]byte, 2*len(r.buf)))
	default:
		r.moveTo(r.buf)
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
