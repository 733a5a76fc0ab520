package systest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcptest"
)

// Params that a server may read as another call than everline does reach none,
// whatever way they come in: a server that ignores case, or takes the first of
// two, would run a tool that is denied.
func TestDeniedToolsCannotBeReached(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": with(web(mcptest.Web(t, s)), map[string]any{"tools": map[string]any{"deny": []string{"work"}}})}, everline.Options{})
	ready(t, hub, "a", 0)
	e := newEndpoint(t, hub)
	legacy, modern := e.client(0), e.client(1)
	modern.header = append(modern.header, "Mcp-Name", "echo")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	h, _, err := e.post(within(t), hello)
	if err != nil {
		t.Fatal(err)
	}
	for _, params := range []string{
		`"name":"echo","Name":"work","arguments":{"id":"x"}}`,
		`"name":"work","name":"echo","arguments":{"id":"x"}}`,
		`"name":"echo","n\u0061me":"echo","arguments":{"id":"x"}}`,
	} {
		frame := func(before string) string {
			return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + before + params + `}`
		}
		ways := map[string]string{}
		_, ways["legacy"], _ = e.post(within(t), frame(""), legacy.header...)
		_, ways["modern"], _ = e.post(within(t), frame(meta), modern.header...)
		_, ways["batch"], _ = e.post(within(t), `[`+frame("")+`]`, "Mcp-Session-Id", h.Get("Mcp-Session-Id"))
		ways["stdio"] = overStdio(t, hub, frame(""))
		for way, body := range ways {
			if !strings.Contains(body, `"code":-32602`) || !strings.Contains(body, `"id":7`) {
				t.Errorf("%s, %s: %s", params, way, body)
			}
		}
		_, err := hub.Call(within(t), &everline.Call{Method: "tools/call", Name: "echo", Params: []byte(`{` + params)})
		if !errors.Is(err, &fault.Fault{Kind: fault.Invalid}) {
			t.Errorf("%s, library: %v", params, err)
		}
	}
	if n := s.Count("tools/call"); n != 0 {
		t.Errorf("%d calls reached the server", n)
	}
	mustCall(t, hub, "echo", `{"name":"x","Name":"y"}`)
}

// overStdio returns the answer to one message.
func overStdio(t *testing.T, hub *everline.Hub, line string) string {
	t.Helper()
	g := gateway.New(gateway.ViewOf(hub, ""), gateway.Options{})
	in, w := io.Pipe()
	r, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- g.ServeStdio(within(t), in, out) }() // ends with in
	if _, err := io.WriteString(w, line+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := errors.Join(<-done, g.Close(context.Background())); err != nil {
		t.Error(err)
	}
	return answer
}

// Text of a server that is not UTF-8 reaches no client: one that reads
// strictly would end, and with it the calls of all servers.
func TestBrokenTextOfServersIsMended(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	s.On("tools/list", func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Result: "{\"tools\":[{\"name\":\"echo\",\"description\":\"na\xefve\",\"inputSchema\":{\"type\":\"object\"}}]}"}
	})
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		if strings.Contains(string(r.Params), "fail") {
			return &mcptest.Reply{Error: "{\"code\":-5,\"message\":\"na\xefve\"}"}
		}
		return &mcptest.Reply{Result: "{\"content\":[{\"type\":\"text\",\"text\":\"na\xefve\"}]}"}
	})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	ready(t, hub, "a", 0)
	e := newEndpoint(t, hub)
	c := e.client(0)
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"fail":true}}}`,
	} {
		_, text, err := e.post(within(t), body, c.header...)
		if err != nil || !utf8.ValidString(text) || !strings.Contains(text, "na\uFFFDve") {
			t.Errorf("%s: %q, %v", body, text, err)
		}
	}
}
