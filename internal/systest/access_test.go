package systest

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/bridge"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/wire"
)

var rewriteAccess = flag.Bool("access.rewrite", false, "write docs/reference/access.md anew")

// The servers are called so that an answer about one of them has as many bytes as an
// answer about another; nobody is the one that does not exist.
var trees = []string{"alder", "birch", "cedar", "ebony", "hazel", "larch"}

const nobody = "maple"

// A grantee is one identity of the matrix, and what the configuration grants it.
type grantee struct {
	name, words string
	policy      *config.Policy // nil: all
	servers     []string
	tools       []string // of each of the servers that are there
}

var grantees = []grantee{
	{"root", "`all`", nil, trees, []string{"read", "write"}},
	{"docs", `{"servers": ["alder", "birch"]}`, &config.Policy{Servers: []string{"alder", "birch"}}, trees[:2], []string{"read", "write"}},
	{"look", `{"servers": ["birch", "cedar", "ebony"], "readOnly": true}`, &config.Policy{Servers: trees[1:4], ReadOnly: true}, trees[1:4], []string{"read"}},
	{"send", `{"tools": ["hazel.wr*"]}`, &config.Policy{Tools: []string{"hazel.wr*"}}, trees[4:5], []string{"write"}},
}

func (g *grantee) has(server string) bool { return slices.Contains(g.servers, server) }

func (g *grantee) whole(server string) bool { return g.has(server) && len(g.tools) == 2 }

// A question is one method of the matrix: of a server, or about all of them.
type question struct {
	method, what string
	only         string // the era that has it; "" for both
	params       func(server string) string
	item         func(server string) string // what Mcp-Name says; nil for none
	granted      func(g *grantee, server string) bool
	shows        func(server string) string // what the answer has where it is granted
	asks         bool                       // the server answers, where it is granted
	meta         func(server string) string // what is in _meta besides; nil for nothing
}

func named(suffix string) func(string) string {
	return func(s string) string { return s + "__" + suffix }
}

func fixed(text string) func(string) string { return func(string) string { return text } }

func uri(suffix string) func(string) string {
	return func(s string) string { return "mem://" + s + suffix }
}

func from(server string) string { return "from-" + server }

func visible(g *grantee, server string) bool { return g.has(server) }

func everybody(*grantee, string) bool { return true }

func withTool(tool string) func(*grantee, string) bool {
	return func(g *grantee, server string) bool { return g.has(server) && slices.Contains(g.tools, tool) }
}

func nameOf(suffix string) func(string) string {
	return func(s string) string { return `"name":"` + s + "__" + suffix + `"` }
}

func uriOf(suffix string) func(string) string {
	return func(s string) string { return `"uri":"mem://` + s + suffix + `"` }
}

var questions = []question{
	{"initialize", "instructions", "legacy", fixed(`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"m","version":"1"}`), nil, visible, func(s string) string { return "about-" + s }, false, nil},
	{"ping", "", "legacy", fixed(``), nil, everybody, fixed(`"result":{}`), false, nil},
	{"server/discover", "instructions", "modern", fixed(``), nil, visible, func(s string) string { return "about-" + s }, false, nil},
	{"tools/list", "a tool that reads", "", fixed(``), nil, withTool("read"), named("read"), false, nil},
	{"tools/list", "a tool that writes", "", fixed(``), nil, withTool("write"), named("write"), false, nil},
	{"prompts/list", "a prompt", "", fixed(``), nil, visible, named("ask"), false, nil},
	{"resources/list", "a resource", "", fixed(``), nil, visible, uri("/a"), false, nil},
	{"resources/templates/list", "a template", "", fixed(``), nil, visible, uri("/x/"), false, nil},
	{"tools/call", "a tool that reads", "", nameOf("read"), named("read"), withTool("read"), from, true, nil},
	{"tools/call", "a tool that writes", "", nameOf("write"), named("write"), withTool("write"), from, true, nil},
	{"prompts/get", "a prompt", "", nameOf("ask"), named("ask"), visible, from, true, nil},
	{"resources/read", "a resource", "", uriOf("/a"), uri("/a"), visible, from, true, nil},
	{"resources/read", "of a template", "", uriOf("/x/7"), uri("/x/7"), visible, from, true, nil},
	{"completion/complete", "of a prompt", "", func(s string) string {
		return `"ref":{"type":"ref/prompt","name":"` + s + `__ask"},"argument":{"name":"x","value":""}`
	}, nil, visible, from, true, nil},
	{"completion/complete", "of a template", "", func(s string) string {
		return `"ref":{"type":"ref/resource","uri":"mem://` + s + `/x/{n}"},"argument":{"name":"n","value":""}`
	}, nil, visible, from, true, nil},
	{"resources/subscribe", "a resource", "legacy", uriOf("/a"), nil, visible, fixed(`"result":{}`), true, nil},
	{"resources/unsubscribe", "a resource", "legacy", uriOf("/a"), nil, everybody, fixed(`"result":{}`), false, nil},
	{"subscriptions/listen", "a resource", "modern", func(s string) string {
		return `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["mem://` + s + `/a"]}`
	}, nil, visible, uri("/a"), true, nil},
	{"logging/setLevel", "", "legacy", fixed(`"level":"emergency"`), nil, everybody, fixed(`"result":{}`), false, nil},
	{"probe/do", "a method of the server's own", "", fixed(``), nil, (*grantee).whole, from, true, func(s string) string { return `"everline/server":"` + s + `"` }},
}

