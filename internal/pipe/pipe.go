// Package pipe serves one client on a pair of byte streams, a message a line: it
// reads, writes, and ends both in order, also where a file does not let go. What the
// lines mean is the caller's matter.
package pipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
)

// Grace is how long what is in flight may take when the client closes its side.
const Grace = 2 * time.Second

// stopGrace is what a reader or writer may take to end once its file is closed.
const stopGrace = time.Second

// ErrLeft is why what is in flight ends then: the client may still read, so the
// request is answered.
var ErrLeft = errors.New("the client closed its input before the answer came")

// Options say what is done with a client's lines. Stop may be nil.
type Options struct {
	Limit        int64          // bytes of a line
	WriteTimeout time.Duration  // of one Write
	Stream       stream.Options // of what goes out; Sink and Over are set by Serve

	Start func(calls context.Context)              // before the first line; calls ends with what is in flight
	Take  func(calls context.Context, line []byte) // takes a line, which is not empty
	Ended func(calls context.Context)              // after the last line
	Drain func()                                   // waits for what is in flight
	Stop  <-chan struct{}                          // closed: nothing is read any more, and Drain ends what is in flight
}

// Serve serves the client until in ends, out cannot be written to, or ctx ends. The
// end of in is a clean end. What does not stop by itself is made to: in and out are
// closed if they are io.Closers. Where that does not end a Read or a Write that waits
// it is given up after a second; of a Write the error says so.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	calls, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.Start(calls)
	lines := newLines(out, o.WriteTimeout)
	quiet := make(chan struct{}) // closed: write what is left, and end
	o.Stream.Sink, o.Stream.Over = lines, quiet
	reading, writing := make(chan error, 1), make(chan error, 1)
	go func() { reading <- o.read(calls, in) }() // ends with in; settle waits for it
	go func() { writing <- o.write(ctx) }()      // ends with quiet, ctx or out; settle waits for it

	var err error
	select {
	case err = <-reading:
		reading = nil
		defer time.AfterFunc(Grace, func() { cancel(ErrLeft) }).Stop()
		o.Ended(calls)
	case <-o.Stop:
	case err = <-writing:
		writing = nil
	case <-lines.stuck:
		err = stream.ErrSlow
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(err)
	}
	o.Drain()
	close(quiet)
	if err == nil {
		select {
		case err = <-writing:
			writing = nil
		case <-lines.stuck:
			err = stream.ErrSlow
		}
	}
	_ = settle(reading, in, "read") // a standard input need not come back from a Read; nothing is taken from it any more
	return errors.Join(err, settle(writing, out, "write"))
}

// settle makes a reader or writer end; nil if it did, or has ended before.
func settle(done <-chan error, file any, op string) error {
	if done == nil {
		return nil
	}
	if c, ok := file.(io.Closer); ok {
		_ = c.Close() // whether it ended anything is seen below
	}
	select {
	case <-done: //nolint:errcheck // how it ended is reported to the select of Serve
		return nil
	case <-time.After(stopGrace):
		return fault.New(fault.Wedged, op, "did not stop")
	}
}

// write writes what there is to tell the client, and at the end what is left.
func (o *Options) write(ctx context.Context) error {
	err := stream.NewWriter(o.Stream).Run(ctx)
	if !errors.Is(err, stream.ErrOver) {
		return err
	}
	return o.Stream.Outbox.WriteLeft(o.Stream.Sink)
}

// read takes lines until in ends.
func (o *Options) read(calls context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := ReadLine(r, o.Limit)
		if len(line) > 0 {
			o.Take(calls, line)
		}
		switch {
		case errors.Is(err, ErrLongLine):
			o.Stream.Outbox.Send(message.Refuse(nil, mcp.CodeInvalidRequest, "The message is too large").Frame())
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fault.From("read", err)
		}
	}
}

// ErrLongLine is returned in place of a line over the limit.
var ErrLongLine = errors.New("the line is too long")

// ReadLine returns the next line without its end, in a buffer of its own. A
// line over the limit is passed over.
func ReadLine(r *bufio.Reader, limit int64) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || int64(len(line)+len(part)) > limit+1; !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && err == nil {
			return nil, ErrLongLine
		}
		return bytes.TrimRight(line, " \t\r\n"), err
	}
}
