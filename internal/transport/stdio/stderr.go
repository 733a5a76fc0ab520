package stdio

import (
	"bytes"
	"fmt"
	"io"

	"github.com/everline/everline/internal/transport"
)

const (
	stderrTail  = 20      // lines that a fault carries
	stderrLine  = 8 << 10 // the longest line that is kept; the rest of it is dropped
	stderrQueue = 256     // lines that wait for a slow sink
)

// A stderrDrain reads a child's stderr so that the child never blocks on it.
// Two goroutines: the drain, which ends with the stream, and, if there is a
// sink, one that feeds it and ends after the drain.
type stderrDrain struct {
	tail *lineRing
	sink func(string)
	out  chan string   // to the sink; nil without one
	done chan struct{} // closed when the stream has ended
	fed  chan struct{} // closed when the sink has got everything

	rate    byteRate
	line    []byte // the current line, up to stderrLine
	dropped int    // lines that the sink was too slow for
}

func newStderrDrain(sink func(string)) *stderrDrain {
	d := &stderrDrain{tail: newLineRing(stderrTail), sink: sink, done: make(chan struct{}), fed: make(chan struct{})}
	if sink != nil {
		d.out = make(chan string, stderrQueue)
	}
	return d
}

// start begins to drain src, which the owner closes.
func (d *stderrDrain) start(src io.Reader) {
	go d.run(src) // ends when src ends
	if d.sink == nil {
		close(d.fed)
		return
	}
	go d.feed() // ends when run closes out
}

func (d *stderrDrain) run(src io.Reader) {
	defer close(d.done)
	if d.out != nil {
		defer close(d.out)
	}
	buf := make([]byte, 4<<10)
	for {
		n, err := src.Read(buf)
		d.rate.add(n)
		d.split(buf[:n])
		if err != nil { // EOF, or the owner closed it
			if len(d.line) > 0 {
				d.emit()
			}
			return
		}
	}
}

func (d *stderrDrain) split(p []byte) {
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		room := stderrLine - len(d.line)
		d.line = append(d.line, part[:min(len(part), room)]...)
		if ended {
			d.emit()
		}
		p = rest
	}
}

func (d *stderrDrain) emit() {
	line := transport.LineText(bytes.TrimRight(d.line, "\r"), "\ufffd")
	d.line = d.line[:0]
	d.tail.add(line)
	if d.out == nil {
		return
	}
	if d.dropped > 0 {
		select {
		case d.out <- fmt.Sprintf("(%d lines were dropped: the log is too slow)", d.dropped):
			d.dropped = 0
		default:
		}
	}
	select {
	case d.out <- line:
	default:
		d.dropped++
	}
}

func (d *stderrDrain) feed() {
	defer close(d.fed)
	for line := range d.out {
		d.sink(line)
	}
}
