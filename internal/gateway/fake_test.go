package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/policy"
)

func TestMain(m *testing.M) {
	runMatrixChild()
	runTaskChild()
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of a test.
const patience = 45 * time.Second

// A hub is a Backend whose answers a test decides.
type hub struct {
	table  atomic.Pointer[everline.Catalog]
	onCall func(ctx context.Context, c *everline.Call) ([]byte, error)
	by     everline.Answer      // who has answered
	slow   chan error           // why a call ended that a test gave up
	may    func() *policy.Scope // what is granted; nil: everything

	mu      sync.Mutex
	next    int
	changes map[int]func([]everline.Kind)
	logs    map[int]func(string, []byte)
	subs    map[string]map[int]func([]byte)
	levels  []string
	waits   int
	subErr  error

	notified []string // by clients
}

func newHub() *hub {
	h := &hub{slow: make(chan error, 16), changes: map[int]func([]everline.Kind){}, logs: map[int]func(string, []byte){}, subs: map[string]map[int]func([]byte){}}
	h.publish(item("echo", `{"name":"echo","inputSchema":{"type":"object"}}`))
	return h
}

func item(name, raw string, headers ...mcp.HeaderParam) catalog.Item {
	return catalog.Item{Name: name, Raw: []byte(raw), Headers: headers}
}

func (h *hub) publish(tools ...catalog.Item) {
	c := &catalog.Catalog{Instructions: "Be kind."}
	c.Items[catalog.Tools] = tools
	c.Items[catalog.Prompts] = []catalog.Item{item("hello", `{"name":"hello"}`)}
	c.Items[catalog.Resources] = []catalog.Item{item("file:///a", `{"uri":"file:///a","name":"a"}`)}
	h.table.Store(catalog.Merge([]catalog.Entry{{Server: "only", Catalog: c, Published: true}}, catalog.Naming{}))
}

func (h *hub) Do(ctx context.Context, c *everline.Call) (everline.Answer, error) {
	answer := h.by
	if h.onCall == nil {
		answer.Result = []byte(`{"content":[]}`)
		return answer, nil
	}
	var err error
	answer.Result, err = h.onCall(ctx, c)
	return answer, err
}

func (h *hub) Catalog() *everline.Catalog { return h.table.Load() }

func (h *hub) CatalogFor(*everline.Session) *everline.Catalog { return h.Catalog() }

func (h *hub) WaitFirst(context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits++
}

func (h *hub) Notify(_ context.Context, c *everline.Call) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notified = append(h.notified, c.Method)
	return nil
}

func (h *hub) Exists() bool { return true }

func (h *hub) Decide(string, string, string) policy.Decision { return policy.Decision{} }

func (h *hub) May() *policy.Scope {
	if h.may != nil {
		return h.may()
	}
	return policy.Everything
}

func (h *hub) SetLevel(level string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.levels = append(h.levels, level)
}

func (h *hub) SubscribeFor(_ context.Context, _ *everline.Session, uri string, fn func([]byte)) (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subErr != nil {
		return nil, h.subErr
	}
	if h.subs[uri] == nil {
		h.subs[uri] = map[int]func([]byte){}
	}
	h.next++
	id := h.next
	h.subs[uri][id] = fn
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs[uri], id)
	}, nil
}

func (h *hub) WatchTask(ctx context.Context, of *everline.Session, server, id string, fn func([]byte)) (func(), error) {
	return h.SubscribeFor(ctx, of, "task "+server+" "+id, fn)
}

func (h *hub) subscribers(uri string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs[uri])
}

func (h *hub) OnChange(fn func([]everline.Kind)) func() { return register(h, h.changes, fn) }

func (h *hub) OnLog(fn func(string, []byte)) func() { return register(h, h.logs, fn) }

func register[F any](h *hub, m map[int]F, fn F) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	id := h.next
	m[id] = fn
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(m, id)
	}
}

func (h *hub) changed(kinds ...everline.Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fn := range h.changes {
		fn(kinds)
	}
}

func (h *hub) log(params string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fn := range h.logs {
		fn("only", []byte(params))
	}
}

func (h *hub) update(uri string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fn := range h.subs[uri] {
		fn([]byte(`{"uri":"` + uri + `"}`))
	}
}

// A site is a gateway behind a real HTTP server.
type site struct {
	t    *testing.T
	g    *Gateway
	hub  *hub
	real *everline.Hub // instead of hub, where the whole path is tested
	url  string
	web  *http.Client
}

func serve(t *testing.T, h *hub, opts Options) *site {
	t.Helper()
	g := New(h, opts)
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = Server(g.Handler())
	srv.Listener = g.Listener(srv.Listener)
	srv.Start()
	s := &site{t: t, g: g, hub: h, url: srv.URL, web: srv.Client()}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		s.web.CloseIdleConnections()
		srv.Close()
	})
	return s
}

