package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// changeGap is the least time between two announcements of changed lists on
// one stream: servers that come up one after the other are announced once or
// twice, and not one by one.
const changeGap = 100 * time.Millisecond

// A sink writes frames to one client. It is used by one goroutine.
type sink interface {
	write(frames [][]byte) error
	// alive keeps the connection from looking dead to what is in between.
	alive() error
}

// A teller writes what happens to one client, for as long as its stream lasts.
type teller struct {
	g    *Gateway
	out  sink
	feed *feed
	want func() listChanged           // which changed lists are announced now
	told [kindCount]uint64            // what of the news was announced
	note func(method string) []byte   // the frame that announces a changed list
	save func(told [kindCount]uint64) // keeps told beyond the stream; may be nil
	// turn calls take, which returns what is to be written, unless the stream has
	// been replaced: then it is false. nil: no other stream has this feed.
	turn func(take func() [][]byte) bool
	over <-chan struct{} // ends the stream: it was replaced, or its session ended; may be nil
	stop <-chan struct{} // the gateway is shutting down
}

// Why a stream ended.
var (
	errOver    = errors.New("the stream was replaced, or its session ended")
	errStopped = errors.New("the gateway is shutting down")
	errSlow    = fault.New(fault.Overloaded, "stream", "the client does not read what it is sent")
)

// run returns when the stream has ended, and why.
func (t *teller) run(ctx context.Context) error {
	idle := time.NewTimer(t.g.opts.KeepAlive)
	defer idle.Stop()
	var hold <-chan time.Time // not nil while changes wait for the gap to pass
	for {
		news := t.g.news.now.Load()
		frames, noted, err := t.take(news, hold == nil)
		if err != nil {
			return err
		}
		if noted {
			hold = time.After(changeGap)
		}
		if len(frames) > 0 {
			if err := t.out.write(frames); err != nil {
				return err
			}
			idle.Reset(t.g.opts.KeepAlive)
		}
		select {
		case <-t.feed.wake:
		case <-news.changed:
		case <-hold:
			hold = nil
		case <-idle.C:
			if err := t.out.alive(); err != nil {
				return err
			}
			idle.Reset(t.g.opts.KeepAlive)
		case <-t.over:
			return errOver
		case <-t.stop:
			return errStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take returns what is to be written now, and whether changed lists are in it.
func (t *teller) take(news *edition, announce bool) (frames [][]byte, noted bool, err error) {
	take := func() [][]byte {
		var ok bool
		if frames, ok = t.feed.take(); !ok {
			err = errSlow
			return nil
		}
		if announce {
			notes := t.announce(news)
			frames, noted = append(frames, notes...), len(notes) > 0
		}
		return frames
	}
	if t.turn == nil {
		take()
	} else if !t.turn(take) {
		t.feed.signal() // this stream may have been woken in place of the one that replaced it
		err = errOver
	}
	return frames, noted, err
}

// announce returns the frames for what has changed since the last ones.
func (t *teller) announce(news *edition) [][]byte {
	if news.count == t.told {
		return nil
	}
	want := t.want()
	if want == 0 {
		return nil // nothing yet, or never
	}
	changed := news.since(&t.told) & want
	t.told = news.count
	if t.save != nil {
		t.save(t.told)
	}
	var notes [][]byte
	changed.each(func(method string) { notes = append(notes, t.note(method)) })
	return notes
}

// rest goes on until everything that is in flight on a connection has been
// answered; nothing new is admitted.
func (t *teller) rest(ctx context.Context, l *lane) {
	drained := make(chan struct{})
	go func() { // ends with the last request; waited for below
		l.drain()
		close(drained)
	}()
	t.stop, t.over = nil, drained
	if errors.Is(t.run(ctx), errOver) {
		if frames, _ := t.feed.take(); len(frames) > 0 {
			_ = t.out.write(frames) // a client that is gone hears nothing
		}
	}
	<-drained
}

// everything is the want of a stream that hears of all lists.
func everything() listChanged { return allChanged }

// plainNote announces a changed list to a legacy client.
func plainNote(method string) []byte { return wire.AppendNotification(nil, method, nil) }

// An eventStream is a sink that is an HTTP response of server-sent events.
// Each write is flushed, and may take as long as the client may take to read.
type eventStream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	id      string // of the events that are written; "" for none
	buf     []byte
}

var (
	eventType = []string{mcp.TypeEvents}
	jsonType  = []string{mcp.TypeJSON}
	noCache   = []string{"no-cache, no-transform"}
)

func (g *Gateway) events(w http.ResponseWriter) *eventStream {
	return &eventStream{w: w, rc: http.NewResponseController(w), timeout: g.opts.WriteTimeout}
}

// open sends the response's header, and what tells proxies not to hold events
// back (streamable-http, Receiving Messages).
func (s *eventStream) open() error {
	h := s.w.Header()
	h["Content-Type"] = eventType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = []string{"no"}
	s.w.WriteHeader(http.StatusOK)
	return s.alive()
}

func (s *eventStream) write(frames [][]byte) error {
	s.buf = s.buf[:0]
	for _, f := range frames {
		if s.id != "" {
			s.buf = append(append(append(s.buf, "id: "...), s.id...), '\n')
		}
		s.buf = append(s.buf, "event: message\ndata: "...)
		s.buf = append(append(s.buf, wire.OneLine(f)...), "\n\n"...)
	}
	return s.put()
}

// sseRetry is after how many ms an EventSource that lost its stream comes back.
const sseRetry = "300"

// named writes an event of another name, with plain text as its data.
func (s *eventStream) named(event, data string) error {
	s.buf = append(s.buf[:0], "retry: "+sseRetry+"\nevent: "+event+"\ndata: "+data+"\n\n"...)
	return s.put()
}

func (s *eventStream) alive() error {
	s.buf = append(s.buf[:0], ":\n\n"...)
	return s.put()
}

// bufferKept is how large a write buffer a quiet stream keeps.
const bufferKept = 16 << 10

func (s *eventStream) put() error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.timeout)) // a writer without deadlines is bounded by its server
	_, err := s.w.Write(s.buf)
	if err == nil {
		err = s.rc.Flush()
	}
	if cap(s.buf) > bufferKept {
		s.buf = nil
	}
	return err
}

// done lets the connection be used for another request.
func (s *eventStream) done() { _ = s.rc.SetWriteDeadline(time.Time{}) }
