package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

var (
	eraNames = map[mcptest.Era]string{mcptest.Legacy: "legacy", mcptest.Modern: "modern", mcptest.Dual: "dual"}

	// What servers and clients declare, in the words of the extensions themselves.
	declared = `"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true},"io.modelcontextprotocol/oauth-client-credentials":{},` +
		`"io.modelcontextprotocol/enterprise-managed-authorization":{},"com.example/thing":{"n":1.50,"s":"\u00e9"}}`
	experimental = `"experimental":{"com.example/channel":{"v":1.0}}`
)

// extended is a server with extensions, and everline in front of it.
func extended(t *testing.T, era mcptest.Era, isolation config.Isolation) (*mcptest.Server, *site) {
	t.Helper()
	srv := mcptest.New(mcptest.Config{Era: era, Capabilities: `{"tools":{},"resources":{},` + experimental + "," + declared + `}`})
	cfg := config.NewServer("one")
	cfg.Transport, cfg.URL, cfg.Isolation = "http", mcptest.Web(t, srv).URL+"/mcp", isolation
	return srv, wholeOf(t, cfg)
}

// lastParams are those of the newest request of a method.
func lastParams(t *testing.T, srv *mcptest.Server, method string) string {
	t.Helper()
	all := srv.Requests(method)
	if len(all) == 0 {
		t.Fatalf("%s did not reach the server", method)
	}
	return string(all[len(all)-1].Params)
}

// clientsOf are clients of a site, one of each era, that send requests in its words.
func clientsOf(s *site, capabilities string) map[string]func(method, params string) reply {
	r := s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{` + capabilities + `},"clientInfo":{"name":"t","version":"1"}}}`)
	id := "Mcp-Session-Id: " + r.header.Get("Mcp-Session-Id")
	return map[string]func(method, params string) reply{
		"2025-11-25": func(method, params string) reply {
			return s.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"_meta":{"com.example/m":1.50}`+params+`}}`, id)
		},
		"2026-07-28": func(method, params string) reply {
			body := strings.Replace(modernBody("1", method, params), `Capabilities":{}`, `Capabilities":{`+capabilities+`},"com.example/m":1.50`, 1)
			return s.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method)
		},
	}
}

// What a server declares, its answers to the methods of extensions, their _meta and the
// notifications on their streams reach clients of both eras, and their params the server.
func TestExtensionsPassInBothDirectionsAndEras(t *testing.T) {
	const (
		result = `"skills":[{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a","n":1.50}}],"_meta":{"com.example/r":{"z":2.0}}`
		event  = `"params":{"name":"e","data":{"n":1.50},"_meta":{"com.example/e":"\u00e9"}}`
	)
	methods := map[string]string{
		"skills/list": ``, "skills/get": `,"uri":"skill://a/SKILL.md"`, "resources/directory/read": `,"uri":"skill://a"`,
		"events/stream": `,"name":"e","arguments":{"n":1.50}`, "com.example/thing": `,"n":12345678901234567890`,
	}
	for era, name := range eraNames {
		t.Run(name, func(t *testing.T) {
			srv, s := extended(t, era, config.IsolationShared)
			for method := range methods {
				srv.On(method, func(r *mcptest.Request) *mcptest.Reply {
					r.Send(`{"jsonrpc":"2.0","method":"notifications/` + method + `",` + event + `}`)
					return &mcptest.Reply{Result: "{" + result + "}"}
				})
			}
			r := s.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			want(t, r, 200, declared, experimental)
			want(t, s.modern("1", "server/discover", "", ""), 200, declared, experimental)
			for version, ask := range clientsOf(s, `"elicitation":{}`) {
				for method, params := range methods {
					want(t, ask(method, params), 200, strings.TrimSuffix(result, "}}"), `"method":"notifications/`+method+`",`+event)
					if got := lastParams(t, srv, method); !strings.Contains(got, params) || !strings.Contains(got, `"com.example/m":1.50`) {
						t.Errorf("%s: the server got %s", version, got)
					}
				}
			}
		})
	}
}

