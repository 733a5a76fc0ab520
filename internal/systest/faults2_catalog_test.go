package systest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// One server's broken output schema is gone, with a warning; its tool is there
// and is called, and so are the other server's.
func TestFaultS1_OneServersSchemaTakesNothingFromOthers(t *testing.T) {
	const broken = `{"name":"odd","inputSchema":{"type":"object","properties":{"q":{"$ref":"#/$defs/Gone"}}},` +
		`"outputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/Missing"}}}}`
	a := mcptest.New(mcptest.Config{Tools: []string{broken}})
	b := mcptest.New(mcptest.Config{Tools: []string{namedTool("good", "x")}})
	hub := open(t, servers{"a": web(mcptest.Web(t, a)), "b": web(mcptest.Web(t, b))}, everline.Options{})
	ready(t, hub, "a", 0)
	ready(t, hub, "b", 0)
	untilNames(t, hub, "a__odd", "b__good")
	if list := string(hub.Catalog().Array(everline.Tools)); strings.Contains(list, "Missing") || strings.Contains(list, "Gone") {
		t.Errorf("published: %s", list)
	}
	st, _ := hub.Server("a")
	want := `tool "odd": inputSchema.properties.q.$ref "#/$defs/Gone" leads nowhere; removed; ` +
		`outputSchema removed: outputSchema.properties.x.$ref "#/$defs/Missing" leads nowhere`
	if !slices.Contains(st.Warnings, want) {
		t.Errorf("warnings %q, want %s", st.Warnings, want)
	}
	for _, tool := range []string{"a__odd", "b__good"} {
		_, err := call(t, hub, tool, `{}`)
		if f := new(fault.Fault); err != nil && (!errors.As(err, &f) || f.RPC == nil) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if a.Count("tools/call") != 1 || b.Count("tools/call") != 1 {
		t.Errorf("a was called %d times, b %d times", a.Count("tools/call"), b.Count("tools/call"))
	}
}

// Halves of surrogate pairs are JSON and no text. Clients get U+FFFD; servers
// get the names that they gave.
func TestFaultS11_HalvesOfPairs(t *testing.T) {
	const half = `\ud83d`
	s := mcptest.New(mcptest.Config{
		Instructions: "whole",
		Tools:        []string{`{"name":"a` + half + `","description":"x ` + half + ` y","inputSchema":{"type":"object","properties":{"k` + half + `":{}}}}`},
		Prompts:      []string{`{"name":"p` + half + `","description":"` + half + half + `"}`},
		Resources:    []string{`{"uri":"u://r` + half + `","name":"\udc00"}`},
		Templates:    []string{`{"uriTemplate":"u://t/{x}","name":"\ud83d\ude00 ` + half + `"}`},
	})
	for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
		s.Next(method, 1, mcptest.Reply{Result: `{"content":[{"type":"text","text":"` + half + ` \\ud83d"}],"contents":[],"messages":[]}`})
	}
	s.Next("tools/call", 1, mcptest.Reply{Error: `{"code":-7,"message":"` + half + `"}`})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	ready(t, hub, "a", 0)
	untilNames(t, hub, "a\uFFFD")
	e := newEndpoint(t, hub)
	c := e.client(0)
	for i, tt := range []struct{ method, params, sent string }{
		{"tools/list", `{}`, ""},
		{"prompts/list", `{}`, ""},
		{"resources/list", `{}`, ""},
		{"resources/templates/list", `{}`, ""},
		{"tools/call", `{"name":"a\ufffd","arguments":{"k":"` + half + `"}}`, `{"name":"a` + half + `","arguments":{"k":"\ufffd"}}`},
		{"tools/call", "{\"name\":\"a\uFFFD\"}", `{"name":"a` + half + `"}`},
		{"prompts/get", `{"name":"p\ufffd"}`, `{"name":"p` + half + `"}`},
		{"resources/read", `{"uri":"u://r\ufffd"}`, `{"uri":"u://r` + half + `"}`},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i+1, tt.method, tt.params)
		_, text, err := e.post(within(t), body, c.header...)
		if err != nil || strings.Contains(strings.ReplaceAll(text, `\\ud83d`, ""), half+`"`) || strings.Contains(text, half+" ") {
			t.Errorf("%s: %s, %v", tt.method, text, err)
		}
		if tt.sent == "" {
			if !strings.Contains(text, `\ufffd`) && !strings.Contains(text, "\uFFFD") {
				t.Errorf("%s: %s", tt.method, text)
			}
			continue
		}
		all := s.Requests(tt.method)
		if len(all) == 0 || string(all[len(all)-1].Params) != tt.sent {
			t.Errorf("%s was sent as %+v, want %s", tt.method, all, tt.sent)
		}
	}
	st, _ := hub.Server("a")
	if n := strings.Count(strings.Join(st.Warnings, "\n"), "not Unicode"); n != 4 {
		t.Errorf("%d of 4 warnings: %q", n, st.Warnings)
	}
}

