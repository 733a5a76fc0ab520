package http

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

var testNow = time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)

func rpcAnswer(id string, code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, id, code)
}

// The table of design section 5 and protocol part 4: what each refusal of
// request 7 means. "answer" is the server's own JSON-RPC error.
func TestClassify(t *testing.T) {
	const bearer = `Bearer resource_metadata="https://x/y"`
	html := map[string]string{"Content-Type": "text/html; charset=utf-8"}
	after := func(v string) map[string]string { return map[string]string{"Retry-After": v} }
	auth := map[string]string{"Www-Authenticate": bearer}
	for _, tt := range []struct {
		status  int
		where   string // "session", "modern" or "" (legacy, no session)
		header  map[string]string
		body    string
		want    string
		seconds int
	}{
		// 404: the many ways of a lost session, and what is none.
		{404, "session", nil, "session not found", "session_lost not_sent", 0},
		{404, "session", nil, "", "session_lost not_sent", 0},
		{404, "session", html, "<html>", "session_lost not_sent", 0},
		{404, "session", nil, rpcAnswer("null", -32001), "session_lost not_sent", 0},
		{404, "session", nil, rpcAnswer(`"server-error"`, -32600), "session_lost not_sent", 0},
		{404, "session", nil, rpcAnswer("7", -32001), "session_lost not_sent", 0},
		{404, "session", nil, rpcAnswer("null", -32601), "session_lost not_sent", 0},
		{404, "session", nil, rpcAnswer("7", -32601), "answer", 0},
		{404, "session", nil, rpcAnswer("7", -32602), "answer", 0},
		{404, "session", nil, rpcAnswer("7", -32002), "answer", 0},
		{404, "session", nil, "[" + rpcAnswer("7", -32601) + "]", "answer", 0},
		{404, "", nil, rpcAnswer("7", -32001), "answer", 0},
		{404, "", nil, "not here", "http_status unknown", 0},
		{404, "modern", nil, rpcAnswer("7", -32601), "answer", 0},
		{404, "modern", nil, rpcAnswer("null", -32601), "answer", 0},
		{404, "modern", html, "<html>", "session_suspect unknown", 0},
		// 400.
		{400, "session", nil, rpcAnswer("null", -32000), "session_suspect unknown", 0},
		{400, "session", nil, "Bad Request: No valid session ID provided", "session_suspect unknown", 0},
		{400, "session", nil, rpcAnswer(`"server-error"`, -32600), "session_suspect unknown", 0},
		{400, "session", nil, rpcAnswer("8", -32600), "session_suspect unknown", 0},
		{400, "session", nil, rpcAnswer("7", -32602), "answer", 0},
		{400, "session", nil, rpcAnswer(`"7"`, -32602), "answer", 0},
		{400, "", nil, rpcAnswer("null", -32000), "http_status unknown", 0},
		{400, "", nil, "", "http_status unknown", 0},
		{400, "modern", nil, rpcAnswer("null", -32020), "answer", 0},
		{400, "modern", nil, `{"jsonrpc":"2.0","error":{"code":-32022,"message":"v"}}`, "answer", 0},
		{400, "modern", nil, rpcAnswer("null", -32021), "answer", 0},
		{400, "modern", nil, rpcAnswer("null", -32601), "session_suspect unknown", 0},
		{400, "modern", nil, rpcAnswer("null", -32000), "session_suspect unknown", 0},
		{400, "modern", nil, rpcAnswer("7", -32602), "answer", 0},
		{400, "", nil, rpcAnswer("null", -32022), "http_status unknown", 0},
		// 401 and 403.
		{401, "session", auth, "", "unauthorized not_sent", 0},
		{401, "", auth, rpcAnswer("7", -32001), "unauthorized not_sent", 0},
		{401, "modern", auth, "", "unauthorized not_sent", 0},
		{401, "session", nil, "session not found", "session_suspect unknown", 0},
		{401, "", nil, "who are you", "http_status not_sent", 0},
		{403, "session", nil, "", "forbidden not_sent", 0},
		{403, "modern", auth, rpcAnswer("7", -32001), "forbidden not_sent", 0},
		{403, "", nil, rpcAnswer("7", -32001), "answer", 0},
		// Slow down.
		{429, "session", after("15"), "", "rate_limited not_sent", 15},
		{429, "session", after("15"), rpcAnswer("7", -32000), "rate_limited not_sent", 15},
		{429, "session", nil, rpcAnswer("7", -32000), "answer", 0},
		{429, "", after("Thu, 05 Nov 2026 12:00:20 GMT"), "", "rate_limited not_sent", 20},
		{429, "", after("Thu, 05 Nov 2026 11:00:00 GMT"), "", "rate_limited not_sent", 0},
		{429, "", after("99999"), "", "rate_limited not_sent", 300},
		{429, "", after("soon"), "", "rate_limited not_sent", 0},
		{429, "", nil, "", "rate_limited not_sent", 0},
		{503, "session", after("2"), "", "rate_limited not_sent", 2},
		{503, "session", after("soon"), "", "session_suspect unknown", 0},
		{503, "session", nil, "", "session_suspect unknown", 0},
		{503, "", nil, "", "http_status unknown", 0},
		{503, "modern", nil, "", "http_status unknown", 0},
		// The rest.
		{410, "session", nil, "", "session_suspect unknown", 0},
		{500, "session", nil, "", "http_status unknown", 0},
		{500, "session", nil, rpcAnswer("7", -32603), "answer", 0},
		{500, "session", nil, rpcAnswer("null", -32603), "http_status unknown", 0},
		{502, "session", html, "<html>", "http_status unknown", 0},
		{504, "modern", nil, "", "http_status unknown", 0},
		{405, "", nil, "", "http_status not_sent", 0},
		{413, "session", nil, "", "too_large not_sent", 0},
		{413, "modern", nil, rpcAnswer("7", -32600), "answer", 0},
		{302, "", map[string]string{"Location": "/login"}, "", "http_status unknown", 0},
		{202, "session", nil, "", "protocol unknown", 0},
		{204, "", nil, "", "protocol unknown", 0},
		{200, "", html, "<html>", "protocol unknown", 0},
		{200, "session", nil, rpcAnswer("null", -32000), "session_suspect unknown", 0},
		{200, "session", nil, rpcAnswer(`"server-error"`, -32600), "session_suspect unknown", 0},
		{200, "", nil, rpcAnswer("null", -32000), "answer", 0},
		{200, "modern", nil, rpcAnswer("null", -32000), "answer", 0},
		{200, "", nil, `{"jsonrpc":"2.0","id":8,"result":{}}`, "protocol unknown", 0},
	} {
		a := reply{
			op: "tools/call", id: 7, status: tt.status, header: http.Header{}, body: []byte(tt.body),
			session: tt.where == "session", modern: tt.where == "modern", now: testNow,
		}
		for k, v := range tt.header {
			a.header.Set(k, v)
		}
		msg, f := a.classify()
		got := "answer"
		if f != nil {
			got = f.Kind.String() + " " + f.Outcome.String()
		} else if msg.Error == nil {
			got = "nothing"
		}
		if got != tt.want {
			t.Errorf("%d %q %v %s:\n got %s, want %s", tt.status, tt.where, tt.header, tt.body, got, tt.want)
		}
		if f != nil && (f.Status != tt.status || f.RetryAfter != time.Duration(tt.seconds)*time.Second) {
			t.Errorf("%d %q %v: status %d, retry after %v", tt.status, tt.where, tt.header, f.Status, f.RetryAfter)
		}
		var challenge *Challenge
		if wantsIt := f != nil && tt.header["Www-Authenticate"] != ""; errors.As(errOf(f), &challenge) != wantsIt {
			t.Errorf("%d %q: challenge kept: %v", tt.status, tt.where, !wantsIt)
		}
	}
}

