package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
)

// HTTP+SSE is the transport of the 2024-11-05 revision: a GET opens a session
// and carries everything from us, POSTs carry everything to us.

// serveSSE opens a session and serves its stream; its end ends the session.
func (g *Gateway) serveSSE(w http.ResponseWriter, r *http.Request) {
	if !g.mayStream(w, r) {
		return
	}
	if g.closing() {
		if r.Header.Get(mcp.HeaderLastEventID) != "" {
			panic(http.ErrAbortHandler) // an EventSource takes any answer but 200 for the end, and comes back after none
		}
		g.ending(w, &message.Message{})
		return
	}
	g.opts.Meter.SSE.Add(1)
	defer g.opts.Meter.SSE.Add(-1)
	defer g.shared.sse.Add(-1)
	if g.shared.sse.Add(1) > int64(g.opts.MaxSSE) {
		g.busy(w, "Too many sessions of HTTP+SSE are open")
		return
	}
	s := g.sessions.New(mcp.FirstVersion)
	s.Addr = r.RemoteAddr
	standing, out := s.ShareStream(g.opts.MaxInFlight, r.Context().Done()), s.Out()
	ok, adopted := g.sessions.AddStanding(s, r.Header.Get(mcp.HeaderLastEventID))
	if !ok {
		g.noRoom(refusalOf(r.Context()))
		g.busy(w, tooManySessions)
		return
	}
	defer g.sessions.Unpin(s)
	defer out.Close()
	defer s.Admission.Drain()
	defer g.sessions.Leave(s)
	events := g.events(w)
	defer events.Close()
	if events.Open() != nil {
		return
	}
	// Relative, so that it stays right behind a proxy that adds a prefix.
	if events.Named("endpoint", "messages?sessionId="+url.QueryEscape(s.Key)) != nil {
		return
	}
	if adopted {
		g.sessions.GoOn(s, g.renewTasks)
	}
	writer := stream.NewWriter(stream.Options{
		Sink: events.WithID(s.EventID), Outbox: out, Lists: g.lists, KeepAlive: g.opts.KeepAlive,
		Announced: s.Announced(), Want: s.Wants, Over: standing.Over(), Stop: g.stop,
	})
	ctx, end := g.whileGood(r.Context())
	defer end()
	if err := writer.Run(ctx); errors.Is(err, stream.ErrStopped) || errors.Is(err, stream.ErrOver) {
		writer.RunUntil(r.Context(), s.Admission.Drain)
	}
}

const (
	streamWait  = time.Second // for the stream of a client that comes back
	streamLook  = 20 * time.Millisecond
	returnsTill = 30 * time.Second // from the start of an everline, in which clients of the one before come back
)

// standingSession returns the pinned session of a message. After a restart the
// message may come before the stream that its answer goes out on; and the stream
// of a client that does not say who it is comes under another id. Such a message
// is not refused: its connection breaks, which tells the client that it may send
// the message again, and by then it knows the id.
func (g *Gateway) standingSession(ctx context.Context, id string) *session.Session {
	s := g.sessions.Pin(id)
	if s != nil || g.closing() {
		return s
	}
	if !g.sessions.IsKept(id) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	tick := time.NewTicker(streamLook)
	defer tick.Stop()
	for s == nil && ctx.Err() == nil && !g.leaving() {
		select {
		case <-tick.C:
			s = g.sessions.Pin(id)
		case <-ctx.Done():
		}
	}
	if s == nil && (g.leaving() || time.Since(g.began) < returnsTill) {
		panic(http.ErrAbortHandler)
	}
	return s
}

// serveMessages takes one message of an HTTP+SSE session. The answer goes out
// on the session's stream.
func (g *Gateway) serveMessages(w http.ResponseWriter, r *http.Request) {
	if !g.typed(w, r) {
		return
	}
	s := g.standingSession(r.Context(), r.URL.Query().Get("sessionId"))
	switch {
	case s == nil && g.closing():
		g.ending(w, &message.Message{})
		return
	case s == nil:
		g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "Session not found: open /sse again")
		return
	}
	defer g.sessions.Unpin(s)
	if s.Admission == nil {
		g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "Session not found: this one is not of /sse")
		return
	}
	body, held, ok := g.body(w, r, g.maxBody())
	if !ok {
		return
	}
	defer held.release()
	m, bad := message.ParseLegacy(body)
	if g.malformed(bad) == nil {
		bad = g.takeMessage(r, m, held, s)
	}
	// Who waits for an answer waits for it on the stream; what names no request
	// would be no answer there.
	if bad != nil && !bad.Named() {
		writeJSON(w, bad)
		return
	}
	if bad != nil {
		s.Out().Send(bad.Frame())
	}
	w.WriteHeader(http.StatusAccepted)
}

// takeMessage takes a message of an HTTP+SSE session, or returns the answer that
// refuses it. A call does not end with the POST, whose answer is not its own.
func (g *Gateway) takeMessage(r *http.Request, m *message.Message, held *claim, s *session.Session) *message.Answer {
	x := g.exchange(m)
	x.sess, x.gone, x.held, x.request = s, s.Gone, held, r
	if m.IsRequest() {
		return g.serveOn(context.WithoutCancel(r.Context()), x, s.Admission, s.Out())
	}
	g.notice(x)
	return nil
}