// strictError reads an answer as strict clients do.
func strictError(t *testing.T, answer string) (code int64, message string, data json.RawMessage) {
	t.Helper()
	var got struct {
		Error *struct {
			Code    *int32          `json:"code"`
			Message *string         `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Error == nil || got.Error.Code == nil || got.Error.Message == nil || *got.Error.Message == "" {
		t.Errorf("strict clients refuse %s (%v)", answer, err)
		return 0, "", nil
	}
	return int64(*got.Error.Code), *got.Error.Message, got.Error.Data
}

// badErrors are error objects that JSON-RPC does not allow, the code that they
// are published with, and part of the message.
var badErrors = []struct {
	raw     string
	code    int64
	message string
}{
	{`{"code":-32000,"message":null}`, -32000, "without a message"},
	{`{"code":-32000}`, -32000, "without a message"},
	{`{"code":-32000,"message":{"text":"no"},"data":1}`, -32000, "without a message"},
	{`{"message":"no"}`, -32603, "no"},
	{`{"code":"-32000","message":"no"}`, -32603, "no"},
	{`{"code":-32000.5,"message":"no"}`, -32603, "no"},
	{`{"code":-32000.0,"message":"no"}`, -32000, "no"},
	{`{"code":12345678901234567890,"message":"no"}`, -32603, "no"},
	{`{"code":3000000000,"message":"no"}`, -32603, "no"},
	{`{"code":null,"message":"no"}`, -32603, "no"},
	{`{"code":1,"message":"no","message":7}`, 1, "no"},
	{`{"Code":1,"code":1,"message":"no"}`, 1, "no"},
	{`{}`, -32603, "without a message"},
	{`null`, -32603, "without a message"},
	{`"no"`, -32603, "no"},
	{`["no"]`, -32603, "without a message"},
	{`false`, -32603, "without a message"},
	{`7`, -32603, "without a message"},
}

func TestFaultS2_ErrorsOfServersAreStrict(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		s := mcptest.New(mcptest.Config{Era: era})
		hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
		ready(t, hub, "a", 0)
		e := newEndpoint(t, hub)
		c := e.client(0)
		for _, bad := range badErrors {
			s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
				answer := `{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":` + bad.raw + `}`
				return &mcptest.Reply{Raw: answer}
			})
			_, text, err := e.post(within(t), `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`, c.header...)
			if err != nil {
				t.Fatal(err)
			}
			code, message, data := strictError(t, text)
			if code != bad.code || !strings.Contains(message, bad.message) || string(data) != bad.raw {
				t.Errorf("era %v, %s is published as %s", era, bad.raw, text)
			}
		}
		const good = `{"data":[1.0],"message":"no","code":-32000,"x":1}`
		s.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Error: good} })
		if _, text, err := e.post(within(t), `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`, c.header...); err != nil || !strings.Contains(text, `"error":`+good) {
			t.Errorf("a good error became %s, %v", text, err)
		}
	}
}

