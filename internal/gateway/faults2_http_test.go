package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/mcp"
)

func TestFaultS16PathsThatPeopleType(t *testing.T) {
	s := serve(t, newHub(), Options{Part: func(name string, _ *access.Identity) Backend {
		if name == "work" {
			return newHub()
		}
		return nil
	}})
	for _, path := range []string{
		"/mcp", "/mcp/", "//mcp", "/mcp//", "/x/../mcp", "/./mcp", "/%6dcp", "/mcp%2F",
		"/mcp/work", "/mcp/work/", "/groups/work/mcp", "/groups/work/mcp/", "//groups//work//mcp",
	} {
		if got := s.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(hello), hello)); !strings.Contains(got, "200 OK") {
			t.Errorf("POST %s: %s", path, got)
		}
	}
	for _, path := range []string{"/MCP", "/", "/mcp/work/mcp", "/v1/mcp"} {
		want(t, s.do("POST", path, hello), 404, `"error"`, "/mcp", "/groups/NAME/mcp")
	}
	want(t, s.do("POST", "/mcp/none", hello), 404, `no group has this name: \"none\"`)
	if r := s.do("GET", "/", "", "Accept: text/html,*/*;q=0.8"); r.status != 200 || !strings.Contains(r.body, "/mcp") {
		t.Errorf("GET /: %d %s", r.status, r.body)
	}
	want(t, s.do("GET", "/", "", "Accept: text/event-stream"), 404, "/sse") // a client that was given the address alone
	want(t, s.do("GET", "/.well-known/oauth-protected-resource", ""), 404)
	for _, path := range []string{"/sse/", "//sse", "/groups/work/sse", "/groups/work/sse/"} {
		tp := s.tap("GET", path, "")
		base, err := http.NewRequest("GET", s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := base.URL.Parse(tp.next()) // as clients do
		if err != nil {
			t.Fatal(err)
		}
		want(t, s.do("POST", messages.RequestURI(), `{"jsonrpc":"2.0","id":1,"method":"ping"}`), 202)
		wantJSON(t, tp.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
	for _, c := range [][2]string{{"POST", "/sse"}, {"GET", "/messages"}, {"HEAD", "/groups/work/sse"}} {
		if r := s.do(c[0], c[1], ""); r.status != 405 || r.header.Get("Allow") == "" {
			t.Errorf("%s %s: %d", c[0], c[1], r.status)
		}
	}
}

func TestFaultU5GroupsEndInMcp(t *testing.T) {
	h := newHub()
	h.publish(item("mine", `{"name":"mine","inputSchema":{"type":"object"}}`))
	s := serve(t, newHub(), Options{Part: func(string, *access.Identity) Backend { return h }})
	session := ""
	for _, path := range []string{"/groups/work/mcp", "/mcp/work"} {
		if session == "" {
			session = "Mcp-Session-Id: " + s.do("POST", path, hello).header.Get("Mcp-Session-Id")
		}
		// One endpoint under two names: a session of one is known under the other.
		want(t, s.do("POST", path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session), 200, `"mine"`)
		want(t, s.do("POST", path, modernBody("1", "tools/list", ""), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"), 200, `"mine"`)
	}
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session), 404)
}

func TestFaultV10PagesOfOtherOrigins(t *testing.T) {
	s := serve(t, newHub(), Options{Origins: []string{"http://localhost:6274"}})
	for _, c := range []struct {
		status  int
		headers []string
	}{
		{200, nil}, // no browser
		{200, []string{"Origin: http://localhost:6274", "Sec-Fetch-Site: same-site"}},
		{200, []string{"Origin: " + s.url, "Sec-Fetch-Site: same-origin"}},
		{200, []string{"Sec-Fetch-Site: none"}}, // a person
		{200, []string{"Content-Type: application/json;charset=UTF-8"}},
		{200, []string{"Content-Type: Application/JSON"}},
		{403, []string{"Origin: http://localhost:3000"}},
		{403, []string{"Origin: http://127.0.0.1:6274"}}, // another name is another origin
		{403, []string{"Origin: https://localhost:6274"}},
		{403, []string{"Origin: http://localhost"}},
		{403, []string{"Origin: http://app.localhost:6274"}},
		{403, []string{"Origin: null"}},
		{403, []string{"Sec-Fetch-Site: cross-site"}},
		{403, []string{"Sec-Fetch-Site: same-site"}}, // another port
		{403, []string{"Sec-Fetch-Site: new-word"}},
		{415, []string{"Content-Type: "}},
		{415, []string{"Content-Type: text/plain"}},
		{415, []string{"Content-Type: text/plain;application/json"}},
		{415, []string{"Content-Type: application/x-www-form-urlencoded"}},
		{415, []string{"Content-Type: application/json, text/plain"}},
	} {
		if r := s.post(hello, c.headers...); r.status != c.status {
			t.Errorf("%q: %d %s", c.headers, r.status, r.body)
		}
	}
	r := s.do("OPTIONS", "/mcp", "", "Origin: http://localhost:3000", "Access-Control-Request-Method: POST")
	if r.status != 403 || r.header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(r.body, "--allow-origin") {
		t.Errorf("preflight: %d %v %s", r.status, r.header, r.body)
	}
	open := serve(t, newHub(), Options{Origins: []string{"*"}})
	want(t, open.post(hello, "Origin: http://localhost:3000", "Sec-Fetch-Site: cross-site"), 200)
	want(t, open.post(hello, "Sec-Fetch-Site: cross-site"), 200)
	tp := s.tap("GET", "/sse", "")
	want(t, s.do("POST", "/"+tp.next(), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Content-Type: "), 415)
}

func TestFaultV11ImagesOpenNothing(t *testing.T) {
	s := serve(t, newHub(), Options{})
	const image = "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
	session := s.initialize(mcp.LatestLegacy)
	before := s.g.sessions.Len()
	for _, path := range []string{"/sse", "/mcp"} {
		for _, c := range []struct {
			status  int
			headers []string
		}{
			{403, []string{image, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}},
			{403, []string{"Accept: */*", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}},
			{403, []string{"Accept: text/event-stream", "Sec-Fetch-Site: same-site"}},
			{406, []string{image}}, // of a browser that says nothing of itself
			{406, []string{"Accept: text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Site: none"}},
			{406, []string{"Accept: application/json"}},
		} {
			if r := s.do("GET", path, "", append(c.headers, session)...); r.status != c.status {
				t.Errorf("%s with %q: %d %s", path, c.headers, r.status, r.body)
			}
		}
		for _, accept := range []string{"Accept: text/event-stream", "Accept: */*", "Accept: ", "Accept: text/event-stream;q=0.9, application/json"} {
			s.tap("GET", path, "", accept, session).cancel()
		}
	}
	eventually(t, "the sessions of /sse end", func() bool { return s.g.sessions.Len() == before })
}

// raw sends bytes on a connection of its own, and returns the first line of what
// comes back.
func (s *site) raw(parts ...string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	for _, p := range parts {
		if _, err := io.WriteString(c, p); err != nil {
			break // it may have said enough
		}
	}
	buf := make([]byte, 4096)
	n, _ := io.ReadAtLeast(c, buf, 16)
	line, _, _ := strings.Cut(string(buf[:n]), "\r\n")
	return line
}

const posted = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"

func TestFaultV9Headers(t *testing.T) {
	s := serve(t, newHub(), Options{})
	json := "Content-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(hello)) + "\r\n"
	if got := s.raw(posted+json+"X: ", strings.Repeat("x", 30<<10), "\r\n\r\n"+hello); !strings.Contains(got, "200") {
		t.Errorf("30 KiB: %s", got)
	}
	for _, header := range []string{"X: " + strings.Repeat("x", 900<<10), strings.Repeat("Name: value\r\n", 10_000)} {
		if got := s.raw(posted+json, header, "\r\n\r\n"+hello); !strings.Contains(got, "431") {
			t.Errorf("%d bytes: %s", len(header), got)
		}
	}
}

// What the headers say is judged before the body is there: it never comes here.
func TestFaultV9ChecksComeBeforeTheBody(t *testing.T) {
	s := serve(t, newHub(), Options{})
	const json = "Content-Type: application/json\r\n"
	for _, c := range []struct{ status, headers string }{
		{"403", json + "Origin: http://evil.example\r\n"},
		{"403", json + "Sec-Fetch-Site: cross-site\r\n"},
		{"415", ""},
		{"415", "Content-Type: text/plain\r\n"},
		{"406", json + "Accept: text/html\r\n"},
		{"404", json + "Mcp-Session-Id: none\r\n"},
		{"400", json + "Mcp-Session-Id: none\r\nMCP-Protocol-Version: 1999-01-01\r\n"},
		{"400", json}, // no session, and too large for the initialize that would open one
		{"413", json + "MCP-Protocol-Version: 2026-07-28\r\nX-Large: yes\r\n"},
	} {
		length := "Content-Length: 67000000\r\n\r\n"
		if strings.Contains(c.headers, "X-Large") {
			length = "Content-Length: 670000000\r\n\r\n"
		}
		if got := s.raw(posted + c.headers + length); !strings.Contains(got, c.status) {
			t.Errorf("%q: %s, want %s", c.headers, got, c.status)
		}
	}
	for _, c := range []struct{ status, path string }{{"404", "/messages?sessionId=none"}, {"404", "/mcp/none"}, {"404", "/none"}} {
		if got := s.raw("POST " + c.path + " HTTP/1.1\r\nHost: localhost\r\n" + json + "Content-Length: 1000\r\n\r\n"); !strings.Contains(got, c.status) {
			t.Errorf("%s: %s", c.path, got)
		}
	}
}

func TestFaultV9OneBudgetForBodies(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{MaxBodies: 16 << 20})
	id := s.initialize(mcp.LatestLegacy)
	large := func(n int) string {
		return strings.Replace(call("1", "echo", ""), `{}`, `{"x":"`+strings.Repeat("y", n)+`"}`, 1)
	}
	first := s.later(large(5<<20), id)
	within(t, "the call starts", h.started) // and holds its body
	r := s.post(large(5<<20), id)
	want(t, r, 503, "too much")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	modern := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo"}
	want(t, s.post(modernBody("1", "tools/call", `,"name":"echo","arguments":{"x":"`+strings.Repeat("y", 5<<20)+`"}`), modern...), 503)
	small := s.later(large(40<<10), id) // there is a part that the large ones do not get
	within(t, "the small call starts", h.started)
	tp := s.tap("GET", "/sse", "")
	messages := "/" + tp.next()
	want(t, s.do("POST", messages, large(5<<20)), 503)
	close(h.release)
	want(t, within(t, "the first", first), 200, `"result"`)
	want(t, within(t, "the small one", small), 200, `"result"`)
	want(t, s.do("POST", messages, large(5<<20)), 202) // served beyond its POST
	tp.next()
	want(t, s.post(large(5<<20), id), 200, `"result"`)
	want(t, s.post(strings.Repeat(" ", 2<<20), id), 400, "-32700")
	if got := s.raw(posted+"Content-Type: application/json\r\n"+id+"\r\nTransfer-Encoding: chunked\r\n\r\n", "200000\r\n"+strings.Repeat(" ", 2<<20)+"\r\n0\r\n\r\n"); !strings.Contains(got, "400") {
		t.Errorf("chunked: %s", got)
	}
	eventually(t, "all is given back", func() bool { return s.g.shared.bodies.used.Load() == 0 })
}

// A body that is declared and does not come claims next to nothing.
func TestFaultV9DeclaredIsNotClaimed(t *testing.T) {
	for _, length := range []int64{-1, 64 << 20} {
		b := &budget{limit: 128 << 20}
		c := &claim{budget: b}
		if _, err := readBody(strings.NewReader(strings.Repeat("x", 100<<10)), length, 64<<20, c); (err == nil) != (length < 0) {
			t.Errorf("length %d: %v", length, err)
		}
		if used := b.used.Load(); used > 400<<10 {
			t.Errorf("%d bytes for 100 KiB", used)
		}
		c.release()
		if b.used.Load() != 0 {
			t.Errorf("%d bytes are not given back", b.used.Load())
		}
	}
}

func TestFaultV9ConnectionsAndStreams(t *testing.T) {
	s := serve(t, newHub(), Options{MaxPeer: 4, MaxSSE: 2, Part: func(string, *access.Identity) Backend { return newHub() }})
	one, two := s.tap("GET", "/sse", ""), s.tap("GET", "/groups/g/sse", "")
	r := s.do("GET", "/sse", "")
	want(t, r, 503)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.web.CloseIdleConnections()
	var held []net.Conn
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	alive := func(c net.Conn) bool {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(patience))
		buf := make([]byte, 64)
		n, _ := c.Read(buf)
		return strings.Contains(string(buf[:n]), "200 OK")
	}
	eventually(t, "two connections more", func() bool {
		for len(held) < 2 {
			c := dial()
			if !alive(c) {
				return false
			}
			held = append(held, c)
		}
		return true
	})
	if c := dial(); alive(c) {
		t.Error("a fifth connection is served")
	}
	held[0].Close()
	eventually(t, "the place of one that ended is free", func() bool { return alive(dial()) })
	one.cancel()
	two.cancel()
	eventually(t, "streams that ended are not counted", func() bool { return s.g.shared.sse.Load() == 0 })
}

func TestFaultW8InterimResultsHaveContent(t *testing.T) {
	for method, member := range map[string]string{mcp.ToolsCall: `"content":[]`, mcp.PromptsGet: `"messages":[]`, mcp.ResourcesRead: `"contents":[]`} {
		h := newHub()
		h.onCall = func(ctx context.Context, c *everline.Call) ([]byte, error) {
			return c.Client.Ask(ctx, mcp.ElicitationCreate, []byte(`{"message":"?"}`))
		}
		s := serve(t, h, Options{})
		params := strings.Replace(modernBody("1", method, `,"name":"echo","uri":"file:///a"`), `Capabilities":{}`, `Capabilities":{"elicitation":{}}`, 1)
		target := "Mcp-Name: echo"
		if method == mcp.ResourcesRead {
			target = "Mcp-Name: file:///a"
		}
		r := s.post(params, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method, target)
		want(t, r, 200, `"resultType":"input_required"`, member, `"inputRequests":{"elicitation-1"`)
	}
}

func TestFaultW10CanceledRequestsHaveNoAnswer(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{})
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	for _, version := range []string{mcp.LatestLegacy, "2025-06-18"} {
		for accept, status := range map[string]int{"application/json, text/event-stream": 200, "text/event-stream": 200, "application/json": 202} {
			for _, progress := range []string{"", `"p"`} {
				id := s.initialize(version)
				answer := s.later(call("1", "echo", progress), id, "Accept: "+accept)
				c := within(t, "the call starts", h.started)
				if progress != "" && c.Progress != nil {
					c.Progress([]byte(`{"progress":1}`)) // the response is a stream now
				}
				want(t, s.post(cancel, id), 202)
				within(t, "the call ends", h.ended)
				r := within(t, "the response ends", answer)
				if r.status != status || strings.Contains(r.body, `"id":1`) || strings.Contains(r.body, "error") {
					t.Errorf("%s, %s, progress %q: %d %s", version, accept, progress, r.status, r.body)
				}
			}
		}
	}
	// A client that comes back for it is told that nothing comes.
	id := s.initialize(mcp.LatestLegacy)
	tp := s.tap("POST", "/mcp", call("1", "echo", `"p"`), id) // a stream after a second
	within(t, "the call starts", h.started).Progress([]byte(`{"progress":1}`))
	tp.next()
	want(t, s.post(cancel, id), 202)
	if rest := tp.end(); len(rest) > 0 {
		t.Errorf("behind the cancel came %q", rest)
	}
	want(t, s.do("GET", "/mcp", "", id, "Last-Event-ID: "+postID(1, 1, 0)), 204)
	// The end of a session cancels what is out.
	answer := s.later(call("1", "echo", ""), id)
	within(t, "the call starts", h.started)
	want(t, s.do("DELETE", "/mcp", "", id), 204)
	if r := within(t, "the response ends", answer); strings.Contains(r.body, "32800") {
		t.Errorf("the end of the session: %d %s", r.status, r.body)
	}
	// In a batch the others are answered.
	id = s.initialize(mcp.BatchVersion)
	answer = s.later("["+call("1", "echo", "")+`,{"jsonrpc":"2.0","id":2,"method":"ping"}]`, id)
	within(t, "the call starts", h.started)
	want(t, s.post(cancel, id), 202)
	want(t, within(t, "the batch", answer), 200, `[{"jsonrpc":"2.0","id":2,"result":{}}]`)
}
