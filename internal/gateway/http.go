package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// serveMCP serves Streamable HTTP of both eras on one URL.
func (g *Gateway) serveMCP(w http.ResponseWriter, r *http.Request) {
	modern := r.Header.Get(mcp.HeaderVersion) == mcp.ModernVersion // which has POST alone
	switch {
	case r.Method == http.MethodPost:
		g.servePost(w, r)
	case r.Method == http.MethodGet && !modern:
		g.serveGet(w, r)
	case r.Method == http.MethodDelete && !modern:
		g.serveDelete(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		g.reject(w, http.StatusMethodNotAllowed, mcp.CodeInvalidRequest, "Method not allowed")
	}
}

// reject answers an HTTP request that is refused before, or whatever, its body
// says: a JSON-RPC error with id null.
func (g *Gateway) reject(w http.ResponseWriter, status int, code int64, text string) {
	writeJSON(w, &message.Answer{Status: status, Head: wire.AppendError(nil, nil, code, text, nil)})
}

// servePost looks at everything that the headers tell before it reads the body.
func (g *Gateway) servePost(w http.ResponseWriter, r *http.Request) {
	accept := readAccept(r.Header["Accept"])
	if !accept.json && !accept.events {
		g.reject(w, http.StatusNotAcceptable, mcp.CodeInvalidRequest, "Not acceptable: accept application/json and text/event-stream")
		return
	}
	if !g.typed(w, r) {
		return
	}
	version := r.Header.Get(mcp.HeaderVersion)
	var s *session.Session
	limit := g.maxBody()
	switch {
	case version == mcp.ModernVersion: // the revision has no sessions
	case r.Header.Get(mcp.HeaderSession) != "":
		if s = g.sessionOf(w, r); s == nil {
			return
		}
		defer g.sessions.Unpin(s)
	default:
		limit = min(limit, sessionless)
	}
	body, held, ok := g.body(w, r, limit)
	if !ok {
		return
	}
	defer held.release()
	p := &post{o: &g.replies, w: w, accept: accept, sess: s}
	if wire.IsBatch(body) {
		g.postBatch(r, body, p)
		return
	}
	m, bad := message.Parse(body, version)
	if bad != nil {
		writeJSON(w, g.malformed(bad))
		return
	}
	x := g.exchange(m)
	x.held, x.gone, x.request = held, r.Context().Done(), r
	// The loss of the client cancels nothing, but in the modern era, where a request
	// ends with its response stream (basic/patterns/cancellation).
	ctx, ready := context.WithoutCancel(r.Context()), g.readyLegacy
	if m.Modern {
		p.sess, ctx, ready = nil, r.Context(), g.readyModern
	}
	proceed := ready(r, x, p)
	if s == nil && p.sess != nil {
		defer g.sessions.Unpin(p.sess)
	}
	if proceed {
		g.respond(ctx, x, p)
	}
}

// readyModern completes the exchange of a message of the 2026-07-28 revision. It
// is false if that has been answered.
func (g *Gateway) readyModern(r *http.Request, x *exchange, p *post) bool {
	if name := r.Header.Get(mcp.HeaderNamedSession); name != "" && x.name == nil {
		x.name = wire.AppendString(nil, name)
	}
	if !x.IsRequest() {
		g.noticeNamed(x)
		p.w.WriteHeader(http.StatusAccepted)
		return false
	}
	if bad := x.CheckRequest(r.Header, x.target.Headers); bad != nil {
		writeJSON(p.w, g.malformed(bad))
		return false
	}
	if g.closing() {
		g.ending(p.w, x.Message)
		return false
	}
	x.client = g.shared.peers.clientOf(r, x, g.who)
	if x.Method == mcp.SubscriptionsListen {
		g.listenHTTP(r, x, p.w)
		return false
	}
	return true
}

// readyLegacy is readyModern for a message of a session, which it pins, or the
// initialize that opens one.
func (g *Gateway) readyLegacy(r *http.Request, x *exchange, p *post) bool {
	if x.IsRequest() && g.closing() {
		g.ending(p.w, x.Message)
		return false
	}
	if x.Method == mcp.Initialize && x.IsRequest() {
		p.sess = nil
		if _, bad := g.admit(x); bad != nil {
			writeJSON(p.w, bad)
			return false
		}
		g.openSession(x, p)
		return false
	}
	if p.sess == nil {
		if p.sess = g.sessionOf(p.w, r); p.sess == nil {
			return false
		}
	}
	x.sess = p.sess
	if !x.IsRequest() {
		g.notice(x)
		p.w.WriteHeader(http.StatusAccepted)
		return false
	}
	return true
}

// longCall is how long a call may take to be answered by plain JSON: a longer one is
// answered on a stream that can be resumed.
const longCall = time.Second

// respond serves one request and writes its response.
func (g *Gateway) respond(ctx context.Context, x *exchange, p *post) {
	x.reply = p
	p.method, p.id = x.Method, x.ID
	if p.accept.events {
		x.out = p
		switch {
		case p.sess != nil && x.Method == mcp.ToolsCall && p.sess.Primed():
			p.streamAfter(min(longCall, g.opts.KeepAlive))
		case x.Fields.Meta.ProgressToken != nil:
			p.streamAfter(g.opts.KeepAlive)
		}
	}
	p.finish(g.serve(ctx, x))
	x.isSent()
}

func (g *Gateway) openSession(x *exchange, p *post) {
	m := x.Message
	if bad := g.ourselves(m); bad != nil {
		writeJSON(p.w, bad)
		return
	}
	version := negotiate(m.Params)
	s := g.sessions.New(version)
	s.Addr = x.addr()
	s.Declare(m.Params)
	if !g.sessions.Add(s) {
		g.noRoom(x.refusal())
		g.crowded(p.w, m, tooManySessions)
		return
	}
	defer g.sessions.Unpin(s)
	p.w.Header()[mcp.HeaderSession] = []string{s.Key}
	a := g.initialized(m, version)
	g.count(x, &a)
	if g.opts.Recorder != nil {
		if t, _ := g.record(x); t != nil {
			x.sess = s
			g.recorded(t, x, &a)
		}
	}
	p.finish(a)
}

// sessionOf returns the pinned session of a request, or refuses the request
// and returns nil (2025-11-25 basic/transports, Session Management).
func (g *Gateway) sessionOf(w http.ResponseWriter, r *http.Request) *session.Session {
	version := r.Header.Get(mcp.HeaderVersion)
	if version != "" && !slices.Contains(mcp.Versions, version) {
		m := &message.Message{}
		writeJSON(w, g.malformed(m.Unsupported(version)))
		return nil
	}
	id := r.Header.Get(mcp.HeaderSession)
	if id == "" {
		g.noSession(w)
		return nil
	}
	s, full := g.sessions.Pin(id), false
	if s == nil && !g.closing() {
		s, full = g.sessions.Restore(id, g.renewTasks)
	}
	if s != nil && s.Admission != nil { // of /sse, where everything goes out on one stream
		g.sessions.Unpin(s)
		s = nil
	}
	switch {
	case s != nil:
		return s
	case full:
		g.noRoom(refusalOf(r.Context()))
		g.crowded(w, &message.Message{}, tooManySessions)
	case g.closing(): // it may be known to the next everline
		g.ending(w, &message.Message{})
	default:
		g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "Session not found: send initialize again")
	}
	return nil
}