// linker is a server with a resource, and a tool that links to another one.
func linker(name string, has ...string) *mcptest.Server {
	s := mcptest.New(mcptest.Config{
		Name: name, Tools: []string{namedTool("link", "x")}, Prompts: []string{`{"name":"p"}`}, Resources: []string{`{"uri":"` + name + `://listed/1","name":"x"}`},
	})
	s.On("resources/read", func(r *mcptest.Request) *mcptest.Reply {
		for _, uri := range has {
			if strings.Contains(string(r.Params), `"`+uri+`"`) {
				return &mcptest.Reply{Result: `{"contents":[{"uri":"` + uri + `","text":"` + name + `"}]}`}
			}
		}
		return &mcptest.Reply{Error: `{"code":-32002,"message":"Resource not found"}`}
	})
	return s
}

func readAs(t *testing.T, hub *everline.Hub, uri string) string {
	t.Helper()
	result, err := hub.Call(within(t), &everline.Call{Method: "resources/read", Name: uri, Params: []byte(`{"uri":"` + uri + `"}`)})
	if err != nil {
		return fault.From("", err).Reason()
	}
	return string(result)
}

// A URI that a server hands out belongs to it, whatever it is handed out in.
func TestFaultS5_LinksLeadToWhoGaveThem(t *testing.T) {
	for what, tt := range map[string]struct{ method, result string }{
		"link":      {"tools/call", `{"content":[{"type":"text","text":"see \"uri\":\"b://no\""},{"type":"resource_link","uri":"report:\/\/1","name":"r"}]}`},
		"embedded":  {"tools/call", `{"content":[{"type":"resource","resource":{"uri" : "report://1","text":"x"}}]}`},
		"prompt":    {"prompts/get", `{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"report://1","text":"x"}}}]}`},
		"directory": {"resources/read", `{"contents":[{"uri":"a://listed/1","text":"x"},{"uri":"report://1","text":"y"}]}`},
	} {
		t.Run(what, func(t *testing.T) {
			a, b, c := linker("a", "report://1"), linker("b"), linker("c", "report://1")
			hub := open(t, servers{"a": web(mcptest.Web(t, a)), "b": web(mcptest.Web(t, b)), "c": web(mcptest.Web(t, c))}, everline.Options{})
			for _, name := range []string{"a", "b", "c"} {
				ready(t, hub, name, 0)
			}
			c.Next(tt.method, 1, mcptest.Reply{Result: tt.result})
			name := map[string]string{"tools/call": "link", "prompts/get": "p", "resources/read": "c://listed/1"}[tt.method]
			if _, err := hub.Call(within(t), &everline.Call{Method: tt.method, Server: map[bool]string{true: "c"}[tt.method != "resources/read"], Name: name, Params: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
			if got := readAs(t, hub, "report://1"); !strings.Contains(got, `"text":"c"`) {
				t.Errorf("read %s", got)
			}
			if a.Count("resources/read") != 0 || b.Count("resources/read") != 0 {
				t.Errorf("others were asked: %d and %d times", a.Count("resources/read"), b.Count("resources/read"))
			}
		})
	}
}

// Who listed the most similar URI is asked first, then the others in order, as
// long as they say that they do not have it.
func TestFaultS5_UnlistedIsAskedFor(t *testing.T) {
	a, b, c := linker("a"), linker("b", "other://1", "b://listed/2"), linker("c", "other://1", "c://x")
	hub := open(t, servers{"a": web(mcptest.Web(t, a)), "b": web(mcptest.Web(t, b)), "c": web(mcptest.Web(t, c))}, everline.Options{})
	for _, name := range []string{"a", "b", "c"} {
		ready(t, hub, name, 0)
	}
	for i, tt := range []struct {
		uri, want string
		asked     [3]int
	}{
		{"c://x", `"text":"c"`, [3]int{0, 0, 1}},
		{"b://listed/2", `"text":"b"`, [3]int{0, 1, 0}},
		{"other://1", `"text":"b"`, [3]int{1, 1, 0}},
		{"other://1", `"text":"b"`, [3]int{0, 1, 0}}, // remembered from the contents
		{"nowhere://1", "Resource not found", [3]int{1, 1, 1}},
		{"c://nowhere", "Resource not found", [3]int{1, 1, 1}},
	} {
		before := [3]int{a.Count("resources/read"), b.Count("resources/read"), c.Count("resources/read")}
		if got := readAs(t, hub, tt.uri); !strings.Contains(got, tt.want) {
			t.Errorf("%d: %s: %s", i, tt.uri, got)
		}
		for n, s := range []*mcptest.Server{a, b, c} {
			if got := s.Count("resources/read") - before[n]; got != tt.asked[n] {
				t.Errorf("%d: %s: server %d was asked %d times, want %d", i, tt.uri, n, got, tt.asked[n])
			}
		}
	}
	a.Next("resources/read", 1, mcptest.Reply{Error: `{"code":-32603,"message":"disk on fire"}`})
	if got := readAs(t, hub, "nowhere://2"); !strings.Contains(got, "disk on fire") || b.Count("resources/read") != 5 {
		t.Errorf("another error does not end the search: %s, b was asked %d times", got, b.Count("resources/read"))
	}
	a.Next("resources/read", 1, mcptest.Reply{Error: `{"code":-32602,"message":"unknown"}`})
	b.Next("resources/read", 1, mcptest.Reply{Error: `{"code":0,"message":"Unknown resource"}`})
	if got := readAs(t, hub, "c2://x"); !strings.Contains(got, "unknown") || c.Count("resources/read") == 0 {
		t.Errorf("read %s", got)
	}
}

// Subscriptions and completions find the server in the same way.
func TestFaultS5_AllMethodsThatTakeAURI(t *testing.T) {
	a, b := linker("a"), linker("b")
	no := func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Error: `{"code":-32602,"message":"no such resource"}`}
	}
	a.On("resources/subscribe", no)
	a.On("completion/complete", no)
	b.On("completion/complete", func(*mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Result: `{"completion":{"values":["b"]}}`}
	})
	hub := open(t, servers{"a": web(mcptest.Web(t, a)), "b": web(mcptest.Web(t, b))}, everline.Options{})
	ready(t, hub, "a", 0)
	ready(t, hub, "b", 0)
	cancel, err := hub.Subscribe(within(t), "report://1", func([]byte) {})
	if err != nil || a.Count("resources/subscribe") != 1 || b.Count("resources/subscribe") != 1 {
		t.Fatalf("%v: a was asked %d times, b %d times", err, a.Count("resources/subscribe"), b.Count("resources/subscribe"))
	}
	cancel()
	b.Await(t, "the end of the subscription", func() bool { return b.Count("resources/unsubscribe") == 1 })
	params := `{"ref":{"type":"ref/resource","uri":"report://{x}"},"argument":{"name":"x","value":""}}`
	result, err := hub.Call(within(t), &everline.Call{Method: "completion/complete", Name: "report://{x}", Params: []byte(params)})
	if err != nil || !strings.Contains(string(result), `"b"`) || a.Count("completion/complete") != 1 {
		t.Errorf("%s, %v", result, err)
	}
	prompt := `{"ref":{"type":"ref/prompt","name":"nobody"},"argument":{"name":"x","value":""}}`
	if _, err := hub.Call(within(t), &everline.Call{Method: "completion/complete", Name: "nobody", Params: []byte(prompt)}); !errors.Is(err, &fault.Fault{Kind: fault.NotFound}) || b.Count("completion/complete") != 1 {
		t.Errorf("an unknown prompt: %v", err)
	}
}

