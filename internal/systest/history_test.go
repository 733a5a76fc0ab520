package systest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// historyRounds and historySeed size the proof; make long NAME=history runs 200.
var (
	historyRounds = flag.Int("history.rounds", 10, "rounds of random faults whose histories are checked")
	historySeed   = flag.Uint64("history.seed", 1, "seed of the first round")
)

const (
	historyClients = 6
	historyCalls   = 12 // of each client
)

// A ledger is a file that has a line for everything that ran, in order, over
// all generations of a server. Appending a line is atomic, also between
// processes.
type ledger struct {
	dir   string
	lines atomic.Uint64 // of this process
	talk  sync.Mutex    // held where a question is sent, and where a ping is answered
}

func (l *ledger) file() string { return filepath.Join(l.dir, "ledger") }

func (l *ledger) read() []string {
	text, err := os.ReadFile(l.file())
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// bump appends a line, and returns its number.
func (l *ledger) bump(id string) int {
	line := fmt.Sprintf("%s/%d.%d", id, os.Getpid(), l.lines.Add(1))
	f, err := os.OpenFile(l.file(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		panic(err)
	}
	for i, other := range l.read() {
		if other == line {
			return i + 1
		}
	}
	panic("bug: the line is gone")
}

// first tells whether nobody asked for this id before: a fault befalls a call
// once, not each time that it is sent.
func (l *ledger) first(id string) bool {
	f, err := os.OpenFile(filepath.Join(l.dir, "fault-"+id), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// An order is what a call asks of the server: arguments of bump and peek.
type order struct {
	ID    string `json:"id"`
	Fault string `json:"fault,omitempty"`
}

// hungPings is how many pings a server that hangs leaves without an answer.
const hungPings = 4

// notInitialized is how some servers deny a session that they have forgotten.
const notInitialized = `{"code":-32000,"message":"Bad Request: Server not initialized"}`

// script makes a server keep the ledger and misbehave as each call asks.
func (l *ledger) script(s *mcptest.Server) {
	var hung atomic.Int64
	mayHang := func(*mcptest.Request) *mcptest.Reply {
		l.talk.Lock() // what is asked for a call comes before the proof that its cancel was read
		defer l.talk.Unlock()
		if hung.Add(-1) >= 0 {
			return &mcptest.Reply{Hang: true}
		}
		return nil
	}
	s.On("ping", mayHang)
	s.On("server/discover", mayHang)
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		var p struct {
			Name      string `json:"name"`
			Arguments order  `json:"arguments"`
		}
		if err := json.Unmarshal(r.Params, &p); err != nil {
			return &mcptest.Reply{Error: `{"code":-32602,"message":"bad arguments"}`}
		}
		o := p.Arguments
		if o.Fault != "" && !l.first(o.ID) {
			o.Fault = ""
		}
		switch o.Fault {
		case "cut before":
			return &mcptest.Reply{Cut: true}
		case "404":
			s.DropSessions()
			return &mcptest.Reply{Status: 404, Body: `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`}
		case "401": // of this call alone: the next is let in
			return &mcptest.Reply{Status: 401, Header: map[string]string{"Www-Authenticate": "Bearer"}}
		case "not initialized":
			s.SetGone(mcptest.Reply{Error: notInitialized})
			s.DropSessions()
			return &mcptest.Reply{Error: notInitialized}
		case "hang before":
			hung.Store(hungPings)
			return &mcptest.Reply{Hang: true}
		}
		n := len(l.read())
		if p.Name == "bump" {
			n = l.bump(o.ID)
		}
		rep := &mcptest.Reply{Result: fmt.Sprintf(`{"content":[],"structuredContent":{"id":%q,"n":%d}}`, o.ID, n)}
		if deed, ok := strings.CutPrefix(o.Fault, "ask for "); ok {
			l.ask(s, r, deed)
			rep.Delay = 50 * time.Millisecond
		}
		switch o.Fault {
		case "ask":
			l.ask(s, r, o.ID)
			rep.Delay = 50 * time.Millisecond // time for the answer
		case "cut after":
			rep.Cut = true
		case "exit after":
			rep.Exit = true
		case "hang after":
			hung.Store(hungPings)
			rep.Hang = true
		case "slow":
			rep.Delay = 400 * time.Millisecond
		case "garbage":
			rep.Result, rep.Raw = "", "}{ no JSON at all"
		case "NaN":
			rep.Result, rep.Raw = "", `{"jsonrpc":"2.0","id":`+string(r.ID)+`,"result":{"content":[],"structuredContent":{"n":NaN}}}`
		case "own denial": // what sounds like a lost session, by a tool
			rep.Result, rep.Error = "", `{"code":-32602,"message":"the ledger is not initialized"}`
		case "own error": // a server may use these codes for what it likes
			rep.Result, rep.Error = "", `{"code":-32022,"message":"the ledger says no"}`
		case "503 after": // a gateway in front of a server that died at work, and is back
			s.DropSessions()
			return &mcptest.Reply{Status: 503, Body: "no healthy upstream"}
		case "twice":
			again := `{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":` + rep.Result + `}`
			rep.Before = []string{again, `{"jsonrpc":"2.0","id":987654,"result":{}}`}
		}
		return rep
	})
}

// historyChildEnv turns a test binary into a stdio server with a ledger.
const historyChildEnv = "EVERLINE_HISTORY_CHILD"

// historyChild does nothing in a test process; in a child it serves and exits.
func historyChild() {
	raw := os.Getenv(historyChildEnv)
	if raw == "" {
		return
	}
	var c struct {
		Dir string
		Era mcptest.Era
	}
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		os.Exit(4)
	}
	s := mcptest.New(mcptest.Config{Era: c.Era, Tools: historyTools})
	(&ledger{dir: c.Dir}).script(s)
	_ = s.Serve(os.Stdin, os.Stdout)
	os.Exit(0)
}

var historyTools = []string{
	`{"name":"bump","inputSchema":{"type":"object"}}`,
	`{"name":"peek","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
}

// A stage is a way to reach a server, and what can go wrong there.
type stage struct {
	transport string // stdio, http, sse, or login, which is http with one
	era       mcptest.Era
	faults    []string
}

func stages() []stage {
	common := []string{"cut before", "cut after", "exit after", "hang before", "hang after", "slow", "slow", "garbage", "NaN", "twice", "own error", "own denial", "kill", "reconnect"}
	gateways := append([]string{"503 after", "401"}, common...)
	return []stage{
		{"stdio", mcptest.Legacy, append([]string{"ask", "ask", "ask"}, common...)},
		{"http", mcptest.Legacy, append([]string{"404", "404", "not initialized", "not initialized", "ask", "ask"}, gateways...)},
		{"stdio", mcptest.Modern, common},
		{"http", mcptest.Modern, gateways},
		{"sse", mcptest.Legacy, append([]string{"ask", "ask", "ask"}, common...)},
		{"login", mcptest.Legacy, append([]string{"revoke", "revoke", "401", "404"}, gateways...)},
		{"login", mcptest.Modern, append([]string{"revoke", "revoke", "401"}, gateways...)},
	}
}

// A round is one hub on one server, and the calls of some clients.
type round struct {
	t     *testing.T
	stage stage
	book  *ledger
	srv   *mcptest.Server // nil over stdio
	login *locked         // nil where none is wanted
	hub   *everline.Hub
	t0    time.Time
	asks  asks
	quiet sync.RWMutex // held by who wants to be alone with the server
}

func newRound(t *testing.T, st stage, ours map[string]any) *round {
	t.Helper()
	r := &round{t: t, stage: st, book: &ledger{dir: t.TempDir()}}
	settings := map[string]any{
		"pingAfter": "150ms", "startupTimeout": "500ms", "parkFor": "2s", "drainTimeout": "100ms", "stopGrace": "50ms",
		"retry": map[string]any{"firstDelay": "5ms", "maxDelay": "20ms", "fastFor": "1h", "maxStartsPerMinute": 100_000},
	}
	for k, v := range ours {
		settings[k] = v
	}
	var server map[string]any
	if st.transport == "stdio" {
		arg, err := json.Marshal(map[string]any{"Dir": r.book.dir, "Era": st.era})
		if err != nil {
			t.Fatal(err)
		}
		command, args, env := mcptest.Child(mcptest.Config{})
		clear(env)
		env[historyChildEnv], env["GORACE"] = string(arg), "atexit_sleep_ms=0"
		server = map[string]any{"command": command, "args": args, "env": env}
	} else {
		r.srv = mcptest.New(mcptest.Config{Era: st.era, Tools: historyTools})
		r.book.script(r.srv)
		site := mcptest.Web(t, r.srv)
		server = web(site)
		switch st.transport {
		case "sse":
			server = map[string]any{"type": "sse", "url": site.URL + "/sse"}
		case "login":
			r.login = lock(t, r.srv.Handler())
			server = map[string]any{"type": "http", "url": r.login.url}
		}
	}
	opts := everline.Options{}
	if r.login != nil {
		opts.Browser = browse
	}
	r.hub = open(t, servers{"a": with(server, settings)}, opts)
	ready(t, r.hub, "a", 0)
	r.t0 = time.Now()
	return r
}

// play lets all clients call, and returns the whole history with what ran.
func (r *round) play(seed uint64) []*deed {
	var mu sync.Mutex
	var history []*deed
	var clients sync.WaitGroup
	for c := range historyClients {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(c)))
			for i := range historyCalls {
				d := &deed{client: c, id: fmt.Sprintf("c%d-%d", c, i), peek: rnd.IntN(3) == 0, nobody: c >= historyClients-historyNobodies}
				d.limit = time.Duration(250+rnd.IntN(1500)) * time.Millisecond
				mischief := ""
				if rnd.IntN(4) == 0 {
					mischief = r.stage.faults[rnd.IntN(len(r.stage.faults))]
				}
				all := r.amongOthers(d, mischief)
				if r.stage.asks() && rnd.IntN(5) == 0 {
					all = append(all, r.alone(d, rnd.IntN(2) == 0)...)
				}
				mu.Lock()
				history = append(history, all...)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	last := &deed{client: historyClients, id: "last", peek: true, limit: soon}
	r.do(last, "")
	history = append(history, last)
	r.tally(history)
	return r.count(history)
}

// tally compares what the clients saw with what was counted.
func (r *round) tally(history []*deed) {
	var want everline.Outcomes
	notSent := uint64(0) // refused, or not sent: that is said by the kind
	for _, d := range history {
		switch {
		case d.outcome == "ok":
			want.Answered++
		case d.outcome == "answered":
			want.RPCError++
		case d.kind == fault.Canceled:
			want.Canceled++
		case d.outcome == "unknown":
			want.Unknown++
		default:
			notSent++
		}
	}
	st, _ := r.hub.Server("a")
	got := st.Outcomes
	if notSent != got.NotSent+got.Refused {
		r.t.Errorf("%d calls were not sent, and %d are counted", notSent, got.NotSent+got.Refused)
	}
	got.NotSent, got.Refused = 0, 0
	if got != want || st.Calls != uint64(len(history)) {
		r.t.Errorf("counted %+v of %d, want %+v of %d", got, st.Calls, want, len(history))
	}
	if st.Saved > want.Answered+want.RPCError || st.Starts < st.Generation {
		r.t.Errorf("%d saved of %d answered; %d starts, generation %d", st.Saved, want.Answered+want.RPCError, st.Starts, st.Generation)
	}
}

// count adds to each deed how often it ran.
func (r *round) count(history []*deed) []*deed {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := r.hub.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
	ran := map[string]int{}
	if r.login != nil {
		r.login.check(r.t)
	}
	for _, line := range r.book.read() {
		id, _, _ := strings.Cut(line, "/")
		ran[id]++
	}
	for _, d := range history {
		d.ran = ran[d.id]
		d.reached = r.asks.of(d.id)
	}
	return history
}

// do is one call. Some faults come from outside while it is on its way.
func (r *round) do(d *deed, mischief string) {
	var outside sync.WaitGroup
	switch mischief {
	case "kill":
		mischief = ""
		outside.Go(r.kill)
	case "reconnect":
		mischief = ""
		outside.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			_ = r.hub.Reconnect(ctx, "a")
		})
	case "revoke":
		mischief = ""
		outside.Go(r.login.revoke)
	case "401":
		if r.login != nil {
			r.login.refusals.Add(1)
		}
	}
	defer outside.Wait()
	name := "bump"
	if d.peek {
		name = "peek"
	}
	args, _ := json.Marshal(order{ID: d.id, Fault: mischief})
	ctx, cancel := context.WithTimeout(context.Background(), d.limit)
	defer cancel()
	d.begun = time.Since(r.t0)
	raw, err := r.hub.Call(ctx, &everline.Call{
		Method: "tools/call", Name: name, Params: []byte(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)),
		Client: r.asks.client(d),
	})
	d.end = time.Since(r.t0)
	d.answers++
	if err != nil {
		f := fault.From("", err)
		d.outcome, d.kind = f.Outcome.String(), f.Kind
		return
	}
	var result struct {
		StructuredContent struct {
			ID string `json:"id"`
			N  int    `json:"n"`
		} `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		r.t.Errorf("result %s: %v", raw, err)
	}
	d.outcome, d.echo, d.value = "ok", result.StructuredContent.ID, result.StructuredContent.N
}

