package pipe

import (
	"io"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// lines is a sink that writes frames as lines.
type lines struct {
	w       io.Writer
	timeout time.Duration
	stuck   chan struct{} // closed when a Write has taken too long
	once    sync.Once
	buf     []byte
}

// bufferKept is how large a write buffer a quiet pipe keeps.
const bufferKept = 16 << 10

// newLines returns a sink on w, which is stuck when a Write takes longer than the
// timeout.
func newLines(w io.Writer, timeout time.Duration) *lines {
	return &lines{w: w, timeout: timeout, stuck: make(chan struct{})}
}

// Write writes the frames with one Write.
func (l *lines) Write(frames [][]byte) error {
	l.buf = l.buf[:0]
	for _, f := range frames {
		l.buf = append(append(l.buf, wire.OneLine(f)...), '\n')
	}
	late := time.AfterFunc(l.timeout, func() { l.once.Do(func() { close(l.stuck) }) })
	_, err := l.w.Write(l.buf)
	late.Stop()
	if cap(l.buf) > bufferKept {
		l.buf = nil
	}
	if err != nil {
		return &fault.Fault{Kind: fault.Broken, Op: "write", Err: err}
	}
	return nil
}

// Alive does nothing: a pipe does not look dead.
func (*lines) Alive() error { return nil }
