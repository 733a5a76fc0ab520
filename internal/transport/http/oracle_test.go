package http

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
)

// oracle is a server that we did not write: one tool that reports progress
// and answers, over whatever handler the test picks.
func oracle() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "oracle", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(ctx context.Context, req *mcp.CallToolRequest, message struct {
		Text string `json:"text"`
	},
	) (*mcp.CallToolResult, any, error) {
		if token := req.Params.GetProgressToken(); token != nil {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: message.Text}}}, nil, nil
	})
	return s
}

const (
	oracleInit = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
	oracleCall = `{"name":"echo","arguments":{"text":"hi"},"_meta":{"progressToken":5}}`
)

func oracleMust(t *testing.T, c transport.Conn, r *transport.Request) string {
	t.Helper()
	msg, err := c.Call(t.Context(), r)
	if err != nil || msg.Result == nil {
		t.Fatalf("%s: %v, %s", r.Method, err, msg.Error)
	}
	return string(msg.Result)
}

func oracleTalk(t *testing.T, c transport.Conn, box *inbox) {
	t.Helper()
	oracleMust(t, c, newRequest(1, "initialize", oracleInit))
	if err := c.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		t.Fatal(err)
	}
	c.Agree("2025-06-18", false)
	if got := oracleMust(t, c, newRequest(2, "tools/call", oracleCall)); !strings.Contains(got, `"hi"`) {
		t.Errorf("result %s", got)
	}
	message := <-box.ch
	if message.Msg.Method != "notifications/progress" {
		t.Errorf("handed on %v", box.methods())
	}
}

// TestOracleStreamable: a session of a server that we did not write, and its
// end.
func TestOracleStreamable(t *testing.T) {
	server := oracle()
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer srv.Close()
	box := newInbox()
	c := dial(t, Spec{URL: srv.URL}, transport.Options{Inbound: box.add})
	oracleTalk(t, c, box)
	if got := box.methods(); !slices.Contains(got, "notifications/progress/2") {
		t.Errorf("progress is not of the call's own stream: %v", got)
	}
	for session := range server.Sessions() {
		_ = session.Close()
	}
	_, err := c.Call(t.Context(), newRequest(3, "tools/call", oracleCall))
	wantFault(t, err, fault.SessionLost, fault.NotSent)
}

// TestOracleModern: the headers of revision 2026-07-28 pass the validation of
// a server that we did not write.
func TestOracleModern(t *testing.T) {
	server := oracle()
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true}))
	defer srv.Close()
	box := newInbox()
	c := dial(t, Spec{URL: srv.URL}, transport.Options{Inbound: box.add})
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
	if got := oracleMust(t, c, newRequest(1, "server/discover", `{`+meta+`}`)); !strings.Contains(got, "2026-07-28") {
		t.Errorf("discover: %s", got)
	}
	c.Agree("2026-07-28", true)
	r := newRequest(2, "tools/call", `{"name":"echo","arguments":{"text":"hi"},`+meta+`}`)
	r.Name = "echo"
	if got := oracleMust(t, c, r); !strings.Contains(got, `"hi"`) {
		t.Errorf("result %s", got)
	}
	r.ID, r.Name = 3, "other" // the header now differs from the body
	r.Frame = newRequest(3, "tools/call", `{"name":"echo","arguments":{"text":"hi"},`+meta+`}`).Frame
	msg, err := c.Call(t.Context(), r)
	if err != nil || !strings.Contains(string(msg.Error), "-32020") {
		t.Errorf("a header that differs: %s, %v", msg.Error, err)
	}
}

// TestOracleSSE: HTTP+SSE of a server that we did not write.
func TestOracleSSE(t *testing.T) {
	server := oracle()
	srv := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer srv.Close()
	box := newInbox()
	c, err := OpenSSE(t.Context(), Spec{URL: srv.URL}, transport.Options{Inbound: box.add})
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(t, c)
	oracleTalk(t, c, box)
}
