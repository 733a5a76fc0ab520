package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
)

const modernHeader = "MCP-Protocol-Version: 2026-07-28"

func TestDiscover(t *testing.T) {
	s := serve(t, newHub(), Options{Version: "1.2"})
	r := s.modern(`"d"`, "server/discover", "", "")
	wantJSON(t, r.body, `{"jsonrpc":"2.0","id":"d","result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":`+modernCapabilities+
		`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"everline","version":"1.2"}},"instructions":`+fmt.Sprintf("%q", s.hub.Catalog().Instructions())+`,"ttlMs":0,"cacheScope":"private"}}`)
	if r.header.Get("Mcp-Session-Id") != "" {
		t.Error("a modern request got a session")
	}
}

func TestListsModern(t *testing.T) {
	s := serve(t, newHub(), Options{ListTTL: 5e9})
	wantJSON(t, s.modern("1", "tools/list", "", "").body,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":5000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"everline","version":"devel"}},"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`)
	want(t, s.modern("1", "tools/list", "", `,"cursor":"x"`), 400, `-32602`)
}

func TestModernVersionAndMeta(t *testing.T) {
	s := serve(t, newHub(), Options{})
	body := func(meta string) string {
		return `{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"_meta":{` + meta + `}}}`
	}
	const v, caps = `"io.modelcontextprotocol/protocolVersion":`, `"io.modelcontextprotocol/clientCapabilities":{}`
	method := "Mcp-Method: tools/list"
	want(t, s.post(body(v+`"2026-07-28",`+caps), modernHeader, method), 200)
	want(t, s.post(body(caps), modernHeader, method), 400, `"id":4`, `-32602`)
	want(t, s.post(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`, modernHeader, method), 400, `-32602`)
	want(t, s.post(body(v+`"2026-07-28"`), modernHeader, method), 400, `-32602`)
	want(t, s.post(body(v+`7,`+caps), "MCP-Protocol-Version: 7", method), 400)
	want(t, s.post(body(v+`"2026-07-28",`+caps), method), 400, `-32020`)
	want(t, s.post(body(v+`"2026-07-28",`+caps), "MCP-Protocol-Version: 2025-11-25", method), 400, `-32020`)
	r := s.post(body(v+`"1900-01-01",`+caps), "MCP-Protocol-Version: 1900-01-01", method)
	want(t, r, 400)
	wantJSON(t, r.body, `{"jsonrpc":"2.0","id":4,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"1900-01-01"}}}`)
	for _, gone := range []string{"ping", "initialize", "logging/setLevel", "resources/subscribe", "tools/such"} {
		want(t, s.modern("5", gone, "", `,"uri":"file:///a","level":"info"`), 404, `"id":5`, `-32601`)
	}
	want(t, s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, modernHeader), 202)
	want(t, s.post(hello, modernHeader), 200, `"protocolVersion":"2025-06-18"`)
	want(t, s.do("GET", "/mcp", "", modernHeader), 405)
	want(t, s.do("DELETE", "/mcp", "", modernHeader), 405)
	want(t, s.modern("6", "tools/call", "echo", `,"name":"echo"`, "Mcp-Session-Id: whatever"), 200)
}

func TestFaultR5HeadersAreValidated(t *testing.T) {
	h := newHub()
	calls := 0
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) { calls++; return []byte(`{}`), nil }
	s := serve(t, h, Options{})
	body := modernBody("1", "tools/call", `,"name":"echo"`)
	cases := []struct {
		headers []string
		status  int
	}{
		{[]string{"Mcp-Method: tools/call", "Mcp-Name: echo"}, 200},
		{[]string{"mcp-method: tools/call", "mcp-name: =?base64?ZWNobw==?="}, 200},
		{[]string{"Mcp-Name: echo"}, 400},
		{[]string{"Mcp-Method: tools/call"}, 400},
		{[]string{"Mcp-Method: tools/list", "Mcp-Name: echo"}, 400},
		{[]string{"Mcp-Method: TOOLS/CALL", "Mcp-Name: echo"}, 400},
		{[]string{"Mcp-Method: tools/call", "Mcp-Name: other"}, 400},
		{[]string{"Mcp-Method: tools/call", "Mcp-Name: =?base64?!?="}, 400},
		{[]string{"Mcp-Method: =?base64?dG9vbHMvY2FsbA==?=", "Mcp-Name: echo"}, 400},
		{[]string{"Mcp-Method: tools/call", "Mcp-Name: =?base64?b3RoZXI=?="}, 400},
	}
	ok := 0
	for _, c := range cases {
		r := s.post(body, append(c.headers, modernHeader)...)
		want(t, r, c.status)
		if c.status == 400 {
			want(t, r, 400, `-32020`, `"id":1`)
		} else {
			ok++
		}
	}
	if calls != ok {
		t.Errorf("%d calls, want %d", calls, ok)
	}
	want(t, s.post(modernBody("1", "tools/call", `,"name":"é"`), modernHeader, "Mcp-Method: tools/call", "Mcp-Name: "+mcp.EncodeHeader("é")), 200)
	want(t, s.post(modernBody("1", "resources/read", `,"uri":"file:///a"`), modernHeader, "Mcp-Method: resources/read", "Mcp-Name: file:///a"), 200)
}

