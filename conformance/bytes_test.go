//go:build interop

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A raw is a way to send a request and to get the raw result.
type raw func(method, name, params string) json.RawMessage

type response struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// direct talks to server-everything over its own stdin and stdout.
func direct(t *testing.T) raw {
	t.Helper()
	cmd := exec.Command(bin(t, "mcp-server-everything"), "stdio")
	cmd.Env = env(t)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := readLines(t, scanner(out))
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		for range l.ch { // until the program has ended
		}
		_ = cmd.Wait()
	})
	n := 0
	send := func(method, _, params string) json.RawMessage {
		n++
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`+"\n", n, method, params)
		for {
			var r response
			if err := json.Unmarshal([]byte(l.next(30*time.Second)), &r); err != nil {
				t.Fatal(err)
			}
			if string(r.ID) == fmt.Sprint(n) && r.Method == "" {
				return r.Result
			}
		}
	}
	send("initialize", "", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return send
}

// post sends one request to everline and returns the last message of the answer.
func (g *gateway) post(body string, header map[string]string) (response, http.Header) {
	g.t.Helper()
	req, err := http.NewRequest(http.MethodPost, g.url, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		at := bytes.LastIndex(text, []byte("data: "))
		text = bytes.TrimSpace(text[at+len("data: "):])
	}
	var r response
	if len(text) > 0 && json.Unmarshal(text, &r) != nil {
		g.t.Fatalf("%s answered %s", body, text)
	}
	return r, resp.Header
}

func (g *gateway) modern() raw {
	return func(method, name, params string) json.RawMessage {
		if params != "" {
			params += ","
		}
		header := map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
		if name != "" {
			header["Mcp-Name"] = name
		}
		r, _ := g.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			method, params), header)
		return r.Result
	}
}

func (g *gateway) legacy() raw {
	_, h := g.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, nil)
	header := map[string]string{"Mcp-Session-Id": h.Get("Mcp-Session-Id"), "MCP-Protocol-Version": "2025-11-25"}
	return func(method, _, params string) json.RawMessage {
		r, _ := g.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params), header)
		return r.Result
	}
}

// Every tool, prompt, resource and result of a real server comes through
// everline byte for byte, whatever the client's era.
func TestBytesOfServerEverything(t *testing.T) {
	g := serve(t, map[string]any{"everything": map[string]any{"command": bin(t, "mcp-server-everything"), "args": []string{"stdio"}}})
	source := direct(t)
	for era, through := range map[string]raw{"legacy": g.legacy(), "modern": g.modern()} {
		t.Run(era, func(t *testing.T) {
			for method, member := range map[string]string{
				"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
			} {
				sameItems(t, method, member, source(method, "", ""), through(method, "", ""))
			}
			for _, c := range [][3]string{
				{"tools/call", "echo", `"name":"echo","arguments":{"message":"\u00e9 1.0"}`},
				{"tools/call", "get-sum", `"name":"get-sum","arguments":{"a":1,"b":2}`},
				{"tools/call", "get-structured-content", `"name":"get-structured-content","arguments":{"location":"Chicago"}`},
				{"tools/call", "get-annotated-message", `"name":"get-annotated-message","arguments":{"messageType":"error","includeImage":true}`},
				{"tools/call", "get-tiny-image", `"name":"get-tiny-image","arguments":{}`},
				{"tools/call", "get-resource-links", `"name":"get-resource-links","arguments":{"count":3}`},
				{"tools/call", "get-sum", `"name":"get-sum","arguments":{"a":"no number"}`},
				{"prompts/get", "simple-prompt", `"name":"simple-prompt"`},
				{"prompts/get", "args-prompt", `"name":"args-prompt","arguments":{"city":"x"}`},
			} {
				want, got := source(c[0], c[1], c[2]), through(c[0], c[1], c[2])
				if len(want) < 2 || !bytes.HasSuffix(got, want[1:]) {
					t.Errorf("%s %s:\ngot  %s\nwant %s", c[0], c[1], got, want)
				}
			}
		})
	}
}

// sameItems checks that every item is listed as its server lists it.
func sameItems(t *testing.T, method, member string, want, got json.RawMessage) {
	t.Helper()
	var own map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(want, &own) != nil || json.Unmarshal(own[member], &items) != nil || len(items) == 0 {
		t.Fatalf("%s of the server itself: %s", method, want)
	}
	for _, item := range items {
		if !bytes.Contains(got, item) {
			t.Errorf("%s lacks, byte for byte, %s", method, item)
		}
	}
}
