package stdio

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/everline/everline/internal/wire"
)

// A writeEnd is how the attempt to write one line ended.
type writeEnd uint8

const (
	writeDone    writeEnd = iota // every byte is in the pipe
	writeRefused                 // the caller gave up; no byte was written
	writePending                 // the caller gave up; the rest is still being written
	writeBroken                  // the link ended before the whole line was written
)

// writeStep is how much of a long line is written at a time: a child that
// reads less than this within the stall limit counts as not reading.
const writeStep = 64 << 10

// keepWriteBuffer is the largest line buffer that is kept between writes.
const keepWriteBuffer = 256 << 10

// A lineWriter writes whole lines into a pipe whose reader may stall. A line
// that fits into the pipe costs one system call on the caller's goroutine.
// Only for what does not fit is there a goroutine, at most one, so that a
// caller can give up while its half-written line is finished.
type lineWriter struct {
	f      *os.File
	raw    syscall.RawConn // of f
	done   <-chan struct{} // closed when the link has ended
	stall  time.Duration
	onWait func()      // the child read nothing for as long as stall
	onFail func(error) // the pipe broke

	// lock has room for one: who has put something in owns the fields below
	// and the pipe. Unlike a mutex it can be waited for together with a
	// context.
	lock chan struct{}
	buf  []byte
	wide bool // the pipe was made larger
	n    int
	err  error
	try  func(fd uintptr) bool // one attempt that does not block; allocated once
}

func newLineWriter(f *os.File, done <-chan struct{}, stall time.Duration) *lineWriter {
	raw, err := f.SyscallConn()
	if err != nil {
		panic("bug: a pipe that was just made is closed: " + err.Error())
	}
	w := &lineWriter{f: f, raw: raw, done: done, stall: stall, lock: make(chan struct{}, 1)}
	w.try = func(fd uintptr) bool {
		w.n, w.err = procTryWrite(fd, w.buf)
		return true
	}
	return w
}

// write writes frame as one line. It returns no later than ctx ends.
func (w *lineWriter) write(ctx context.Context, frame []byte) (writeEnd, error) {
	if err := ctx.Err(); err != nil {
		return writeRefused, err
	}
	select {
	case w.lock <- struct{}{}:
	case <-ctx.Done():
		return writeRefused, ctx.Err()
	case <-w.done:
		return writeBroken, nil
	}
	if line := wire.OneLine(frame); len(line) > keepWriteBuffer {
		w.buf = append(line, '\n') // ours, see Request.Frame: a copy of a large one costs more than its way through the pipe
	} else {
		w.buf = append(append(w.buf[:0], line...), '\n')
	}
	w.n, w.err = 0, nil
	if err := w.raw.Write(w.try); err != nil {
		w.err = err
	}
	switch {
	case w.err != nil:
		w.onFail(w.err)
		w.unlock()
		return writeBroken, nil
	case w.n == len(w.buf):
		w.unlock()
		return writeDone, nil
	}
	return w.writeRest(ctx)
}

func (w *lineWriter) unlock() {
	if cap(w.buf) > keepWriteBuffer {
		w.buf = nil
	}
	<-w.lock
}

// A longWrite is a line that did not fit into the pipe.
type longWrite struct {
	end chan writeEnd // has room for a pending and a final report

	mu       sync.Mutex // guards finished and the pipe's write deadline
	finished bool
}

// writeRest hands the rest of the line, and with it the lock, to a goroutine.
func (w *lineWriter) writeRest(ctx context.Context) (writeEnd, error) {
	job := &longWrite{end: make(chan writeEnd, 2)}
	if len(w.buf) > keepWriteBuffer && !w.wide {
		w.wide = true
		procWiden(w.f)
	}
	// It ends when the line is written or the pipe is closed, which the stall
	// limit makes sure of.
	go w.finish(job)
	select {
	case end := <-job.end:
		return end, nil
	case <-ctx.Done():
	}
	if !job.interrupt(w.f) {
		return writePending, ctx.Err()
	}
	return <-job.end, ctx.Err() // at once: the write was interrupted
}

// interrupt makes the goroutine report at once. It is false where pipes have
// no deadlines.
func (j *longWrite) interrupt(f *os.File) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.finished || f.SetWriteDeadline(time.Unix(1, 0)) == nil
}

func (w *lineWriter) finish(job *longWrite) {
	end := w.finishLine(job)
	job.mu.Lock()
	job.finished = true
	if end != writeBroken {
		_ = w.f.SetWriteDeadline(time.Time{}) // no deadlines, nothing to clear
	}
	job.mu.Unlock()
	w.unlock()
	job.end <- end
}

func (w *lineWriter) finishLine(job *longWrite) writeEnd {
	// Through a small buffer: what the line is in may be new to the kernel page
	// by page, which can take longer than the rest, while others wait.
	step := make([]byte, min(writeStep, len(w.buf)-w.n))
	for w.n < len(w.buf) {
		stalled := time.AfterFunc(w.stall, w.onWait)
		n, err := w.f.Write(step[:copy(step, w.buf[w.n:])])
		stalled.Stop()
		w.n += n
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			w.onFail(err)
			return writeBroken
		case w.n == 0:
			return writeRefused
		default: // a line that has begun must be finished
			job.mu.Lock()
			_ = w.f.SetWriteDeadline(time.Time{}) // it just had one
			job.mu.Unlock()
			job.end <- writePending
		}
	}
	return writeDone
}
