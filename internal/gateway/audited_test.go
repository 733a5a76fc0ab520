package gateway

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	events "github.com/everline/everline/event"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/message"
)

// audited runs a gateway on one server, with a record in a folder.
func audited(t *testing.T, up *mcptest.Server, change func(*config.Audit)) (*site, string, *audit.Log) {
	t.Helper()
	s := config.New().Audit
	s.Level = config.AuditCalls
	change(&s)
	folder := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Folder: folder, Run: "cafe0001", Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(t.Context()) }) // a test that cares has looked before
	c := config.NewServer("srv")
	c.Transport, c.URL = "http", mcptest.Web(t, up).URL+"/mcp"
	return assembleWith(t, Options{Audit: log, MaxBody: 1 << 20}, c).up(), folder, log
}

// records are those of a folder, once all are written, and the text of its files.
func records(t *testing.T, folder string, log *audit.Log) (all []*audit.Record, text string) {
	t.Helper()
	if err := log.Written(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := audit.Read(t.Context(), folder, audit.Filter{}, false, func(r *audit.Record, line []byte) error {
		all = append(all, r)
		text += string(line) + "\n"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := audit.Verify(folder, ""); err != nil || !v.Intact || v.Lost > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	return all, text
}

// Every call of a thousand has one record, which says what its client was told, and
// none has the value of an argument.
func TestCallsAreRecorded(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	s, folder, log := audited(t, up, func(*config.Audit) {})
	session := s.initialize("2025-11-25")
	const each, clients = 125, 8
	var mu sync.Mutex
	told := map[string]string{} // outcome by the request's id
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprint(c*each + i)
				tool, outcome := "echo", "answered"
				switch i % 5 {
				case 1:
					tool, outcome = "fail", "tool_error"
				case 2:
					tool, outcome = "nobody", "refused"
				}
				arguments := `"arguments":{"secretly":"needle` + id + `","` + strings.Repeat("n", i) + `":"needle"}`
				var r reply
				if c%2 == 0 {
					r = s.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+tool+`",`+arguments+`}}`, session)
				} else {
					r = s.modern(id, "tools/call", tool, `,"name":"`+tool+`",`+arguments)
				}
				if failed := strings.Contains(r.body, `"error"`); failed != (outcome == "refused") || strings.Contains(r.body, `"isError":true`) != (outcome == "tool_error") {
					t.Errorf("%s of %s: %s", id, tool, r.body)
				}
				mu.Lock()
				told[id] = outcome
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all, text := records(t, folder, log)
	calls := 0
	for _, r := range all {
		if r.Type != audit.TypeCall {
			continue
		}
		calls++
		if told[r.Request.ID] != r.Outcome {
			t.Errorf("call %s is recorded as %q, its client was told %q", r.Request.ID, r.Outcome, told[r.Request.ID])
		}
		delete(told, r.Request.ID)
		known := r.Outcome != "refused"
		if (r.Target.Server == "srv") != known || (len(r.Target.Generations) == 1) != known || strings.HasPrefix(r.Target.Definition, "sha256:") != known ||
			(r.Result != nil) != known || r.Actor.Kind != audit.Client || r.Actor.Addr != "127.0.0.1" || !strings.HasPrefix(strings.Join(r.Request.Names, " "), "secretly") {
			t.Fatalf("%+v %+v %+v", r, r.Target, r.Request)
		}
	}
	if len(told) > 0 || calls != each*clients {
		t.Errorf("%d records; without one: %v", calls, told)
	}
	if strings.Contains(text, "needle") || strings.Contains(text, strings.TrimPrefix(session, "Mcp-Session-Id: ")) {
		t.Error("the value of an argument, or the id of a session, is in the record")
	}
}

// At the level that is the default, a call is recorded if nobody knows what became of it.
func TestUnknownCallsAreRecorded(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	s, folder, log := audited(t, up, func(a *config.Audit) { a.Level = config.AuditAdmin })
	session := s.initialize("2025-11-25")
	s.post(call("1", "work", ""), session)
	up.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Cut: true} })
	s.post(call("2", "work", ""), session)
	all, _ := records(t, folder, log)
	if len(all) != 1 || all[0].Outcome != "unknown" || all[0].Request.ID != "2" || all[0].Actor.Name != "t" || all[0].Actor.Session == "" || all[0].Kind == "" {
		t.Errorf("%+v", all)
	}
}

