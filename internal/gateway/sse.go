package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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
	again, adopted := s.adopt(r.Header.Get(mcp.HeaderLastEventID))
	if !g.addStanding(s, again) {
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
	if adopted {
		g.levels.change(s)
		out.SendAllChanged()
		g.resubscribe(s)
	}
	writer := stream.NewWriter(stream.Options{
		Sink: events.WithID(s.eventID), Outbox: out, Lists: g.lists, KeepAlive: g.opts.KeepAlive,
		Announced: s.hasHeard(), Want: s.wants, Over: standing.Over(), Stop: g.stop,
	})
	if err := writer.Run(r.Context()); errors.Is(err, stream.ErrStopped) || errors.Is(err, stream.ErrOver) {
		writer.RunUntil(r.Context(), s.admission.Drain)
	}
}

// addStanding puts a session in the table: under the id of the one that it goes
// on with, unless that one is still there, else under a new one.
func (g *Gateway) addStanding(s *session, again string) bool {
	if kept, note, ok := g.keptAs(again); ok {
		s.kept, s.outlives = kept, true
		s.keepSubscriptions(note.Subscriptions)
		there := g.table.addAs(s, again)
		if there == s {
			return true
		}
		if there != nil {
			g.table.unpin(there)
		}
	}
	return g.table.addAs(s, g.name(s)) != nil
}

// ssePrefix begins the ids of events of /sse. The rest of an id is what a client
// said of itself when it shook hands, and the id of its session: an EventSource
// that lost its stream comes back with the last id, and does not shake hands
// again. What the client said needs no proof, because it could declare anything.
const ssePrefix = "sse-"

// eventID is the id of the events of now; "" before the handshake.
func (s *session) eventID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.greeted {
		return ""
	}
	id := fmt.Sprintf("%s%d-%d-%s", ssePrefix, s.serves, s.level, s.version)
	if s.outlives {
		id += "-" + s.id
	}
	return id
}

// adopt makes the session that of the client that got the event with this id
// last, and returns the id of the session that it had, "" if that was not kept;
// false if the event is none of ours.
func (s *session) adopt(lastID string) (again string, ok bool) {
	rest, ok := strings.CutPrefix(lastID, ssePrefix)
	parts := strings.SplitN(rest, "-", 3)
	if !ok || len(parts) < 3 {
		return "", false
	}
	version, again, ok := cutVersion(parts[2])
	if !ok {
		return "", false
	}
	serves, err := strconv.ParseUint(parts[0], 10, 8)
	level, err2 := strconv.ParseUint(parts[1], 10, 8)
	if err != nil || err2 != nil || level >= uint64(len(mcp.Levels)) {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves, s.offers, s.level, s.version = served(serves), served(serves), int(level), version
	s.greeted, s.ready = true, true
	return again, true
}

// cutVersion parts a version from what may follow behind a hyphen.
func cutVersion(text string) (version, rest string, ok bool) {
	for _, version := range mcp.LegacyVersions {
		if rest, ok := strings.CutPrefix(text, version); ok && (rest == "" || rest[0] == '-') {
			return version, strings.TrimPrefix(rest, "-"), true
		}
	}
	return "", "", false
}

const (
	streamWait = 10 * time.Second // for the stream of a client that comes back
	streamLook = 20 * time.Millisecond
)

// standingSession returns the pinned session of a message. After a restart the
// message may come before the stream that its answer goes out on.
func (g *Gateway) standingSession(ctx context.Context, id string) *session {
	s := g.table.pin(id)
	if s != nil {
		return s
	}
	if _, _, ok := g.keptAs(id); !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	tick := time.NewTicker(streamLook)
	defer tick.Stop()
	for s == nil && ctx.Err() == nil && !g.closing() {
		select {
		case <-tick.C:
			s = g.table.pin(id)
		case <-ctx.Done():
		}
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
