package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	defer g.shared.sse.Add(-1)
	if g.shared.sse.Add(1) > int64(g.opts.MaxSSE) {
		g.busy(w, "Too many sessions of HTTP+SSE are open")
		return
	}
	s := g.newSession(mcp.FirstVersion)
	s.admission, s.gone = &message.Admission{Limit: g.opts.MaxInFlight}, r.Context().Done()
	standing, out := s.standing.Attach(), s.out()
	if !g.table.add(s) {
		g.busy(w, "Too many sessions are in use")
		return
	}
	defer g.table.unpin(s)
	defer out.Close()
	defer s.admission.Drain()
	defer g.table.remove(s)
	events := g.events(w)
	defer events.Close()
	if events.Open() != nil {
		return
	}
	// Relative, so that it stays right behind a proxy that adds a prefix.
	if events.Named("endpoint", "messages?sessionId="+url.QueryEscape(s.id)) != nil {
		return
	}
	if s.adopt(r.Header.Get(mcp.HeaderLastEventID)) {
		g.levels.change(s)
		out.SendAllChanged()
	}
	writer := stream.NewWriter(stream.Options{
		Sink: events.WithID(s.eventID), Outbox: out, Lists: g.lists, KeepAlive: g.opts.KeepAlive,
		Announced: s.hasHeard(), Want: s.wants, Over: standing.Over(), Stop: g.stop,
	})
	if err := writer.Run(r.Context()); errors.Is(err, stream.ErrStopped) || errors.Is(err, stream.ErrOver) {
		writer.RunUntil(r.Context(), s.admission.Drain)
	}
}

// ssePrefix begins the ids of events of /sse. The rest of an id is what a client
// said of itself when it shook hands: an EventSource that lost its stream comes
// back with the last id, opens another session, and does not shake hands again.
// It needs no proof, because the client could declare anything.
const ssePrefix = "sse-"

// eventID is the id of the events of now; "" before the handshake.
func (s *session) eventID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.greeted {
		return ""
	}
	return fmt.Sprintf("%s%d-%d-%s", ssePrefix, s.serves, s.level, s.version)
}

// adopt makes the session that of the client that got the event with this id
// last; false if it is none of ours.
func (s *session) adopt(lastID string) bool {
	rest, ok := strings.CutPrefix(lastID, ssePrefix)
	parts := strings.SplitN(rest, "-", 3)
	if !ok || len(parts) < 3 || !slices.Contains(mcp.LegacyVersions, parts[2]) {
		return false
	}
	serves, err := strconv.ParseUint(parts[0], 10, 8)
	level, err2 := strconv.ParseUint(parts[1], 10, 8)
	if err != nil || err2 != nil || level >= uint64(len(mcp.Levels)) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves, s.offers, s.level, s.version = served(serves), served(serves), int(level), parts[2]
	s.greeted, s.ready = true, true
	return true
}

// serveMessages takes one message of an HTTP+SSE session. The answer goes out
// on the session's stream.
func (g *Gateway) serveMessages(w http.ResponseWriter, r *http.Request) {
	if !g.typed(w, r) {
		return
	}
	s := g.table.pin(r.URL.Query().Get("sessionId"))
	switch {
	case s == nil && g.closing():
		g.ending(w, &message.Message{})
		return
	case s == nil:
		g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "Session not found: open /sse again")
		return
	}
	defer g.table.unpin(s)
	if s.admission == nil {
		g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "Session not found: this one is not of /sse")
		return
	}
	body, held, ok := g.body(w, r, g.opts.MaxBody)
	if !ok {
		return
	}
	defer held.release()
	m, bad := message.ParseLegacy(body)
	if bad == nil {
		bad = g.takeMessage(context.WithoutCancel(r.Context()), m, held, s)
	}
	// Who waits for an answer waits for it on the stream; what names no request
	// would be no answer there.
	if bad != nil && !bad.Named() {
		writeJSON(w, bad)
		return
	}
	if bad != nil {
		s.out().Send(bad.Frame())
	}
	w.WriteHeader(http.StatusAccepted)
}

// takeMessage takes a message of an HTTP+SSE session, or returns the answer that
// refuses it. A call does not end with the POST, whose answer is not its own.
func (g *Gateway) takeMessage(ctx context.Context, m *message.Message, held *claim, s *session) *message.Answer {
	x := g.exchange(m)
	x.sess, x.gone, x.held = s, s.gone, held
	if m.IsRequest() {
		return g.serveOn(ctx, x, s.admission, s.out())
	}
	g.notice(x)
	return nil
}
