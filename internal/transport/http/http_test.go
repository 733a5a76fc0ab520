package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// A1: every form of "404, session unknown" ends the link; the request was not
// executed, and the dead id is never sent again.
func TestFaultA1SessionLostIn404Forms(t *testing.T) {
	for name, form := range map[string][2]string{
		"plain text":         {"text/plain", "session not found"},
		"rpc with null id":   {"application/json", rpcAnswer("null", -32001)},
		"rpc with string id": {"application/json", rpcAnswer(`"server-error"`, -32600)},
		"empty":              {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var restarted atomic.Bool
			h, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
				switch {
				case restarted.Load() && s.session() == "S1":
					w.Header().Set("Content-Type", form[0])
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, form[1])
				case handshake(w, s, "S1"):
				case s.verb == http.MethodGet:
					w.WriteHeader(http.StatusMethodNotAllowed)
				default:
					answerJSON(w, s)
				}
			})
			c := dial(t, Spec{URL: srv.URL}, transport.Options{})
			initialize(t, c)
			mustCall(t, c, 2, "tools/call")
			restarted.Store(true)
			_, err := call(t, c, 3, "tools/call")
			wantFault(t, err, fault.SessionLost, fault.NotSent)
			await(t, c.Done(), "the end of the link")
			wantFault(t, c.Err(), fault.SessionLost, fault.NotSent)
			before := h.count(http.MethodPost, "")
			_, err = call(t, c, 4, "tools/call")
			wantFault(t, err, fault.SessionLost, fault.NotSent)
			closeConn(t, c)
			if n := h.count(http.MethodPost, ""); n != before || h.count(http.MethodDelete, "") != 0 {
				t.Errorf("the dead session was used again: %d POSTs, %d DELETEs", n-before, h.count(http.MethodDelete, ""))
			}
		})
	}
}

// A1, variant: the listener is closed for a while. Nothing can have been sent.
func TestFaultA1RefusedConnectionIsNotSent(t *testing.T) {
	_, srv := serve(t, nil)
	url := srv.URL
	srv.Close()
	c := dial(t, Spec{URL: url}, transport.Options{})
	_, err := call(t, c, 1, "tools/call")
	wantFault(t, err, fault.Dial, fault.NotSent)
	select {
	case <-c.Done():
		t.Error("a refused connection ended the link")
	default:
	}
}