func errOf(f *fault.Fault) error {
	if f == nil {
		return errors.New("none")
	}
	return f
}

// A notification has no id, so nothing answers it.
func TestClassifyNotification(t *testing.T) {
	a := reply{op: "notify", status: 400, header: http.Header{}, body: []byte(rpcAnswer("0", -32602)), now: testNow}
	if _, f := a.classify(); f == nil || f.Kind != fault.HTTPStatus {
		t.Errorf("got %v", f)
	}
}

func TestClassifyText(t *testing.T) {
	for _, tt := range []struct {
		status           int
		ctype, loc, body string
		want             string
	}{
		{404, "text/plain", "", "session gone\nmore", "HTTP 404 Not Found: session gone"},
		{400, "application/json", "", rpcAnswer("null", -32000), "HTTP 400 Bad Request: no (-32000)"},
		{502, "text/html; charset=x", "", "<html>", "HTTP 502 Bad Gateway, with an HTML page"},
		{200, "text/html", "", "<html>", "HTTP 200 OK with text/html where application/json or text/event-stream is due"},
		{202, "", "", "", "HTTP 202 Accepted without an answer to the request"},
		{302, "", "https://u:p@x/login?next=secret", "", `HTTP 302 Found: redirected to "https://u:xxxxx@x/login"`},
		{599, "", "", "", "HTTP 599"},
	} {
		a := reply{status: tt.status, header: http.Header{}, body: []byte(tt.body), now: testNow}
		a.header.Set("Content-Type", tt.ctype)
		a.header.Set("Location", tt.loc)
		_, f := a.classify()
		if f == nil || f.Reason() != tt.want {
			t.Errorf("got %q, want %q", f.Reason(), tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ input, url, socket string }{
		{"https://h/mcp?x=1#frag", "https://h/mcp?x=1", ""},
		{"unix:///run/s.sock#/mcp?x=1", "http://localhost/mcp?x=1", "/run/s.sock"},
		{"unix:///run/s.sock", "http://localhost/", "/run/s.sock"},
		{"HTTP://h", "http://h", ""},
	} {
		got, f := parseTarget(tt.input)
		if f != nil || got.url.String() != tt.url || got.socket != tt.socket {
			t.Errorf("%s: got %v %q, %v", tt.input, got.url, got.socket, f)
		}
	}
	for _, input := range []string{"", "h/mcp", "ftp://h", "http:///x", "unix://run/s.sock", "http://h\x7f"} {
		if _, f := parseTarget(input); f == nil || f.Kind != fault.Invalid {
			t.Errorf("%q: got %v", input, f)
		}
	}
}

func TestBackoff(t *testing.T) {
	second := time.Second
	for _, tt := range []struct {
		fruitless int
		retry     time.Duration
		r         float64
		want      time.Duration
	}{
		{0, 0, 0, second / 2},
		{0, 0, 0.5, second * 3 / 4},
		{3, 0, 0, 4 * second},
		{90, 0, 0, 15 * second},
		{0, 300 * time.Millisecond, 0.9, 300 * time.Millisecond},
		{1, 300 * time.Millisecond, 0, second / 2},
		{0, time.Millisecond, 0, 100 * time.Millisecond},
		{1, 10 * second, 0, 10 * second},
	} {
		if got := backoff(tt.fruitless, tt.retry, tt.r); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

func TestHeaderRefusesInjection(t *testing.T) {
	for name, value := range map[string]string{"A b": "x", "X": "a\r\nY: b", "": "x"} {
		if _, f := baseHeader(map[string]string{name: value}); f == nil || f.Kind != fault.Invalid {
			t.Errorf("%q: %q: got %v", name, value, f)
		}
	}
	h, _ := baseHeader(map[string]string{"authorization": "Bearer x", "idempotency-key": "1", "mcp-session-id": "s"})
	if len(h) != 2 || h.Get("User-Agent") != "everline" || h.Get("Authorization") != "Bearer x" {
		t.Errorf("got %v", h)
	}
}

// R5: the modern headers come from the message itself.
func TestFaultR5HeadersMirrorTheBody(t *testing.T) {
	frame := wire.AppendRequest(nil, 3, "tools/call",
		[]byte(`{"name":"größe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-10-01"}}`))
	r := &transport.Request{ID: 3, Method: "tools/call", Name: "größe", Frame: frame, Header: [][2]string{{"mcp-param-city", " Köln"}}}
	h, f := modernHeader(postHeader(http.Header{"X-A": {"1"}}), r, "2026-07-28")
	if f != nil {
		t.Fatal(f)
	}
	for name, want := range map[string]string{
		mcp.HeaderVersion: "2026-10-01", mcp.HeaderMethod: "tools/call", mcp.HeaderName: "=?base64?Z3LDtsOfZQ==?=",
		"Mcp-Param-City": "=?base64?IEvDtmxu?=", "X-A": "1", "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", mcp.HeaderSession: "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	r.Header = [][2]string{{"bad name", "x"}}
	if _, f = modernHeader(http.Header{}, r, ""); f == nil || f.Kind != fault.Invalid || f.Outcome != fault.NotSent {
		t.Errorf("a bad field name: %v", f)
	}
}
