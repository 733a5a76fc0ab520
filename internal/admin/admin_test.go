package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// fakeHub answers from fields and notes what was asked of it.
// HideTokens knows none.
func (*fakeHub) HideTokens(text string) string { return text }

func (*fakeHub) Login(context.Context, string, everline.LoginOptions) (*everline.Login, error) {
	return nil, fault.New(fault.Unsupported, "login", "not here")
}
func (*fakeHub) Logout(context.Context, string, bool) error { return nil }

type fakeHub struct {
	during func(ctx context.Context, c everline.Client) // what happens during a call; may be nil
	cfg    *config.Config
	states []everline.Status
	logs   []everline.LogLine
	asked  []string

	problems []everline.Problem
	fail     error
	gen      uint64
	call     everline.Call
}

func (h *fakeHub) Config() *config.Config { return h.cfg }

func (h *fakeHub) Warnings() []config.Warning { return h.cfg.Warnings }
func (h *fakeHub) Status() []everline.Status  { return h.states }
func (h *fakeHub) Orphans() []everline.Orphan {
	return []everline.Orphan{{Server: "a", PID: 7, Ended: true}}
}
func (h *fakeHub) Problems() []everline.Problem { return h.problems }
func (h *fakeHub) Catalog() *everline.Catalog   { return nil }
func (h *fakeHub) Server(name string) (everline.Status, bool) {
	for _, s := range h.states {
		if s.Name == name {
			return s, true
		}
	}
	return everline.Status{}, false
}
func (h *fakeHub) Logs(string) ([]everline.LogLine, error) { return h.logs, nil }
func (h *fakeHub) CallTool(ctx context.Context, name string, _ any, opts ...everline.CallOption) (*everline.ToolResult, error) {
	h.call = everline.Call{Method: "tools/call", Name: name}
	for _, change := range opts {
		change(&h.call)
	}
	if h.during != nil {
		h.during(ctx, h.call.Client)
	}
	return &everline.ToolResult{Raw: []byte(`{"content":[],"n":1.0}`)}, h.fail
}

func (h *fakeHub) did(op, server string) error {
	h.asked = append(h.asked, op+" "+server)
	return h.fail
}
func (h *fakeHub) Enable(_ context.Context, s string) error    { return h.did("enable", s) }
func (h *fakeHub) Disable(_ context.Context, s string) error   { return h.did("disable", s) }
func (h *fakeHub) Reconnect(_ context.Context, s string) error { return h.did("reconnect", s) }
func (h *fakeHub) PinChanges() []everline.PinChange {
	return []everline.PinChange{
		{Server: "a", Tool: "send", What: "changed", Was: []byte(`{"name":"send"}`), Now: []byte(`{"name":"send","title":"x"}`), Withheld: true},
		{Server: "a", What: "changed", Was: []byte("be kind"), Now: []byte("be \u200bkind")},
	}
}

func (h *fakeHub) Approve(_ context.Context, s, tool string) (int, error) {
	return 2, h.did("approve", s+"."+tool)
}

func (h *fakeHub) Await(ctx context.Context, s string, gen uint64) (everline.Status, error) {
	h.gen = gen
	st, _ := h.Server(s)
	return st, h.did("await", s)
}

func (h *fakeHub) Drill(ctx context.Context, s string, d everline.Drill) (everline.DrillReport, error) {
	if err := h.did("drill "+d.Fault, s); err != nil {
		return everline.DrillReport{}, err
	}
	d.Broken()
	if d.For > 0 {
		<-ctx.Done()
		return everline.DrillReport{}, fault.From("drill", ctx.Err())
	}
	d.Over()
	var r everline.DrillReport
	r.Recovered, r.Before, r.After, r.Recovery = true, 3, 4, 1500*time.Microsecond
	r.Clients = everline.DrillTally{Calls: 3, Answered: 2, Failed: map[fault.Kind]int{fault.Exited: 1}}
	return r, nil
}

func (h *fakeHub) Call(_ context.Context, c *everline.Call) ([]byte, error) {
	return []byte(`{"content":[],"probe":true}`), h.did("probe", c.Name)
}
func (h *fakeHub) Ping(_ context.Context, s string) error { return h.did("ping", s) }

