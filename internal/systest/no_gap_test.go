package systest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/endpoint"
	"github.com/everline/everline/internal/mcptest"
)

// A follower is a client with a standing stream that does what the protocol asks
// of it and no more: it opens the stream again when it ends, and lists again when
// it is told to.
type follower struct {
	t    *testing.T
	url  string
	web  *http.Client
	id   string
	last string // id of the newest event

	mu      sync.Mutex // guards the rest
	tools   []string
	updates int
}

// send posts a message until somebody answers, as often as connections break.
func (f *follower) send(ctx context.Context, body string) (string, http.Header) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, "POST", f.url, strings.NewReader(body))
		if err != nil {
			f.t.Error(err)
			return "", nil
		}
		f.headers(req)
		req.Header.Set("Content-Type", "application/json")
		resp, err := f.web.Do(req)
		if err != nil {
			time.Sleep(5 * time.Millisecond) // the place is shut; a poll of the network has nothing to wait for
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode < 300 {
			return string(text), resp.Header
		}
		if resp.StatusCode != http.StatusServiceUnavailable {
			f.t.Errorf("%s: %d %s", body, resp.StatusCode, text)
			return "", nil
		}
	}
	return "", nil
}

func (f *follower) headers(req *http.Request) {
	req.Header.Set("Accept", "application/json, text/event-stream")
	if f.id != "" {
		req.Header.Set("Mcp-Session-Id", f.id)
	}
}

// knows tells whether the client has these tools, and has heard of an update
// since it had heard of so many.
func (f *follower) knows(tools []string, updates int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Equal(f.tools, tools) && f.updates > updates
}

func (f *follower) list(ctx context.Context) {
	text, _ := f.send(ctx, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var answer struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		if ctx.Err() == nil {
			f.t.Errorf("%v: %s", err, text)
		}
		return
	}
	names := []string{}
	for _, tool := range answer.Result.Tools {
		names = append(names, tool.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tools = names
}

// follow reads one stream to its end.
func (f *follower) follow(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, "GET", f.url, nil)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.headers(req)
	if f.last != "" {
		req.Header.Set("Last-Event-ID", f.last)
	}
	resp, err := f.web.Do(req)
	if err != nil {
		time.Sleep(5 * time.Millisecond) // as in send
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			f.last = id
		}
		switch {
		case strings.Contains(line, "tools/list_changed"):
			f.list(ctx)
		case strings.Contains(line, "resources/updated"):
			f.mu.Lock()
			f.updates++
			f.mu.Unlock()
		}
	}
}

// TestAStandingStreamMissesNothingAroundARestart changes a server's tools and a
// resource before, while and after everline restarts, in order and not. A client
// that only believes its stream knows them in the end, each time.
func TestAStandingStreamMissesNothingAroundARestart(t *testing.T) {
	server := mcptest.New(mcptest.Config{
		Name: "srv", Tools: []string{namedTool("t0", "")}, Resources: []string{`{"uri":"file:///r","name":"r"}`},
	})
	site := mcptest.Web(t, server)
	dir := t.TempDir()
	at := serveAt(t, http.NotFoundHandler())
	start := func() (stop func(orderly bool)) {
		cfg := servers{"srv": quick(map[string]any{"url": site.URL + "/mcp"})}.config(t)
		hub, err := everline.Open(within(t), cfg, everline.Options{StateDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		e := endpoint.New(hub, endpoint.Options{StateDir: dir, Warn: func(text string) { t.Error("warned:", text) }})
		at.put(e.Handler())
		return func(orderly bool) {
			if !orderly {
				at.shut() // as the end of the process does, before anything is said
			}
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			if err := e.Close(ctx); err != nil {
				t.Error(err)
			}
			if err := hub.Close(ctx); err != nil {
				t.Error(err)
			}
			if orderly {
				at.shut()
			}
		}
	}
	stop := start()
	ctx, end := context.WithCancel(t.Context())
	f := &follower{t: t, url: "http://" + at.addr + "/mcp", web: &http.Client{Transport: &http.Transport{}}}
	_, header := f.send(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	f.id = header.Get("Mcp-Session-Id")
	f.send(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	f.list(ctx) // which the server has answered by then
	if text, _ := f.send(ctx, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"file:///r"}}`); !strings.Contains(text, `"result"`) {
		t.Fatalf("no subscription: %s", text)
	}
	var following sync.WaitGroup
	following.Go(func() { // ends with ctx
		for ctx.Err() == nil {
			f.follow(ctx)
		}
	})
	n := 0
	change := func() {
		n++
		server.SetTools(namedTool(fmt.Sprintf("t%d", n), ""))
		server.Notify("notifications/tools/list_changed", "")
	}
	await := func(round, updates int) {
		t.Helper()
		want := []string{fmt.Sprintf("t%d", n)}
		for limit := time.Now().Add(soon); !f.knows(want, updates); time.Sleep(5 * time.Millisecond) { // its goroutine has no other end to wait for
			if time.Now().After(limit) {
				t.Fatalf("round %d: the client knows %v and %d updates, want %v and more than %d", round, f.tools, f.updates, want, updates)
			}
		}
	}
	for round := range 10 {
		f.mu.Lock()
		before := f.updates
		f.mu.Unlock()
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // any moment of the round before
		change()
		stop(round%2 == 0)
		change()
		server.Await(t, "the streams of the one that has ended are closed", func() bool { return server.Listeners() == 0 })
		server.Notify("notifications/resources/updated", `{"uri":"file:///r"}`) // nobody hears it
		at.open()
		stop = start()
		// What a server announces between its listing and its stream is heard by
		// nobody, with or without everline; so the last change waits for the client, and
		// for the stream.
		await(round, before)
		server.Await(t, "everline listens", func() bool { return server.Listeners() > 0 })
		f.mu.Lock()
		before = f.updates
		f.mu.Unlock()
		change()
		server.Notify("notifications/resources/updated", `{"uri":"file:///r"}`)
		await(round, before)
	}
	end()
	following.Wait()
	f.web.CloseIdleConnections()
	stop(true)
}
