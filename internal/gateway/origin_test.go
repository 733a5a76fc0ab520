package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	s := serve(t, newHub(), Options{Hosts: []string{"gw.example.com", "port.example.com:8080"}, Origins: []string{"https://App.example.com/"}})
	cases := []struct {
		header string
		status int
	}{
		{"Origin: http://localhost:3000", 403},
		{"Origin: https://[::1]", 403},
		{"Origin: OWN", 400},
		{"Origin: https://app.example.com", 400},
		{"Origin: https://evil.example", 403},
		{"Origin: http://localhost.evil.example", 403},
		{"Origin: http://127.0.0.1.evil.example", 403},
		{"Origin: null", 403},
		{"Origin: file://", 403},
		{"Host: evil.example", 403},
		{"Host: evil.example:80", 403},
		{"Host: 10.0.0.1", 403},
		{"Host: localhost", 400},
		{"Host: LOCALHOST:99", 400},
		{"Host: app.localhost", 400},
		{"Host: 127.0.0.7", 400},
		{"Host: [::1]:80", 400},
		{"Host: gw.example.com:1234", 400},
		{"Host: port.example.com:8080", 400},
		{"Host: port.example.com:8081", 403},
		{"Host: port.example.com", 403},
	}
	for _, c := range cases {
		for _, route := range [][2]string{{"POST", "/mcp"}, {"GET", "/mcp"}, {"DELETE", "/mcp"}, {"GET", "/sse"}, {"POST", "/messages"}, {"GET", "/other"}} {
			if c.status != 403 && route[1] == "/sse" {
				continue // would open a stream
			}
			r := s.do(route[0], route[1], `{}`, strings.Replace(c.header, "OWN", s.url, 1))
			if (r.status == 403) != (c.status == 403) {
				t.Errorf("%s %s with %s: %d %s", route[0], route[1], c.header, r.status, r.body)
			}
		}
	}
	if newGuard(nil, nil).host("") {
		t.Error("a request without a host was let in")
	}
	open := newGuard([]string{"*"}, []string{"*"})
	if !open.host("any.example") || !open.origin([]string{"https://any.example"}, "x") || open.origin([]string{"a", "b"}, "x") {
		t.Error("* does not allow everything, or two origins are one")
	}
}

func TestPagesOfAllowedOriginsMayRead(t *testing.T) {
	s := serve(t, newHub(), Options{Origins: []string{"https://app.example.com"}})
	const page = "Origin: https://app.example.com"
	r := s.do("OPTIONS", "/mcp", "", page, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: mcp-param-x")
	if r.status != 204 || r.header.Get("Access-Control-Allow-Headers") != "mcp-param-x" || r.header.Get("Access-Control-Allow-Origin") != "https://app.example.com" {
		t.Errorf("preflight: %d %v", r.status, r.header)
	}
	r = s.post(hello, page)
	if r.status != 200 || r.header.Get("Access-Control-Allow-Origin") != "https://app.example.com" || !strings.Contains(r.header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
		t.Errorf("request: %d %v", r.status, r.header)
	}
	r = s.do("OPTIONS", "/mcp", "", "Origin: https://evil.example", "Access-Control-Request-Method: POST")
	if r.status != 403 || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("evil preflight: %d %v", r.status, r.header)
	}
	if r = s.post(hello); r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a client that is no page got CORS headers")
	}
}

// What is public is there for pages of every origin, under a name of ours, and opens
// nothing else.
func TestPublicRoutes(t *testing.T) {
	g := New(newHub(), Options{})
	defer g.Close(t.Context())
	var seen []string
	note := func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.URL.Path) }
	h := g.Handler(Route{Pattern: "GET /public/{path...}", Serve: note, Public: true}, Route{Pattern: "GET /open", Serve: note, Open: true})
	for _, c := range []struct {
		method, target, host, header string
		status                       int
		served                       bool
	}{
		{"GET", "/public/a", "127.0.0.1", "Origin: https://evil.example", 200, true},
		{"GET", "/public/a", "127.0.0.1", "Sec-Fetch-Site: cross-site", 200, true},
		{"GET", "/public/a", "127.0.0.1", "Accept: */*", 200, true},
		{"OPTIONS", "/public/a", "127.0.0.1", "Origin: https://evil.example\nAccess-Control-Request-Method: GET", 204, false},
		{"OPTIONS", "/public/a", "127.0.0.1", "Origin: https://evil.example\nAccess-Control-Request-Method: POST", 403, false},
		{"GET", "/public/a", "evil.example", "Origin: https://evil.example", 403, false},
		{"GET", "/open", "127.0.0.1", "Origin: https://evil.example", 403, false},
		{"GET", "/public/%2e%2e/open", "127.0.0.1", "Origin: https://evil.example", 200, true},
		{"GET", "/public/../open", "127.0.0.1", "Origin: https://evil.example", 403, false},
	} {
		seen = nil
		r, w := httptest.NewRequestWithContext(t.Context(), c.method, c.target, nil), httptest.NewRecorder()
		r.Host = c.host
		for line := range strings.Lines(c.header) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			r.Header.Set(name, value)
		}
		h.ServeHTTP(w, r)
		if w.Code != c.status || (len(seen) == 1 && strings.HasPrefix(seen[0], "/public/")) != c.served || !c.served && len(seen) > 0 {
			t.Errorf("%s %s at %s with %q: %d, served %q", c.method, c.target, c.host, c.header, w.Code, seen)
		}
	}
}
