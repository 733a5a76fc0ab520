package stream

import (
	"io"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// Lines is a sink that writes frames as lines.
type Lines struct {
	w       io.Writer
	timeout time.Duration
	stuck   chan struct{}
	once    sync.Once
	buf     []byte
}

// NewLines returns a sink on w, which is stuck when a Write takes longer than the
// timeout.
func NewLines(w io.Writer, timeout time.Duration) *Lines {
	return &Lines{w: w, timeout: timeout, stuck: make(chan struct{})}
}

// Stuck is closed when a Write has taken too long.
func (l *Lines) Stuck() <-chan struct{} { return l.stuck }

// Write writes the frames with one Write.
func (l *Lines) Write(frames [][]byte) error {
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
func (*Lines) Alive() error { return nil }

// WriteLeft writes what waits in the outbox.
func (o *Outbox) WriteLeft(out Sink) error {
	frames, _ := o.Take()
	if len(frames) == 0 {
		return nil
	}
	return out.Write(frames)
}

// Forward is a sink that puts frames into the outbox of another stream.
func (o *Outbox) Forward() Sink { return forward{o} }

type forward struct{ to *Outbox }

func (f forward) Write(frames [][]byte) error {
	for _, frame := range frames {
		f.to.Send(frame)
	}
	return nil
}

func (forward) Alive() error { return nil }
