package http

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

// TestFaultS9 has answers in codings that nobody asked for, and configured
// headers that ask for them.
func TestFaultS9(t *testing.T) {
	var coding, media string
	status := 200
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "gzip" && got != "" {
			t.Errorf("Accept-Encoding is %q, not the transport's own", got)
		}
		if got := r.Header.Get("Content-Type"); r.Method == http.MethodPost && got != mcp.TypeJSON {
			t.Errorf("Content-Type %q", got)
		}
		w.Header().Set("Content-Encoding", coding)
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write([]byte("\x8b\x07\x80{\x00\x01\xff\xfebinary"))
	}))
	t.Cleanup(site.Close)
	for _, c := range []struct {
		coding, media string
		status        int
	}{
		{"br", mcp.TypeJSON, 200}, {"zstd", mcp.TypeJSON, 200}, {"deflate", mcp.TypeEvents, 200}, {"x-odd", mcp.TypeJSON, 200}, {"br", "text/plain", 500}, {"br", mcp.TypeJSON, 404}, {"br", mcp.TypeEvents, 400}, {"BR , gzip", mcp.TypeJSON, 200},
	} {
		coding, media, status = c.coding, c.media, c.status
		conn := dial(t, Spec{URL: site.URL, Headers: map[string]string{"accept-encoding": "gzip, deflate, br", "Content-Type": "text/odd", "Connection": "close", "Transfer-Encoding": "br"}}, transport.Options{})
		_, err := call(t, conn, 1, "initialize")
		f := fault.From("", err)
		if err == nil || !strings.Contains(f.Error(), `"`+strings.ToLower(strings.Split(c.coding, " ")[0])) || !strings.Contains(f.Error(), "Content-Encoding") || f.Remedy == "" {
			t.Errorf("%+v: %v, remedy %q", c, err, f.Remedy)
		}
		closeConn(t, conn)
	}
}

// TestFaultS9Bytes has bodies that are no text where words are due.
func TestFaultS9Bytes(t *testing.T) {
	for _, body := range []string{"\x8b\x07\x80", "\x00\x01\x02\x03", "abc\x00def", strings.Repeat("a", 199) + "\xff", "PNG\r\n\x1a\n"} {
		got := transport.BodyText([]byte(body))
		if !utf8.ValidString(got) || !strings.Contains(got, "no text") && strings.Contains("\x8b\x00a", body[:1]) {
			t.Errorf("%q became %q", body, got)
		}
		for _, r := range got {
			if r < ' ' || r == utf8.RuneError {
				t.Errorf("%q became %q", body, got)
			}
		}
	}
	for body, want := range map[string]string{
		"plain words\nmore": "plain words", "\x1b[31mred": "[31mred", "tab\there": "tabhere", "größer": "größer",
		strings.Repeat("ä", 150): strings.Repeat("ä", 100), "a" + strings.Repeat("ä", 150): "a" + strings.Repeat("ä", 99),
	} {
		if got := transport.BodyText([]byte(body)); got != want {
			t.Errorf("%q became %q", body, got)
		}
	}
	a := reply{status: 200, header: http.Header{"Content-Type": {"text/\xff\xfe\x80"}}}
	if _, f := a.classify(); !utf8.ValidString(f.Error()) {
		t.Errorf("%q", f)
	}
}

// TestFaultS10 has headers that a library user wrote, and that no server can get.
func TestFaultS10(t *testing.T) {
	for _, v := range []string{"a\ab", "a\nb", "a\x00b", "a\x7fb", "a\x1bb"} {
		_, f := baseHeader(map[string]string{"X": v})
		if f == nil || f.Kind != fault.Invalid || strings.Contains(f.Error(), v) {
			t.Errorf("%q: %v", v, f)
		}
	}
	if h, f := baseHeader(map[string]string{"X": "a\tb ü"}); f != nil || h.Get("X") != "a\tb ü" {
		t.Errorf("%v %v", h, f)
	}
}

// TestFaultS13 has data in the query behind the path of a socket.
func TestFaultS13(t *testing.T) {
	for raw, want := range map[string]string{
		"unix:///run/s.sock#/mcp?key=a%23b%26c&d=e": "/mcp?key=a%23b%26c&d=e",
		"unix:///run/s.sock#/a%3Fb":                 "/a%3Fb",
		"unix:///run/s.sock#mcp?key=a%20b":          "/mcp?key=a%20b",
		"unix:///run/s.sock#":                       "/",
		"http://h/mcp?key=a%23b":                    "/mcp?key=a%23b",
	} {
		target, f := parseTarget(raw)
		if f != nil || target.url.RequestURI() != want {
			t.Errorf("%s: %v, %v", raw, target.url, f)
		}
	}
}