// kill ends the server's process, or what a server over HTTP knows of us.
func (r *round) kill() {
	if r.srv != nil {
		r.srv.DropSessions()
		r.srv.CutStreams()
		return
	}
	if st, _ := r.hub.Server("a"); st.PID != 0 {
		if p, err := os.FindProcess(st.PID); err == nil {
			_ = p.Kill()
		}
	}
}

// Whatever befalls the servers, some order of all calls explains every answer:
// none ran twice, none that was not sent ran, each was answered once and in
// time, and no answer of an older generation came to a newer call.
func TestHistoriesOfRandomFaults(t *testing.T) {
	all := stages()
	outcomes, reached, admitted := map[string]int{}, map[string]int{}, 0
	for i := range *historyRounds {
		st, seed := all[i%len(all)], *historySeed+uint64(i)
		t.Run(fmt.Sprintf("%s-%d-seed%d", st.transport, st.era, seed), func(t *testing.T) {
			history := newRound(t, st, nil).play(seed)
			for _, bad := range violations(history, 5*time.Second) {
				t.Error(bad)
			}
			for _, d := range history {
				outcomes[d.outcome]++
				if st.transport == "login" && d.outcome == "ok" {
					admitted++
				}
				reached[st.transport] += len(d.reached)
			}
		})
	}
	t.Logf("outcomes of %d rounds: %v", *historyRounds, outcomes)
	if outcomes["ok"] == 0 || *historyRounds >= 10 && outcomes["unknown"] == 0 {
		t.Errorf("the faults had no effect: %v", outcomes)
	}
	if *historyRounds >= len(all) && admitted == 0 {
		t.Error("no login lets anybody in")
	}
	t.Logf("questions that reached their clients: %v", reached)
	if *historyRounds >= 10 && (reached["stdio"] == 0 || reached["http"] == 0 || reached["sse"] == 0) {
		t.Errorf("nobody was asked: %v", reached)
	}
}