// A2: what the server says to the DELETE does not matter.
func TestFaultA2NotFoundOnDeleteIsFine(t *testing.T) {
	h, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		if s.verb == http.MethodDelete || !handshake(w, s, "S1") {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	initialize(t, c)
	closeConn(t, c)
	deletes := h.all(http.MethodDelete, "")
	if len(deletes) != 1 || deletes[0].session() != "S1" || deletes[0].header.Get(mcp.HeaderVersion) != "2025-11-25" {
		t.Errorf("DELETEs: %+v", deletes)
	}
	if c.Err() != nil {
		t.Errorf("Err after Close: %v", c.Err())
	}
	_, err := call(t, c, 9, "tools/call")
	wantFault(t, err, fault.Closed, fault.NotSent)
}

// A4: an unattributable 400 on a session is a suspicion, and the link lives
// on; the control case is the server's own answer.
func TestFaultA4BadRequestIsSuspicion(t *testing.T) {
	_, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		if handshake(w, s, "S1") {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		if s.method == "tools/list" {
			_, _ = io.WriteString(w, rpcAnswer(s.id, -32602))
			return
		}
		_, _ = io.WriteString(w, rpcAnswer("null", -32000))
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	initialize(t, c)
	_, err := call(t, c, 2, "tools/call")
	wantFault(t, err, fault.SessionSuspect, fault.Unknown)
	msg := mustCall(t, c, 3, "tools/list")
	if code, _ := wire.DecodeError(msg.Error); code != -32602 {
		t.Errorf("control case: %s", msg.Error)
	}
	if c.Err() != nil {
		t.Errorf("the link ended: %v", c.Err())
	}
}

// A5: 401 without a challenge is no login matter on a session.
func TestFaultA5UnauthorizedWithoutChallenge(t *testing.T) {
	var challenge atomic.Bool
	_, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		if handshake(w, s, "S1") {
			return
		}
		if challenge.Load() {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, "session not found", http.StatusUnauthorized)
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	initialize(t, c)
	_, err := call(t, c, 2, "tools/call")
	wantFault(t, err, fault.SessionSuspect, fault.Unknown)
	challenge.Store(true)
	_, err = call(t, c, 3, "tools/call")
	wantFault(t, err, fault.Unauthorized, fault.NotSent)
	var ch *Challenge
	if !errors.As(err, &ch) || !slices.Equal(ch.Fields, []string{"Bearer"}) {
		t.Errorf("the challenge is not in %v", err)
	}
}

// A6: a handshake carries neither a session nor a version, and what follows
// carries both.
func TestFaultA6InitializeGoesBare(t *testing.T) {
	var n atomic.Int32
	h, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		if s.session() != "" && s.method == "initialize" {
			w.WriteHeader(http.StatusNotFound)
		} else if !handshake(w, s, fmt.Sprintf("S%d", n.Add(1))) {
			answerJSON(w, s)
		}
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	mustCall(t, c, 1, "initialize")
	mustCall(t, c, 2, "initialize") // a second try, say with an older version
	c.Agree("2025-06-18", false)
	mustCall(t, c, 3, "tools/call")
	for _, s := range h.all(http.MethodPost, "initialize") {
		if s.session() != "" || s.header.Get(mcp.HeaderVersion) != "" {
			t.Errorf("initialize carries %q, %q", s.session(), s.header.Get(mcp.HeaderVersion))
		}
	}
	call := h.all(http.MethodPost, "tools/call")[0]
	if !strings.HasPrefix(call.session(), "S") || call.header.Get(mcp.HeaderVersion) != "2025-06-18" {
		t.Errorf("the call carries %q, %q", call.session(), call.header.Get(mcp.HeaderVersion))
	}
	if call.header.Get("Accept") != "application/json, text/event-stream" || call.header.Get("Content-Type") != "application/json" {
		t.Errorf("Accept %q, Content-Type %q", call.header.Get("Accept"), call.header.Get("Content-Type"))
	}
}

// A session whose id came, and whose answer did not, is ended all the same.
func TestFaultA6SessionOfACutAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"no event":    "",
		"cut":         "data: {\"jsonrpc\":\"2.0\",\"id\":1,",
		"no message":  "data: hello\n\n",
		"an error":    "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"no\"}}\n\n",
		"over limits": "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"" + strings.Repeat("x", 5000) + "\"}}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			h, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
				if s.verb == http.MethodPost {
					w.Header().Set(mcp.HeaderSession, "S1")
					startEvents(w)
					write(w, body)
				}
			})
			c := dial(t, Spec{URL: srv.URL}, transport.Options{MaxMessage: 4000})
			_, _ = call(t, c, 1, "initialize")
			closeConn(t, c)
			if gone := h.all(http.MethodDelete, ""); len(gone) != 1 || gone[0].session() != "S1" {
				t.Errorf("ended: %+v", gone)
			}
		})
	}
}

// A8: cookies stick to one generation.
func TestFaultA8CookiesPerLife(t *testing.T) {
	_, srv := serve(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		cookie, err := r.Cookie("lb")
		switch {
		case s.method == "initialize":
			if err == nil {
				t.Errorf("a new generation brings the cookie %v", cookie)
			}
			http.SetCookie(w, &http.Cookie{Name: "lb", Value: "a", Path: "/"})
			handshake(w, s, "S1")
		case err != nil || cookie.Value != "a":
			w.WriteHeader(http.StatusNotFound)
		default:
			answerJSON(w, s)
		}
	})
	for range 2 {
		c := dial(t, Spec{URL: srv.URL}, transport.Options{})
		mustCall(t, c, 1, "initialize")
		mustCall(t, c, 2, "tools/call")
		mustCall(t, c, 3, "tools/call")
	}
}

// B5: a call returns with its answer although the server leaves the stream
// open, and nothing of it stays behind.
func TestFaultB5StreamLeftOpen(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			var opened atomic.Int32
			ended := make(chan struct{}, 100)
			h := &scripted{play: func(w http.ResponseWriter, r *http.Request, s seen) {
				if handshake(w, s, "S1") {
					return
				}
				opened.Add(1)
				defer func() { ended <- struct{}{} }()
				startEvents(w)
				if s.verb == http.MethodPost {
					write(w, eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id)))
				}
				<-r.Context().Done()
			}}
			srv := httptest.NewUnstartedServer(h)
			srv.EnableHTTP2 = h2
			srv.StartTLS()
			defer srv.Close()
			c := dial(t, Spec{URL: srv.URL, Client: srv.Client()}, transport.Options{})
			initialize(t, c)
			for id := range int64(6) {
				mustCall(t, c, id+2, "tools/call")
			}
			began := time.Now()
			closeConn(t, c)
			if took := time.Since(began); took > time.Second {
				t.Errorf("Close took %v", took)
			}
			for range opened.Load() {
				await(t, ended, "the end of every stream")
			}
		})
	}
}

