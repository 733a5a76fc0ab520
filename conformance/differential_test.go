//go:build conformance

package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A peerClient is a client of one era that speaks raw JSON over HTTP, to a server or
// to everline, and writes down all that it is told.
type peerClient struct {
	t        *testing.T
	url      string
	modern   bool
	declares string // client capabilities
	header   http.Header
	id       int
}

const (
	servesAll = `{"elicitation":{"form":{}},"roots":{},"sampling":{}}`
	nothing   = `{}`
)

func newPeer(t *testing.T, url string, modern bool, declares string) *peerClient {
	c := &peerClient{t: t, url: url, modern: modern, declares: declares, header: http.Header{}}
	c.header.Set("Content-Type", "application/json")
	c.header.Set("Accept", "application/json, text/event-stream")
	if modern {
		c.header.Set("MCP-Protocol-Version", "2026-07-28")
		return c
	}
	resp := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"peer","version":"1"}}}`, declares), nil)
	c.header.Set("MCP-Protocol-Version", "2025-11-25")
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.header.Set("Mcp-Session-Id", id)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil).Body.Close()
	c.post(`{"jsonrpc":"2.0","id":"level","method":"logging/setLevel","params":{"level":"debug"}}`, nil).Body.Close()
	t.Cleanup(func() {
		req, _ := http.NewRequest(http.MethodDelete, url, nil)
		req.Header = c.header
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	})
	return c
}

func (c *peerClient) post(body string, extra map[string]string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = c.header.Clone()
	for k, v := range extra {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// A rpcFrame is one message with its parts as they are on the wire.
type rpcFrame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// call makes one call and returns what the client was told, the answer of each round
// last. What a server asks at one time has no order.
func (c *peerClient) call(method, name, params string) []string {
	c.t.Helper()
	var told []string
	own := params
	for round := 0; ; round++ {
		answer := c.once(method, name, params, &told)
		if round == 0 {
			slices.Sort(told)
		}
		told = append(told, string(answer))
		var r struct {
			Inputs map[string]struct {
				Method string `json:"method"`
			} `json:"inputRequests"`
			State json.RawMessage `json:"requestState"`
		}
		if !c.modern || json.Unmarshal(answer, &r) != nil || len(r.Inputs) == 0 || round == 3 {
			return told
		}
		var responses []string
		for key, in := range r.Inputs {
			responses = append(responses, fmt.Sprintf("%q:%s", key, clientAnswer(in.Method)))
		}
		slices.Sort(responses)
		params = own + `,"inputResponses":{` + strings.Join(responses, ",") + "}"
		if r.State != nil {
			params += `,"requestState":` + string(r.State)
		}
	}
}

// clientAnswer is what the client answers to a question.
func clientAnswer(method string) string {
	switch method {
	case "elicitation/create":
		return `{"action":"accept","content":{"username":"u","name":"n","ok":true,"color":"c","context":"x"}}`
	case "sampling/createMessage":
		return `{"role":"assistant","model":"m","content":{"type":"text","text":"t"}}`
	default:
		return `{"roots":[{"uri":"file:///r"}]}`
	}
}

// once sends one request, serves what the server asks on its stream, and returns
// the result or the error.
func (c *peerClient) once(method, name, params string, told *[]string) json.RawMessage {
	c.id++
	meta, extra := `"progressToken":"p"`, map[string]string(nil)
	if c.modern {
		meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"peer","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + c.declares + `,"io.modelcontextprotocol/logLevel":"debug","progressToken":"p"`
		extra = map[string]string{"Mcp-Method": method, "Mcp-Name": name}
	}
	resp := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s,"_meta":{%s}}}`, c.id, method, params, meta), extra)
	defer resp.Body.Close()
	for data := range frames(c.t, resp) {
		var m rpcFrame
		if err := json.Unmarshal(data, &m); err != nil {
			c.t.Fatalf("%s: %v", data, err)
		}
		switch {
		case m.Method == "" && string(m.ID) == fmt.Sprint(c.id):
			return slices.Concat(m.Result, m.Error)
		case m.Method == "":
		case len(m.ID) > 0:
			*told = append(*told, m.Method+" "+string(m.Params))
			c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, clientAnswer(m.Method)), nil).Body.Close()
		case m.Method != "notifications/cancelled":
			*told = append(*told, m.Method+" "+string(m.Params))
		}
	}
	return json.RawMessage("no answer")
}

// frames are the messages of a response.
func frames(t *testing.T, resp *http.Response) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			yield(body)
			return
		}
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok && len(data) > 0 && !yield(bytes.Clone(data)) {
				return
			}
		}
	}
}

// A difference is what a client may see otherwise than over a direct connection, in
// its words on the compatibility page.
type difference struct {
	row  string
	same func(client, name string, direct, through []string) bool
}

