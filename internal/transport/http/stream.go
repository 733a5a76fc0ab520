package http

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

const (
	resumeTries    = 4                // resumptions in a row that bring nothing new
	firstDelay     = time.Second      // before a stream is opened again
	maxDelay       = 30 * time.Second // where doubling stops
	standingProven = 30 * time.Second // a standing stream that lived so long was worth opening
	minRetry       = 100 * time.Millisecond
	gapless        = 100 * time.Millisecond // a first stream that opens later may have missed a change
)

const bodyBufKept = 256 << 10 // larger buffers are not pooled

var bodyBufs = sync.Pool{New: func() any { b := make([]byte, 8<<10); return &b }}

// readAll reads a body of at most limit bytes into memory of just its size.
func readAll(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, mcp.ErrTooLong
	}
	if resp.ContentLength >= 0 {
		body := wire.Room(int(resp.ContentLength))[:resp.ContentLength]
		_, err := io.ReadFull(resp.Body, body)
		return body, err
	}
	scratch := bodyBufs.Get().(*[]byte)
	buf, n := *scratch, 0
	defer func() {
		if len(buf) <= bodyBufKept {
			*scratch = buf
			bodyBufs.Put(scratch)
		}
	}()
	for {
		if n == len(buf) {
			buf = wire.Append(wire.Room(2*n), buf)[:2*n]
		}
		got, err := resp.Body.Read(buf[n:])
		if n += got; int64(n) > limit {
			return nil, mcp.ErrTooLong
		}
		if errors.Is(err, io.EOF) {
			if len(buf) > bodyBufKept {
				return buf[:n:n], nil // nobody else gets it
			}
			return append(make([]byte, 0, n), buf[:n]...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// stream reads the event stream of a POST until the answer is there. A stream
// that ends without it is resumed where that is possible.
func (c *conn) stream(ex *exchange, p *post) (wire.Message, *fault.Fault) {
	rd := mcp.NewEventReader(ex.events.wrap(p.resp.Body), c.max, "")
	defer rd.Release()
	msg, f, err := c.events(rd, p)
	if err != nil {
		if rd.LastID != "" && !p.modern && ex.ctx.Err() == nil {
			return c.resume(ex, p, rd)
		}
		return wire.Message{}, c.cut(ex, err)
	}
	if f == nil || f.Kind != fault.TooLarge {
		c.awaitEnd(ex, rd, p.id)
	}
	return msg, f
}

// events reads a stream up to the answer to p. err is how the stream ended
// without one.
func (c *conn) events(rd *mcp.EventReader, p *post) (wire.Message, *fault.Fault, error) {
	for {
		ev, err := rd.Next()
		if errors.Is(err, mcp.ErrTooLong) {
			return wire.Message{}, c.tooLarge(p.op), nil
		}
		if err != nil {
			return wire.Message{}, nil, err
		}
		if !ev.IsMessage() {
			continue
		}
		switch msg, found, bad := c.take(ev.Data, p.id); found {
		case matchAnswer:
			return msg, nil, nil
		case matchUnreadable:
			return wire.Message{}, transport.Unreadable(p.op, bad), nil
		case matchNoID:
			msg, f := p.reply(p.resp, ev.Data).classify()
			return msg, f, nil
		case matchNone: // of another request, or a message of the server's own
		}
	}
}

// cut is the fault of a stream that ended before the answer came.
func (c *core) cut(ex *exchange, err error) *fault.Fault {
	if errors.Is(err, io.EOF) && ex.ctx.Err() == nil {
		err = errors.New("the server ended the stream before the answer")
	}
	return c.lost(ex, err)
}

// awaitEnd waits a moment for the end of an answered stream, so that its
// connection goes back to the pool. A server that leaves streams open is not
// waited for again and again.
func (c *conn) awaitEnd(ex *exchange, rd *mcp.EventReader, id int64) {
	if n := c.leftOpen.Load(); n >= 3 && n%16 != 0 {
		c.leftOpen.Add(1)
		return
	}
	patience := time.AfterFunc(settleWait, ex.cancel)
	defer patience.Stop()
	for {
		ev, err := rd.Next()
		switch {
		case errors.Is(err, io.EOF):
			c.leftOpen.Store(0)
			return
		case err != nil:
			c.leftOpen.Add(1)
			return
		case ev.IsMessage():
			_, _, _ = c.take(ev.Data, id) // who waits for it has it
		}
	}
}

// resume reads on from the last event by GET (specification 2025-11-25
// basic/transports, Resumability). Servers also end a stream on purpose and
// want to be asked again, so what counts is whether anything new comes.
// Whatever happens, the request was sent.
func (c *conn) resume(ex *exchange, p *post, rd *mcp.EventReader) (wire.Message, *fault.Fault) {
	from := cursor{id: rd.LastID, retry: rd.Retry}
	for tries := 0; tries < resumeTries; tries++ {
		if !c.pause(ex.ctx, max(backoff(tries, from.retry, rand.Float64()), from.after)) {
			return wire.Message{}, c.cut(ex, errors.New("the link ended before the answer"))
		}
		before := from.events
		msg, f, err := c.resumeOnce(ex, p, &from)
		if err == nil {
			return msg, f
		}
		if errors.Is(err, errNotResumable) {
			break
		}
		if from.events != before {
			tries = -1
		}
	}
	return wire.Message{}, c.cut(ex, errors.New("the stream was cut before the answer, and could not be resumed"))
}

// errNotResumable: the server does not offer to go on with the stream.
var errNotResumable = errors.New("the server does not resume the stream")

// cursor is where a stream was cut.
type cursor struct {
	id     string
	retry  time.Duration
	events int           // events that came in all
	after  time.Duration // the server's own delay (Retry-After) after a refusal
}

func (c *conn) resumeOnce(ex *exchange, p *post, from *cursor) (wire.Message, *fault.Fault, error) {
	ctx, cancel := context.WithCancel(ex.plain)
	defer cancel()
	resp, err := c.get(ctx, c.state.Load(), from.id)
	if err != nil {
		return wire.Message{}, nil, err
	}
	defer func() { cancel(); _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !isEvents(resp.Header) {
		if resp.StatusCode == http.StatusNotFound && p.session {
			_, f := p.reply(resp, nil).classify()
			c.learn(f)
		}
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
			from.after, _ = retryAfter(resp.Header, time.Now())
			return wire.Message{}, nil, errors.New(resp.Status)
		}
		return wire.Message{}, nil, errNotResumable
	}
	rd := mcp.NewEventReader(resp.Body, c.max, from.id)
	defer rd.Release()
	msg, f, err := c.events(rd, p)
	from.id, from.events, from.after = rd.LastID, from.events+rd.Events, 0
	if rd.Retry > 0 {
		from.retry = rd.Retry
	}
	return msg, f, err
}

// get asks for an event stream, from where it was cut if id is not "".
func (c *conn) get(ctx context.Context, s *state, id string) (*http.Response, error) {
	header := c.legacyHeader(c.header, s)
	header["Accept"] = []string{mcp.TypeEvents}
	if id != "" {
		header[mcp.HeaderLastEventID] = []string{id}
	}
	resp, _, err := c.do(c.request(ctx, http.MethodGet, c.url, header), nil)
	return resp, err
}

// pause waits; false means that ctx or the link ended first.
func (c *core) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.done:
	}
	return false
}

// backoff is the delay before a stream is opened again after so many
// openings in a row that brought nothing: doubling, with jitter from r in
// [0,1) between half and all of it, and never shorter than the server's own
// reconnection time.
func backoff(fruitless int, retry time.Duration, r float64) time.Duration {
	if retry > 0 {
		retry = max(retry, minRetry)
		if fruitless == 0 {
			return retry
		}
		fruitless--
	}
	d := min(firstDelay<<min(fruitless, 10), maxDelay)
	return max(d/2+time.Duration(r*float64(d/2)), retry)
}
