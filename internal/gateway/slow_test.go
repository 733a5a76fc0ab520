package gateway

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
)

// A client over HTTP that does not read its answer is cut off after
// WriteTimeout, and holds up nobody meanwhile.
func TestHTTPClientThatDoesNotReadIsCutOff(t *testing.T) {
	h := newHub()
	huge := `{"content":[],"text":"` + strings.Repeat("x", 32<<20) + `"}`
	asked := make(chan struct{}, 1)
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		if c.Name == "huge" {
			asked <- struct{}{}
			return []byte(huge), nil
		}
		return []byte(`{"content":[]}`), nil
	}
	s := serve(t, h, Options{WriteTimeout: 200 * time.Millisecond})
	id := s.initialize("2025-11-25")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := call("1", "huge", "")
	if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%s\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body); err != nil {
		t.Fatal(err)
	}
	within(t, "the call", asked)
	want(t, s.post(call("2", "echo", ""), id), 200, `"result":`)
	eventually(t, "the exchange that nobody reads ends", func() bool { return s.g.sessions.InUse() == 0 })
}
