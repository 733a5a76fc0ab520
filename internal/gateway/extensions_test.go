package gateway

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline"
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

// What a client of either era declares reaches a server of the newer one; one of an older
// version that clients share is told once, before any is there.
func TestClientExtensionsReachNewerServers(t *testing.T) {
	for era, name := range eraNames {
		t.Run(name, func(t *testing.T) {
			srv, s := extended(t, era, config.IsolationShared)
			srv.On("com.example/thing", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Result: "{}"} })
			for version, ask := range clientsOf(s, declared+","+experimental) {
				want(t, ask("com.example/thing", ""), 200, `"result"`)
				got, passes := lastParams(t, srv, "com.example/thing"), era != mcptest.Legacy
				if strings.Contains(got, declared) != passes || strings.Contains(got, experimental) != passes {
					t.Errorf("%s: passes is not %t: %s", version, passes, got)
				}
			}
			for _, hello := range srv.Requests("initialize") {
				if got := string(hello.Params); strings.Contains(got, "com.example") {
					t.Errorf("a connection for all clients declares what one has: %s", got)
				}
			}
		})
	}
}

// olderClients are clients of a site over each transport that declare this. Each sends a
// request of an extension, and returns when it is answered.
func olderClients(t *testing.T, s *site, capabilities string) map[string]func() {
	t.Helper()
	hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{` + capabilities + `},"clientInfo":{"name":"t","version":"1"}}}`
	const thing = `{"jsonrpc":"2.0","id":1,"method":"com.example/thing","params":{}}`
	id := "Mcp-Session-Id: " + s.post(hello).header.Get("Mcp-Session-Id")
	pipes, events := talk(t, s.g.ServeStdio), s.eventSource("")
	return map[string]func(){
		"HTTP": func() { want(t, s.post(thing, id), 200, `"result"`) },
		"stdio": func() {
			pipes.say(hello)
			answer(pipes.next)
			pipes.say(thing)
			if got := answer(pipes.next); !strings.Contains(got, `"result"`) {
				t.Fatal(got)
			}
		},
		"HTTP+SSE": func() {
			want(t, s.do("POST", events.messages, hello), 202)
			answer(events.next)
			want(t, s.do("POST", events.messages, thing), 202)
			if got := answer(events.next); !strings.Contains(got, `"result"`) {
				t.Fatal(got)
			}
		},
	}
}

// Over each transport what an older client declares reaches a newer server with its calls,
// and a generation of an older one that is there for it alone, or for those who have
// declared the same, with its handshake.
func TestOlderClientsExtensionsReachServersThatAreTheirs(t *testing.T) {
	const ui, asks = `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}`, `"elicitation":{"form":{}},"sampling":{}`
	said := strings.TrimSuffix(declared, "}") + "," + ui + "}," + experimental // as the client does, MCP Apps last
	for name, c := range map[string]struct {
		era       mcptest.Era
		isolation config.Isolation
		reaches   string // the method with which it does
	}{
		"a newer one":                      {mcptest.Modern, config.IsolationShared, "com.example/thing"},
		"a newer one of the client's own":  {mcptest.Modern, config.IsolationSession, "com.example/thing"},
		"an older one of the client's own": {mcptest.Legacy, config.IsolationSession, "initialize"},
		"one of both eras":                 {mcptest.Dual, config.IsolationShared, "initialize"},
	} {
		t.Run(name, func(t *testing.T) {
			srv, s := extended(t, c.era, c.isolation)
			srv.On("com.example/thing", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Result: "{}"} })
			tasks := `"extensions":{"io.modelcontextprotocol/tasks":{},` + ui + "," + strings.TrimPrefix(declared, `"extensions":{`)
			for transport, ask := range olderClients(t, s, `"elicitation":{},"sampling":{},`+tasks+","+experimental) {
				ask()
				got := lastParams(t, srv, c.reaches)
				if !strings.Contains(got, "{"+asks+","+said+"}") || strings.Contains(got, "/tasks") {
					t.Errorf("%s: the server got %s", transport, got)
				}
			}
		})
	}
}

// A client of 2026-07-28 declares with each request: what the one declares that starts a
// generation of its own, or came before it, is in the handshake of an older server.
func TestNewerClientsExtensionsReachOlderServersThatAreTheirs(t *testing.T) {
	srv, s := extended(t, mcptest.Legacy, config.IsolationSession)
	srv.On("com.example/thing", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Result: "{}"} })
	body := strings.Replace(modernBody("1", "com.example/thing", ""), `Capabilities":{}`, `Capabilities":{"elicitation":{},`+declared+","+experimental+"}", 1)
	named := strings.Replace(body, `"_meta":{`, `"_meta":{"everline/session":"0123456789abcdef0123456789abcdef",`, 1)
	pipes := talk(t, s.g.ServeStdio)
	for transport, ask := range map[string]func(){
		"HTTP": func() {
			want(t, s.post(named, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: com.example/thing"), 200, `"result"`)
		},
		"stdio": func() {
			pipes.say(body)
			if got := answer(pipes.next); !strings.Contains(got, `"result"`) {
				t.Fatal(got)
			}
		},
	} {
		was := len(srv.Requests("initialize"))
		ask()
		if got := lastParams(t, srv, "initialize"); len(srv.Requests("initialize")) != was+1 || !strings.Contains(got, `{"elicitation":{"form":{}},`+declared+","+experimental+"}") {
			t.Errorf("%s: the server got %s", transport, got)
		}
	}
}

// What is declared beside what servers may ask for is kept up to 4 KiB, and what is longer is
// left out whole and said, once in a while.
func TestLongExtensionsOfAClientAreLeftOutWhole(t *testing.T) {
	const frame = `{"extensions":{"com.example/thing":{"s":""}}}`
	h := newHub()
	var got, warned []string
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		got = append(got, string(c.Capabilities))
		return []byte(`{"content":[]}`), nil
	}
	s := serve(t, h, Options{Warn: func(text string) { warned = append(warned, text) }})
	for _, extra := range []int{0, 1, 2} {
		long := strings.Repeat("x", 4096-len(frame)+extra)
		ask := clientsOf(s, `"roots":{},"extensions":{"com.example/thing":{"s":"`+long+`"}}`)["2025-11-25"]
		want(t, ask("tools/call", `,"name":"echo"`), 200, `"result"`)
		left := got[len(got)-1] == `{"roots":{}}`
		if whole := strings.Contains(got[len(got)-1], long); whole == (extra > 0) || left == whole {
			t.Errorf("%d bytes more: %s", extra, got[len(got)-1])
		}
	}
	if len(warned) != 1 || !strings.Contains(warned[0], `"t"`) || !strings.Contains(warned[0], "4097 bytes") {
		t.Errorf("said: %q", warned)
	}
}

// What a client has declared outlives everline with its session, and being put away; where
// the key of its id is lost it is not known any more.
func TestClientExtensionsOutliveARestart(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	said := `{"elicitation":{"form":{}},` + declared + "," + experimental + "}"
	start := func() (*site, func(session string) string) {
		h := newHub()
		var got, own string
		h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
			got, own = string(c.Capabilities), string(c.Session.Capabilities())
			return []byte(`{"content":[]}`), nil
		}
		s := l.start(h)
		return s, func(session string) string {
			t.Helper()
			want(t, s.post(call("1", "echo", ""), session), 200, `"result"`)
			if got != own {
				t.Errorf("a call declares %s, a generation of the client's own %s", got, own)
			}
			return got
		}
	}
	open := func(s *site, capabilities string) string {
		return "Mcp-Session-Id: " + s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`}}`).header.Get("Mcp-Session-Id")
	}
	s, declares := start()
	full, bare := open(s, said), open(s, `{"elicitation":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`)
	const apps = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
	check := func(when string, full, bare string) {
		t.Helper()
		if full != said || bare != apps {
			t.Errorf("%s: declared are %s and %s", when, full, bare)
		}
	}
	check("at first", declares(full), declares(bare))
	if notes, err := os.ReadDir(filepath.Join(l.dir, "sessions", "notes")); err != nil || len(notes) != 1 {
		t.Errorf("%d notes are kept (%v), of which one is needed", len(notes), err)
	}
	s, declares = start() // after a kill
	check("after a restart", declares(full), declares(bare))
	want(t, s.post(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"warning"}}`, full), 200)
	l.stop(s)
	s, declares = start()
	check("with a level", declares(full), declares(bare))
	l.stop(s)
	if err := os.Remove(filepath.Join(l.dir, "session.key")); err != nil {
		t.Fatal(err)
	}
	_, declares = start()
	if got := declares(full); got != `{"elicitation":{"form":{}}}` {
		t.Errorf("without the key: %s", got)
	}
}

// An EventSource that comes back does not shake hands again, and is who it was.
func TestClientExtensionsOutliveAnEventSource(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	h := newHub()
	var got string
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		got = string(c.Capabilities)
		return []byte(`{"content":[]}`), nil
	}
	s := l.start(h)
	e := s.eventSource("")
	want(t, s.do("POST", e.messages, strings.Replace(sseHello, `{"elicitation":{}}`, "{"+experimental+"}", 1)), 202)
	e.next()
	for range 2 {
		want(t, s.do("POST", e.messages, call("1", "echo", "")), 202)
		for !strings.Contains(e.next(), `"id":1`) {
		}
		if got != "{"+experimental+"}" {
			t.Errorf("declared is %s", got)
		}
		l.stop(s)
		s = l.start(h)
		e = s.eventSource(e.last)
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
