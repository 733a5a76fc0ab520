package gateway

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// counting is a server that keeps a count for each of its own sessions, and
// everline in front of it with a life for each client.
func counting(t *testing.T, opts Options) (*site, *mcptest.Server) {
	t.Helper()
	up := mcptest.New(mcptest.Config{})
	var mu sync.Mutex
	counts := map[string]int{}
	up.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		mu.Lock()
		defer mu.Unlock()
		counts[r.Session]++
		return &mcptest.Reply{Result: fmt.Sprintf(`{"content":[],"count":%d}`, counts[r.Session])}
	})
	c := config.NewServer("srv")
	c.Transport, c.URL, c.Isolation = "http", mcptest.Web(t, up).URL+"/mcp", config.IsolationSession
	return assembleWith(t, opts, c).up(), up
}

func lives(t *testing.T, up *mcptest.Server, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the server has %d sessions", want), func() bool { return up.Sessions() == want })
}

func TestFaultN3ClientsDoNotSeeEachOthersState(t *testing.T) {
	s, up := counting(t, Options{})
	a, b := s.initialize("2025-11-25"), s.initialize("2025-06-18")
	want(t, s.post(call("1", "echo", ""), a), 200, `"count":1`)
	want(t, s.post(call("2", "echo", ""), a), 200, `"count":2`)
	want(t, s.post(call("1", "echo", ""), b), 200, `"count":1`)
	lives(t, up, 3) // with the one that is listed
	if own := s.real.Status()[0].Sessions; len(own) != 2 || own[0].State != "connected" || own[0].Generation != 1 {
		t.Errorf("status shows %+v", own)
	}
	if r := s.do("DELETE", "/mcp", "", a); r.status != 204 {
		t.Fatalf("DELETE: %d %s", r.status, r.body)
	}
	lives(t, up, 2)
	want(t, s.post(call("2", "echo", ""), b), 200, `"count":2`)
	up.DropSessions() // all lives end; the next calls begin new ones
	want(t, s.post(call("3", "echo", ""), b), 200, `"count":1`)
	want(t, s.post(call("4", "echo", ""), b), 200, `"count":2`)
}

func TestTheLifeOfAClientThatVanishesEnds(t *testing.T) {
	s, up := counting(t, Options{SessionIdle: 200 * time.Millisecond})
	id := s.initialize("2025-11-25")
	want(t, s.post(call("1", "echo", ""), id), 200, `"count":1`)
	s.web.CloseIdleConnections() // and never again
	lives(t, up, 1)
}

func TestTheLifeOfAStdioClientEndsWithIt(t *testing.T) {
	s, up := counting(t, Options{})
	c := talk(t, s.g.ServeStdio)
	fmt.Fprintln(c.in, call("1", "echo", ""))
	if line := within(t, "an answer", c.lines); !strings.Contains(line, `"count":1`) {
		t.Errorf("got %s", line)
	}
	fmt.Fprintln(c.in, modernBody("2", "tools/call", `,"name":"echo","arguments":{}`))
	if line := within(t, "an answer", c.lines); !strings.Contains(line, `"count":2`) {
		t.Errorf("a modern request on the same connection got %s", line)
	}
	c.in.Close()
	lives(t, up, 1)
}

func TestModernClientsOverHTTPNameTheirLife(t *testing.T) {
	s, up := counting(t, Options{SessionIdle: 300 * time.Millisecond})
	ask := func(name string) reply {
		meta := ""
		if name != "" {
			meta = `,"everline/session":"` + name + `"`
		}
		body := strings.Replace(modernBody("1", "tools/call", `,"name":"echo","arguments":{}`), `Capabilities":{}`, `Capabilities":{}`+meta, 1)
		return s.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo")
	}
	want(t, ask(""), 200, `"count":1`)
	want(t, ask(""), 200, `"count":1`)
	one, two := strings.Repeat("1", 22), strings.Repeat("2", 22)
	want(t, ask(one), 200, `"count":1`)
	want(t, ask(two), 200, `"count":1`)
	want(t, ask(one), 200, `"count":2`)
	want(t, ask("guessable"), 400, "unguessable")
	for _, r := range up.Requests("tools/call") {
		if strings.Contains(string(r.Params), "everline/session") {
			t.Errorf("the server got the name: %s", r.Params)
		}
	}
	lives(t, up, 1)
}

// Over stdio nothing says whose call a request of the server belongs to; with a
// life for each client nothing has to. All are asked at the same time.
func TestOwnLivesAskTheirClientsOverStdio(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := config.NewServer("srv")
	c.Command, c.Env, c.Isolation = exe, map[string]string{matrixEnv: "2025-11-25", "GORACE": "atexit_sleep_ms=0"}, config.IsolationSession
	s := wholeOf(t, c)
	var asked atomic.Int32
	everybody := make(chan struct{}) // closed once every client has been asked
	versions := []string{"2025-11-25", "2025-06-18", "2026-07-28"}
	var calls sync.WaitGroup
	for _, version := range versions {
		calls.Go(func() {
			client := mcp.NewClient(&mcp.Implementation{Name: version, Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					if asked.Add(1) == int32(len(versions)) {
						close(everybody)
					}
					select {
					case <-everybody:
					case <-time.After(patience):
						t.Errorf("%d of %d clients were asked at the same time", asked.Load(), len(versions))
					}
					return &mcp.ElicitResult{Action: "accept"}, nil
				},
			})
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.web}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Error(err)
				return
			}
			defer session.Close()
			for _, tool := range []string{"elicitation", "roots"} {
				res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
				if err != nil || res.IsError {
					t.Errorf("%s for a client of %s: %+v %v", tool, version, res, err)
				}
			}
		})
	}
	calls.Wait()
}
