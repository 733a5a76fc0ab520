package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/pipe"
)

// A console is a client on a pair of pipes.
type console struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string // closed at the end
	done  chan error  // what serving returned
}

// talk serves a client over pipes with run, which is ServeStdio or Bridge.
func talk(t *testing.T, run func(ctx context.Context, in io.Reader, out io.Writer) error) *console {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &console{t: t, in: inW, lines: make(chan string, 1024), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with run; the cleanup waits for it
		err := run(ctx, inR, outW)
		outW.Close()
		c.done <- err
	}()
	read := make(chan struct{})
	go func() { // ends with the output; the cleanup waits for it
		defer close(read)
		defer close(c.lines)
		sc := bufio.NewScanner(outR)
		sc.Buffer(nil, 8<<20)
		for sc.Scan() {
			c.lines <- sc.Text()
		}
	}()
	t.Cleanup(func() {
		inW.Close()
		cancel()
		<-read
	})
	return c
}

func stdio(t *testing.T, h *hub, opts Options) (*console, *Gateway) {
	t.Helper()
	g := New(h, opts)
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return talk(t, g.ServeStdio), g
}

func (c *console) say(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.in, l+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *console) next() string {
	c.t.Helper()
	select {
	case l, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the output ended")
		}
		return l
	case <-time.After(patience):
		c.t.Fatal("no line came")
		return ""
	}
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestStdioServesBothEras(t *testing.T) {
	h := newHub()
	c, _ := stdio(t, h, Options{})
	c.say("", modernBody(`"d"`, "server/discover", ""))
	if got := c.next(); !strings.Contains(got, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`) {
		t.Errorf("got %s", got)
	}
	c.say(`{"jsonrpc":"2.0","id":"p","method":"server/discover"}`)
	if got := c.next(); !strings.Contains(got, `-32602`) {
		t.Errorf("a probe without _meta got %s", got)
	}
	c.say(strings.Replace(modernBody("1", "tools/list", ""), "2026-07-28", "2031-01-01", 1))
	if got := c.next(); !strings.Contains(got, `-32022`) {
		t.Errorf("got %s", got)
	}
	h.changed(everline.Tools) // nobody asked to hear of it yet
	c.say(hello)
	if got := c.next(); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
		t.Errorf("got %s", got)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if got := c.next(); !strings.Contains(got, "tools/list_changed") {
		t.Errorf("got %s", got)
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `garbage`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	seen := c.next() + c.next() + c.next()
	for _, part := range []string{`{"jsonrpc":"2.0","id":2,"result":{"tools":[`, `-32700`, `-32600`} {
		if !strings.Contains(seen, part) {
			t.Errorf("%s\nlacks %s", seen, part)
		}
	}
	c.in.Close()
	if err := within(t, "the end", c.done); err != nil {
		t.Error(err)
	}
}

func TestStdioBatch(t *testing.T) {
	c, _ := stdio(t, newHub(), Options{})
	c.say(strings.Replace(hello, "2025-06-18", "2025-03-26", 1))
	c.next()
	c.say(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	wantJSON(t, c.next(), `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]`)
}

func TestStdioProgressAndOrder(t *testing.T) {
	h := newHub()
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		c.Progress([]byte(`{"progressToken":"x","progress":1}`))
		return []byte("{\"content\":\n[]}"), nil
	}
	c, _ := stdio(t, h, Options{})
	c.say(call("5", "echo", `"x"`))
	if got := c.next(); !strings.Contains(got, "notifications/progress") {
		t.Errorf("got %s", got)
	}
	wantJSON(t, c.next(), `{"jsonrpc":"2.0","id":5,"result":{"content":[]}}`)
}

func TestFaultJ3StdioCancel(t *testing.T) {
	for era, ask := range map[string]string{"legacy": call("1", "echo", ""), "modern": modernBody("1", "tools/call", `,"name":"echo"`)} {
		h := newSlowHub()
		c, _ := stdio(t, h.hub, Options{})
		c.say(ask, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if err := within(t, "the call ends", h.ended); !errors.Is(err, session.ErrCanceled) {
			t.Errorf("%s: ended by %v", era, err)
		}
		c.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if got := c.next(); !strings.Contains(got, `"id":2`) { // a canceled request is not answered
			t.Errorf("%s: got %s", era, got)
		}
	}
}

func TestFaultJ6StdioDuplicateIDIsRefused(t *testing.T) {
	h := newSlowHub()
	c, _ := stdio(t, h.hub, Options{})
	c.say(call("1", "one", ""))
	within(t, "the call starts", h.started)
	c.say(call("1", "two", ""))
	if got := c.next(); !strings.Contains(got, `"id":null`) || !strings.Contains(got, `-32600`) {
		t.Errorf("got %s", got)
	}
	close(h.release)
	wantJSON(t, c.next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[],"name":"one"}}`)
	c.say(call("1", "again", "")) // free again
	if got := c.next(); !strings.Contains(got, `"again"`) {
		t.Errorf("got %s", got)
	}
}

func TestStdioListens(t *testing.T) {
	h := newHub()
	c, g := stdio(t, h, Options{})
	c.say(modernBody(`"a"`, mcp.SubscriptionsListen, `,"notifications":{"toolsListChanged":true}`), modernBody(`"b"`, mcp.SubscriptionsListen, `,"notifications":{"toolsListChanged":true}`))
	acks := c.next() + c.next()
	if strings.Count(acks, "acknowledged") != 2 {
		t.Fatalf("got %s", acks)
	}
	h.changed(everline.Tools)
	told := c.next() + c.next()
	if !strings.Contains(told, `subscriptionId":"a"`) || !strings.Contains(told, `subscriptionId":"b"`) {
		t.Errorf("got %s", told)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
	eventually(t, "the listen ends", func() bool { g.inflight.mu.Lock(); defer g.inflight.mu.Unlock(); return len(g.inflight.all) == 1 })
	if err := g.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if got := c.next(); !strings.Contains(got, `"id":"b","result":{"resultType":"complete"`) {
		t.Errorf("got %s", got)
	}
	if got := c.next(); !strings.Contains(got, `"notifications/cancelled","params":{"requestId":"b"}`) {
		t.Errorf("got %s", got)
	}
	if err := within(t, "the end", c.done); err != nil {
		t.Error(err)
	}
}

func TestStdioAnswersWhatIsInFlightAtTheEnd(t *testing.T) {
	h := newSlowHub()
	c, _ := stdio(t, h.hub, Options{})
	c.say(call("1", "echo", ""))
	within(t, "the call starts", h.started)
	c.in.Close()
	close(h.release)
	if got := c.next(); !strings.Contains(got, `"id":1`) {
		t.Errorf("got %s", got)
	}
	if err := within(t, "the end", c.done); err != nil {
		t.Error(err)
	}
}

func TestStdioLongLinesAreSkipped(t *testing.T) {
	c, _ := stdio(t, newHub(), Options{MaxBody: 1000})
	c.say(strings.Repeat("x", 200_000), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if got := c.next(); !strings.Contains(got, "too large") {
		t.Errorf("got %s", got)
	}
	if got := c.next(); !strings.Contains(got, `"id":1`) {
		t.Errorf("got %s", got)
	}
}

// stalled is an output that nobody reads.
type stalled struct{ closed chan struct{} }

func (s stalled) Write([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s stalled) Close() error              { close(s.closed); return nil }

func TestStdioClientThatDoesNotReadIsCutOff(t *testing.T) {
	g := New(newHub(), Options{WriteTimeout: 20 * time.Millisecond})
	defer g.Close(context.Background())
	in, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- g.ServeStdio(context.Background(), in, stalled{make(chan struct{})}) }() // ends with the cut
	if _, err := io.WriteString(w, hello+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := within(t, "the end", done); !errors.Is(err, stream.ErrSlow) {
		t.Errorf("got %v", err)
	}
}

func TestStdioEndsWithItsContext(t *testing.T) {
	g := New(newHub(), Options{})
	defer g.Close(context.Background())
	in, _ := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.ServeStdio(ctx, in, io.Discard) }() // ends with ctx
	cancel()
	if err := within(t, "the end", done); !errors.Is(err, context.Canceled) || fault.KindOf(err) == fault.Wedged {
		t.Errorf("got %v", err)
	}
}

// batchers are the two ways in which a client on pipes is served.
func batchers(t *testing.T, h *hub) map[string]*console {
	pipe, _ := stdio(t, h, Options{})
	all := map[string]*console{"pipe": pipe, "bridge": talk(t, startDaemon(t, h).bridge)}
	for _, c := range all {
		c.say(strings.Replace(hello, "2025-06-18", "2025-03-26", 1))
		c.next()
	}
	return all
}

func TestBatchesOnPipes(t *testing.T) {
	for name, c := range batchers(t, newHub()) {
		t.Run(name, func(t *testing.T) {
			c.say(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},` +
				`{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"echo"}},7,{"jsonrpc":"2.0","id":3,"method":"initialize"}]`)
			wantJSON(t, c.next(), `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"b","result":{"content":[]}},`+
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: not a JSON object"}},`+
				`{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"Invalid request: initialize in a batch"}}]`)
			c.say(`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, `[]`)
			if got := c.next(); !strings.Contains(got, `"id":null`) || !strings.Contains(got, `-32600`) {
				t.Errorf("an empty batch: %s", got)
			}
		})
	}
}

func TestCancelsRightBehindABatch(t *testing.T) {
	h := newSlowHub()
	for name, c := range batchers(t, h.hub) {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				c.say("["+call("1", "echo", "")+","+call("2", "echo", "")+`,{"jsonrpc":"2.0","id":3,"method":"ping"}]`,
					`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
					`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}]`)
				for range 2 {
					if err := within(t, "the call ends", h.ended); !errors.Is(err, session.ErrCanceled) {
						t.Errorf("ended by %v", err)
					}
				}
				wantJSON(t, c.next(), `[{"jsonrpc":"2.0","id":3,"result":{}}]`)
			}
		})
	}
}

func TestNewerVersionsHaveNoBatchesOnPipes(t *testing.T) {
	h := newHub()
	pipe, _ := stdio(t, h, Options{})
	for name, c := range map[string]*console{"pipe": pipe, "bridge": talk(t, startDaemon(t, h).bridge)} {
		c.say(hello)
		c.next()
		c.say(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		if got := c.next(); !strings.Contains(got, `"id":null`) || !strings.Contains(got, `-32600`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A call that may ask has as much time as any other when the input ends.
func TestACallThatMayAskIsAnsweredAtTheEnd(t *testing.T) {
	h := newSlowHub()
	c, _ := stdio(t, h.hub, Options{})
	c.say(strings.Replace(modernBody("1", "tools/call", `,"name":"echo"`), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1))
	within(t, "the call starts", h.started)
	c.in.Close()
	select {
	case err := <-h.ended:
		t.Errorf("ended at once by %v", err)
	case <-time.After(pipe.Grace / 10):
	}
	close(h.release)
	if got := c.next(); !strings.Contains(got, `"id":1,"result"`) {
		t.Errorf("got %s", got)
	}
}