// tree is one server of the matrix: everything that comes of it says so.
func tree(name string, era mcptest.Era) *mcptest.Server {
	tasks := `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	if era == mcptest.Modern {
		tasks = `"extensions":{"io.modelcontextprotocol/tasks":{}}`
	}
	s := mcptest.New(mcptest.Config{
		Era: era, Name: name, Instructions: "about-" + name,
		Capabilities: `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{},` + tasks + `}`,
		Tools:        []string{`{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, `{"name":"write","inputSchema":{"type":"object"}}`},
		Prompts:      []string{`{"name":"ask"}`},
		Resources:    []string{`{"uri":"mem://` + name + `/a","name":"a"}`},
		Templates:    []string{`{"uriTemplate":"mem://` + name + `/x/{n}","name":"x"}`},
	})
	foreign := func(r *mcptest.Request) *mcptest.Reply {
		if strings.Contains(string(r.Params), "mem://") && !strings.Contains(string(r.Params), "mem://"+name) {
			return &mcptest.Reply{Error: `{"code":-32002,"message":"Resource not found"}`}
		}
		return nil
	}
	answer := func(result string) func(*mcptest.Request) *mcptest.Reply {
		return func(r *mcptest.Request) *mcptest.Reply {
			if bad := foreign(r); bad != nil {
				return bad
			}
			return &mcptest.Reply{Result: strings.ReplaceAll(result, "FROM", from(name))}
		}
	}
	s.On("subscriptions/listen", foreign)
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		if wire.Get(r.Params, "arguments", "task") != nil {
			return answer(taskBegun(era))(r)
		}
		return answer(`{"content":[{"type":"text","text":"FROM"}]}`)(r)
	})
	s.On("tasks/get", answer(taskState))
	s.On("tasks/cancel", answer(taskState))
	s.On("tasks/update", answer(`{"resultType":"complete","said":"FROM"}`))
	s.On("tasks/result", answer(`{"content":[{"type":"text","text":"FROM"}]}`))
	s.On("prompts/get", answer(`{"messages":[{"role":"user","content":{"type":"text","text":"FROM"}}]}`))
	s.On("resources/read", answer(`{"contents":[{"uri":"mem://x","text":"FROM"}]}`))
	s.On("completion/complete", answer(`{"completion":{"values":["FROM"]}}`))
	s.On("resources/subscribe", answer(`{}`))
	s.On("probe/do", answer(`{"said":"FROM"}`))
	return s
}

// byWho takes the word of a test for who it is.
type byWho struct{}

func (byWho) Enter(_ http.ResponseWriter, r *http.Request) *access.Identity {
	name := r.Header.Get("Who")
	return access.Token(name, name, "", time.Time{})
}

func (byWho) Admits(*access.Identity) bool { return true }

func (byWho) NothingGranted(http.Header, *http.Request, *access.Identity) {}