func TestFaultR5ParamHeaders(t *testing.T) {
	h := newHub()
	h.publish(item("q", `{"name":"q"}`,
		mcp.HeaderParam{Path: []string{"region"}, Name: "Region"},
		mcp.HeaderParam{Path: []string{"opt", "n"}, Name: "N"},
		mcp.HeaderParam{Path: []string{"dry"}, Name: "Dry"}))
	s := serve(t, h, Options{})
	for _, c := range []struct {
		args    string
		headers string
		status  int
	}{
		{`{"region":"us-west1"}`, "Mcp-Param-Region: us-west1", 200},
		{`{"region":"us-west1"}`, "", 400},
		{`{"region":"us-west1"}`, "Mcp-Param-Region: eu", 400},
		{`{"region":null}`, "", 200},
		{`{"region":null}`, "Mcp-Param-Region: eu", 400},
		{`{}`, "", 200},
		{`{}`, "Mcp-Param-Other: x", 200},
		{`{"region":"Hello, 世界"}`, "Mcp-Param-Region: =?base64?SGVsbG8sIOS4lueVjA==?=", 200},
		{`{"region":" padded "}`, "Mcp-Param-Region: =?base64?IHBhZGRlZCA=?=", 200},
		{`{"region":"=?base64?literal?="}`, "Mcp-Param-Region: =?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", 200},
		{`{"opt":{"n":42}}`, "Mcp-Param-N: 42.0", 200},
		{`{"opt":{"n":42.0}}`, "Mcp-Param-N: 42", 200},
		{`{"opt":{"n":42}}`, "Mcp-Param-N: 43", 400},
		{`{"opt":{"n":1.5}}`, "Mcp-Param-N: 1.5", 400},
		{`{"dry":true}`, "Mcp-Param-Dry: true", 200},
		{`{"dry":true}`, "Mcp-Param-Dry: True", 400},
		{`{"dry":{}}`, "Mcp-Param-Dry: {}", 400},
	} {
		headers := []string{}
		if c.headers != "" {
			headers = append(headers, c.headers)
		}
		r := s.modern("1", "tools/call", "q", `,"name":"q","arguments":`+c.args, headers...)
		if r.status != c.status {
			t.Errorf("%s with %q: %d %s", c.args, c.headers, r.status, r.body)
		}
	}
}

func TestSplicedMembers(t *testing.T) {
	h := newHub()
	var result string
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) { return []byte(result), nil }
	s := serve(t, h, Options{})
	big := strings.Repeat("x", 1000)
	for _, c := range []struct{ method, in, out string }{
		{"tools/call", `{}`, `{"resultType":"complete"}`},
		{"tools/call", `{ }`, `{"resultType":"complete"}`},
		{"tools/call", `{"a":1}`, `{"resultType":"complete","a":1}`},
		{"tools/call", `{"a":1,"resultType":"task"}`, `{"a":1,"resultType":"task"}`},
		{"tools/call", `{"a":{"resultType":"x"}}`, `{"resultType":"complete","a":{"resultType":"x"}}`},
		{"tools/call", `{"a":"resultType` + big + `"}`, `{"resultType":"complete","a":"resultType` + big + `"}`},
		{"tools/call", `{"a":"` + big + `","resultType":"complete"}`, `{"a":"` + big + `","resultType":"complete"}`},
		{"resources/read", `{"contents":[]}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}`},
		{"resources/read", `{"ttlMs":9,"contents":[],"cacheScope":"public"}`, `{"resultType":"complete","ttlMs":9,"contents":[],"cacheScope":"public"}`},
		{"resources/read", `{"resultType":"complete","ttlMs":9}`, `{"cacheScope":"private","resultType":"complete","ttlMs":9}`},
		{"resources/read", `{"resultType":"input_required","inputRequests":{}}`, `{"resultType":"input_required","inputRequests":{}}`},
	} {
		result = c.in
		r := s.modern("1", c.method, "file:///a", `,"name":"file:///a","uri":"file:///a"`)
		if r.body != `{"jsonrpc":"2.0","id":1,"result":`+c.out+`}` {
			t.Errorf("%s %s\ngot %s", c.method, c.in, r.body)
		}
	}
}

