package http

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// wantUnreadable calls and wants the fault of this call alone.
func wantUnreadable(t *testing.T, name string, c transport.Conn, says string) {
	t.Helper()
	_, err := c.Call(t.Context(), newRequest(7, "work", `{}`))
	f := fault.From("", err)
	if f == nil || f.Kind != fault.Protocol || f.Outcome != fault.Unknown || f.Op != "work" || !strings.Contains(f.Reason(), says) {
		t.Errorf("%s: %v", name, err)
	}
	if _, err := c.Call(t.Context(), newRequest(8, "echo", `{}`)); err != nil || c.Err() != nil {
		t.Errorf("%s: the link is not what it was: %v", name, err)
	}
}

// The same over HTTP, where a body or an event is the answer.
func TestFaultS3_OverHTTP(t *testing.T) {
	for name, c := range mcptest.Unreadable {
		for _, how := range []string{"json", "events", "sse"} {
			t.Run(how+"/"+name, func(t *testing.T) { wantUnreadable(t, name, openUnreadable(t, how, c.Answer), c.Says) })
		}
	}
}

// openUnreadable links to a server whose answer to "work" is answer; event
// streams are left open behind it.
func openUnreadable(t *testing.T, how, answer string) transport.Conn {
	text := func(s seen) string {
		id, _ := wire.ParseID([]byte(s.id))
		if s.method != "work" {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
		}
		return fmt.Sprintf(answer, id)
	}
	if how == "sse" {
		script := &sseScript{endpoint: "/post", say: make(chan string, 10)}
		script.post = func(w http.ResponseWriter, s seen) bool {
			w.WriteHeader(http.StatusAccepted)
			script.say <- eventOf("", text(s))
			return true
		}
		c, _ := sseDial(t, script, transport.Options{})
		return c
	}
	_, srv := serve(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		if how == "json" {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			write(w, text(s))
			return
		}
		startEvents(w)
		write(w, eventOf("", text(s)))
		if s.method == "work" {
			<-r.Context().Done()
		}
	})
	c, err := Open(t.Context(), Spec{URL: srv.URL}, transport.Options{Inbound: func(transport.Inbound) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}
