package systest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcptest"
)

// crossingCalls sizes TestFaultJ6; make long NAME=crossing runs 10,000.
var crossingCalls = flag.Int("crossing.calls", 1000, "concurrent mixed calls whose answers are checked by content")

const (
	crossingClients = 20
	crossingAtOnce  = 8  // calls of one client at a time
	crossingLosses  = 12 // restarts while the calls run
)

// crossingIDs are forms of ids that clients use, all of them at the same time.
var crossingIDs = []string{`1`, `"1"`, `0`, `9007199254740993`, `-7`, `"a b"`, `1`}

// A served is a gateway on a hub, as clients see it.
type served struct {
	t   *testing.T
	url string
	web *http.Client
}

func newEndpoint(t *testing.T, hub *everline.Hub) *served {
	t.Helper()
	g := gateway.New(gateway.ViewOf(hub, ""), gateway.Options{})
	srv := httptest.NewServer(g.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		err := g.Close(ctx)
		srv.Client().CloseIdleConnections()
		srv.Close()
		if err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &served{t: t, url: srv.URL + "/mcp", web: srv.Client()}
}

// post sends one message and returns all of what came back. ctx is the client's.
func (e *served) post(ctx context.Context, body string, header ...string) (http.Header, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := e.web.Do(req)
	if err != nil {
		return nil, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.Header, string(text), errors.Join(err, resp.Body.Close())
}

// A front is one client of the endpoint.
type front struct {
	e      *served
	n      int
	modern bool
	header []string
}

func (e *served) client(n int) *front {
	c := &front{e: e, n: n, modern: n%2 == 1}
	if c.modern {
		c.header = []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call"}
		return c
	}
	h, body, err := e.post(within(e.t), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if err != nil || h.Get("Mcp-Session-Id") == "" {
		e.t.Fatalf("initialize: %s %v", body, err)
	}
	c.header = []string{"Mcp-Session-Id", h.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
	return c
}

// call sends one call with a mark of its own, and checks that everything that
// comes back is about that mark.
func (c *front) call(i int, rnd *rand.Rand) {
	tool := []string{"web__echo", "child__echo", "new__echo", "web__work", "child__work", "new__work"}[rnd.IntN(6)]
	id, mark := crossingIDs[rnd.IntN(len(crossingIDs))], fmt.Sprintf("mark-%d-%d-end", c.n, i)
	meta := `"progressToken":1`
	header := c.header
	if c.modern {
		meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
		header = append(slices.Clone(header), "Mcp-Name", tool)
	}
	steps := rnd.IntN(4)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"id":%q,"steps":%d},"_meta":{%s}}}`,
		id, tool, mark, steps, meta)
	_, text, err := c.e.post(within(c.e.t), body, header...)
	if err != nil {
		c.e.t.Errorf("%s: %v", mark, err)
		return
	}
	c.check(text, id, mark)
}

func (c *front) check(text, id, mark string) {
	t := c.e.t
	if n := strings.Count(text, `"id":`+id+`,`); n < 1 {
		t.Errorf("%s with id %s got %s", mark, id, text)
	}
	if strings.Count(text, `"result":`)+strings.Count(text, `"error":`) != 1 {
		t.Errorf("%s was not answered once: %s", mark, text)
	}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "mark-")
		if !found {
			break
		}
		if !strings.HasPrefix("mark-"+after, mark) {
			t.Errorf("%s got something of another call: %s", mark, text)
		}
		rest = after
	}
	if !strings.Contains(text, mark) && !strings.Contains(text, `"everline/outcome"`) {
		t.Errorf("%s got neither its answer nor an outcome: %s", mark, text)
	}
	if strings.Count(text, "notifications/progress") != strings.Count(text, `"progressToken":1`) {
		t.Errorf("%s got progress with a token of somebody else: %s", mark, text)
	}
}

// Ids that clash in every form, on twenty clients of both eras, over servers
// of every kind that are restarted all the time: no value of one call is in
// the answer of another.
func TestFaultJ6NothingCrosses(t *testing.T) {
	srv, modern := mcptest.New(mcptest.Config{}), mcptest.New(mcptest.Config{Era: mcptest.Modern})
	hub := open(t, servers{
		"web": web(mcptest.Web(t, srv)), "new": web(mcptest.Web(t, modern)), "child": child(mcptest.Config{}),
	}, everline.Options{})
	for _, name := range []string{"web", "new", "child"} {
		ready(t, hub, name, 0)
	}
	e := newEndpoint(t, hub)
	var done atomic.Int64
	each := *crossingCalls / crossingClients
	every := int64(max(*crossingCalls/crossingLosses, 1))
	var clients sync.WaitGroup
	for n := range crossingClients {
		c := e.client(n)
		var next atomic.Int64
		for lane := range crossingAtOnce {
			clients.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(n), uint64(lane)))
				for i := next.Add(1); i <= int64(each); i = next.Add(1) {
					c.call(int(i), rnd)
					switch k := done.Add(1); {
					case k%every != 0:
					case k/every%3 == 0:
						srv.DropSessions()
					case k/every%3 == 1:
						_ = hub.Reconnect(within(t), "child")
					default:
						_ = hub.Reconnect(within(t), "new")
					}
				}
			})
		}
	}
	clients.Wait()
	if done.Load() != int64(each*crossingClients) {
		t.Errorf("%d calls", done.Load())
	}
	if n := srv.Count("initialize"); n < 3 {
		t.Errorf("the server was restarted %d times only", n-1)
	}
}
