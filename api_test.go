package everline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/everlinetest"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// openOn opens a hub on scripted servers, and waits until they are connected.
func openOn(t *testing.T, servers ...config.Server) *everline.Hub {
	t.Helper()
	cfg := config.New()
	cfg.Servers = servers
	hub, err := everline.Open(t.Context(), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Close(context.Background()) }) // a test that cares looks itself
	for _, s := range servers {
		if err := hub.Connected(within(t), s.Name); err != nil {
			t.Fatal(err)
		}
	}
	return hub
}

func siteOf(t *testing.T, name string, s *mcptest.Server) config.Server {
	c := config.NewServer(name)
	c.Transport, c.URL, c.Overlap = "auto", mcptest.Web(t, s).URL+"/mcp", true
	return c
}

// A server that is seen to be connected has its tools in the catalog by then,
// however early somebody looks.
func TestStatusOfAServerThatHasJustCome(t *testing.T) {
	cfg := config.New()
	for i := range 40 {
		cfg.Servers = append(cfg.Servers, siteOf(t, fmt.Sprintf("s%d", i), mcptest.New(mcptest.Config{Tools: []string{`{"name":"t","inputSchema":{"type":"object"}}`}})))
	}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Close(context.Background()) })
	ctx := within(t)
	for connected := 0; connected < len(cfg.Servers); {
		if ctx.Err() != nil {
			t.Fatalf("%d of %d are connected", connected, len(cfg.Servers))
		}
		connected = 0
		for _, st := range hub.Status() {
			if st.State == event.StateConnected {
				connected++
				if st.Counts[everline.Tools] != 1 {
					t.Fatalf("%s is connected with %d tools", st.Name, st.Counts[everline.Tools])
				}
			}
		}
	}
}

func TestToolsAreDescribed(t *testing.T) {
	hub := openOn(t, siteOf(t, "a", mcptest.New(mcptest.Config{Tools: []string{
		`{"name":"plain","inputSchema":{"type":"object"}}`,
		`{"name":"full","title":"Full","description":"d","inputSchema":{"type":"object","required":["x"]},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true,"destructiveHint":false,"openWorldHint":false}}`,
		`{"name":"old","annotations":{"title":"Old"},"inputSchema":{"type":"object"}}`,
	}})))
	var got []string
	for tool := range hub.Tools() {
		got = append(got, fmt.Sprintf("%s|%s|%s|%s|%s|%+v|%v", tool.Name, tool.Server, tool.Title, tool.InputSchema, tool.OutputSchema, tool.Hints, tool.Available))
	}
	want := []string{
		`plain|a||{"type":"object"}||{ReadOnly:false Destructive:true Idempotent:false OpenWorld:true}|true`,
		`full|a|Full|{"type":"object","required":["x"]}|{"type":"object"}|{ReadOnly:true Destructive:false Idempotent:true OpenWorld:false}|true`,
		`old|a|Old|{"type":"object"}||{ReadOnly:false Destructive:true Idempotent:false OpenWorld:true}|true`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestArgumentsOfEveryShape(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	hub := openOn(t, siteOf(t, "a", up))
	type args struct {
		N int `json:"n"`
	}
	for _, c := range []struct {
		args any
		want string // of the structured content; "": refused
	}{
		{nil, `{}`},
		{map[string]any{"n": 1}, `{"n":1}`},
		{args{2}, `{"n":2}`},
		{&args{3}, `{"n":3}`},
		{json.RawMessage(`{"n":12345678901234567890}`), `{"n":12345678901234567890}`},
		{[]byte(`{"n":5}`), `{"n":5}`},
		{[]byte(`{"n":`), ""},
		{json.RawMessage(`[1]`), ""},
		{"text", ""},
		{func() {}, ""},
		{(*args)(nil), ""},
	} {
		before := up.Count("tools/call")
		r, err := hub.CallTool(within(t), "echo", c.args)
		switch {
		case c.want == "":
			f, _ := fault.As(err)
			if !fault.Is(err, fault.Invalid) || f.Outcome != fault.NotSent || up.Count("tools/call") != before {
				t.Errorf("%v: %v", c.args, err)
			}
		case err != nil || string(r.Structured) != c.want || r.Server != "a" || r.Generation != 1:
			t.Errorf("%v: %+v, %v", c.args, r, err)
		}
	}
	if r, err := hub.CallTool(within(t), "fail", nil); err != nil || !r.IsError || r.Text() != "it failed" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestContentOfEveryKind(t *testing.T) {
	up := mcptest.New(mcptest.Config{Resources: []string{`{"uri":"a://1","name":"one"}`}, Prompts: []string{`{"name":"p"}`}})
	up.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Result: `{"content":[{"type":"text","text":"t"},{"type":"image","data":"aGk=","mimeType":"image/png"},` +
			`{"type":"resource","resource":{"uri":"a://2","blob":"aGk=","mimeType":"x/y"}},{"type":"resource_link","uri":"a://3","name":"n"},7]}`}
	})
	up.On("resources/read", func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Result: `{"contents":[{"uri":"a://1","text":"one"}]}`}
	})
	up.On("prompts/get", func(r *mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Result: `{"description":"d","messages":[{"role":"user","content":{"type":"text","text":` + fmt.Sprintf("%q", r.Params) + `}}]}`}
	})
	hub := openOn(t, siteOf(t, "a", up))
	r, err := hub.CallTool(within(t), "echo", nil)
	if err != nil || len(r.Content) != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	var got []string
	for _, c := range r.Content {
		got = append(got, strings.Join([]string{c.Type, c.Text, string(c.Data), c.MIMEType, c.URI}, "|"))
	}
	if want := "text|t||| image||hi|image/png| resource||hi|x/y|a://2 resource_link||||a://3 ||||"; strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	read, err := hub.ReadResource(within(t), "a://1")
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "one" || read.Server != "a" {
		t.Errorf("%+v, %v", read, err)
	}
	prompt, err := hub.GetPrompt(within(t), "p", map[string]string{"k": "v"})
	if err != nil || prompt.Description != "d" || len(prompt.Messages) != 1 || prompt.Messages[0].Role != "user" ||
		!strings.Contains(prompt.Messages[0].Content.Text, `"arguments":{"k":"v"}`) {
		t.Errorf("%+v, %v", prompt, err)
	}
}