// A server that is away or hangs keeps nobody from what another one has.
func TestFaultS5_NobodyWaitsForAGuess(t *testing.T) {
	a, b := linker("a"), linker("b", "report://1")
	hub := open(t, servers{"a": web(mcptest.Web(t, a)), "b": web(mcptest.Web(t, b))}, everline.Options{})
	ready(t, hub, "a", 0)
	ready(t, hub, "b", 0)
	if got := readAs(t, hub, "a://listed/1"); !strings.Contains(got, "not found") {
		t.Errorf("read %s", got)
	}
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	defer func() {
		cancel()
		<-done
	}()
	untilAway(t, hub, "a", func() {
		a.SetGone(mcptest.Reply{Status: 503})
		a.Next("initialize", 100, mcptest.Reply{Status: 503})
		a.DropSessions()
		go func() {
			_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Server: "a", Name: "link", Params: []byte(`{"name":"link"}`)})
			done <- err
		}()
	})
	if got := readAs(t, hub, "report://1"); !strings.Contains(got, `"text":"b"`) || a.Count("resources/read") != 1 {
		t.Errorf("read %s, a was asked %d times", got, a.Count("resources/read"))
	}
}

// untilAway ends a server and waits until it is not connected.
func untilAway(t *testing.T, hub *everline.Hub, server string, end func()) {
	t.Helper()
	events := hub.Watch(within(t))
	end()
	for range events {
		if st, _ := hub.Server(server); st.State != "connected" {
			return
		}
	}
	t.Fatalf("%s is still connected", server)
}