// ending turns a request away while everline shuts down: it was not executed, and
// may be sent to the next one.
func (g *Gateway) ending(w http.ResponseWriter, m *message.Message) {
	f := *errClosing
	f.Outcome, f.RetryAfter = fault.NotSent, soon
	a := m.Refusal(mcp.CodeShuttingDown, "everline is shutting down", message.Outcome(&f))
	a.RetryAfter = soon
	w.Header()["Connection"] = closes // the next one may listen at the same address
	writeJSON(w, a)
}

func (g *Gateway) noSession(w http.ResponseWriter) {
	g.reject(w, http.StatusBadRequest, mcp.CodeInvalidRequest, "Bad request: the "+mcp.HeaderSession+" header is missing; send initialize first")
}

func (g *Gateway) serveDelete(w http.ResponseWriter, r *http.Request) {
	if name := r.Header.Get(mcp.HeaderNamedSession); name != "" {
		g.endNamed(name)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s := g.sessionOf(w, r)
	if s == nil {
		return
	}
	defer g.sessions.Unpin(s)
	g.sessions.Conclude(s)
	w.WriteHeader(http.StatusNoContent)
}

// serveGet is the standing stream of a legacy session. A newer one takes over
// from an older, which may be of a connection that died unseen.
func (g *Gateway) serveGet(w http.ResponseWriter, r *http.Request) {
	if !g.mayStream(w, r) {
		return
	}
	s := g.sessionOf(w, r)
	if s == nil {
		return
	}
	defer g.sessions.Unpin(s)
	if last := r.Header.Get(mcp.HeaderLastEventID); stream.Resumes(last) && g.comeBack(w, r, s, last) {
		return
	}
	ctx, end := g.whileGood(r.Context())
	defer end()
	out := s.Out()
	if g.closing() {
		g.ending(w, &message.Message{})
		return
	}
	standing := s.Standing.Attach()
	if standing == nil {
		g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "Session not found: send initialize again")
		return
	}
	defer standing.Detach()
	g.opts.Meter.Gets.Add(1)
	defer g.opts.Meter.Gets.Add(-1)
	events := g.events(w)
	defer events.Close()
	if events.OpenStanding() != nil || standing.Replay(events, r.Header.Get(mcp.HeaderLastEventID)) != nil {
		return
	}
	// Whatever ends it, the session lives on.
	_ = stream.NewWriter(stream.Options{
		Sink: standing.Sink(events), Outbox: out, Lists: g.lists, KeepAlive: g.opts.KeepAlive,
		Announced: s.Announced(), Save: s.SetAnnounced, Turn: standing.Turn, Over: standing.Over(), Stop: g.stop,
	}).Run(ctx)
}

