package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/bridge"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/pipe"
)

// A daemon is a gateway that can be stopped and started anew on one address.
type daemon struct {
	t    *testing.T
	hub  *hub
	addr string
	g    *Gateway
	srv  *http.Server
	done chan struct{}
}

func startDaemon(t *testing.T, h *hub) *daemon {
	d := &daemon{t: t, hub: h, addr: "127.0.0.1:0"}
	d.start()
	t.Cleanup(d.kill)
	return d
}

func (d *daemon) start() {
	d.t.Helper()
	l, err := net.Listen("tcp", d.addr)
	if err != nil {
		d.t.Fatal(err)
	}
	d.addr = l.Addr().String()
	d.g = New(d.hub, Options{})
	d.srv = &http.Server{Handler: d.g.Handler()}
	d.done = make(chan struct{})
	go func(srv *http.Server, done chan struct{}) { // ends with kill, which waits for it
		defer close(done)
		_ = srv.Serve(l)
	}(d.srv, d.done)
}

// kill drops every connection and every session.
func (d *daemon) kill() {
	_ = d.srv.Close()
	<-d.done
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = d.g.Close(ctx)
}

func (d *daemon) bridge(ctx context.Context, in io.Reader, out io.Writer) error {
	return bridge.Run(ctx, in, out, "http://"+d.addr+"/mcp", http.DefaultTransport)
}

