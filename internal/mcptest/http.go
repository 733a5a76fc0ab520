package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/everline/everline/internal/mcp"
)

// T is what this package needs of a *testing.T.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// A Site is a Server on a loopback port.
type Site struct {
	URL string // "http://127.0.0.1:port"; "/mcp" is Streamable HTTP, "/sse" is HTTP+SSE

	s    *Server
	http *http.Server
}

// Close ends the server and every connection to it. It is idempotent.
func (w *Site) Close() {
	w.s.Close()
	_ = w.http.Close()
}

// Web serves s on loopback until the test ends.
func Web(t T, s *Server) *Site {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("mcptest: %v", err)
	}
	site := &Site{
		URL: "http://" + listener.Addr().String(), s: s,
		http: &http.Server{Handler: s.Handler(), ErrorLog: log.New(io.Discard, "", 0)},
	}
	ended := make(chan struct{})
	go func() { // ends with site.Close, which the cleanup waits for
		defer close(ended)
		_ = site.http.Serve(listener)
	}()
	t.Cleanup(func() {
		site.Close()
		<-ended
	})
	return site
}

// Handler serves "/mcp" and "/sse".
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mcp", s.post)
	mux.HandleFunc("GET /mcp", s.get)
	mux.HandleFunc("DELETE /mcp", s.deleteSession)
	mux.HandleFunc("GET /sse", s.sse)
	mux.HandleFunc("POST /messages", s.sseMessage)
	return mux
}

// exchange is one HTTP answer, JSON until something is sent ahead of it.
type exchange struct {
	w  http.ResponseWriter
	mu sync.Mutex // guards open, and keeps events whole
	// open tells that the answer is an event stream.
	open bool
}

// event writes one event by hand, and not by internal/mcp: a peer that shared the
// framing would not notice what is wrong with it.
func (x *exchange) event(raw string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.open {
		x.open = true
		x.w.Header().Set("Content-Type", mcp.TypeEvents)
		x.w.WriteHeader(http.StatusOK)
	}
	fmt.Fprintf(x.w, "event: message\ndata: %s\n\n", raw)
	_ = http.NewResponseController(x.w).Flush()
}

func (x *exchange) streaming() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.open
}

func (s *Server) post(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var e envelope
	if err != nil || json.Unmarshal(body, &e) != nil {
		http.Error(w, "bad JSON", http.StatusBadRequest)
		return
	}
	session := req.Header.Get(mcp.HeaderSession)
	if session != "" && !s.alive(session) {
		s.count("gone")
		s.mu.Lock()
		gone := s.gone
		s.mu.Unlock()
		(&exchange{w: w}).reply(req.Context(), s, e.ID, gone)
		return
	}
	switch {
	case e.Method == "":
		s.noteAnswer(body)
		w.WriteHeader(http.StatusAccepted)
	case len(e.ID) == 0:
		s.noteNotification(&e)
		w.WriteHeader(http.StatusAccepted)
	default:
		s.postRequest(w, req, &e, session)
	}
}

func (s *Server) postRequest(w http.ResponseWriter, req *http.Request, e *envelope, session string) {
	x := &exchange{w: w}
	r := &Request{ID: e.ID, Method: e.Method, Params: e.Params, Session: session, Header: req.Header.Clone(), send: x.event}
	ctx := req.Context()
	defer func() {
		if ctx.Err() != nil {
			s.mu.Lock()
			s.closings++
			s.changedLocked()
			s.mu.Unlock()
		}
	}()
	if rep, bad := s.refuse(r, session); bad {
		if scripted, ok := s.scripted(r); ok {
			rep = scripted
		}
		x.reply(ctx, s, e.ID, rep)
		return
	}
	if _, modern := modernCall(r.Params); modern && e.Method == mcp.SubscriptionsListen && s.cfg.Era != Legacy {
		if rep, ok := s.scripted(r); ok {
			s.pause(ctx, rep.Delay)
			x.reply(ctx, s, e.ID, rep)
			return
		}
		l, ack := openListen(r)
		s.listen(l)
		x.event(ack)
		s.stream(ctx, x, l)
		if ctx.Err() == nil && l.endedGracefully(s) {
			x.event(`{"jsonrpc":"2.0","id":` + l.id + `,"result":{"resultType":"complete"}}`)
		}
		return
	}
	rep := s.handle(ctx, r)
	if e.Method == mcp.Initialize && rep.Result != "" && !s.cfg.Stateless {
		w.Header().Set(mcp.HeaderSession, s.mint())
	}
	x.reply(ctx, s, e.ID, rep)
}

// refuse makes the answers of the HTTP layer: no session, wrong headers.
func (s *Server) refuse(r *Request, session string) (Reply, bool) {
	version, modern := modernCall(r.Params)
	if modern && s.cfg.Era != Legacy {
		if r.Header.Get(mcp.HeaderMethod) != r.Method || r.Header.Get(mcp.HeaderVersion) != version {
			rep := rpcError(mcp.CodeHeaderMismatch, "Header mismatch")
			rep.Status = 400
			return rep, true
		}
		return Reply{}, false
	}
	if s.cfg.Era == Modern || s.cfg.Stateless || r.Method == mcp.Initialize || session != "" {
		return Reply{}, false
	}
	return Reply{Status: 400, Body: `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`}, true
}

