package http

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// seen is one request as a scripted server saw it.
type seen struct {
	verb   string
	header http.Header
	body   []byte
	method string // JSON-RPC
	id     string // raw
}

func (s *seen) session() string { return s.header.Get(mcp.HeaderSession) }

// scripted is a server whose answers a test scripts, and what it saw.
type scripted struct {
	mu   sync.Mutex
	seen []seen
	play func(w http.ResponseWriter, r *http.Request, s seen)
}

func (h *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s := seen{verb: r.Method, header: r.Header.Clone(), body: body, id: string(wire.Get(body, "id"))}
	s.method, _ = wire.Text(wire.Get(body, "method"))
	h.mu.Lock()
	h.seen = append(h.seen, s)
	h.mu.Unlock()
	h.play(w, r, s)
}

// count is the number of requests of a verb and, where it is not "", a JSON-RPC method.
func (h *scripted) count(verb, method string) int { return len(h.all(verb, method)) }

func (h *scripted) all(verb, method string) (found []seen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.seen {
		if s.verb == verb && (method == "" || s.method == method) {
			found = append(found, s)
		}
	}
	return found
}

func serve(t *testing.T, play func(http.ResponseWriter, *http.Request, seen)) (*scripted, *httptest.Server) {
	t.Helper()
	h := &scripted{play: play}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return h, srv
}

// inbox keeps what came in.
type inbox struct {
	mu  sync.Mutex
	got []transport.Inbound
	ch  chan transport.Inbound
}

func newInbox() *inbox { return &inbox{ch: make(chan transport.Inbound, 1000)} }

func (b *inbox) add(message transport.Inbound) {
	b.mu.Lock()
	b.got = append(b.got, message)
	b.mu.Unlock()
	b.ch <- message
}

func (b *inbox) methods() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, message := range b.got {
		names = append(names, fmt.Sprintf("%s/%d", message.Msg.Method, message.CallID))
	}
	return names
}

func dial(t *testing.T, spec Spec, opts transport.Options) transport.Conn {
	t.Helper()
	if opts.Inbound == nil {
		opts.Inbound = func(transport.Inbound) {}
	}
	c, err := Open(t.Context(), spec, opts)
	if err != nil {
		t.Fatalf("OpenHTTP: %v", err)
	}
	t.Cleanup(func() { closeConn(t, c) })
	return c
}

func closeConn(t *testing.T, c transport.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func newRequest(id int64, method, params string) *transport.Request {
	return &transport.Request{ID: id, Method: method, Frame: wire.AppendRequest(nil, id, method, []byte(params))}
}

// call calls with a deadline that no test should reach.
func call(t *testing.T, c transport.Conn, id int64, method string) (wire.Message, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return c.Call(ctx, newRequest(id, method, `{}`))
}

func mustCall(t *testing.T, c transport.Conn, id int64, method string) wire.Message {
	t.Helper()
	msg, err := call(t, c, id, method)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	if !msg.IsResponse() {
		t.Fatalf("%s: the answer is no response: %+v", method, msg)
	}
	return msg
}

// wantFault checks a fault's kind and outcome.
func wantFault(t *testing.T, err error, kind fault.Kind, out fault.Outcome) *fault.Fault {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v", kind)
	}
	f := fault.From("", err)
	if f.Kind != kind || f.Outcome != out {
		t.Fatalf("got %v (%v), want %v (%v): %v", f.Kind, f.Outcome, kind, out, err)
	}
	return f
}

// answerJSON answers a request with an empty result.
func answerJSON(w http.ResponseWriter, s seen) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id)
}

func startEvents(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
}

func write(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	w.(http.Flusher).Flush()
}

// httpSession1 answers initialize with a session and everything else by next.
func handshake(w http.ResponseWriter, s seen, session string) bool {
	switch {
	case s.verb == http.MethodPost && s.method == "initialize":
		w.Header().Set(mcp.HeaderSession, session)
		answerJSON(w, s)
	case s.verb == http.MethodPost && s.id == "":
		w.WriteHeader(http.StatusAccepted)
	case s.verb == http.MethodDelete:
		w.WriteHeader(http.StatusOK)
	default:
		return false
	}
	return true
}

// initialize shakes hands the legacy way.
func initialize(t *testing.T, c transport.Conn) {
	t.Helper()
	mustCall(t, c, 1, "initialize")
	if err := c.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		t.Fatalf("initialized: %v", err)
	}
	c.Agree("2025-11-25", false)
}

func await(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
}

// pipeNet is a network in memory, for synctest bubbles.
type pipeNet struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipeNet() *pipeNet { return &pipeNet{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeNet) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipeNet) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (p *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs a scripted server inside a synctest bubble. The returned
// function ends it, and must run before the bubble does.
func bubble(play func(http.ResponseWriter, *http.Request, seen)) (*scripted, Spec, func()) {
	h := &scripted{play: play}
	network := newPipeNet()
	srv := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(network) }() // ended by the returned function
	tr := &http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: 16}
	spec := Spec{URL: "http://server/mcp", Client: &http.Client{Transport: tr}}
	return h, spec, func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
		<-served
	}
}

func eventOf(id, message string) string {
	var b strings.Builder
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: message\ndata: " + message + "\n\n")
	return b.String()
}