func TestSessionsAndRefusalsAreRecorded(t *testing.T) {
	s, folder, log := audited(t, mcptest.New(mcptest.Config{}), func(*config.Audit) {})
	session := s.initialize("2025-11-25")
	s.do("DELETE", "/mcp", "", session)
	s.post("{}", "Host: evil.test")
	s.post("{}", "Origin: http://evil.test")
	s.post("}{")
	s.post(strings.Repeat(" ", 2<<20), "MCP-Protocol-Version: 2026-07-28")
	s.do("GET", "/nothing?token=needle", "")
	all, text := records(t, folder, log)
	var got []string
	for _, r := range all {
		got = append(got, r.Type+" "+r.Action+" "+r.Kind)
	}
	want := "session opened , session ended , refusal POST 403, refusal POST 403, refusal POST 400, refusal POST 413, refusal GET 404"
	if strings.Join(got, ", ") != want || strings.Contains(text, "needle") {
		t.Errorf("%s\nwant %s", strings.Join(got, ", "), want)
	}
	if !strings.Contains(all[2].Cause, "evil.test") || all[2].Target.Path != "/mcp" || all[0].Actor.Session != all[1].Actor.Session || all[0].Actor.Name != "t" {
		t.Errorf("%+v", all[2])
	}
}

// auditing is a log of every call, and its folder.
func auditing(t *testing.T) (log *audit.Log, folder string) {
	t.Helper()
	settings := config.New().Audit
	settings.Level = config.AuditCalls
	folder = filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Folder: folder, Run: "cafe0001", Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(context.Background()) }) // the test has looked before
	return log, folder
}