// What a client declares reaches a server of its own, the newer, era; to others goes that
// it shows MCP Apps, and no more.
func TestClientExtensionsReachServersOfTheirEra(t *testing.T) {
	for era, name := range eraNames {
		t.Run(name, func(t *testing.T) {
			srv, s := extended(t, era, config.IsolationShared)
			srv.On("com.example/thing", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Result: "{}"} })
			for version, ask := range clientsOf(s, declared+","+experimental) {
				want(t, ask("com.example/thing", ""), 200, `"result"`)
				got, passes := lastParams(t, srv, "com.example/thing"), era != mcptest.Legacy && version == "2026-07-28"
				if strings.Contains(got, declared) != passes || strings.Contains(got, experimental) != passes {
					t.Errorf("%s: passes is not %t: %s", version, passes, got)
				}
			}
		})
	}
}

// A request of an extension reaches the older client whose call caused it, and its answer
// the server; clients of 2026-07-28 have no words for it.
func TestServerRequestsOfExtensionsReachOlderClients(t *testing.T) {
	const question = `"method":"com.example/ask","params":{"n":1.50,"_meta":{"com.example/q":1.0}}`
	srv, s := extended(t, mcptest.Legacy, config.IsolationShared)
	srv.On("com.example/thing", func(r *mcptest.Request) *mcptest.Reply {
		before := len(srv.Answers())
		r.Send(`{"jsonrpc":"2.0","id":"q",` + question + `}`)
		srv.Await(t, "the answer", func() bool { return len(srv.Answers()) > before })
		said := string(srv.Answers()[before])
		if strings.Contains(said, `"error"`) { // the call fails of it, which lacks no capability that could be named
			return &mcptest.Reply{Error: fmt.Sprintf(`{"code":-31999,"message":"refused","data":%s}`, said)}
		}
		return &mcptest.Reply{Result: `{"said":` + said + `}`}
	})
	session := s.initialize("2025-11-25")
	tp := s.tap("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"com.example/thing","params":{}}`, session)
	asked := tp.next()
	if !strings.Contains(asked, question) {
		t.Fatalf("the client got %s", asked)
	}
	_, id, _ := strings.Cut(asked, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	s.post(`{"jsonrpc":"2.0","id":`+id+`,"result":{"z":1.50,"_meta":{"com.example/a":2.0}}}`, session)
	if got := tp.next(); !strings.Contains(got, `"result":{"z":1.50,"_meta":{"com.example/a":2.0}}`) {
		t.Errorf("the server got %s", got)
	}
	for _, capabilities := range []string{"", `"elicitation":{}`} {
		want(t, clientsOf(s, capabilities)["2026-07-28"]("com.example/thing", ""), 200, `"code":-31999`, `-32601`)
	}
}

// A server that has a generation for each session reaches its client outside of calls.
func TestIsolatedServersReachTheirClientWithExtensions(t *testing.T) {
	const (
		question = `"method":"com.example/ask","params":{"n":1.50}`
		news     = `"method":"notifications/com.example/news","params":{"n":2.50}`
	)
	srv, s := extended(t, mcptest.Legacy, config.IsolationSession)
	srv.On("com.example/thing", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Result: "{}"} })
	session := s.initialize("2025-11-25")
	standing := s.tap("GET", "/mcp", "", session, "Accept: text/event-stream")
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"com.example/thing","params":{}}`, session), 200, `"result"`)
	srv.Await(t, "the shared generation and that of the session listen", func() bool { return srv.Listeners() == 2 })
	srv.SendAll(`{"jsonrpc":"2.0","id":"q",` + question + `}`)
	if got := standing.next(); !strings.Contains(got, question) {
		t.Errorf("the client got %s", got)
	}
	srv.SendAll(`{"jsonrpc":"2.0",` + news + `}`)
	if got := standing.next(); !strings.Contains(got, news) {
		t.Errorf("the client got %s", got)
	}
}
