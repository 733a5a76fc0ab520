package stream

import (
	"net/http"
	"strconv"
	"time"

	"github.com/everline/everline/internal/mcp"
)

// Events is a sink that is an HTTP response of server-sent events. Each write is
// flushed, and may take as long as the client may take to read.
type Events struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	buf     []byte
}

// sseRetry is after how long an EventSource that lost its stream comes back.
const sseRetry = 300 * time.Millisecond

// bufferKept is how large a write buffer a quiet stream keeps.
const bufferKept = 16 << 10

var (
	eventType = []string{mcp.TypeEvents}
	noCache   = []string{"no-cache, no-transform"}
)

// NewEvents returns a stream on w. A write may take as long as the timeout.
func NewEvents(w http.ResponseWriter, timeout time.Duration) *Events {
	return &Events{w: w, rc: http.NewResponseController(w), timeout: timeout}
}

// Open sends the response's header, and what tells proxies not to hold events
// back (streamable-http, Receiving Messages).
func (e *Events) Open() error {
	h := e.w.Header()
	h["Content-Type"] = eventType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = []string{"no"}
	e.w.WriteHeader(http.StatusOK)
	return e.Alive()
}

// Write writes events without ids.
func (e *Events) Write(frames [][]byte) error { return e.writeAs("", frames) }

// writeAs writes events that have this id; "" for none.
func (e *Events) writeAs(id string, frames [][]byte) error {
	e.buf = e.buf[:0]
	for _, f := range frames {
		if id != "" {
			e.buf = mcp.AppendEventID(e.buf, id)
		}
		e.buf = mcp.AppendEvent(e.buf, f)
	}
	return e.flush()
}

// numbered writes events whose ids are the prefix and a number, from first on.
func (e *Events) numbered(prefix string, first int64, frames [][]byte) error {
	e.buf = e.buf[:0]
	id := []byte(prefix)
	for i, f := range frames {
		id = strconv.AppendInt(id[:len(prefix)], first+int64(i), 10)
		e.buf = mcp.AppendEvent(mcp.AppendEventID(e.buf, id), f)
	}
	return e.flush()
}

// prime writes an event without data, whose id a client can come back with
// before there is another, and how soon it may do so.
func (e *Events) prime(prefix string) error {
	e.buf = mcp.AppendRetry(mcp.AppendEventID(e.buf[:0], prefix+"0"), resumeRetry)
	e.buf = mcp.AppendOtherEvent(e.buf, "", "")
	return e.flush()
}

// Named writes an event of another name, with plain text as its data.
func (e *Events) Named(event, data string) error {
	e.buf = mcp.AppendOtherEvent(mcp.AppendRetry(e.buf[:0], sseRetry), event, data)
	return e.flush()
}

// OpenStanding is Open for a stream that its client shall open again.
func (e *Events) OpenStanding() error {
	if err := e.Open(); err != nil {
		return err
	}
	e.buf = append(mcp.AppendRetry(e.buf[:0], sseRetry), '\n')
	return e.flush()
}

// Alive writes a comment.
func (e *Events) Alive() error {
	e.buf = append(e.buf[:0], mcp.KeepAlive...)
	return e.flush()
}

func (e *Events) flush() error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(e.timeout)) // a writer without deadlines is bounded by its server
	_, err := e.w.Write(e.buf)
	if err == nil {
		err = e.rc.Flush()
	}
	if cap(e.buf) > bufferKept {
		e.buf = nil
	}
	return err
}

// Close lets the connection be used for another request.
func (e *Events) Close() { _ = e.rc.SetWriteDeadline(time.Time{}) }

// WithID is e with the id that each event has at the time when it is written.
func (e *Events) WithID(id func() string) Sink { return identified{e, id} }

type identified struct {
	*Events
	id func() string
}

// Write writes events with the id of now.
func (s identified) Write(frames [][]byte) error { return s.writeAs(s.id(), frames) }
