package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/bridge"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/pipe"
)

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

func listRequest(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}` }

// A slowOpening answers initialize only when it is released.
type slowOpening struct {
	*Gateway
	opened  chan struct{}
	release chan struct{}
}

func (s slowOpening) serve(t *testing.T) string {
	h := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), `"initialize"`) {
			s.opened <- struct{}{}
			<-s.release
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

func TestFaultS8BridgeHoldsWhatComesBehindInitialize(t *testing.T) {
	g := New(newHub(), Options{})
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	s := slowOpening{g, make(chan struct{}, 8), make(chan struct{})}
	url := s.serve(t)
	c := talk(t, func(ctx context.Context, in io.Reader, out io.Writer) error {
		return bridge.Run(ctx, in, out, url, http.DefaultTransport)
	})
	c.say(hello, initialized, listRequest("1"),
		`{"jsonrpc":"2.0","id":"p","method":"ping"}`,
		strings.Replace(hello, `"id":0`, `"id":"again"`, 1), // which holds what is behind it as well
		listRequest("2"))
	within(t, "the first initialize", s.opened)
	c.in.Close() // as printf does
	s.release <- struct{}{}
	within(t, "the second initialize", s.opened)
	s.release <- struct{}{}
	var got []string
	for range 5 {
		got = append(got, c.next())
	}
	if all := strings.Join(got, "\n"); strings.Contains(all, "error") || !strings.Contains(got[0], `"id":0`) ||
		strings.Count(all, `"tools":[`) != 2 || strings.Index(all, `"again"`) > strings.Index(all, `"id":2`) {
		t.Errorf("got %s", all)
	}
	if err := within(t, "the end", c.done); err != nil {
		t.Error(err)
	}
}

// A daemon that refuses initialize refuses what was held, and holds nothing up.
func TestFaultS8WhatIsHeldIsAnsweredWhateverInitializeIs(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`)
	}))
	t.Cleanup(srv.Close)
	c := talk(t, func(ctx context.Context, in io.Reader, out io.Writer) error {
		return bridge.Run(ctx, in, out, srv.URL, http.DefaultTransport)
	})
	c.say(hello, listRequest("1"), listRequest("2"))
	for range 3 {
		if got := c.next(); !strings.Contains(got, `"error"`) {
			t.Errorf("got %s", got)
		}
	}
}

// A slowHello is a backend that lets initialize wait.
type slowHello struct {
	*hub
	asked   *atomic.Int64
	release chan struct{}
}

func (s slowHello) Catalog() *everline.Catalog {
	if s.asked.Add(1) == 1 {
		<-s.release
	}
	return s.hub.Catalog()
}

func TestFaultS8TheGatewayOnStdioHoldsAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slowHello{newHub(), new(atomic.Int64), make(chan struct{})}
		g := New(b, Options{})
		in, say := io.Pipe()
		hear, out := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- g.ServeStdio(t.Context(), in, out) }() // ends with in
		go func() { _, _ = io.WriteString(say, hello+"\n"+initialized+"\n"+listRequest("1")+"\n"); say.Close() }()
		synctest.Wait()
		if n := b.asked.Load(); n != 1 {
			t.Errorf("the list was read before initialize was answered: %d", n)
		}
		close(b.release)
		var got strings.Builder
		go func() { _, _ = io.Copy(&got, hear) }() // ends with out
		if err := <-done; err != nil {
			t.Error(err)
		}
		out.Close()
		synctest.Wait()
		first, second, _ := strings.Cut(got.String(), "\n")
		if !strings.Contains(first, `"id":0,"result"`) || !strings.Contains(second, `"id":1,"result"`) {
			t.Errorf("got %s", got.String())
		}
		_ = g.Close(t.Context())
	})
}

func listenTo(id, filter string) string {
	return modernBody(id, mcp.SubscriptionsListen, `,"notifications":{`+filter+`}`)
}

func TestFaultW5BridgeRenewsListens(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		t.Run(fmt.Sprint("graceful ", graceful), func(t *testing.T) {
			h := newHub()
			d := startDaemon(t, h)
			c := talk(t, d.bridge)
			c.say(listenTo(`"l"`, `"toolsListChanged":true,"resourceSubscriptions":["file:///a"]`))
			if got := c.next(); !strings.Contains(got, mcp.NotifyAcknowledged) {
				t.Fatalf("got %s", got)
			}
			c.say(listenTo("2", `"promptsListChanged":true`)) // another one beside it
			if got := c.next(); !strings.Contains(got, mcp.NotifyAcknowledged) {
				t.Fatalf("got %s", got)
			}
			if graceful {
				_ = d.g.Close(t.Context())
			}
			d.kill()
			d.start()
			told := map[string]bool{}
			for len(told) < 3 {
				got := c.next()
				if strings.Contains(got, "acknowledged") || strings.Contains(got, `"result"`) || strings.Contains(got, `"error"`) {
					t.Fatalf("the client notices: %s", got)
				}
				told[got] = true
			}
			all := fmt.Sprint(told)
			for _, want := range []string{
				`"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}`,
				`"method":"notifications/resources/updated","params":{"uri":"file:///a","_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}`,
				`"method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}`,
			} {
				if !strings.Contains(all, want) {
					t.Errorf("told %s\nlacks %s", all, want)
				}
			}
			eventually(t, "the resource is subscribed again", func() bool { return h.subscribers("file:///a") == 1 })
			h.changed(everline.Tools)
			if got := c.next(); !strings.Contains(got, "tools/list_changed") || !strings.Contains(got, `"l"`) {
				t.Errorf("got %s", got)
			}
			c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}`)
			eventually(t, "a canceled listen is over", func() bool { return h.subscribers("file:///a") == 0 })
			d.kill()
			d.start()
			if got := c.next(); !strings.Contains(got, "prompts/list_changed") { // and stays so
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestFaultW5RefusedListensEnd(t *testing.T) {
	d := startDaemon(t, newHub())
	c := talk(t, d.bridge)
	c.say(modernBody("1", mcp.SubscriptionsListen, ""))
	if got := c.next(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, "-32602") {
		t.Errorf("got %s", got)
	}
	c.say(modernBody("1", "server/discover", "")) // the id is free again
	if got := c.next(); !strings.Contains(got, `"id":1,"result"`) {
		t.Errorf("got %s", got)
	}
}

func TestFaultW9ListensAreNotInFlight(t *testing.T) {
	d := startDaemon(t, newHub())
	for _, away := range []bool{false, true} {
		c := talk(t, d.bridge)
		c.say(hello)
		c.next()
		c.say(initialized, listenTo("1", `"toolsListChanged":true`), listenTo("2", `"resourceSubscriptions":["file:///a"]`))
		for range 2 {
			if got := c.next(); !strings.Contains(got, "acknowledged") {
				t.Errorf("got %s", got)
			}
		}
		if away {
			d.kill() // so that the listens are being renewed
		}
		began := time.Now()
		c.in.Close()
		if err := within(t, "the end", c.done); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > pipe.Grace*3/4 {
			t.Errorf("daemon away %v: the end took %v", away, took)
		}
		for l := range c.lines {
			if strings.Contains(l, `"id"`) {
				t.Errorf("answered: %s", l)
			}
		}
		if away {
			d.start()
		}
	}
}