func (g *Gateway) events(w http.ResponseWriter) *stream.Events {
	return stream.NewEvents(w, g.opts.WriteTimeout)
}

// comeBack serves a client that lost the response to a POST; false if nothing is
// known of that.
func (g *Gateway) comeBack(w http.ResponseWriter, r *http.Request, s *session.Session, lastID string) bool {
	response, last := s.Responses.Find(lastID)
	if response == nil {
		return g.answerLost(w, lastID)
	}
	if response.Abandoned() {
		w.WriteHeader(http.StatusNoContent) // which tells an EventSource not to come back again
		return true
	}
	events := g.events(w)
	defer events.Close()
	if events.Open() == nil {
		response.Follow(r.Context(), events, last, g.opts.KeepAlive)
	}
	return true
}

// errNotKept is why the rest of a response cannot be had.
var errNotKept = &fault.Fault{Kind: fault.Broken, Op: mcp.ToolsCall, Outcome: fault.Unknown, Err: errors.New("everline was restarted, or no longer keeps what the server said")}

// answerLost ends the wait of a client that has come back for a response which
// is not kept, because everline was restarted or it took too long to come.
func (g *Gateway) answerLost(w http.ResponseWriter, lastID string) bool {
	m := &message.Message{}
	var ok bool
	if m.Method, m.ID, ok = stream.Request(lastID); !ok {
		return false
	}
	events := g.events(w)
	defer events.Close()
	if events.Open() == nil {
		a := m.Failure(errNotKept)
		_ = events.Write([][]byte{a.Frame()}) // a client that is gone hears nothing
	}
	return true
}

// mayStream refuses a GET that would open a stream and does not ask for one, as
// that of an image or of a link does. Who names text/event-stream asks, and so
// does who has no preference at all: many tools send "*/*" alone, or nothing.
func (g *Gateway) mayStream(w http.ResponseWriter, r *http.Request) bool {
	values := r.Header["Accept"]
	plain := !slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) != "*/*" })
	if plain || namesEvents(values) {
		return true
	}
	g.reject(w, http.StatusNotAcceptable, mcp.CodeInvalidRequest, "Not acceptable: accept text/event-stream")
	return false
}
