package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A scripted server: every third call fails, answers are JSON or an event stream.
func site(t *testing.T, stream bool) string {
	t.Helper()
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var id int
		_, _ = fmt.Sscanf(string(body), `{"jsonrpc":"2.0","id":%d`, &id)
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":"s__echo","inputSchema":{}}]}}`, id)
		switch {
		case strings.Contains(string(body), "initialize"):
			w.Header().Set("Mcp-Session-Id", "one")
		case r.Header.Get("Mcp-Session-Id") != "one":
			http.Error(w, "who?", http.StatusBadRequest)
			return
		case strings.Contains(string(body), "lost"):
			http.Error(w, "gone", http.StatusNotFound)
			return
		case strings.Contains(string(body), "third"):
			if calls++; calls%3 == 0 {
				answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-7,"message":"third"}}`, id)
			}
		}
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\nid: 1\r\ndata: %s\r\n\r\n", answer)
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestSession(t *testing.T) {
	for name, stream := range map[string]bool{"json": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), http.DefaultClient, site(t, stream))
			if err != nil {
				t.Fatal(err)
			}
			names, err := Tools(t.Context(), s)
			if err != nil || len(names) != 1 {
				t.Fatal(names, err)
			}
			if _, err := s.Call(t.Context(), "lost", nil); !errors.Is(err, ErrGone) {
				t.Errorf("a session that is gone: %v", err)
			}
			r := Load{Sessions: []Session{s}, Method: "third", For: 50 * time.Millisecond, Check: Lists(1)}.Run(t.Context())
			if r.Errors == 0 || len(r.Times) < r.Errors || len(r.Times) > 2*r.Errors+2 {
				t.Errorf("%d good, %d bad: two of three are good", len(r.Times), r.Errors)
			}
			var rpc *RPCError
			if !errors.As(r.First, &rpc) || rpc.Code != -7 {
				t.Errorf("the first error: %v", r.First)
			}
		})
	}
}

func TestLoadStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := Open(t.Context(), http.DefaultClient, site(t, false))
	if err != nil {
		t.Fatal(err)
	}
	if r := (Load{Sessions: []Session{s}, For: time.Hour, Check: Lists(1)}).Run(ctx); r.Errors != 0 {
		t.Errorf("given up, and %d errors: %v", r.Errors, r.First)
	}
}

func TestChecks(t *testing.T) {
	if err := Lists(2)([]byte(`{"tools":[{"inputSchema":{}}]}`)); err == nil {
		t.Error("a short list passed")
	}
	if err := Holds("abc", 0)([]byte(`{"isError":true,"x":"abc"}`)); err == nil {
		t.Error("a failure passed")
	}
	if err := Holds("abc", 100)([]byte(`{"x":"abc"}`)); err == nil {
		t.Error("a short answer passed")
	}
	if err := Holds("abc", 0)([]byte(`{"x":"abc"}`)); err != nil {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	names := []string{"s1__work_again", "s1__echo", "s2__echo", "s1__work"}
	for _, c := range [][3]string{{"", "echo", "s1__echo"}, {"s2", "echo", "s2__echo"}, {"s1", "work", "s1__work"}, {"", "work_again", "s1__work_again"}, {"s3", "echo", ""}} {
		if got, _ := Find(names, c[0], c[1]); got != c[2] {
			t.Errorf("%s of %q: %q, want %q", c[1], c[0], got, c[2])
		}
	}
}