// What is no result of a call costs that call alone, and is said.
func TestUnreadableResult(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	up.Next("tools/call", 1, mcptest.Reply{Result: `{"content":"none"}`})
	hub := openOn(t, siteOf(t, "a", up))
	_, err := hub.CallTool(within(t), "echo", nil)
	if f, _ := fault.As(err); !fault.Is(err, fault.Protocol) || f.Outcome != fault.Answered || f.Server != "a" {
		t.Errorf("got %v", err)
	}
	if _, err := hub.CallTool(within(t), "echo", nil); err != nil {
		t.Error(err)
	}
}

// A modern server that needs input has its client asked by the hub itself.
func TestInputIsAskedFor(t *testing.T) {
	up := mcptest.New(mcptest.Config{Era: mcptest.Modern})
	up.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		if strings.Contains(string(r.Params), `"inputResponses":{"k":{"roots":[]}}`) && strings.Contains(string(r.Params), `"requestState":"s"`) {
			return nil
		}
		return &mcptest.Reply{Result: `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list","params":{}}},"requestState":"s"}`}
	})
	hub := openOn(t, siteOf(t, "a", up))
	r, err := hub.CallTool(within(t), "echo", map[string]int{"n": 1}, everline.AskedBy(everline.NewClient(answer, nil)))
	if err != nil || string(r.Structured) != `{"n":1}` || up.Count("tools/call") != 2 {
		t.Errorf("%+v, %v after %d calls", r, err, up.Count("tools/call"))
	}
	_, err = hub.CallTool(within(t), "echo", nil)
	if f, _ := fault.As(err); !fault.Is(err, fault.Conflict) || f.Outcome != fault.Answered || !strings.Contains(err.Error(), "nobody serves roots/list") {
		t.Errorf("without a client: %v", err)
	}
}

func TestProgressOfATool(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	hub := openOn(t, siteOf(t, "a", up))
	var mu sync.Mutex
	var seen []string
	_, err := hub.CallTool(within(t), "work", map[string]any{"id": "1", "steps": 2}, everline.WithProgress(func(params []byte) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, string(params))
	}))
	mu.Lock()
	defer mu.Unlock()
	if err != nil || len(seen) != 2 || !strings.Contains(seen[0], `"progressToken":1`) {
		t.Errorf("%q, %v", seen, err)
	}
}