func TestErrorsPerEra(t *testing.T) {
	h := newHub()
	var err error
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) { return nil, err }
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	rpc := func(code int64, raw string) error {
		return &fault.Fault{Kind: fault.RPC, RPC: &fault.RPCError{Code: code, Raw: []byte(raw)}, Outcome: fault.Answered}
	}
	notFound := fault.New(fault.NotFound, "x", "nothing here")
	for _, c := range []struct {
		err            error
		method         string
		legacy, modern string
		status         int
	}{
		{rpc(-32099, `{"code":-32099,"message":"m","data":{"n":1.0},"x":2}`), "tools/call", `"error":{"code":-32099,"message":"m","data":{"n":1.0},"x":2}`, `"error":{"code":-32099,"message":"m","data":{"n":1.0},"x":2}`, 200},
		{rpc(-32002, `{"message":"m","code":-32002,"data":{"uri":"u"}}`), "resources/read", `{"message":"m","code":-32002,"data":{"uri":"u"}}`, `{"message":"m","code":-32602,"data":{"uri":"u"}}`, 400},
		{rpc(-32042, `{"code":-32042,"message":"m"}`), "tools/call", `-32042`, `{"code":-31042,"message":"m"}`, 200},
		{rpc(-32602, `{"code":-32602,"message":"m"}`), "tools/call", `-32602`, `-32602`, 400},
		{rpc(-32021, `{"code":-32021,"message":"m"}`), "tools/call", `-32021`, `-32021`, 400},
		{notFound, "tools/call", `{"code":-32602,"message":"Unknown tool: file:///a"}`, `{"code":-32602,"message":"Unknown tool: file:///a"}`, 400},
		{notFound, "prompts/get", `{"code":-32602,"message":"Unknown prompt: file:///a"}`, `-32602`, 400},
		{notFound, "resources/read", `{"code":-32002,"message":"Resource not found"}`, `{"code":-32602,"message":"Resource not found"}`, 400},
		{fault.New(fault.Unsupported, "x", "y"), "prompts/get", `-32601`, `-32601`, 404},
		{fmt.Errorf("secret"), "tools/call", `"kind":"internal"`, `"kind":"internal"`, 200},
		{fmt.Errorf("secret"), "prompts/get", `-32603`, `-32603`, 200},
		{refusal(fault.Unavailable, fault.NotSent), "prompts/get", `"code":-31002`, `"data":{"outcome":"not_sent","server":"only","generation":3,"kind":"unavailable"`, 200},
	} {
		err = c.err
		params := `,"name":"file:///a","uri":"file:///a"`
		want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":{`+params[1:]+`}}`, id), 200, c.legacy)
		r := s.modern("1", c.method, "file:///a", params)
		want(t, r, c.status, c.modern)
		if strings.Contains(r.body, "secret") {
			t.Errorf("told %s", r.body)
		}
	}
}

func TestModernLogLevelIsChecked(t *testing.T) {
	h := newHub()
	var level string
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		level = c.LogLevel
		return []byte(`{}`), nil
	}
	s := serve(t, h, Options{})
	body := strings.Replace(modernBody("1", "tools/call", `,"name":"echo"`), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"LEVEL",`, 1)
	headers := []string{modernHeader, "Mcp-Method: tools/call", "Mcp-Name: echo"}
	want(t, s.post(strings.Replace(body, "LEVEL", "loud", 1), headers...), 400, `-32602`)
	want(t, s.post(strings.Replace(body, "LEVEL", "notice", 1), headers...), 200)
	if level != "notice" {
		t.Errorf("level %q", level)
	}
}
