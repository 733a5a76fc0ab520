package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
)

func (s *site) listen(id, filter string) *tap {
	s.t.Helper()
	return s.tap("POST", "/mcp", modernBody(id, mcp.SubscriptionsListen, `,"notifications":`+filter), modernHeader, "Mcp-Method: "+mcp.SubscriptionsListen)
}

func TestListenAcknowledgesFirstAndTags(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	tp := s.listen(`"L"`, `{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["file:///a","file:///a"],"future":true}`)
	const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}`
	wantJSON(t, tp.next(), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+tag+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}}}`)
	h.changed(everline.Prompts, everline.Resources) // not asked for
	h.changed(everline.Tools)
	wantJSON(t, tp.next(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+tag+`}}`)
	h.update("file:///a")
	wantJSON(t, tp.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a",`+tag+`}}`)
	h.log(`{"level":"emergency","data":1}`)
	tp.cancel()
	tp.end()
	eventually(t, "the subscription ends with its stream", func() bool { return h.subscribers("file:///a") == 0 })
}

func TestSeveralListensAtOnce(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	one, two := s.listen("1", `{"toolsListChanged":true}`), s.listen("2", `{"toolsListChanged":true,"resourcesListChanged":true}`)
	one.next()
	two.next()
	h.changed(everline.Tools)
	if got := one.next(); !strings.Contains(got, `subscriptionId":1`) {
		t.Errorf("got %s", got)
	}
	if got := two.next(); !strings.Contains(got, `subscriptionId":2`) {
		t.Errorf("got %s", got)
	}
	one.cancel()
	one.end()
	h.changed(everline.Templates)
	if got := two.next(); !strings.Contains(got, "resources/list_changed") {
		t.Errorf("got %s", got)
	}
}

func TestListenLeavesOutWhatServersRefuse(t *testing.T) {
	h := newHub()
	h.subErr = fault.New(fault.NotFound, "subscribe", "no such resource")
	s := serve(t, h, Options{})
	tp := s.listen("1", `{"resourceSubscriptions":["file:///nope"],"resourcesListChanged":true}`)
	if got := tp.next(); !strings.HasSuffix(got, `"notifications":{"resourcesListChanged":true}}}`) {
		t.Errorf("got %s", got)
	}
	want(t, s.modern("1", mcp.SubscriptionsListen, "", ""), 400, `-32602`)
}

func TestListenEndsWithAResponse(t *testing.T) {
	s := serve(t, newHub(), Options{})
	tp := s.listen("9", `{"toolsListChanged":true}`)
	tp.next()
	if err := s.g.Close(context.Background()); err != nil {
		t.Error(err)
	}
	got := tp.end()
	if len(got) != 1 {
		t.Fatalf("got %v", got)
	}
	wantJSON(t, got[0], `{"jsonrpc":"2.0","id":9,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":9,"io.modelcontextprotocol/serverInfo":{"name":"everline","version":"devel"}}}}`)
	want(t, s.modern("1", mcp.SubscriptionsListen, "", `,"notifications":{}`), 503, `"id":1`)
}
