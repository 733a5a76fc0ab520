package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
)

// lines reads so many events of a stream as "id data".
func (s *site) events(n int, headers ...string) (got []string, end func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	resp := s.open(ctx, "GET", "/mcp", "", headers...)
	sc := bufio.NewScanner(resp.Body)
	id := ""
	for len(got) < n && sc.Scan() {
		if v, ok := strings.CutPrefix(sc.Text(), "id: "); ok {
			id = v
		}
		if v, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			got = append(got, id+" "+v)
		}
	}
	if len(got) < n {
		s.t.Errorf("%d events of %d: %v", len(got), n, sc.Err())
	}
	return got, func() {
		cancel()
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// A client that lost its standing stream gets what it missed, once, and then
// what is new.
func TestStandingStreamsAreResumed(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`, id), 200)
	hold := s.tap("GET", "/mcp", "", id) // logs go to a stream alone
	for i := range 3 {
		h.log(fmt.Sprintf(`{"level":"info","data":"n%d"}`, i))
		if e := hold.next(); !strings.Contains(e, fmt.Sprintf("n%d", i)) {
			t.Fatalf("got %s", e)
		}
	}
	hold.cancel()
	hold.end()
	got, end := s.events(2, id, "Last-Event-ID: "+standingID(0))
	if !strings.HasPrefix(got[0], standingID(1)+" ") || !strings.Contains(got[0], "n1") || !strings.Contains(got[1], "n2") {
		t.Errorf("got %s", got)
	}
	end()
	for _, other := range []string{standingID(2), standingID(99), "elsewhere-0", standingID(-5), ""} {
		headers := []string{id}
		if other != "" {
			headers = append(headers, "Last-Event-ID: "+other)
		}
		tp := s.tap("GET", "/mcp", "", headers...)
		eventually(t, "the stream is attached", func() bool {
			h.log(`{"level":"info","data":"new"}`)
			return len(tp.events) > 0
		})
		if e := tp.next(); !strings.Contains(e, "new") {
			t.Errorf("behind %q came %s", other, e)
		}
		tp.cancel()
		tp.end()
	}
}

func TestListensAreBounded(t *testing.T) {
	s := serve(t, newHub(), Options{MaxListens: 1})
	headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"}
	body := modernBody("1", "subscriptions/listen", `,"notifications":{"toolsListChanged":true}`)
	first := s.tap("POST", "/mcp", body, headers...)
	first.next()
	want(t, s.post(body, headers...), 503, `"code":-31003`)
	first.cancel()
	first.end()
	eventually(t, "there is room again", func() bool { return s.g.shared.listens.Load() == 0 })
}