// Servers that are added and removed at the same time do not lose each other.
func TestAddAndRemove(t *testing.T) {
	hub := openOn(t)
	server := everlinetest.New(shout)
	defer server.Close()
	var work sync.WaitGroup
	for i := range 20 {
		work.Go(func() {
			name := fmt.Sprint("s", i)
			if err := hub.Add(within(t), server.Config(name)); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := hub.Remove(within(t), name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if got := hub.Status(); len(got) != 10 {
		t.Errorf("%d servers are left", len(got))
	}
	if err := hub.Add(within(t), server.Config("s1")); !fault.Is(err, fault.Conflict) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := hub.Remove(within(t), "s2"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a name that nobody has: %v", err)
	}
	for e := range hub.Watch(within(t)) { // from the first event on
		if _, ok := e.(event.Connecting); ok {
			break
		}
	}
}

// Who waits for a server hears of the first attempt that fails.
func TestConnectedSaysTheFirstFailure(t *testing.T) {
	server := everlinetest.New(shout)
	defer server.Close()
	server.Crash()
	hub := openOn(t)
	if err := hub.Add(within(t), server.Config("a")); err != nil {
		t.Fatal(err)
	}
	err := hub.Connected(within(t), "a")
	if f, _ := fault.As(err); !fault.Is(err, fault.Dial) || f.Server != "a" {
		t.Errorf("got %v", err)
	}
	lazy := server.Config("b")
	lazy.Lazy = true
	server.Restart()
	if err := hub.Add(within(t), lazy); err != nil {
		t.Fatal(err)
	}
	if err := hub.Connected(within(t), "b"); err != nil {
		t.Errorf("an idle server: %v", err)
	}
	if err := hub.Connected(within(t), "c"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a server that is not there: %v", err)
	}
}

// TestRoundTripperSeesTheCall gives each call a header of its own, and refuses
// one before anything is sent.
func TestRoundTripperSeesTheCall(t *testing.T) {
	srv := mcptest.New(mcptest.Config{})
	seen := make(chan string, 4)
	srv.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		seen <- r.Header.Get("X-User")
		return nil
	})
	var opened sync.Map
	cfg := config.New()
	cfg.Servers = []config.Server{siteOf(t, "a", srv)}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{RoundTripper: func(server string, base http.RoundTripper) http.RoundTripper {
		opened.Store(server, true)
		return refusing{withUser{base}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hub.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := hub.Connected(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	if _, ok := opened.Load("a"); !ok {
		t.Error("the server was reached by another way")
	}
	for _, user := range []string{"ann", "bob"} {
		if _, err := hub.CallTool(context.WithValue(within(t), userKey{}, user), "echo", nil); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != user {
			t.Errorf("the server heard of %q, not %s", got, user)
		}
	}
	_, err = hub.CallTool(context.WithValue(within(t), userKey{}, "nobody"), "echo", nil)
	if f, ok := fault.As(err); !ok || f.Kind != fault.Unauthorized || f.Outcome != fault.NotSent || len(seen) != 0 {
		t.Errorf("a refused call: %v, and the server got %d", err, len(seen))
	}
	if st, _ := hub.Server("a"); st.State != event.StateConnected {
		t.Errorf("one refused call took the server down: %s", st.State)
	}
}

// refusing refuses the calls of one user.
type refusing struct{ base http.RoundTripper }

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Value(userKey{}) == "nobody" {
		return nil, &fault.Fault{Kind: fault.Unauthorized, Op: "log in", Outcome: fault.NotSent, Err: errors.New("nobody may do that")}
	}
	return r.base.RoundTrip(req)
}

// TestStatusSaysWhoTheServerIs has what servers of both eras say of themselves.
func TestStatusSaysWhoTheServerIs(t *testing.T) {
	old := mcptest.New(mcptest.Config{Name: "old one", Instructions: "Ask nicely."})
	young := mcptest.New(mcptest.Config{Name: "young one", Era: mcptest.Modern})
	hub := openOn(t, siteOf(t, "old", old), siteOf(t, "young", young))
	for name, want := range map[string]struct {
		info, instructions string
		era                everline.Era
	}{
		"old":   {"old one", "Ask nicely.", everline.EraLegacy},
		"young": {"young one", "", everline.EraModern},
	} {
		st, _ := hub.Server(name)
		if st.ServerInfo.Name != want.info || st.ServerInfo.Version != "1.0" || !json.Valid(st.ServerInfo.Raw) || st.Instructions != want.instructions || st.Era != want.era {
			t.Errorf("%s: %+v, %q, %s", name, st.ServerInfo, st.Instructions, st.Era)
		}
		if !strings.Contains(string(st.Capabilities), `"tools"`) || st.Transport != config.TransportHTTP {
			t.Errorf("%s: %s over %s", name, st.Capabilities, st.Transport)
		}
	}
}

// TestNamesStay adds a second server: what was published keeps its name, and a
// server's own name for a tool does too.
func TestNamesStay(t *testing.T) {
	cfg := config.New()
	cfg.Naming = config.NamingAlwaysPrefix
	cfg.Servers = []config.Server{siteOf(t, "a", mcptest.New(mcptest.Config{}))}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Close(context.Background()) }) // looked at elsewhere
	if err := hub.Connected(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, ok := hub.Tool("a__echo"); !ok {
			t.Error("a__echo is not published")
		}
		for _, call := range []func() (*everline.ToolResult, error){
			func() (*everline.ToolResult, error) { return hub.CallTool(within(t), "a__echo", nil) },
			func() (*everline.ToolResult, error) {
				return hub.CallTool(within(t), "echo", nil, func(c *everline.Call) { c.Server = "a" })
			},
		} {
			if r, err := call(); err != nil || r.Server != "a" {
				t.Errorf("%+v, %v", r, err)
			}
		}
		if err := hub.Add(within(t), siteOf(t, "b", mcptest.New(mcptest.Config{}))); err != nil && fault.KindOf(err) != fault.Conflict {
			t.Fatal(err)
		}
	}
}
