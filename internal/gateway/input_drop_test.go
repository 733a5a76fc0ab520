package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A client that closes its connection behind a question may have read it: one that keeps
// no connection always does, and comes back with the answer. So that is no cancel; one
// that names its session can send a cancel, which ends the call at once.
func TestTheEndOfAConnectionBehindAQuestionIsNoCancel(t *testing.T) {
	h := newHub()
	free := make(chan error, 1)
	h.onCall = func(ctx context.Context, c *everline.Call) ([]byte, error) {
		got, err := c.Client.Ask(ctx, mcp.ElicitationCreate, []byte(`{"message":"?"}`))
		free <- err
		return []byte(`{"content":[],"got":` + string(got) + `}`), err
	}
	s := serve(t, h, Options{})
	s.web.Transport.(*http.Transport).DisableKeepAlives = true
	name := "Everline-Session: " + strings.Repeat("n", 22)
	send := func(extra string) reply {
		body := strings.Replace(modernBody("1", "tools/call", `,"name":"echo","arguments":{}`+extra), `Capabilities":{}`, `Capabilities":{"elicitation":{}}`, 1)
		return s.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo", name)
	}
	asked := send("")
	want(t, asked, 200, `"input_required"`)
	want(t, send(yes+string(wire.Get([]byte(asked.body), "result", "requestState"))), 200, `"action":"accept"`)
	if err := within(t, "the question is over", free); err != nil {
		t.Error(err)
	}

	want(t, send(""), 200, `"input_required"`)
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	want(t, s.post(cancel, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: notifications/cancelled", name), 202)
	if err := within(t, "the question is free", free); err == nil {
		t.Error("a call that was canceled has its answer")
	}
}
