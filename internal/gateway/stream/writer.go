// Package stream is what goes out to one client beside and before its answers:
// the outbox in which it waits, the writer that puts it on the wire, and what is
// kept so that a client which lost a stream can come back for the rest. It reads
// no messages, and knows neither sessions nor what is served.
package stream

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/everline/everline/fault"
)

// changeGap is the least time between two announcements of changed lists on
// one stream: servers that come up one after the other are announced once or
// twice, and not one by one.
const changeGap = 100 * time.Millisecond

// A Sink writes frames to one client. It is used by one goroutine.
type Sink interface {
	Write(frames [][]byte) error
	// Alive keeps the connection from looking dead to what is in between.
	Alive() error
}

// Options make a Writer. Sink and Outbox are needed.
type Options struct {
	Sink      Sink
	Outbox    *Outbox
	Lists     *ListVersions // nil: no list changes
	KeepAlive time.Duration // silence after which Sink.Alive is called; 0: never

	Announced Versions                   // what the client has heard of
	Want      func() Lists               // which changed lists are announced now; nil: all
	Note      func(method string) []byte // the frame that announces a changed list; nil: the legacy one
	Save      func(announced Versions)   // keeps Announced beyond the stream; may be nil
	// Turn calls take, which returns what is to be written, unless the stream has
	// been replaced: then it is false. nil: no other stream has this outbox.
	Turn func(take func() [][]byte) bool
	Over <-chan struct{} // ends the stream: it was replaced, or its session ended; may be nil
	Stop <-chan struct{} // the gateway is shutting down; may be nil
}

// A Writer writes what happens to one client, for as long as its stream lasts. It
// has no goroutine of its own.
type Writer struct{ o Options }

// Why a stream ended.
var (
	ErrOver    = errors.New("the stream was replaced, or its session ended")
	ErrStopped = errors.New("the gateway is shutting down")
	ErrSlow    = fault.New(fault.Overloaded, "stream", "the client does not read what it is sent")
)

// NewWriter returns the writer of one stream.
func NewWriter(o Options) *Writer {
	if o.Lists == nil {
		o.Lists = NewListVersions()
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = math.MaxInt64
	}
	if o.Want == nil {
		o.Want = func() Lists { return AllLists }
	}
	if o.Note == nil {
		o.Note = plainNote
	}
	return &Writer{o}
}

// Run returns when the stream has ended, and why.
func (w *Writer) Run(ctx context.Context) error {
	idle := time.NewTimer(w.o.KeepAlive)
	defer idle.Stop()
	var hold <-chan time.Time // not nil while changes wait for the gap to pass
	for {
		lists := w.o.Lists.newest.Load()
		frames, noted, err := w.take(&lists.versions, hold == nil)
		if err != nil {
			return err
		}
		if noted {
			hold = time.After(changeGap)
		}
		if len(frames) > 0 {
			if err := w.o.Sink.Write(frames); err != nil {
				return err
			}
			idle.Reset(w.o.KeepAlive)
		}
		select {
		case <-w.o.Outbox.wake:
		case <-lists.changed:
		case <-hold:
			hold = nil
		case <-idle.C:
			if err := w.o.Sink.Alive(); err != nil {
				return err
			}
			idle.Reset(w.o.KeepAlive)
		case <-w.o.Over:
			return ErrOver
		case <-w.o.Stop:
			return ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take returns what is to be written now, and whether changed lists are in it.
func (w *Writer) take(versions *Versions, announce bool) (frames [][]byte, noted bool, err error) {
	take := func() [][]byte {
		var ok bool
		if frames, ok = w.o.Outbox.Take(); !ok {
			err = ErrSlow
			return nil
		}
		if announce {
			notes := w.announce(versions)
			frames, noted = append(frames, notes...), len(notes) > 0
		}
		return frames
	}
	if w.o.Turn == nil {
		take()
	} else if !w.o.Turn(take) {
		w.o.Outbox.Signal() // this stream may have been woken in place of the one that replaced it
		err = ErrOver
	}
	return frames, noted, err
}

// announce returns the frames for what has changed since the last ones.
func (w *Writer) announce(versions *Versions) [][]byte {
	if *versions == w.o.Announced {
		return nil
	}
	want := w.o.Want()
	if want == 0 {
		return nil // nothing yet, or never
	}
	changed := versions.since(&w.o.Announced) & want
	w.o.Announced = *versions
	if w.o.Save != nil {
		w.o.Save(w.o.Announced)
	}
	var notes [][]byte
	for method := range changed.Methods() {
		notes = append(notes, w.o.Note(method))
	}
	return notes
}

// RunUntil goes on until wait, which runs beside, has returned, and writes what is
// left then. It outlives Over and Stop.
func (w *Writer) RunUntil(ctx context.Context, wait func()) {
	done := make(chan struct{})
	go func() { // ends with wait; waited for below
		wait()
		close(done)
	}()
	w.o.Stop, w.o.Over = nil, done
	if errors.Is(w.Run(ctx), ErrOver) {
		_ = w.o.Outbox.WriteLeft(w.o.Sink) // a client that is gone hears nothing
	}
	<-done
}