// The checker sees what it is there for: calls that are repeated although they
// may have run, because the configuration says so, and histories with one
// answer changed.
func TestHistoryCheckerFindsViolations(t *testing.T) {
	t.Run("run twice", func(t *testing.T) {
		r := newRound(t, stages()[1], map[string]any{"replay": "always"})
		d := &deed{id: "x", limit: soon}
		r.do(d, "cut after")
		history := r.count([]*deed{d})
		if bad := violations(history, 5*time.Second); len(bad) != 1 || d.ran != 2 || d.outcome != "ok" {
			t.Errorf("%s: %q", d, bad)
		}
	})
	t.Run("asked the wrong one", func(t *testing.T) {
		for _, theirs := range []*deed{{client: 1, id: "theirs"}, {id: "theirs", nobody: true}} {
			r := newRound(t, stages()[0], nil)
			ours := &deed{id: "ours", limit: soon}
			r.do(ours, "ask for "+theirs.id) // whoever is in flight seems to be meant
			theirs.outcome, theirs.answers = "not_sent", 1
			history := r.count([]*deed{ours, theirs})
			if bad := violations(history, 5*time.Second); len(bad) != 1 || !strings.Contains(bad[0], "P10") {
				t.Errorf("%s\n%s: %q", ours, theirs, bad)
			}
		}
	})
	good := func() []*deed {
		return []*deed{
			{id: "a", outcome: "ok", echo: "a", value: 1, ran: 1, answers: 1, begun: 0, end: 10, limit: 100},
			{id: "b", outcome: "unknown", ran: 1, answers: 1, begun: 11, end: 20, limit: 100},
			{id: "c", outcome: "not_sent", answers: 1, begun: 21, end: 30, limit: 100},
			{id: "d", outcome: "ok", echo: "d", value: 3, ran: 1, answers: 1, begun: 31, end: 40, limit: 100},
			{id: "e", peek: true, outcome: "ok", echo: "e", value: 3, answers: 1, begun: 41, end: 50, limit: 100},
		}
	}
	if bad := violations(good(), 0); bad != nil {
		t.Errorf("a good history: %q", bad)
	}
	for name, plant := range map[string]func(h []*deed){
		"not sent, but ran":    func(h []*deed) { h[2].ran = 1 },
		"answered, never ran":  func(h []*deed) { h[0].ran = 0 },
		"another's answer":     func(h []*deed) { h[0].echo = "b" },
		"an old answer":        func(h []*deed) { h[3].value = 1 },
		"a stale look":         func(h []*deed) { h[4].value = 1 },
		"unknown, ran twice":   func(h []*deed) { h[1].ran = 2 },
		"no answer":            func(h []*deed) { h[4].answers = 0 },
		"after its deadline":   func(h []*deed) { h[4].end = 200 },
		"asked another":        func(h []*deed) { h[0].reached = []int{7} },
		"asked for nobody":     func(h []*deed) { h[1].nobody, h[1].reached = true, []int{0} },
		"before it was called": func(h []*deed) { h[0].begun, h[0].end = 60, 70 },
	} {
		h := good()
		plant(h)
		if bad := violations(h, 0); len(bad) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}