// A reply is an HTTP response that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request with header lines "Name: value".
func (s *site) do(method, path, body string, headers ...string) reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // what should be refused may turn out to be a stream
	defer cancel()
	resp := s.open(ctx, method, path, body, headers...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (s *site) open(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	resp, err := s.try(ctx, method, path, body, headers...)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

func (s *site) try(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header[http.CanonicalHeaderKey(name)] = nil
		default:
			req.Header.Set(name, value)
		}
	}
	return s.web.Do(req)
}

// post sends a message to /mcp.
func (s *site) post(body string, headers ...string) reply {
	s.t.Helper()
	return s.do("POST", "/mcp", body, headers...)
}

// initialize opens a session and returns its header line.
func (s *site) initialize(version string) string {
	s.t.Helper()
	r := s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, version))
	id := r.header.Get("Mcp-Session-Id")
	if r.status != 200 || id == "" {
		s.t.Fatalf("initialize: %d %s", r.status, r.body)
	}
	return "Mcp-Session-Id: " + id
}

// modernBody is a modern request; params begin with a comma or are empty.
func modernBody(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}` + params + `}}`
}

func (s *site) modern(id, method, name, params string, headers ...string) reply {
	s.t.Helper()
	h := append([]string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}, headers...)
	if name != "" {
		h = append(h, "Mcp-Name: "+name)
	}
	return s.post(modernBody(id, method, params), h...)
}

// A tap reads the events of an open stream.
type tap struct {
	t      *testing.T
	resp   *http.Response
	events chan string // data of each event; closed at the end
	cancel context.CancelFunc
}

// tap opens a stream and reads it in the background until the test ends.
func (s *site) tap(method, path, body string, headers ...string) *tap {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp := s.open(ctx, method, path, body, headers...)
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || ct != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		cancel()
		s.t.Fatalf("no stream: %d %s %s", resp.StatusCode, ct, b)
	}
	tp := &tap{t: s.t, resp: resp, events: make(chan string, 1024), cancel: cancel}
	done := make(chan struct{})
	go func() { // ends with the stream; the cleanup waits for it
		defer close(done)
		defer close(tp.events)
		sc := bufio.NewScanner(resp.Body)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			if data, ok := strings.CutPrefix(sc.Text(), "data: "); ok && data != "" {
				tp.events <- data
			}
		}
	}()
	s.t.Cleanup(func() { cancel(); resp.Body.Close(); <-done })
	return tp
}

func (tp *tap) next() string {
	tp.t.Helper()
	select {
	case e, ok := <-tp.events:
		if !ok {
			tp.t.Fatal("the stream ended")
		}
		return e
	case <-time.After(patience):
		tp.t.Fatal("no event came")
		return ""
	}
}

// end waits for the end of the stream and returns what came before it.
func (tp *tap) end() []string {
	tp.t.Helper()
	var all []string
	for {
		select {
		case e, ok := <-tp.events:
			if !ok {
				return all
			}
			all = append(all, e)
		case <-time.After(patience):
			tp.t.Fatal("the stream did not end")
		}
	}
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-tick.C
	}
}

func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("not JSON: %s", got)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if string(x) != string(y) {
		t.Errorf("got  %s\nwant %s", x, y)
	}
}

func want(t *testing.T, r reply, status int, contains ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d: %s", r.status, status, r.body)
	}
	for _, c := range contains {
		if !strings.Contains(r.body, c) {
			t.Errorf("body %s\nlacks %s", r.body, c)
		}
	}
}

// refusal is a fault as the hub returns it.
func refusal(kind fault.Kind, outcome fault.Outcome) *fault.Fault {
	return &fault.Fault{Kind: kind, Op: "tools/call", Server: "only", Gen: 3, Outcome: outcome}
}

// declare publishes the echo tool of a server with these capabilities.
func (h *hub) declare(capabilities []byte) {
	c := &catalog.Catalog{Capabilities: capabilities}
	c.Items[catalog.Tools] = []catalog.Item{item("echo", `{"name":"echo","inputSchema":{"type":"object"}}`)}
	h.table.Store(catalog.Merge([]catalog.Entry{{Server: "only", Catalog: c, Published: true}}, catalog.Naming{}))
}

// answers answers every call with a task that is called own, and keeps the calls.
func answers(seen *[]everline.Call) func(context.Context, *everline.Call) ([]byte, error) {
	return func(_ context.Context, c *everline.Call) ([]byte, error) {
		*seen = append(*seen, *c)
		if c.Method == mcp.ToolsCall {
			return []byte(`{"task":{"taskId":"own","status":"working","ttl":60000}}`), nil
		}
		return []byte(`{"taskId":"own","status":"working","ttl":60000}`), nil
	}
}

// refuses refuses every call for another life.
func refuses(gen uint64) func(context.Context, *everline.Call) ([]byte, error) {
	return func(context.Context, *everline.Call) ([]byte, error) {
		return nil, &fault.Fault{Kind: fault.NotFound, Gen: gen, Outcome: fault.NotSent, Err: fmt.Errorf("what generation %d remembered is lost", gen)}
	}
}