var differences = []difference{
	{"the progress token: a tool that writes it into its answer writes everline's", func(client, name string, direct, through []string) bool {
		return name == "test_tool_with_progress" && slices.Equal(direct[:len(direct)-1], through[:len(through)-1]) &&
			same(asOlder(client, number.ReplaceAllString(last(direct), `"text":"T"`)), asOlder(client, number.ReplaceAllString(last(through), `"text":"T"`)))
	}},
	{"clients of an older revision that serve no requests of servers: they are served in the modern era, so results have resultType and the server's name in _meta", func(client, _ string, direct, through []string) bool {
		return client == servedModern && slices.Equal(direct[:len(direct)-1], through[:len(through)-1]) && same(last(direct), asOlder(client, last(through)))
	}},
	{"What a client has not declared is refused when the server asks for it", func(client, name string, _, through []string) bool {
		asks := strings.Contains(name, "input_required") || strings.Contains(name, "sampling") || strings.Contains(name, "elicitation")
		return client == servedModern && asks && len(through) == 1
	}},
	{"a stream that a server ends before its answer", func(_, name string, direct, through []string) bool {
		return name == "test_reconnection" && last(direct) == "no answer" && len(through) == 1
	}},
}

const servedModern = "2025-11-25, serves nothing"

var number = regexp.MustCompile(`"text":"(p|[0-9]+)"`)

// asOlder is a result without what the modern era adds to it.
func asOlder(client, result string) string {
	var members map[string]json.RawMessage
	if client != servedModern || json.Unmarshal([]byte(result), &members) != nil {
		return result
	}
	delete(members, "resultType")
	delete(members, "_meta")
	raw, _ := json.Marshal(members)
	return string(raw)
}

// same compares two values whose members may be in another order.
func same(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func last(told []string) string { return told[len(told)-1] }

// TestClientsSeeWhatADirectConnectionShows calls every tool and prompt of the fixture
// as clients of both eras, directly and through everline, and compares the bytes.
func TestClientsSeeWhatADirectConnectionShows(t *testing.T) {
	stateless, stateful := overHTTP(t, "-stateless=true"), overHTTP(t, "-stateless=false")
	direct := map[bool]string{true: stateless["url"].(string), false: stateful["url"].(string)}
	page, err := os.ReadFile("../docs/reference/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if !bytes.Contains(bytes.Join(bytes.Fields(page), []byte(" ")), []byte(d.row)) {
			t.Errorf("the compatibility page has no row: %s", d.row)
		}
	}
	used := map[string]bool{}
	for name, server := range map[string]map[string]any{
		"url":     {"type": "http", "url": dispatcher(t, overHTTP(t, "-stateless=true"), overHTTP(t, "-stateless=false"))},
		"command": {"command": binaries.everything, "everline": map[string]any{"eras": "both"}},
	} {
		g := serve(t, map[string]any{"fixtures": server})
		for client, c := range map[string]struct {
			modern   bool
			declares string
		}{
			"2025-11-25, serves all": {false, servesAll}, "2025-11-25, serves nothing": {false, nothing},
			"2026-07-28, serves all": {true, servesAll}, "2026-07-28, serves nothing": {true, nothing},
		} {
			t.Run(name+"/"+client, func(t *testing.T) {
				d, th := newPeer(t, direct[c.modern], c.modern, c.declares), newPeer(t, g.url, c.modern, c.declares)
				for _, call := range fixtureCalls(t, d) {
					want, got := d.call(call[0], call[1], call[2]), th.call(call[0], call[1], call[2])
					if slices.Equal(want, got) {
						continue
					}
					i := slices.IndexFunc(differences, func(d difference) bool { return d.same(client, call[1], want, got) })
					if i < 0 {
						t.Errorf("%s %s\ndirect   %s\neverline %s", call[0], call[1], strings.Join(want, "\n         "), strings.Join(got, "\n         "))
						continue
					}
					used[differences[i].row] = true
				}
			})
		}
	}
	for _, d := range differences {
		if !used[d.row] {
			t.Errorf("nothing differs any more as the page says: %s", d.row)
		}
	}
}

// fixtureCalls are a call of each tool and prompt that the server lists: method,
// name, params.
func fixtureCalls(t *testing.T, c *peerClient) (calls [][3]string) {
	t.Helper()
	for _, kind := range [][3]string{{"tools/list", "tools", "tools/call"}, {"prompts/list", "prompts", "prompts/get"}} {
		var list map[string]json.RawMessage
		var items []struct {
			Name string `json:"name"`
		}
		var told []string
		raw := c.once(kind[0], "", `"x":1`, &told)
		if json.Unmarshal(raw, &list) != nil || json.Unmarshal(list[kind[1]], &items) != nil || len(items) == 0 {
			t.Fatalf("%s: %s", kind[0], raw)
		}
		for _, item := range items {
			if strings.HasPrefix(item.Name, "__") {
				continue // made by a call, in one of the two processes
			}
			arguments := map[string]string{
				"test_sampling": `{"prompt":"p"}`, "test_elicitation": `{"message":"m"}`, "test_prompt_with_arguments": `{"arg1":"a","arg2":"b"}`,
				"test_prompt_with_embedded_resource": `{"resourceUri":"test://x"}`,
			}[item.Name]
			if arguments == "" {
				arguments = "{}"
			}
			calls = append(calls, [3]string{kind[2], item.Name, fmt.Sprintf(`"name":%q,"arguments":%s`, item.Name, arguments)})
		}
	}
	return calls
}
