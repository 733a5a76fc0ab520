package gateway

import (
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
	if r.status != 200 || r.header.Get("Access-Control-Allow-Origin") != "https://app.example.com" || r.header.Get("Access-Control-Expose-Headers") == "" {
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