// reply renders one reply as the rest of the exchange.
func (x *exchange) reply(ctx context.Context, s *Server, id json.RawMessage, rep Reply) {
	for _, raw := range rep.Before {
		x.event(raw)
	}
	switch {
	case rep.Hang:
		if rep.SSE {
			x.event(`{"jsonrpc":"2.0","method":"notifications/stalled"}`)
		}
		select {
		case <-ctx.Done():
		case <-s.done:
		}
		return
	case rep.Cut || rep.Exit:
		panic(http.ErrAbortHandler)
	case x.streaming() || rep.SSE:
		x.event(rep.encode(id))
		return
	}
	body := rep.Body
	if rep.Raw != "" || rep.Result != "" || rep.Error != "" {
		body = rep.encode(id)
	}
	h := x.w.Header()
	if bytes.HasPrefix([]byte(body), []byte("{")) {
		h.Set("Content-Type", mcp.TypeJSON)
	}
	for k, v := range rep.Header {
		h.Set(k, v)
	}
	if rep.Status != 0 {
		x.w.WriteHeader(rep.Status)
	}
	_, _ = io.WriteString(x.w, body)
}

func (s *Server) alive(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[session]
}

func (s *Server) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
	s.changedLocked()
}

func (s *Server) mint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minted++
	id := s.cfg.Name + "-session-" + strconv.Itoa(s.minted)
	s.sessions[id] = true
	s.changedLocked()
	return id
}

// get serves the standing stream of the legacy era. It counts as "GET", and
// Next("GET", …) scripts it.
func (s *Server) get(w http.ResponseWriter, req *http.Request) {
	session := req.Header.Get(mcp.HeaderSession)
	r := &Request{Method: "GET", Session: session, Header: req.Header.Clone()}
	rep, ok := s.scripted(r)
	x := &exchange{w: w}
	switch {
	case ok:
		x.reply(req.Context(), s, nil, rep)
		return
	case s.cfg.Era == Modern || s.cfg.Stateless:
		http.Error(w, "no stream here", http.StatusMethodNotAllowed)
		return
	}
	l := newListener(session, "")
	if !s.listenIn(l) {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", mcp.TypeEvents)
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	x.open = true
	s.stream(req.Context(), x, l)
}

// stream forwards a listener, which listen has registered, onto an exchange
// until one of them ends.
func (s *Server) stream(ctx context.Context, x *exchange, l *listener) {
	defer s.unlisten(l)
	for {
		select {
		case raw := <-l.out:
			x.event(raw)
		case <-l.stop:
			return
		case <-s.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (l *listener) endedGracefully(s *Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.stopped && l.graceful
}

func (s *Server) deleteSession(w http.ResponseWriter, req *http.Request) {
	rep, ok := s.scripted(&Request{Method: "DELETE", Session: req.Header.Get(mcp.HeaderSession), Header: req.Header.Clone()})
	if ok {
		(&exchange{w: w}).reply(req.Context(), s, nil, rep)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := req.Header.Get(mcp.HeaderSession)
	if !s.sessions[id] {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	delete(s.sessions, id)
	for l := range s.listeners {
		if l.session == id {
			l.end()
		}
	}
	s.changedLocked()
}

// sse serves HTTP+SSE: the stream that carries every answer.
func (s *Server) sse(w http.ResponseWriter, req *http.Request) {
	if rep, ok := s.scripted(&Request{Method: "GET", Header: req.Header.Clone()}); ok {
		(&exchange{w: w}).reply(req.Context(), s, nil, rep)
		return
	}
	l := newListener(s.mint(), "")
	ctx, cancel := context.WithCancel(req.Context())
	l.ctx = ctx
	s.listen(l) // before the client can know where to post to
	w.Header().Set("Content-Type", mcp.TypeEvents)
	w.WriteHeader(http.StatusOK)
	fmt.Fprintf(w, "event: endpoint\ndata: /messages?sid=%s\n\n", l.session)
	_ = http.NewResponseController(w).Flush()
	s.stream(ctx, &exchange{w: w, open: true}, l)
	cancel()
	l.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, l.session)
	s.changedLocked()
}

// sseMessage takes one message of an HTTP+SSE client; the answer goes onto its stream.
func (s *Server) sseMessage(w http.ResponseWriter, req *http.Request) {
	l := s.listenerOf(req.URL.Query().Get("sid"))
	body, err := io.ReadAll(req.Body)
	var e envelope
	if l == nil || err != nil || json.Unmarshal(body, &e) != nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	switch {
	case e.Method == "":
		s.noteAnswer(body)
	case len(e.ID) == 0:
		s.noteNotification(&e)
	default:
		s.sseRequest(l, w, req, &e)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) sseRequest(l *listener, w http.ResponseWriter, req *http.Request, e *envelope) {
	send := func(raw string) {
		select {
		case l.out <- raw:
		case <-l.ctx.Done():
		}
	}
	r := &Request{ID: e.ID, Method: e.Method, Params: e.Params, Session: l.session, Header: req.Header.Clone(), send: send}
	s.mu.Lock() // sse waits for the work once it has taken l away
	defer s.mu.Unlock()
	if !s.listeners[l] {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	l.work.Go(func() { // ends with the stream's context or with Close; sse waits for it
		rep := s.handle(l.ctx, r)
		switch {
		case rep.Hang:
		case rep.Cut || rep.Exit:
			s.mu.Lock()
			l.end()
			s.mu.Unlock()
		default:
			for _, raw := range rep.Before {
				send(raw)
			}
			send(rep.encode(e.ID))
		}
	})
}

func (s *Server) listenerOf(session string) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		if session != "" && l.session == session {
			return l
		}
	}
	return nil
}