// Who was let in and who was not, and by which policy and rule, is in the record of
// every call, session and refusal.
func TestDecisionsAreRecorded(t *testing.T) {
	log, folder := auditing(t)
	srv, other := config.NewServer("srv"), config.NewServer("other")
	srv.Transport, srv.URL = "http", mcptest.Web(t, mcptest.New(mcptest.Config{})).URL+"/mcp"
	other.Transport, other.URL = "http", mcptest.Web(t, mcptest.New(mcptest.Config{})).URL+"/mcp"
	cfg := config.New()
	cfg.Servers = []config.Server{srv, other}
	cfg.Groups = []config.Group{{Name: "only", Servers: []string{"other"}}}
	cfg.Policies = []config.Policy{
		{Name: "echoes", Servers: []string{"srv"}, Tools: []string{"*.echo"}},
		{Name: "others", Groups: []string{"only"}},
		{Name: "slow", Servers: []string{"srv"}, Rate: config.Rate{Calls: 1, Per: time.Hour}},
		{Name: "small", Servers: []string{"srv"}, MaxBody: 400, Sessions: 1},
	}
	cfg.Grants = []config.Grant{
		{Label: "token:ci", Policies: []string{"echoes"}},
		{Label: "token:two", Policies: []string{"echoes", "others"}},
		{Label: "token:slow", Policies: []string{"slow"}},
		{Label: "token:small", Policies: []string{"small"}},
	}
	s := assembled(t, cfg, func(h *everline.Hub) *Gateway {
		return ForHub(h, Options{Audit: log, Entrance: byHeader{}, MaxBody: 1 << 20})
	}).up()

	n := 0
	tool := func(who, name string) {
		n++
		s.modern(fmt.Sprint(n), "tools/call", name, `,"name":"`+name+`"`, "Who: "+who)
	}
	tool("ci", "srv__echo")
	tool("ci", "srv__work")
	tool("ci", "other__echo")
	tool("ci", "nothing")
	tool("two", "other__work")
	tool("two", "srv__work")
	s.do("POST", "/groups/only/mcp", modernBody("7", "tools/call", `,"name":"srv__echo"`), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: srv__echo", "Who: two")
	tool("nobody", "srv__echo")
	tool("slow", "srv__echo")
	tool("slow", "srv__echo")
	s.post(hello, "Who: small")
	stream := s.tap("GET", "/mcp", "", "Mcp-Session-Id: "+s.post(hello, "Who: small").header.Get("Mcp-Session-Id"), "Who: small")
	s.post(hello, "Who: small")
	s.post(strings.Repeat(" ", 500), "Who: small", "MCP-Protocol-Version: 2026-07-28")
	stream.cancel()

	all, _ := records(t, folder, log)
	var got []string
	for _, r := range all {
		got = append(got, fmt.Sprintf("%s %s %s %q %q %s", strings.TrimPrefix(r.Actor.Subject, "token:"), r.Action, r.Outcome, r.Policy, r.Rule, r.Kind))
	}
	want := []string{
		`ci tools/call answered "echoes" "tools *.echo" `,
		`ci tools/call refused "echoes" "tool" not_found`,
		`ci tools/call refused "echoes" "server" not_found`,
		`ci tools/call refused "echoes" "" not_found`,
		`two tools/call answered "others" "groups only" `,
		`two tools/call refused "echoes+others" "tool" not_found`,
		`two tools/call refused "echoes+others" "group" not_found`,
		`nobody POST refused "" "nothing_granted" 403`,
		`slow tools/call answered "slow" "servers" `,
		`slow tools/call refused "slow" "rate" rate_limited`,
		`small opened ok "small" "" `,
		`small expired ok "small" "" `,
		`small opened ok "small" "" `,
		`small POST refused "small" "sessions" 503`,
		`small POST refused "small" "body" 413`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("recorded:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Strict: a recorded call is answered once its record is in the file, and one that
// cannot be recorded is not made.
func TestStrict(t *testing.T) {
	up := mcptest.New(mcptest.Config{})
	s, folder, log := audited(t, up, func(a *config.Audit) { a.Strict = true })
	session := s.initialize("2025-11-25")
	for i := range 20 {
		s.post(call(fmt.Sprint(i), "echo", ""), session)
		n := 0
		err := audit.Read(t.Context(), folder, audit.Filter{Type: audit.TypeCall}, false, func(*audit.Record, []byte) error { n++; return nil })
		if err != nil || n != i+1 {
			t.Fatalf("%d records after %d calls, %v", n, i+1, err)
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // where the folder has to be
		t.Fatal(err)
	}
	s.post(call("20", "work", ""), session) // whose record shows that there is no folder
	before := up.Count("tools/call")
	r := s.post(call("21", "work", ""), session)
	if !strings.Contains(r.body, "it cannot be recorded") || !strings.Contains(r.body, "not_sent") || up.Count("tools/call") != before {
		t.Errorf("%s, %d calls", r.body, up.Count("tools/call")-before)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	eventually(t, "calls are made again", func() bool {
		return !strings.Contains(s.post(call("22", "work", ""), session).body, "it cannot be recorded")
	})
	if _, err := log.Problem(); err != nil || log.Lost() > 0 {
		t.Errorf("%v, %d lost", err, log.Lost())
	}
}

// BenchmarkAudited is what the record costs the goroutine of a call.
func BenchmarkAudited(b *testing.B) {
	for name, level := range map[string]config.AuditLevel{"none": "", "off": config.AuditOff, "admin": config.AuditAdmin, "calls": config.AuditCalls} {
		b.Run(name, func(b *testing.B) {
			var log *audit.Log
			if level != "" {
				s := config.New().Audit
				s.Level = level
				var err error
				if log, err = audit.Open(audit.Options{Folder: filepath.Join(b.TempDir(), "audit"), Run: "1", Settings: s}); err != nil {
					b.Fatal(err)
				}
			}
			benchAudited(b, log)
			_ = log.Close(b.Context())
		})
	}
}

func benchAudited(b *testing.B, log *audit.Log) {
	svc := &service{opts: Options{Audit: log}, backend: newHub(), who: access.Local()}
	m, bad := message.Parse([]byte(call("1", "echo", "")), "")
	if bad != nil {
		b.Fatal(bad)
	}
	x := svc.exchange(m)
	f := events.CallFacts{Server: "srv", Method: "tools/call", Name: "echo", Took: 300 * time.Microsecond, Sends: 1, Gen: 3, FirstGen: 3}
	b.ReportAllocs()
	for b.Loop() {
		var out everline.Call
		w, _ := svc.witness(b.Context(), x, &out)
		if out.Observe != nil {
			out.Observe(f)
		}
		w.Over(b.Context())
	}
}
