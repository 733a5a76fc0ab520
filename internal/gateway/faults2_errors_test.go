package gateway

import (
	"strings"
	"testing"

	"github.com/everline/everline/internal/mcptest"
)

// What a client answers reaches the server as JSON-RPC allows it, too: alone or
// in a batch.
func TestFaultS2_ErrorsOfClientsAreStrict(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{`{"code":-1,"message":null}`, `{"code":-1,"message":"the error came without a message","data":{"code":-1,"message":null}}`},
		{`{"code":"x","message":"no"}`, `{"code":-32603,"message":"no","data":{"code":"x","message":"no"}}`},
		{`{"code":1.5,"message":"no","data":1}`, `{"code":-32603,"message":"no","data":{"code":1.5,"message":"no","data":1}}`},
		{`"no"`, `{"code":-32603,"message":"no","data":"no"}`},
		{`null`, `{"code":-32603,"message":"the error came without a message","data":null}`},
		{`{"message":"\ud83d","code":7}`, `{"message":"\ufffd","code":7}`},
	} {
		for _, batch := range []bool{false, true} {
			up := elicitor(t, "7")
			s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
			r := s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
			id := "Mcp-Session-Id: " + r.header.Get("Mcp-Session-Id")
			tp := s.tap("POST", "/mcp", call("1", "echo", ""), id)
			q, err := parse1(tp.next())
			if err != nil {
				t.Fatal(err)
			}
			answer := `{"jsonrpc":"2.0","id":` + q.id + `,"error":` + tt.raw + `}`
			if batch {
				answer = "[" + answer + "]"
			}
			want(t, s.post(answer, id), 202)
			tp.next()
			if got := answerTo(up); got != `{"jsonrpc":"2.0","id":7,"error":`+tt.want+`}` {
				t.Errorf("%s, in a batch %v: the server got %s", tt.raw, batch, got)
			}
		}
	}
}

// A server that answers in batches is read in the same way.
func TestFaultS2_ErrorsInBatches(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
	up.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Raw: `[{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":{"code":-32000,"message":null}}]`}
	})
	r := s.post(call("1", "echo", ""), s.declare(`{}`))
	want(t, r, 200, `"error":{"code":-32000,"message":"the error came without a message","data":{"code":-32000,"message":null}}`)
	if strings.Count(r.body, `"id":1`) != 1 {
		t.Errorf("answered %s", r.body)
	}
}