var since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newFake(t *testing.T) *fakeHub {
	cfg, err := config.Parse("everline.json", []byte(`{"mcpServers": {
		"up": {"command": "x", "env": {"K": "secret-value"}, "everline": {"required": true}, "bogus": 1},
		"down": {"url": "http://h/", "everline": {"required": true}}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeHub{cfg: cfg, states: []everline.Status{
		{Name: "up", State: "connected", Generation: 3, Transport: "stdio", PID: 1 << 30, Era: "legacy", Calls: 7, Handshake: []everline.HandshakePhase{{Name: "spawn", Took: 4200 * time.Microsecond}}, P50: 1500 * time.Microsecond, P95: 310 * time.Millisecond, Version: "2025-06-18", Counts: [4]int{1, 2, 3, 4}, CatalogAt: since, Since: since, Origin: cfg.Servers[0].Origin},
		{
			Name: "down", State: "disconnected", Generation: 9, Transport: "auto", URL: "http://h/", AwaySince: since, Next: since, Attempt: 2, Origin: cfg.Servers[1].Origin, Remedy: "everline logs down",
			Cause: &fault.Fault{Kind: fault.Exited, Exit: "exit 1", Stderr: []string{"key is secret-value"}, Err: errors.New("exit 1 with secret-value")},
		},
	}}
}

// serve runs the API on a real socket and returns its client.
func serve(t *testing.T, h *fakeHub, j *Journal) *Client {
	dir := filepath.Join(t.TempDir(), "state")
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	base, end := context.WithCancel(context.Background())
	s := &http.Server{
		Handler:     New(Options{Hub: h, Journal: j, Version: "v1", Endpoint: "http://127.0.0.1:1/mcp", StateDir: dir}).Handler(),
		BaseContext: func(net.Listener) context.Context { return base },
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }() // ends with the cleanup
	t.Cleanup(func() {
		end()
		s.Shutdown(context.Background())
		<-done
		l.Close()
	})
	return NewClient(dir, 0)
}

func TestPins(t *testing.T) {
	h := newFake(t)
	c := serve(t, h, NewJournal())
	pins, err := c.Pins(t.Context())
	if err != nil || pins.Mode != "off" || len(pins.Changes) != 2 {
		t.Fatalf("pins %+v, %v", pins, err)
	}
	tool, instructions := pins.Changes[0], pins.Changes[1]
	if string(tool.Now) != `{"name":"send","title":"x"}` || !tool.Withheld || tool.What != "changed" {
		t.Errorf("tool %+v", tool)
	}
	if string(instructions.Now) != "\"be \u200bkind\"" || instructions.Tool != "" {
		t.Errorf("instructions %+v", instructions)
	}
	if done, err := c.Approve(t.Context(), Approval{Server: "up", Tool: "send"}); err != nil || done.Count != 2 {
		t.Errorf("approved %+v, %v", done, err)
	}
	if _, err := c.Approve(t.Context(), Approval{Server: "nobody"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown server: %v", err)
	}
	if _, err := c.Approve(t.Context(), Approval{Tool: "send"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a tool of no server: %v", err)
	}
}

// What everline cannot keep is in the status, and what is wrong with the pins'
// file is in their answer, too: it must not say that all is as approved.
func TestFaultU15(t *testing.T) {
	fake := newFake(t)
	fake.problems = []everline.Problem{
		{About: "pins", Text: "the lock file cannot be used", Remedy: "everline reload", Since: since},
		{About: "state", Server: "up", Text: "the catalog cannot be kept with secret-value", Since: since},
	}
	c := serve(t, fake, NewJournal())
	st, err := c.Status(t.Context())
	if err != nil || len(st.Problems) != 2 || st.Problems[1].Text != "the catalog cannot be kept with ***" {
		t.Errorf("status: %+v, %v", st.Problems, err)
	}
	p, err := c.Pins(t.Context())
	if err != nil || p.Problem == nil || p.Problem.Text != "the lock file cannot be used" || p.Problem.Remedy != "everline reload" {
		t.Errorf("pins: %+v, %v", p, err)
	}
}

func TestStatus(t *testing.T) {
	st, err := serve(t, newFake(t), NewJournal()).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.PID != os.Getpid() || st.Endpoint != "http://127.0.0.1:1/mcp" || len(st.Servers) != 2 || len(st.Warnings) != 1 {
		t.Fatalf("status %+v", st)
	}
	up, err := json.Marshal(st.Servers[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"up","state":"connected","generation":3,"transport":"stdio","url":null,"pid":1073741824,"era":"legacy",` +
		`"protocolVersion":"2025-06-18","tools":1,"prompts":2,"resources":3,"templates":4,"toolTokensEstimate":0,"catalogAt":"2026-01-02T03:04:05Z",` +
		`"since":"2026-01-02T03:04:05Z","awaySince":null,"nextAttempt":null,"attempt":0,"cause":null,"causeKind":null,"exit":null,"stderr":[],` +
		`"out":0,"waiting":0,"required":true,"origin":"everline.json:2","remedy":null,"auth":null,"warnings":[],"configWarnings":["everline.json:2: up: unknown key \"bogus\" in a server"],"sessions":[],"noise":0,"ignored":0,"stderrBytesPerSecond":0,` +
		`"calls":7,"outcomes":{"answered":0,"toolError":0,"rpcError":0,"notSent":0,"unknown":0,"refused":0,"canceled":0},"saved":0,"repeated":0,"parked":0,"starts":0,"outageMs":0,"handshake":[{"phase":"spawn","ms":4.2}],"latencyMsP50":1.5,"latencyMsP95":310,"memoryBytes":null}`
	if string(up) != want {
		t.Errorf("got  %s\nwant %s", up, want)
	}
	down := st.Servers[1]
	if *down.Cause != "exit 1 with ***" || down.Stderr[0] != "key is ***" || *down.CauseKind != "exited" || *down.Exit != "exit 1" || !down.NextAttempt.Equal(since) || !down.AwaySince.Equal(since) {
		t.Errorf("down: %+v", down)
	}
}

// TestStatusOfTheFiles has files that are refused twice, and then a listen
// address that this everline does not have.
func TestStatusOfTheFiles(t *testing.T) {
	h := newFake(t)
	h.cfg.Warnings, h.cfg.Listen = nil, "127.0.0.1:2"
	a := New(Options{Hub: h, Listen: "127.0.0.1:1"})
	status := func() (st Status) {
		t.Helper()
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/status", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	if st := status(); len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "from 127.0.0.1:1 to 127.0.0.1:2 only with a restart") || st.ConfigErrorSince != nil {
		t.Errorf("%q, %v", st.Warnings, st.ConfigErrorSince)
	}
	h.cfg.Listen, h.cfg.MaxStarting = "127.0.0.1:1", h.cfg.MaxStarting+1
	if st := status(); len(st.Warnings) != 1 || !strings.HasPrefix(st.Warnings[0], "maxStarting changes from") {
		t.Errorf("%q", st.Warnings)
	}
	h.cfg.MaxStarting--
	a.ConfigError(&fault.Fault{Kind: fault.Invalid, Op: "read configuration", Err: errors.New("secret-value is not trusted"), Remedy: "everline trust x"})
	first := status()
	if *first.ConfigError != "read configuration: *** is not trusted" || *first.ConfigRemedy != "everline trust x" || first.ConfigErrorSince == nil || len(first.Warnings) != 0 {
		t.Fatalf("%+v", first)
	}
	a.ConfigError(errors.New("still not"))
	if again := status(); !again.ConfigErrorSince.Equal(*first.ConfigErrorSince) || again.ConfigRemedy != nil {
		t.Errorf("%+v", again)
	}
	a.ConfigError(nil)
	if st := status(); st.ConfigError != nil || st.ConfigErrorSince != nil {
		t.Errorf("%+v", st)
	}
}

func TestOperations(t *testing.T) {
	h := newFake(t)
	c := serve(t, h, NewJournal())
	for op, want := range map[string][]string{
		"restart": {"reconnect up"}, "reconnect": {"reconnect up"}, "enable": {"enable up"}, "disable": {"disable up"},
	} {
		h.asked = nil
		if s, err := c.Operate(t.Context(), "up", op, 0); err != nil || s.Name != "up" || !slices.Equal(h.asked, want) {
			t.Errorf("%s: %v, asked %q", op, err, h.asked)
		}
	}
	h.asked = nil
	if _, err := c.Operate(t.Context(), "up", "restart", time.Minute); err != nil || h.gen != 3 || !slices.Equal(h.asked, []string{"reconnect up", "await up"}) {
		t.Errorf("wait: %v, gen %d, asked %q", err, h.gen, h.asked)
	}
	if _, err := c.Operate(t.Context(), "up", "enable", time.Minute); err != nil || h.gen != 2 {
		t.Errorf("enable of a connected server waits for a generation after %d, %v", h.gen, err)
	}
	_, err := c.Operate(t.Context(), "upp", "restart", 0)
	if f := fault.From("", err); f.Kind != fault.NotFound || f.Remedy != "did you mean up?" {
		t.Errorf("near miss: %+v", f)
	}
	h.fail = &fault.Fault{Kind: fault.Disabled, Server: "up", Gen: 3, Remedy: "everline enable up", Outcome: fault.NotSent, Err: errors.New("it holds secret-value")}
	_, err = c.Operate(t.Context(), "up", "reconnect", 0)
	if f := fault.From("", err); f.Kind != fault.Disabled || f.Server != "up" || f.Gen != 3 || f.Remedy != "everline enable up" || f.Outcome != fault.NotSent || f.Reason() != "it holds ***" {
		t.Errorf("fault %+v", f)
	}
}

func TestCall(t *testing.T) {
	h := newFake(t)
	c := serve(t, h, NewJournal())
	got, err := c.Call(t.Context(), CallRequest{Server: "up", Tool: "t", Arguments: json.RawMessage(`{"a" : 1.0, "b":"<b>&"}`)})
	if err != nil || string(got) != `{"content":[],"n":1.0}` {
		t.Errorf("call: %s, %v", got, err)
	}
	if h.call.Method != "tools/call" || h.call.Server != "up" || h.call.Name != "t" || string(h.call.Params) != `{"name":"t","arguments":{"a" : 1.0, "b":"<b>&"}}` {
		t.Errorf("hub got %+v, %s", h.call, h.call.Params)
	}
	if _, err := c.Call(t.Context(), CallRequest{Tool: "t", Arguments: json.RawMessage(`{},`)}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("arguments that are not JSON: %v", err)
	}
	if _, err := c.Call(t.Context(), CallRequest{Server: "down"}); err == nil || fault.KindOf(err) != fault.Invalid {
		t.Errorf("no tool: %v", err)
	}
}

func connected(server string, gen uint64) event.Event {
	e := event.Connected{}
	e.Server, e.Gen, e.Time = server, gen, since
	return e
}

func TestEventsFollow(t *testing.T) {
	j := NewJournal()
	c := serve(t, newFake(t), j)
	j.Record(connected("up", 1))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stop := errors.New("seen enough")
	var got []Event
	err := c.Events(ctx, true, func(e Event) error {
		got = append(got, e)
		if len(got) == 2 {
			return stop
		}
		j.Record(connected("secret-value", 2))
		return nil
	})
	if !errors.Is(err, stop) || len(got) != 2 || got[0].Kind != "connected" || got[0].Seq != 1 || got[1].Generation != 2 {
		t.Errorf("%v, %+v", err, got)
	}
	got = nil
	if err := c.Events(ctx, false, func(e Event) error { got = append(got, e); return nil }); err != nil || len(got) != 2 {
		t.Errorf("without follow: %v, %+v", err, got)
	}
}

func TestJournalIsBounded(t *testing.T) {
	j := NewJournal()
	for range 2*journalSize + 7 {
		j.Record(connected("up", 1))
	}
	events, _ := j.After(0)
	if len(events) != journalSize || events[0].Seq != journalSize+8 || events[journalSize-1].Seq != 2*journalSize+7 {
		t.Errorf("%d events from %d", len(events), events[0].Seq)
	}
	events, more := j.After(2*journalSize + 6)
	if len(events) != 1 {
		t.Errorf("%d events after the last but one", len(events))
	}
	select {
	case <-more:
		t.Error("more is closed already")
	default:
	}
	j.Record(connected("up", 1))
	<-more
}

func TestLogsFollow(t *testing.T) {
	h := newFake(t)
	h.logs = []everline.LogLine{{Time: since, Gen: 1, Text: "one secret-value", N: 1}, {Time: since.Add(1), Gen: 1, Text: "two", N: 2}}
	c := serve(t, h, NewJournal())
	var got []string
	if err := c.Logs(t.Context(), "up", false, func(l LogLine) error { got = append(got, l.Text); return nil }); err != nil || !slices.Equal(got, []string{"one ***", "two"}) {
		t.Errorf("%v, %q", err, got)
	}
	if err := c.Logs(t.Context(), "nobody", false, nil); err == nil || fault.KindOf(err) != fault.NotFound {
		t.Errorf("no server: %v", err)
	}
	if n := Newer(h.logs, 1); len(n) != 1 || n[0].Text != "two" {
		t.Errorf("newer: %+v", n)
	}
	if n := Newer(h.logs, 0); len(n) != 2 {
		t.Errorf("newer than what left the ring: %+v", n)
	}
}

func TestHealth(t *testing.T) {
	h := newFake(t)
	a := New(Options{Hub: h, Journal: NewJournal()})
	get := func(f http.HandlerFunc) (int, string) {
		w := httptest.NewRecorder()
		f(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	h.problems = []everline.Problem{{About: "state", Text: "/secret/path is full"}}
	if code, body := get(a.Healthz); code != 200 || !strings.Contains(body, `"warnings":[`) || strings.Contains(body, "secret") {
		t.Errorf("%d %s", code, body)
	}
	h.problems = nil
	if code, body := get(a.Healthz); code != 200 || body != `{"status":"ok"}` {
		t.Error(code, body)
	}
	if code, body := get(a.Readyz); code != 503 || !strings.HasPrefix(body, `{"status":"not ready","missing":["down"],"servers":[{"server":"down","ready":false,`) {
		t.Error(code, body)
	}
	h.states[1].State = "idle"
	if code, body := get(a.Readyz); code != 200 || body != `{"status":"ok"}` {
		t.Error(code, body)
	}
}

func TestOneOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Listen(dir)
	if f := fault.From("", err); err == nil || f.Kind != fault.Conflict || !strings.Contains(f.Reason(), "pid") {
		t.Errorf("second owner: %v", err)
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(filepath.Join(dir, socketName))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket: %v, %v", info, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	again, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestStaleSocket is what kill -9 leaves: a socket file that nobody serves.
func TestStaleSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Stat(filepath.Join(dir, socketName)); err != nil {
		t.Fatalf("the socket is not left over: %v", err)
	}
	_, err = NewClient(dir, 0).Status(t.Context())
	if f := fault.From("", err); !errors.Is(err, ErrNotRunning) || f.Kind != fault.Unavailable || f.Remedy == "" {
		t.Errorf("stale socket: %v", err)
	}
	if l, err = Listen(dir); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestDeepStateDir(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := socketPath(dir)
	if len(path) > maxSocket || path != l.Addr().String() {
		t.Errorf("socket at %q, client looks at %q", l.Addr(), path)
	}
	l.Close()
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the runtime folder is left: %v", err)
	}
	if _, err := NewClient(dir, 0).Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after Close: %v", err)
	}
}

func TestDrill(t *testing.T) {
	h := newFake(t)
	c := serve(t, h, NewJournal())
	var steps []string
	r, err := c.Drill(t.Context(), "up", DrillRequest{Fault: "kill"}, func(s DrillStep) { steps = append(steps, s.What) })
	if err != nil || !slices.Equal(steps, []string{"broken", "over", "done"}) {
		t.Fatalf("%v, %v", steps, err)
	}
	if r.Server != "up" || r.Fault != "kill" || !r.Recovered || r.GenerationAfter != 4 || r.RecoveryMS != 1.5 ||
		r.Clients.Answered != 2 || r.Clients.Failed["exited"] != 1 || r.Probes.Failed == nil {
		t.Errorf("%+v", r)
	}

	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.Drill(ctx, "up", DrillRequest{Fault: "hang", ForMS: 60_000}, func(DrillStep) { cancel() })
	if fault.KindOf(err) != fault.Canceled {
		t.Errorf("interrupted: %v", err)
	}

	h.fail = &fault.Fault{Kind: fault.Invalid, Remedy: "--fault kill", Err: errors.New("with secret-value")}
	_, err = c.Drill(t.Context(), "up", DrillRequest{Fault: "404"}, func(s DrillStep) { t.Errorf("a step: %+v", s) })
	if f := fault.From("", err); f.Kind != fault.Invalid || f.Remedy != "--fault kill" || strings.Contains(f.Error(), "secret") {
		t.Errorf("refused: %v", err)
	}
	for _, req := range []DrillRequest{{Fault: "kill", ForMS: -1}} {
		if _, err := c.Drill(t.Context(), "up", req, func(DrillStep) {}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", req, err)
		}
	}
	if _, err := c.Drill(t.Context(), "upp", DrillRequest{Fault: "kill"}, func(DrillStep) {}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown server: %v", err)
	}
}

// TestDrillEndsWithTheProcess: an everline that shuts down waits for no drill.
func TestDrillEndsWithTheProcess(t *testing.T) {
	a := New(Options{Hub: newFake(t), Journal: NewJournal()})
	w := httptest.NewRecorder()
	a.EndStreams()
	a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/servers/up/drill", strings.NewReader(`{"fault":"hang","forMs":60000}`)))
	if body := w.Body.String(); !strings.Contains(body, `"what":"failed"`) && !strings.Contains(body, `"kind":"canceled"`) {
		t.Errorf("%s", body)
	}
}

func TestProbes(t *testing.T) {
	h := newFake(t)
	c := serve(t, h, NewJournal())
	if err := c.Ping(t.Context(), "up"); err != nil {
		t.Error(err)
	}
	if err := c.Ping(t.Context(), "nobody"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("nobody: %v", err)
	}
	result, err := c.Call(t.Context(), CallRequest{Server: "up", Tool: "x", Probe: true})
	if err != nil || !strings.Contains(string(result), `"probe"`) {
		t.Errorf("%s, %v", result, err)
	}
	if !slices.Equal(h.asked, []string{"ping up", "probe x"}) {
		t.Errorf("asked %q", h.asked)
	}
}
