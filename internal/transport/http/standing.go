package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
)

// standing is the standing GET stream of a legacy session over all its
// openings. Only its goroutine uses it.
type standing struct {
	from      cursor
	began     time.Time     // of the first GET
	openings  int           // GETs so far
	opened    bool          // one of them was a stream
	refused   bool          // there was none any more since the last one that was
	fruitless int           // openings in a row that brought nothing
	after     time.Duration // the server's own delay (Retry-After) after the last one
}

// stand keeps the standing stream open as long as the session. The
// stream is optional and its failure means nothing for calls, with two
// exceptions: when a stream that worked is answered by 404, the session is gone
// (specification 2025-11-25 basic/transports, Session Management 4), and when it
// is refused a connection, the server is.
func (c *conn) stand() {
	defer c.wg.Done()
	s := standing{began: time.Now()}
	for c.standOnce(&s) {
		delay := max(backoff(s.fruitless, s.from.retry, rand.Float64()), s.after)
		s.after = 0
		if !c.pause(c.linkCtx, delay) {
			return
		}
	}
	if s.opened {
		c.gap() // nothing more will be heard
	}
}

// standOnce opens the stream and reads it to its end; false means for good.
// No limit applies to the wait for the head of the answer: servers and proxies
// hold it back until the first event.
func (c *conn) standOnce(s *standing) bool {
	ctx, cancel := context.WithCancel(c.linkCtx)
	defer cancel()
	s.openings++
	resp, err := c.get(ctx, c.state.Load(), s.from.id)
	if err != nil {
		s.fruitless++
		return c.linkCtx.Err() == nil && !c.nobodyListens(s, err)
	}
	defer func() { cancel(); _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK && isEvents(resp.Header) {
		c.standRead(s, resp, cancel)
		return c.linkCtx.Err() == nil
	}
	return c.standRefused(s, resp)
}

// nobodyListens ends the link where a stream that worked is refused a connection:
// the server's process has ended, and its sessions with it. Without this a server
// that nobody calls would be called connected until the stream is opened again,
// which is later each time. Calls that are out may still be answered.
func (c *conn) nobodyListens(s *standing, err error) bool {
	if !s.opened || !fault.Refused(err) {
		return false
	}
	c.learn(&fault.Fault{
		Kind: fault.SessionLost, Op: "listen", Outcome: fault.NotSent,
		Err: fmt.Errorf("nobody listens at the server's port: %w", err),
	})
	return true
}

// standRefused judges an answer that is no stream: false means that the
// server has none, and is not asked again.
func (c *conn) standRefused(s *standing, resp *http.Response) bool {
	s.fruitless++
	s.after, _ = retryAfter(resp.Header, time.Now())
	session := c.state.Load().session != ""
	switch {
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return true
	case !s.opened && resp.StatusCode == http.StatusNotFound && session:
		// It has no stream, or has forgotten the session: a listing will tell.
		c.gap()
		return false
	case !s.opened || resp.StatusCode == http.StatusMethodNotAllowed:
		return false
	case resp.StatusCode == http.StatusNotFound && session:
		c.learn(&fault.Fault{
			Kind: fault.SessionLost, Op: "listen", Outcome: fault.NotSent, Status: resp.StatusCode,
			Err: errors.New("HTTP 404 on the standing stream: the server forgot the session"),
		})
		return false
	default:
		// It worked before. Some servers refuse a session that they forgot in
		// another way than by 404: a listing will tell. Others refuse to go on
		// from an event that they do not have any more.
		if !s.refused {
			c.gap()
		}
		s.refused, s.from.id = true, ""
		return true
	}
}

// standRead reads the stream until it ends.
func (c *conn) standRead(s *standing, resp *http.Response, cancel context.CancelFunc) {
	if s.openings > 1 || time.Since(s.began) > gapless {
		c.gap()
	}
	s.opened, s.refused = true, false
	began, messages := time.Now(), 0
	var events eventBody
	source := events.wrap(resp.Body)
	c.standing.Store(&events)
	defer c.standing.Store(nil)
	body, stop := c.watched(source, cancel)
	defer stop()
	rd := mcp.NewEventReader(body, c.max, s.from.id)
	defer rd.Release()
	for {
		ev, err := rd.Next()
		if errors.Is(err, mcp.ErrTooLong) {
			c.noise.Add(1)
			continue
		}
		if err != nil {
			break
		}
		if ev.IsMessage() {
			messages++
			_, _, _ = c.take(ev.Data, 0) // who waits for it has it
		}
	}
	s.from.id = rd.LastID
	if rd.Retry > 0 {
		s.from.retry = rd.Retry
	}
	if messages > 0 || time.Since(began) > standingProven {
		s.fruitless = 0
	} else {
		s.fruitless++
	}
}

// watched returns body with the link's idle limit, and what stops the watch.
func (c *core) watched(body io.Reader, cancel context.CancelFunc) (io.Reader, func()) {
	if c.idle <= 0 {
		return body, func() {}
	}
	w := &watched{src: body, limit: c.idle}
	w.timer = time.AfterFunc(c.idle, func() {
		w.fired.Store(true)
		cancel()
	})
	return w, func() { w.timer.Stop() }
}

var errIdle = errors.New("nothing came for the idle timeout")

// watched pushes its timer forward with every read that brings something.
type watched struct {
	src   io.Reader
	limit time.Duration
	timer *time.Timer
	fired atomic.Bool
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.src.Read(p)
	switch {
	case err == nil:
		w.timer.Reset(w.limit)
	case w.fired.Load():
		err = errIdle
	}
	return n, err
}