// A forest is the six servers, and the endpoint that four identities reach.
type forest struct {
	t     *testing.T
	era   mcptest.Era
	kept  int // outcomes
	trees map[string]*mcptest.Server
	cfg   *config.Config
	hub   *everline.Hub
	url   string
	web   *http.Client
}

func plant(t *testing.T, era mcptest.Era) *forest {
	f := &forest{t: t, era: era, trees: map[string]*mcptest.Server{}, cfg: config.New()}
	for _, name := range trees {
		f.trees[name] = tree(name, era)
		f.cfg.Servers = append(f.cfg.Servers, webServer(name, mcptest.Web(t, f.trees[name]).URL))
	}
	for i := range grantees {
		grant := config.Grant{Label: "token:" + grantees[i].name, Policies: []string{config.PolicyAll}}
		if p := grantees[i].policy; p != nil {
			named := *p
			named.Name = grantees[i].name
			f.cfg.Policies = append(f.cfg.Policies, named)
			grant.Policies = []string{named.Name}
		}
		f.cfg.Grants = append(f.cfg.Grants, grant)
	}
	hub, err := everline.Open(t.Context(), f.cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.hub = hub
	for _, name := range trees {
		if err := hub.Connected(within(t), name); err != nil {
			t.Fatal(err)
		}
	}
	g := gateway.ForHub(hub, gateway.Options{Entrance: byWho{}})
	srv := httptest.NewServer(g.Handler())
	f.url, f.web = srv.URL, srv.Client()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
		srv.CloseClientConnections()
		srv.Close()
		if err := hub.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return f
}

func webServer(name, url string) config.Server {
	s := config.NewServer(name)
	s.Transport, s.URL, s.KeepResults = config.TransportHTTP, url+"/mcp", time.Hour
	return s
}

// whoSends is a round tripper that says who it is.
type whoSends struct {
	who  string
	base http.RoundTripper
}

func (w whoSends) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Who", w.who)
	return w.base.RoundTrip(r)
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.modelcontextprotocol/clientInfo":{"name":"m","version":"1"}`

// frame is a request of the matrix.
func (q *question) frame(id int, server string, modern bool) string {
	params, meta := q.params(server), ""
	if modern {
		meta = modernMeta
	}
	if q.meta != nil {
		meta = strings.TrimPrefix(meta+","+q.meta(server), ",")
	}
	if meta != "" {
		params = strings.TrimSuffix(`"_meta":{`+meta+`},`+params, ",")
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, q.method, params)
}

// A speaker puts a request to the endpoint, and returns the answer.
type speaker func(q *question, server string) string

// overHTTP speaks Streamable HTTP.
func (f *forest) overHTTP(who string, modern bool) speaker {
	web := &http.Client{Transport: whoSends{who, f.web.Transport}}
	id, session := 0, ""
	send := func(method, body string, header map[string]string) (*http.Response, string) {
		r, _ := http.NewRequestWithContext(within(f.t), http.MethodPost, f.url+"/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for k, v := range header {
			r.Header.Set(k, v)
		}
		resp, err := web.Do(r)
		if err != nil {
			f.t.Fatal(err)
		}
		defer resp.Body.Close()
		if method == mcp.SubscriptionsListen {
			return resp, firstData(f.t, resp.Body)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			f.t.Fatal(err)
		}
		return resp, strconv.Itoa(resp.StatusCode) + " " + string(text)
	}
	if !modern {
		resp, _ := send(mcp.Initialize, questions[0].frame(0, "", false), nil)
		session = resp.Header.Get("Mcp-Session-Id")
	}
	return func(q *question, server string) string {
		id++
		header := map[string]string{"Mcp-Session-Id": session}
		if modern {
			header = map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": q.method}
			if q.item != nil {
				header["Mcp-Name"] = q.item(server)
			}
		}
		_, text := send(q.method, q.frame(id, server, modern), header)
		return text
	}
}

// firstData is what a stream says first; the stream is left then.
func firstData(t *testing.T, r io.Reader) string {
	for sc := bufio.NewScanner(r); sc.Scan(); {
		if data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: ")); ok && len(data) > 0 {
			return string(data)
		}
	}
	t.Fatal("a stream that says nothing")
	return ""
}