// B6: a standing GET whose head never comes holds nothing up.
func TestFaultB6SilentGetGatesNothing(t *testing.T) {
	got := make(chan struct{})
	_, srv := serve(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		switch {
		case s.verb == http.MethodGet:
			close(got)
			<-r.Context().Done()
		case !handshake(w, s, "S1"):
			answerJSON(w, s)
		}
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	initialize(t, c)
	await(t, got, "the GET")
	mustCall(t, c, 2, "tools/list")
	began := time.Now()
	closeConn(t, c)
	if took := time.Since(began); took > time.Second {
		t.Errorf("Close took %v", took)
	}
}

// B7: events arrive whole however the stream was cut into pieces, and what
// comes before the answer is handed on before it, in order.
func TestFaultB7EventsSplitAnywhere(t *testing.T) {
	_, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		all := ": hello\r\n\r\n" + eventOf("1", `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`) +
			eventOf("2", `{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage"}`) +
			eventOf("3", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"a":1}}`, s.id))
		startEvents(w)
		for i, size := 0, 1; i < len(all); i, size = i+size, size%7+1 {
			write(w, all[i:min(i+size, len(all))])
		}
	})
	box := newInbox()
	c := dial(t, Spec{URL: srv.URL}, transport.Options{Inbound: box.add})
	msg := mustCall(t, c, 5, "tools/call")
	if string(msg.Result) != `{"a":1}` {
		t.Errorf("result %s", msg.Result)
	}
	if got, want := box.methods(), []string{"notifications/progress/5", "sampling/createMessage/5"}; !slices.Equal(got, want) {
		t.Errorf("handed on %v, want %v", got, want)
	}
}

// C6: 429 pauses, and changes nothing else.
func TestFaultC6RateLimitKeepsTheSession(t *testing.T) {
	var limited atomic.Bool
	limited.Store(true)
	_, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		switch {
		case handshake(w, s, "S1"):
		case limited.Load() && s.verb == http.MethodPost:
			w.Header().Set("Retry-After", "15")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			answerJSON(w, s)
		}
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	initialize(t, c)
	_, err := call(t, c, 2, "tools/list")
	if f := wantFault(t, err, fault.RateLimited, fault.NotSent); f.RetryAfter != 15*time.Second {
		t.Errorf("retry after %v", f.RetryAfter)
	}
	limited.Store(false)
	mustCall(t, c, 3, "tools/list")
}

// C7: one transient failure is the failure of one call.
func TestFaultC7TransientErrorPoisonsNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(w http.ResponseWriter, r *http.Request)
		kind fault.Kind
	}{
		"503":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, fault.SessionSuspect},
		"502":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, fault.HTTPStatus},
		"504":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) }, fault.HTTPStatus},
		"reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fault.Broken},
		"html":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, fault.Protocol},
		"202":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, fault.Protocol},
	} {
		t.Run(name, func(t *testing.T) {
			h, srv := serve(t, func(w http.ResponseWriter, r *http.Request, s seen) {
				switch {
				case handshake(w, s, "S1"):
				case s.id == "3":
					tt.fail(w, r)
				default:
					answerJSON(w, s)
				}
			})
			c := dial(t, Spec{URL: srv.URL}, transport.Options{})
			initialize(t, c)
			mustCall(t, c, 2, "tools/call")
			_, err := call(t, c, 3, "tools/call")
			wantFault(t, err, tt.kind, fault.Unknown)
			mustCall(t, c, 4, "tools/call")
			if n := h.count(http.MethodPost, "tools/call"); n != 3 {
				t.Errorf("the server saw %d calls, want 3", n)
			}
		})
	}
}

// J1: a call whose connection broke is sent once, whatever net/http might do.
func TestFaultJ1BrokenConnectionIsSentOnce(t *testing.T) {
	h, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		if s.id != "1" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset
			_ = conn.Close()
			return
		}
		answerJSON(w, s)
	})
	c := dial(t, Spec{URL: srv.URL, Headers: map[string]string{"Idempotency-Key": "k"}}, transport.Options{})
	mustCall(t, c, 1, "tools/call") // so that the next one uses a pooled connection
	_, err := call(t, c, 2, "tools/call")
	wantFault(t, err, fault.Broken, fault.Unknown)
	if n := h.count(http.MethodPost, ""); n != 2 {
		t.Errorf("the server saw %d requests, want 2", n)
	}
}

// J3: the end of the context frees the caller, and the server sees the
// stream closed.
func TestFaultJ3ContextEndClosesTheStream(t *testing.T) {
	inside, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	_, srv := serve(t, func(w http.ResponseWriter, r *http.Request, _ seen) {
		startEvents(w)
		inside <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	c.Agree("2026-07-28", true)
	if !c.Info().CancelByClose {
		t.Error("a modern link must cancel by closing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-inside; cancel() }() // ends with the request
	_, err := c.Call(ctx, newRequest(1, "tools/call", `{}`))
	wantFault(t, err, fault.Canceled, fault.Unknown)
	await(t, gone, "the server's notice")
	_, err = c.Call(ctx, newRequest(2, "tools/call", `{}`))
	wantFault(t, err, fault.Canceled, fault.NotSent)
}

// P2: a pooled connection that died is not the failure of the next call, as
// long as nothing of the call was written to it.
func TestFaultP2DeadPooledConnection(t *testing.T) {
	h, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) { answerJSON(w, s) })
	var mu sync.Mutex
	var conns []*deadConn
	dialer := &net.Dialer{}
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		d := &deadConn{Conn: conn}
		mu.Lock()
		conns = append(conns, d)
		mu.Unlock()
		return d, nil
	}}
	defer tr.CloseIdleConnections()
	c := dial(t, Spec{URL: srv.URL, Client: &http.Client{Transport: tr}}, transport.Options{})
	mustCall(t, c, 1, "tools/call")
	mu.Lock()
	conns[0].dead.Store(true)
	mu.Unlock()
	mustCall(t, c, 2, "tools/call")
	if n := h.count(http.MethodPost, ""); n != 2 || len(conns) != 2 {
		t.Errorf("%d requests over %d connections, want 2 over 2", n, len(conns))
	}
}

// deadConn refuses every write once it is dead, as a connection does that the
// peer has reset.
type deadConn struct {
	net.Conn
	dead atomic.Bool
}

func (d *deadConn) Write(p []byte) (int, error) {
	if d.dead.Load() {
		return 0, errors.New("connection reset")
	}
	return d.Conn.Write(p)
}

// F4: large events work in every shape, and an endless one fails its own call
// alone.
func TestFaultF4LargeEvents(t *testing.T) {
	big := strings.Repeat("x", 2<<20)
	_, srv := serve(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		result := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"big":%q}}`, s.id, big)
		switch s.method {
		case "json":
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, result)
		case "one line":
			startEvents(w)
			write(w, "data: "+result+"\n\n")
		case "many lines":
			startEvents(w)
			pretty := strings.Replace(result, `,"result"`, strings.Repeat("\ndata: ", 5000)+`,"result"`, 1)
			write(w, "data: "+pretty+"\n\n")
		case "too long json":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, result+strings.Repeat(" ", 4<<20))
		default:
			startEvents(w)
			for r.Context().Err() == nil {
				write(w, "data: "+big)
			}
		}
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{MaxMessage: 3 << 20})
	for i, method := range []string{"json", "one line", "many lines"} {
		msg := mustCall(t, c, int64(i+1), method)
		if want := len(`{"big":""}`) + len(big); len(msg.Result) != want {
			t.Errorf("%s: the result has %d bytes, want %d", method, len(msg.Result), want)
		}
	}
	for i, method := range []string{"endless", "too long json"} {
		_, err := call(t, c, int64(i+10), method)
		wantFault(t, err, fault.TooLarge, fault.Answered)
	}
	r := newRequest(20, "json", `{"a":"`+big+big+`"}`)
	_, err := c.Call(t.Context(), r)
	wantFault(t, err, fault.TooLarge, fault.NotSent)
	mustCall(t, c, 30, "json")
}

// R5, live: a modern link sends the headers, and neither session, GET nor
// DELETE, whatever the server offers.
func TestFaultR5ModernLinkHasNoSession(t *testing.T) {
	h, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		w.Header().Set(mcp.HeaderSession, "S1")
		answerJSON(w, s)
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	params := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`
	for id, method := range []string{"server/discover", "tools/list"} {
		if _, err := c.Call(t.Context(), newRequest(int64(id+1), method, params)); err != nil {
			t.Fatal(err)
		}
		if id == 0 {
			c.Agree("2026-07-28", true)
		}
	}
	closeConn(t, c)
	for _, s := range h.all(http.MethodPost, "") {
		if s.header.Get(mcp.HeaderVersion) != "2026-07-28" || s.header.Get(mcp.HeaderMethod) != s.method || s.session() != "" {
			t.Errorf("%s went with %v", s.method, s.header)
		}
	}
	if h.count(http.MethodGet, "")+h.count(http.MethodDelete, "") != 0 {
		t.Error("a modern link sent a GET or a DELETE")
	}
}
