package transport

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// unreadables are answers to request %d that cannot be used, and what is said.
var unreadables = map[string]struct{ answer, says string }{
	"NaN":               {`{"jsonrpc":"2.0","id":%d,"result":{"structuredContent":{"v":NaN}}}`, "the answer is not JSON: "},
	"Infinity, id last": {`{"jsonrpc":"2.0","result":{"id":99,"v":-Infinity},"id":%d}`, "the answer is not JSON: "},
	"truncated":         {`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"te`, "the answer is not JSON: unexpected end at byte "},
	"string id":         {`{"jsonrpc":"2.0","id":"%d","result":{"v":undefined}}`, "the answer is not JSON: "},
	"an error":          {`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":'no'}}`, "the answer is not JSON: "},
	"text behind":       {`{"jsonrpc":"2.0","id":%d,"result":{}} done`, "the answer is not JSON: text after the message at byte "},
	"a batch":           {`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":%d,"result":{"v":NaN}}]`, "the answer is not JSON: "},
	"long":              {`{"jsonrpc":"2.0","id":%d,"result":{"t":"` + strings.Repeat("x", 600<<10) + `","v":NaN}}`, "the answer is not JSON: "},
	"bad escape":        {`{"jsonrpc":"2.0","id":%d,"result":{"t":"\q"}}`, "the answer is not JSON: "},
	"neither":           {`{"jsonrpc":"2.0","id":%d}`, "the answer has neither a result nor an error"},
}

// wantUnreadable calls and wants the fault of this call alone.
func wantUnreadable(t *testing.T, name string, c Conn, says string) {
	t.Helper()
	_, err := c.Call(t.Context(), memoryRequest(7, "work"))
	f := fault.From("", err)
	if f == nil || f.Kind != fault.Protocol || f.Outcome != fault.Unknown || f.Op != "work" || !strings.Contains(f.Text(), says) {
		t.Errorf("%s: %v", name, err)
	}
	if _, err := c.Call(t.Context(), memoryRequest(8, "echo")); err != nil || closed(c.Done()) {
		t.Errorf("%s: the link is not what it was: %v", name, err)
	}
}

// unreadable answers to "work", and good ones to all else; "slow" is held back.
func unreadableServer(answer string) ServeFunc {
	return func(_ context.Context, in <-chan []byte, out func([]byte)) {
		var slow []byte
		for frame := range in {
			m, _ := wire.Parse(frame)
			id, _ := wire.ParseID(m.ID)
			switch m.Method {
			case "work":
				out(fmt.Appendf(nil, answer, id))
			case "slow":
				slow = wire.AppendResult(nil, m.ID, []byte(`"late"`))
			case "free":
				out(slow)
				fallthrough
			default:
				out(wire.AppendResult(nil, m.ID, []byte(`{}`)))
			}
		}
	}
}

// An answer that cannot be read ends its own call at once, whatever else waits
// on the same link.
func TestFaultS3(t *testing.T) {
	for name, c := range unreadables {
		got := make(chan Inbound, 1)
		conn := OpenMemory(unreadableServer(c.answer), Options{Inbound: func(in Inbound) {
			if in.Msg.Method != "" { // no late answer
				got <- in
			}
		}})
		other := make(chan error, 1)
		go func() { // ends with its answer, which is waited for
			m, err := conn.Call(t.Context(), memoryRequest(1, "slow"))
			if err == nil && string(m.Result) != `"late"` {
				err = fmt.Errorf("result %s", m.Result)
			}
			other <- err
		}()
		wantUnreadable(t, name, conn, c.says)
		if name == "a batch" && (<-got).Msg.Method != "notifications/x" {
			t.Error("what is a message in a broken batch was lost")
		}
		for answered := false; !answered; {
			_, _ = conn.Call(t.Context(), memoryRequest(9, "free"))
			select {
			case err := <-other:
				if answered = true; err != nil {
					t.Errorf("%s: the call beside it: %v", name, err)
				}
			default:
			}
		}
		if conn.Info().Noise == 0 {
			t.Errorf("%s: not counted", name)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Lines that only look like answers fail nobody, and glued ones are not lost.
func TestFaultS3_WhatIsNoBrokenAnswer(t *testing.T) {
	mux := newLinkMux(Options{Inbound: func(Inbound) {}})
	a, _ := mux.register(&Request{ID: 7, Method: "a"})
	b, _ := mux.register(&Request{ID: 8, Method: "b"})
	for _, line := range []string{
		`{"level":"info","id":7,"msg":"done"}`,
		`{"level":"info","id":7,"msg":"do"ne"}`,
		`sent {"jsonrpc":"2.0","id":7,"result":NaN}`,
		`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{NaN}}`,
		`{"jsonrpc":"2.0","result":{"items":[{"id":7}`,
	} {
		mux.deliver([]byte(line))
	}
	if len(mux.waiters) != 2 || mux.noise != 5 {
		t.Fatalf("%d calls wait, %d noise lines", len(mux.waiters), mux.noise)
	}
	mux.deliver([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","id":8,"result":NaN}`))
	if _, err := mux.await(t.Context(), 7, a); err != nil {
		t.Error(err)
	}
	_, err := mux.await(t.Context(), 8, b)
	wantFault(t, err, fault.Protocol, fault.Unknown)

	// A broken answer that lost its id is meant for the only call that waits.
	c, _ := mux.register(&Request{ID: 9, Method: "c"})
	mux.deliver([]byte(`{"jsonrpc":"2.0","result":{"content":[`))
	_, err = mux.await(t.Context(), 9, c)
	wantFault(t, err, fault.Protocol, fault.Unknown)
}

// The same over HTTP, where a body or an event is the answer.
func TestFaultS3_OverHTTP(t *testing.T) {
	for name, c := range unreadables {
		for _, how := range []string{"json", "events", "sse"} {
			t.Run(how+"/"+name, func(t *testing.T) { wantUnreadable(t, name, openUnreadable(t, how, c.answer), c.says) })
		}
	}
}

// openUnreadable links to a server whose answer to "work" is answer; event
// streams are left open behind it.
func openUnreadable(t *testing.T, how, answer string) Conn {
	text := func(s httpSeen) string {
		id, _ := wire.ParseID([]byte(s.id))
		if s.method != "work" {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
		}
		return fmt.Sprintf(answer, id)
	}
	if how == "sse" {
		script := &sseScript{endpoint: "/post", say: make(chan string, 10)}
		script.post = func(w http.ResponseWriter, s httpSeen) bool {
			w.WriteHeader(http.StatusAccepted)
			script.say <- eventOf("", text(s))
			return true
		}
		c, _ := sseDial(t, script, Options{})
		return c
	}
	_, srv := httpServe(t, func(w http.ResponseWriter, r *http.Request, s httpSeen) {
		if how == "json" {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			httpWrite(w, text(s))
			return
		}
		httpStartEvents(w)
		httpWrite(w, eventOf("", text(s)))
		if s.method == "work" {
			<-r.Context().Done()
		}
	})
	c, err := OpenHTTP(t.Context(), HTTPSpec{URL: srv.URL}, Options{Inbound: func(Inbound) {}})
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