func TestBridgeInEveryVersion(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			h := sdkHub()
			d := startDaemon(t, h)
			tr, wait := piped(t, d.bridge)
			c := connect(t, tr, version)
			if version != mcp.ModernVersion {
				eventually(t, "the standing stream", func() bool {
					return d.g.sessions.InUse() > 0
				})
			}
			judge(t, h, c, version)
			c.Close()
			wait()
			eventually(t, "the session ends with the bridge", func() bool { return d.g.sessions.Len() == 0 })
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestFaultA1BridgeOutlivesItsDaemon(t *testing.T) {
	h := newHub()
	d := startDaemon(t, h)
	c := talk(t, d.bridge)
	c.say(hello)
	if got := c.next(); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
		t.Fatalf("got %s", got)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`)
	if got := c.next(); !strings.Contains(got, `"id":1,"result"`) {
		t.Fatalf("got %s", got)
	}
	d.kill()
	c.say(`{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`) // waits for the daemon
	d.start()
	told := map[string]bool{}
	for range 4 { // three changed lists, and the answer
		got := c.next()
		switch {
		case strings.Contains(got, `"id":2`):
			told["answer"] = strings.Contains(got, `"result":{"prompts":[`)
		case strings.Contains(got, "list_changed"):
			told[got] = true
		}
	}
	if len(told) != 4 || !told["answer"] {
		t.Errorf("told %v", told)
	}
	c.say(call("3", "echo", ""))
	wantJSON(t, c.next(), `{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)
	eventually(t, "the subscription is made again", func() bool { return h.subscribers("file:///a") == 1 })
	eventually(t, "the standing stream", func() bool {
		return d.g.sessions.InUse() > 0
	})
	h.changed(everline.Prompts)
	if got := c.next(); !strings.Contains(got, "prompts/list_changed") {
		t.Errorf("got %s", got)
	}
}

func TestBridgeWaitsForItsDaemon(t *testing.T) {
	d := startDaemon(t, newHub())
	d.kill()
	c := talk(t, d.bridge)
	c.say(modernBody("1", "tools/call", `,"name":"echo"`), hello)
	d.start()
	if got := c.next() + c.next(); !strings.Contains(got, `"id":1,"result"`) || !strings.Contains(got, `"id":0,"result"`) {
		t.Errorf("got %s", got)
	}
}

func TestFaultJ1BridgeSendsACallOnce(t *testing.T) {
	h := newHub()
	var calls atomic.Int32
	started := make(chan struct{}, 8)
	h.onCall = func(ctx context.Context, _ *everline.Call) ([]byte, error) {
		calls.Add(1)
		started <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	d := startDaemon(t, h)
	c := talk(t, d.bridge)
	c.say(hello)
	c.next()
	c.say(call("1", "echo", ""))
	within(t, "the call starts", started)
	d.kill()
	got := c.next()
	if !strings.Contains(got, `"id":1`) || !strings.Contains(got, `"outcome":"unknown"`) || !strings.Contains(got, `"isError":true`) {
		t.Errorf("got %s", got)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

func TestBridgeCancelsAndRefuses(t *testing.T) {
	h := newSlowHub()
	d := startDaemon(t, h.hub)
	c := talk(t, d.bridge)
	c.say("nonsense")
	if got := c.next(); !strings.Contains(got, `-32700`) {
		t.Errorf("got %s", got)
	}
	c.say(`{"jsonrpc":"2.0","id":"x","method":"tools/list"}`) // no session yet
	if got := c.next(); !strings.Contains(got, `"id":"x"`) || !strings.Contains(got, `-32600`) {
		t.Errorf("got %s", got)
	}
	c.say(modernBody("1", "tools/call", `,"name":"echo"`))
	within(t, "the call starts", h.started)
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	within(t, "the call ends", h.ended)
	c.say(hello)
	if got := c.next(); !strings.Contains(got, `"id":0`) { // the canceled one is not answered
		t.Errorf("got %s", got)
	}
	c.say(call("2", "echo", ""))
	within(t, "the call starts", h.started)
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if err := within(t, "the call ends", h.ended); !errors.Is(err, session.ErrCanceled) {
		t.Errorf("ended by %v", err)
	}
}

func TestBridgeEndsWithItsContext(t *testing.T) {
	d := startDaemon(t, newHub())
	d.kill()
	in, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.bridge(ctx, in, io.Discard) }() // ends with ctx
	if _, err := io.WriteString(w, hello+"\n"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := within(t, "the end", done); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	d.start()
}

func TestFaultA2BridgeReopensOnceForAllRequests(t *testing.T) {
	h := newHub()
	d := startDaemon(t, h)
	c := talk(t, d.bridge)
	c.say(hello)
	c.next()
	d.kill()
	d.start()
	const n = 20
	for i := range n {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"prompts/list"}`, i+1))
	}
	answers, notes := 0, 0
	for answers < n || notes < 3 {
		if got := c.next(); strings.Contains(got, `"result":{"prompts"`) {
			answers++
		} else if strings.Contains(got, "list_changed") {
			notes++
		} else {
			t.Fatalf("got %s", got)
		}
	}
	if got := d.g.sessions.Len(); got != 1 {
		t.Errorf("%d sessions were opened", got)
	}
}

// A cancel and its request go to the daemon one beside the other: whichever
// comes first, the call ends.
func TestFaultJ3BridgeCancelsThatComeRightBehind(t *testing.T) {
	h := newSlowHub()
	d := startDaemon(t, h.hub)
	c := talk(t, d.bridge)
	c.say(hello)
	c.next()
	const n = 50
	for i := range n {
		c.say(call(fmt.Sprint(i+1), "echo", ""), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i+1))
	}
	for range n {
		if err := within(t, "the call ends", h.ended); !errors.Is(err, session.ErrCanceled) {
			t.Errorf("ended by %v", err)
		}
	}
	c.say(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	wantJSON(t, c.next(), `{"jsonrpc":"2.0","id":"p","result":{}}`) // none of them is answered
}

func TestBridgeAnswersWhatIsInFlightAtTheEnd(t *testing.T) {
	h := newSlowHub()
	d := startDaemon(t, h.hub)
	c := talk(t, d.bridge)
	c.say(hello)
	c.next()
	c.say(call("1", "echo", ""))
	within(t, "the call starts", h.started)
	c.in.Close()
	if got := c.next(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, `"outcome":"unknown"`) || !strings.Contains(got, pipe.ErrLeft.Error()) {
		t.Errorf("got %s", got)
	}
	if err := within(t, "the end", c.done); err != nil {
		t.Error(err)
	}
}

// An id is free once the answer is read.
func TestBridgeIDsMayBeUsedAgain(t *testing.T) {
	d := startDaemon(t, newHub())
	c := talk(t, d.bridge)
	c.say(hello)
	c.next()
	for range 2000 {
		c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if got := c.next(); !strings.Contains(got, `"result"`) {
			t.Fatalf("got %s", got)
		}
	}
}
