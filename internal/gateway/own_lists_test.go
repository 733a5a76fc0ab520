package gateway

import (
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// twoFaced is a server that lists other things in each era: both has the tool "both",
// and each one of its own.
func twoFaced(t *testing.T) (*mcptest.Server, config.Server) {
	up := mcptest.New(mcptest.Config{Era: mcptest.Dual})
	tool := func(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }
	up.On("tools/list", func(r *mcptest.Request) *mcptest.Reply {
		own := "older"
		if strings.Contains(string(r.Params), "protocolVersion") {
			own = "newer"
		}
		return &mcptest.Reply{Result: `{"tools":[` + tool("both") + `,` + tool(own) + `]}`}
	})
	up.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		era := "older"
		if strings.Contains(string(r.Params), "protocolVersion") {
			era = "newer"
		}
		return &mcptest.Reply{Result: `{"content":[{"type":"text","text":"` + era + `"}]}`}
	})
	c := config.NewServer("srv")
	c.Transport, c.URL = "http", mcptest.Web(t, up).URL+"/mcp"
	return up, c
}

func TestAClientSeesTheListsOfItsOwnEra(t *testing.T) {
	_, c := twoFaced(t)
	s := wholeOf(t, c)
	me, mute := s.declare(`{"elicitation":{}}`), s.declare(`{}`)
	mine := s.tap("GET", "/mcp", "", me)
	lists := func(who string, r reply, has, hasNot string) {
		t.Helper()
		if want(t, r, 200, `"both"`, has); strings.Contains(r.body, hasNot) {
			t.Errorf("%s is shown %s", who, r.body)
		}
	}
	lists("a client whose era is not known yet", s.post(listRequest("1"), me), `"newer"`, `"older"`)
	want(t, s.post(call("2", "both", ""), me), 200, `"text":"older"`)
	if e := mine.next(); !strings.Contains(e, "notifications/tools/list_changed") {
		t.Errorf("the client heard %s", e)
	}
	lists("a client of an older revision", s.post(listRequest("3"), me), `"older"`, `"newer"`)
	want(t, s.post(call("4", "older", ""), me), 200, `"text":"older"`)
	want(t, s.post(call("5", "newer", ""), me), 200, "Unknown tool")
	lists("a client that cannot be asked", s.post(listRequest("6"), mute), `"newer"`, `"older"`)
	want(t, s.post(call("7", "older", ""), mute), 200, "Unknown tool")
	lists("a client of 2026-07-28", s.modern("8", "tools/list", "", ""), `"newer"`, `"older"`)
	want(t, s.modern("9", "tools/call", "newer", `,"name":"newer"`), 200, `"text":"newer"`)
	// Another client that has declared the same shares the lane, and its lists.
	also := s.declare(`{"elicitation":{}}`)
	want(t, s.post(call("10", "both", ""), also), 200, `"text":"older"`)
	lists("another client of the lane", s.post(listRequest("11"), also), `"older"`, `"newer"`)
	st, ok := s.real.Server("srv")
	if !ok || !strings.Contains(strings.Join(st.Warnings, "\n"), `tools "older", tools "newer"`) {
		t.Errorf("status does not say where they differ: %q %v", st.Warnings, ok)
	}
}

// In search mode it is what is found and called.
func TestAClientFindsTheToolsOfItsOwnEra(t *testing.T) {
	_, c := twoFaced(t)
	s := wholeOf(t, c)
	_, err := s.real.Apply(t.Context(), func() *config.Config {
		cfg := config.New()
		cfg.Servers, cfg.Expose = []config.Server{c}, config.ExposeSearch
		return cfg
	}())
	if err != nil {
		t.Fatal(err)
	}
	me := s.declare(`{"elicitation":{}}`)
	use := func(tool, args string) reply {
		return s.post(rpc("1", "tools/call", `{"name":"`+tool+`","arguments":`+args+`}`), me)
	}
	want(t, use("call_tool", `{"name":"both","arguments":{}}`), 200, `"text":"older"`)
	want(t, use("search_tools", `{"query":"older"}`), 200, `\"name\":\"older\"`)
	want(t, use("call_tool", `{"name":"older","arguments":{}}`), 200, `"text":"older"`)
	want(t, use("call_tool", `{"name":"newer","arguments":{}}`), 200, "No tool is called newer")
	other := s.declare(`{}`)
	want(t, s.post(rpc("2", "tools/call", `{"name":"call_tool","arguments":{"name":"newer","arguments":{}}}`), other), 200, `"text":"newer"`)
}