// overStdio speaks to the bridge that clients without HTTP start.
func (f *forest) overStdio(who string, modern bool) speaker {
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	done := make(chan struct{})
	go func() { // ends with in; the cleanup waits for it
		defer close(done)
		_ = bridge.Run(context.WithoutCancel(f.t.Context()), in, out, f.url+"/mcp", whoSends{who, http.DefaultTransport.(*http.Transport).Clone()})
		out.Close()
	}()
	lines := make(chan []byte, 1024)
	go func() { // ends with the bridge
		defer close(lines)
		for sc := bufio.NewScanner(fromBridge); sc.Scan(); {
			lines <- bytes.Clone(sc.Bytes())
		}
	}()
	f.t.Cleanup(func() {
		toBridge.Close()
		<-done
	})
	id := 0
	speak := func(q *question, server string) string {
		id++
		_, _ = io.WriteString(toBridge, q.frame(id, server, modern)+"\n")
		answer := f.answer(lines, id)
		if q.method == mcp.SubscriptionsListen {
			_, _ = fmt.Fprintf(toBridge, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"_meta":{%s},"requestId":%d}}`+"\n", modernMeta, id)
		}
		return answer
	}
	if !modern {
		speak(&questions[0], "")
	}
	return speak
}

// answer is the one with the id, of what comes on a stream.
func (f *forest) answer(lines <-chan []byte, id int) string {
	late := time.After(soon)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				f.t.Fatal("the stream ended")
			}
			got := wire.Member(line, "id")
			if bytes.Contains(line, []byte(mcp.NotifyAcknowledged)) {
				got = wire.Get(line, "params", "_meta", mcp.MetaSubscription)
			}
			if string(got) == strconv.Itoa(id) {
				return string(line)
			}
		case <-late:
			f.t.Fatalf("no answer to request %d", id)
		}
	}
}

// overSSE speaks HTTP+SSE.
func (f *forest) overSSE(who string, _ bool) speaker {
	web := &http.Client{Transport: whoSends{who, f.web.Transport}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/sse", nil)
	resp, err := web.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	lines := make(chan []byte, 1024)
	done := make(chan struct{})
	go func() { // ends with the stream; the cleanup waits for it
		defer close(done)
		defer close(lines)
		for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
			if data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: ")); ok {
				lines <- bytes.Clone(data)
			}
		}
	}()
	f.t.Cleanup(func() { cancel(); resp.Body.Close(); <-done })
	messages := f.url + "/" + string(<-lines)
	id := 0
	speak := func(q *question, server string) string {
		id++
		r, _ := http.NewRequestWithContext(within(f.t), http.MethodPost, messages, strings.NewReader(q.frame(id, server, false)))
		r.Header.Set("Content-Type", "application/json")
		resp, err := web.Do(r)
		if err != nil {
			f.t.Fatal(err)
		}
		resp.Body.Close()
		return f.answer(lines, id)
	}
	speak(&questions[0], "")
	return speak
}

// asked is how often a server was asked something of the matrix.
func (f *forest) asked(server, method string) int { return f.trees[server].Count(method) }

// A way is one in which clients come.
type way struct {
	name   string
	speak  func(who string, modern bool) speaker
	modern bool
}

func (f *forest) ways() []way {
	return []way{
		{"HTTP, legacy", f.overHTTP, false},
		{"HTTP, modern", f.overHTTP, true},
		{"HTTP+SSE", f.overSSE, false},
		{"stdio, legacy", f.overStdio, false},
		{"stdio, modern", f.overStdio, true},
	}
}

// A finding is what the matrix has found: how often it looked, and what who is not
// granted something was told, by question and era.
type finding struct {
	cells   int
	refused map[string]string
}

// TestAccessMatrix puts every method of both eras, of each of four identities over
// each transport, to each of six servers of each era. What is not granted is answered
// as what nobody has, to the byte, its server hears nothing, and no answer says a word
// of a server that the identity has not. What one identity has begun is to the others
// as if it did not exist.
func TestAccessMatrix(t *testing.T) {
	found := &finding{refused: map[string]string{}}
	for name, era := range map[string]mcptest.Era{"legacy": mcptest.Legacy, "modern": mcptest.Modern} {
		t.Run(name, func(t *testing.T) {
			f := plant(t, era)
			for _, way := range f.ways() {
				speakers := map[string]speaker{}
				for _, g := range grantees {
					speakers[g.name] = way.speak(g.name, way.modern)
					f.granted(&g, way, speakers[g.name], found)
				}
				f.bound(way, speakers, found)
			}
		})
	}
	if found.cells < 5000 {
		t.Errorf("only %d cells", found.cells)
	}
	page(t, found)
}

// granted puts all questions of one identity.
func (f *forest) granted(g *grantee, w way, speak speaker, found *finding) {
	for i := range questions {
		q := &questions[i]
		if q.only == "legacy" && w.modern || q.only == "modern" && !w.modern {
			continue
		}
		for _, server := range trees {
			found.cells++
			cell := fmt.Sprintf("%s over %s: %s %s of %s", g.name, w.name, q.method, q.what, server)
			f.check(cell, g, q, server, speak, found, w.modern)
		}
	}
}

func (f *forest) check(cell string, g *grantee, q *question, server string, speak speaker, found *finding, modern bool) {
	f.t.Helper()
	before := f.asked(server, q.method)
	got := speak(q, server)
	heard := f.asked(server, q.method) > before
	granted := q.granted(g, server)
	for _, other := range trees {
		if !g.has(other) && strings.Contains(strings.ReplaceAll(got, server, ""), other) || !granted && strings.Contains(got, from(other)) {
			f.t.Errorf("%s: a crossing from %s: %s", cell, other, got)
		}
	}
	switch {
	case granted && (!strings.Contains(got, q.shows(server)) || q.asks && !heard && !subscribes(q.method)):
		f.t.Errorf("%s is granted: %s", cell, got)
	case granted:
	case heard:
		f.t.Errorf("%s: the server was asked: %s", cell, got)
	case g.has(server) && q.method == "probe/do": // it is there, and not whole
		if !strings.Contains(got, `"code":-32601`) {
			f.t.Errorf("%s: %s", cell, got)
		}
	case q.asks:
		none := speak(q, nobody)
		if plain(got, server) != plain(none, nobody) {
			f.t.Errorf("%s:\n%s\nand of what nobody has:\n%s", cell, got, none)
		}
		found.note(f.t, q.method+" "+q.what, modern, plain(got, server))
	case strings.Contains(got, q.shows(server)):
		f.t.Errorf("%s is shown: %s", cell, got)
	}
}

// subscribes tells whether several clients share what a method asks a server for.
func subscribes(method string) bool {
	return method == mcp.ResourcesSubscribe || method == mcp.SubscriptionsListen
}

// note keeps what somebody was told who is not granted something: it is the same each
// time.
func (found *finding) note(t *testing.T, what string, modern bool, told string) {
	t.Helper()
	if what += " legacy"; modern {
		what = strings.TrimSuffix(what, "legacy") + "modern"
	}
	if was, ok := found.refused[what]; ok && was != told {
		t.Errorf("%s: %s, and before %s", what, told, was)
	}
	found.refused[what] = told
}

var subscriptionID = regexp.MustCompile(`"` + mcp.MetaSubscription + `":\d+`)

// plain is an answer without its id and status, and with NAME for the server.
func plain(text, server string) string {
	_, text, _ = strings.Cut(strings.ReplaceAll(text, server, "NAME"), `{"jsonrpc"`)
	raw := []byte(`{"jsonrpc"` + subscriptionID.ReplaceAllString(text, `"`+mcp.MetaSubscription+`":0`))
	for _, member := range []string{"error", "result", "params"} {
		if val := wire.Member(raw, member); val != nil {
			return string(val)
		}
	}
	return text
}

// page compares docs/reference/access.md with what the matrix has found.
// told is how the page says what somebody is told who is not granted something.
func (found *finding) told(what string) string {
	legacy, modern := found.refused[what+" legacy"], found.refused[what+" modern"]
	switch {
	case legacy == "" || legacy == modern:
		return "`" + modern + "`"
	case modern == "":
		return "`" + legacy + "`"
	default:
		return "`" + legacy + "`; modern: `" + modern + "`"
	}
}

func page(t *testing.T, found *finding) {
	t.Helper()
	var b strings.Builder
	b.WriteString(accessHead)
	b.WriteString("\n| identity | its policy |")
	for _, server := range trees {
		b.WriteString(" " + server + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(trees)) + "\n")
	for _, g := range grantees {
		words := g.words
		if g.policy != nil {
			words = "`" + words + "`"
		}
		fmt.Fprintf(&b, "| %s | %s |", g.name, words)
		for _, server := range trees {
			switch {
			case !g.has(server):
				b.WriteString(" - |")
			case g.whole(server):
				b.WriteString(" all |")
			default:
				fmt.Fprintf(&b, " `%s` |", strings.Join(g.tools, "`, `"))
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nEach method was asked by each identity of each server, over each transport, with servers of each era.\nWith what belongs to one identity, below: %d cells, 0 crossings.\n", found.cells)
	b.WriteString("\n| method | of | eras | what is not granted is |\n|---|---|---|---|\n")
	for _, q := range questions {
		eras := q.only
		if eras == "" {
			eras = "both"
		}
		answer := "not listed"
		switch {
		case q.what == "instructions":
			answer = "not told"
		case q.granted(&grantee{}, ""):
			answer = "not touched: the answer is the same for everybody"
		case q.method == mcp.SubscriptionsListen:
			answer = "not in the acknowledgement"
		case q.asks:
			answer = found.told(q.method + " " + q.what)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", q.method, q.what, eras, answer)
	}
	b.WriteString(accessBound)
	for _, row := range boundRows {
		answer := "not listed"
		switch row.method {
		case mcp.SubscriptionsListen:
			answer = "not in the acknowledgement"
		case mcp.TasksList:
		default:
			answer = found.told(row.method + " of another")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", row.method, row.what, row.eras(), answer)
	}
	b.WriteString(accessTail)
	const path = "../../docs/reference/access.md"
	if *rewriteAccess {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(was) != b.String() {
		t.Errorf("%s is not what the matrix has found; run go test ./internal/systest -run TestAccessMatrix -access.rewrite", path)
	}
}

const accessHead = `# Who sees what

What a policy does not grant does not exist for a client: it is not listed, and an answer about it is the answer about a name
that nobody has, byte for byte. The server hears nothing of it. This page is made by ` + "`TestAccessMatrix`" + ` (internal/systest), which
asks for everything as four identities, of six servers of each era, over Streamable HTTP in both eras, HTTP+SSE, and the stdio
bridge in both eras. [How to give clients different tools](../how-to/give-clients-different-tools.md) says how policies are written.

## What was granted
`

const accessBound = `
NAME stands for the server that was asked about. Of a server that a client has in part, by ` + "`tools` or `readOnly`" + `, methods that
no revision of MCP defines are not served either: nobody knows what they do.

## What belongs to one identity

Each identity had each server that it may use begin a task and keep an outcome, over each transport; then all four asked for it.
Tasks are those of the server's own era.

| method | of | eras | for everybody else |
|---|---|---|---|
`

const accessTail = `
Sessions, streams, kept outcomes, tasks and questions that wait for input belong to the identity that began them: every other one
is told what it would be told of an id that nobody has. A token of the same subject with other scopes or claims counts as another
one here: what may be done goes by the token that is shown, and by none that was shown before. Changed lists, log messages and
updates of resources are told only of what is granted, and a reload that changes what is granted counts for sessions and streams
that are open.

## When a client is refused

| what | HTTP | code | when again |
|---|---|---|---|
| nothing is granted to it | 403 | -31013 | not before the configuration changes |
| more calls than ` + "`rate` and `burst`" + ` | 429 | -31007 | ` + "`Retry-After`, and `retryAfterMs` in the error's data" + ` |
| more calls at a time than ` + "`concurrent`" + ` | 429 | -31007 | the same |
| more sessions than ` + "`sessions`" + `, all of them in use | 503 | -31003 | ` + "`Retry-After`" + ` |
| a message larger than ` + "`maxBody`" + ` | 413 | -32600 | never, in that size |

Each is counted in ` + "`everline_policy_refusals_total`" + ` by policy and reason, and told as the event ` + "`client_refused`" + `.
`