// Counts are what clients see, in the whole and in what else tells them.
func TestFaultU7_CountsAreWhatClientsSee(t *testing.T) {
	var tools []string
	for _, name := range []string{"a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"} {
		tools = append(tools, namedTool(name, "x"))
	}
	s := mcptest.New(mcptest.Config{Tools: tools, Resources: []string{`{"uri":"u://1","name":"x"}`}})
	other := mcptest.New(mcptest.Config{Resources: []string{`{"uri":"u://1","name":"x"}`, `{"uri":"u://2","name":"x"}`}})
	for what, tt := range map[string]struct {
		rules map[string]any
		want  int
	}{
		"deny and hide": {map[string]any{"deny": []string{"a*"}, "hide": []string{"b1"}}, 5},
		"allow":         {map[string]any{"allow": []string{"c*"}}, 3},
		"allow nothing": {map[string]any{"deny": []string{"*"}}, 0},
		"rename":        {map[string]any{"rename": map[string]any{"a1": "z"}}, 9},
	} {
		t.Run(what, func(t *testing.T) {
			server := with(web(mcptest.Web(t, s)), map[string]any{"tools": tt.rules})
			hub := open(t, servers{"a": server, "b": web(mcptest.Web(t, other))}, everline.Options{})
			ready(t, hub, "b", 0)
			st := ready(t, hub, "a", 0)
			listed := 0
			for _, name := range toolNames(hub) {
				if strings.HasPrefix(name, "a__") {
					listed++
				}
			}
			if st.Counts[everline.Tools] != tt.want || listed != tt.want || st.Offered[everline.Tools] != 9 {
				t.Errorf("status says %d of %d tools, %d are listed, want %d", st.Counts[everline.Tools], st.Offered[everline.Tools], listed, tt.want)
			}
			for _, st := range hub.Status() {
				want := map[string][2]int{"a": {1, 1}, "b": {1, 2}}[st.Name]
				if got := [2]int{st.Counts[everline.Resources], st.Offered[everline.Resources]}; got != want {
					t.Errorf("%s: %v resources, want %v", st.Name, got, want)
				}
			}
			if err := hub.Disable(within(t), "a"); err != nil {
				t.Fatal(err)
			}
			if st, _ := hub.Server("a"); st.Counts != [4]int{} || st.Offered[everline.Tools] != 9 {
				t.Errorf("disabled: %v of %v", st.Counts, st.Offered)
			}
		})
	}
}
