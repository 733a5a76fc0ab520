package gateway

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
)

// leave sends a request whose client goes once the call has started.
func (s *site) leave(h *slowHub, method, path, body string, headers ...string) *everline.Call {
	s.t.Helper()
	ctx, drop := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() { // ends with the request, which drop ends
		defer close(gone)
		if resp, err := s.try(ctx, method, path, body, headers...); err == nil {
			<-ctx.Done()
			resp.Body.Close()
		}
	}()
	c := within(s.t, "the call starts", h.started)
	drop()
	<-gone
	return c
}

// closeSoon closes the gateway in the background.
func (s *site) closeSoon() <-chan error {
	done := make(chan error, 1)
	go func() { // ends with the gateway, which the test waits for
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- s.g.Close(ctx)
	}()
	eventually(s.t, "closing", s.g.closing)
	return done
}

func TestFaultW7CallsWithoutAClientAreNotWaitedFor(t *testing.T) {
	keep := func(string) time.Duration { return time.Hour }
	named := modernBody("1", "tools/call", `,"name":"echo","_meta":{"everline/resultId":"0123456789012345678901"}`)
	named = strings.Replace(named, `{"_meta":{"io`, `{"_meta":{"everline/resultId":"0123456789012345678901","io`, 1)
	named = strings.Replace(named, `,"_meta":{"everline/resultId":"0123456789012345678901"}}`, `}`, 1)
	modern := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo"}
	for name, out := range map[string]func(s *site, h *slowHub){
		"a session": func(s *site, h *slowHub) {
			s.leave(h, "POST", "/mcp", call("1", "echo", ""), s.initialize(mcp.LatestLegacy))
		},
		"a stream": func(s *site, h *slowHub) {
			id := s.initialize(mcp.LatestLegacy)
			tp := s.tap("POST", "/mcp", call("1", "echo", `"p"`), id) // after a second of silence
			within(s.t, "the call starts", h.started)
			tp.cancel()
			tp.end()
		},
		"a batch": func(s *site, h *slowHub) {
			s.leave(h, "POST", "/mcp", "["+call("1", "echo", "")+"]", s.initialize(mcp.BatchVersion))
		},
		"a kept result": func(s *site, h *slowHub) { s.leave(h, "POST", "/mcp", named, modern...) },
		"/sse": func(s *site, h *slowHub) {
			tp := s.tap("GET", "/sse", "")
			want(s.t, s.do("POST", "/"+tp.next(), call("1", "echo", "")), 202)
			within(s.t, "the call starts", h.started)
			tp.cancel()
			tp.end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSlowHub()
			s := serve(t, h.hub, Options{Keep: keep})
			out(s, h)
			if err := within(t, "close", s.closeSoon()); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := within(t, "the call ends", h.ended); !errors.Is(err, errClosing) {
				t.Errorf("ended by %v", err)
			}
		})
	}
}

func TestFaultW7CallsWithAClientAre(t *testing.T) {
	h := newSlowHub()
	s := serve(t, h.hub, Options{Keep: func(string) time.Duration { return time.Hour }})
	id := s.initialize(mcp.LatestLegacy)
	stays := s.later(call("1", "echo", ""), id)
	within(t, "the call starts", h.started)
	goes := s.tap("POST", "/mcp", call("2", "echo", `"p"`), id) // goes during the drain
	within(t, "the call starts", h.started).Progress([]byte(`{"progress":1}`))
	goes.next()
	lost := s.open(t.Context(), "POST", "/mcp", call("3", "echo", `"p"`), id) // comes back for its stream
	within(t, "the call starts", h.started)
	lines := bufio.NewScanner(lost.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "id: ") {
	}
	back := s.tap("GET", "/mcp", "", id, "Last-Event-ID: "+strings.TrimPrefix(lines.Text(), "id: "))
	lost.Body.Close()
	s.leave(h, "POST", "/mcp", call("4", "echo", ""), id) // another request waits for the outcome
	outcome := s.later(`{"jsonrpc":"2.0","id":5,"method":"everline/result","params":{"requestId":4}}`, id)
	eventually(t, "it waits", func() bool {
		k := s.g.results.find("session " + strings.TrimPrefix(id, "Mcp-Session-Id: ") + " 4")
		return k != nil && k.waiters.Load() == 1
	})

	closed := s.closeSoon()
	r := s.post(call("6", "echo", ""), id) // the port is open, and says when to come again
	want(t, r, 503, `"outcome":"not_sent"`)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	want(t, s.post(hello), 503, `"id":0`)
	want(t, s.modern("7", "tools/list", "", ""), 503)
	want(t, s.do("GET", "/mcp", "", id), 503)
	want(t, s.do("GET", "/sse", ""), 503)
	want(t, s.post(call("8", "echo", ""), "Mcp-Session-Id: of-the-next-one"), 503)
	want(t, s.post(initialized, id), 202) // what belongs to a call that is out is taken
	if _, err := s.try(t.Context(), "GET", "/sse", "", "Last-Event-ID: sse-0-0-2024-11-05"); err == nil {
		t.Error("an EventSource that comes back is told to stay away")
	}
	goes.cancel()
	if err := within(t, "the call of a client that went ends", h.ended); !errors.Is(err, errClosing) {
		t.Errorf("ended by %v", err)
	}
	select {
	case err := <-h.ended:
		t.Errorf("a call that is waited for ended by %v", err)
	case err := <-closed:
		t.Errorf("closed: %v", err)
	default:
	}
	close(h.release)
	want(t, within(t, "the answer", stays), 200, `"id":1,"result"`)
	want(t, within(t, "the outcome", outcome), 200, `"id":5,"result"`)
	if got := back.next(); !strings.Contains(got, `"id":3,"result"`) {
		t.Errorf("got %s", got)
	}
	if err := within(t, "close", closed); err != nil {
		t.Error(err)
	}
	want(t, s.post(call("9", "echo", ""), id), 503)
}
