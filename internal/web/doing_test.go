package web

import (
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
)

func into(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// A call says who made it, under which name it came, and in how many generations it was.
func TestCallsSayWhoMadeThem(t *testing.T) {
	s := newStand(t, true)
	by := &event.Caller{Name: "an-editor", Version: "2", Protocol: "2025-11-25", Subject: "token:ci"}
	if _, err := s.hub.Do(t.Context(), &everline.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo"}`), By: by}); err != nil {
		t.Fatal(err)
	}
	token := s.token(t)
	if resp, text := s.ask(t, "POST", "/api/v1/call", `{"server":"up","tool":"echo","arguments":{}}`, with(token)); resp.StatusCode != 200 {
		t.Fatal(text)
	}
	var got Calls
	_, text := s.ask(t, "GET", "/api/v1/calls?client=editor", "", nil)
	into(t, text, &got)
	if len(got.Calls) != 1 {
		t.Fatalf("%d calls of an editor: %s", len(got.Calls), text)
	}
	c := got.Calls[0]
	if c.Client == nil || c.Client.Name != "an-editor" || c.Client.Version != "2" || c.Client.Protocol != "2025-11-25" || c.Client.Subject == nil || *c.Client.Subject != "token:ci" {
		t.Errorf("%+v", c.Client)
	}
	if c.Exposed == nil || *c.Exposed != "echo" || len(c.Generations) != 1 || c.TraceID != nil || c.Code != nil || c.FirstFailed != nil {
		t.Errorf("%s", text)
	}
	_, text = s.ask(t, "GET", "/api/v1/calls?client=page", "", nil)
	into(t, text, &got)
	if len(got.Calls) != 1 || got.Calls[0].Client.Name != "web page" {
		t.Errorf("of the page: %s", text)
	}
}

// Arguments are kept only while a person wants that, without a token by nobody, and
// every page hears of it.
func TestCapture(t *testing.T) {
	s := newStand(t, true)
	token := s.token(t)
	call := func(text string) {
		t.Helper()
		if resp, said := s.ask(t, "POST", "/api/v1/call", `{"server":"up","tool":"echo","arguments":{"text":"`+text+`"}}`, with(token)); resp.StatusCode != 200 {
			t.Fatal(said)
		}
	}
	call("before")
	for _, path := range []string{"POST /api/v1/servers/up/capture", "POST /api/v1/servers/up/capture-end", "GET /api/v1/servers/up/captured"} {
		method, path, _ := strings.Cut(path, " ")
		if resp, _ := s.ask(t, method, path, "{}", nil); resp.StatusCode != 401 {
			t.Errorf("%s without a token: %d", path, resp.StatusCode)
		}
	}
	if resp, _ := s.ask(t, "POST", "/api/v1/servers/nobody/capture", "{}", with(token)); resp.StatusCode != 404 {
		t.Errorf("of nobody: %d", resp.StatusCode)
	}
	w := s.listen(t, "servers", "")
	if resp, text := s.ask(t, "POST", "/api/v1/servers/up/capture", "{}", with(token)); resp.StatusCode != 200 {
		t.Fatal(text)
	}
	var running map[string]time.Time
	w.next("capture", &running)
	if left := time.Until(running["up"]); left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("recorded until %v", running)
	}
	call("meanwhile")
	var kept []Captured
	_, text := s.ask(t, "GET", "/api/v1/servers/up/captured", "", with(token))
	into(t, text, &kept)
	if len(kept) != 1 || !strings.HasPrefix(kept[0].Arguments, "kept:") || !strings.Contains(kept[0].Arguments, "meanwhile") || kept[0].Client != "web page" {
		t.Errorf("%s", text)
	}
	if resp, text := s.ask(t, "POST", "/api/v1/servers/up/capture-end", "{}", with(token)); resp.StatusCode != 200 {
		t.Fatal(text)
	}
	w.next("capture", &running)
	_, text = s.ask(t, "GET", "/api/v1/servers/up/captured", "", with(token))
	into(t, text, &kept)
	if len(kept) != 0 {
		t.Errorf("after the end: %s", text)
	}
	var did []string
	for _, e := range s.operated(t) {
		did = append(did, fmt.Sprint(e.Data["by"], " ", e.Data["action"]))
	}
	if got := strings.Join(did, ", "); got != "web unlock, web call, web capture, web call, web capture-end" {
		t.Errorf("events: %s", got)
	}
}

func (s *stand) operated(t *testing.T) (all []admin.Event) {
	t.Helper()
	_, text := s.ask(t, "GET", "/api/v1/events", "", nil)
	var events []admin.Event
	into(t, text, &events)
	for _, e := range events {
		if e.Kind == "operated" {
			all = append(all, e)
		}
	}
	return all
}

// What is pasted is read as a file of any client, or as a part of one, and nothing is
// looked up for it.
func TestPaste(t *testing.T) {
	t.Setenv("PASTED", "from-the-environment")
	s := newStand(t, true)
	token := s.token(t)
	for _, c := range []struct {
		name, pasted string
		servers      string // names
		command      string // of the first
		warning      string // a part of one
	}{
		{"a file of a client", `{"mcpServers":{"files":{"command":"npx","args":["-y","a server"],"env":{"MODE":"x"}}}}`, "files", "everline add files --env MODE=x -- npx -y 'a server'", ""},
		{"a part of one", `"files": {"command": "npx", "args": ["-y", "thing"]},`, "files", "everline add files -- npx -y thing", ""},
		{"the servers alone", `{"a": {"url": "https://a.example/mcp"}, "b": {"command": "b"}}`, "a b", "everline add a https://a.example/mcp", ""},
		{"one that is there", `{"mcpServers":{"up":{"command":"x"}}}`, "up", "everline add up --force -- x", ""},
		{"a secret", `{"mcpServers":{"a":{"command":"x","env":{"API_TOKEN":"abcdefghijkl0123"}}}}`, "a", "everline add a --env 'API_TOKEN=${API_TOKEN}' -- x", ""},
		{"a reference", `{"mcpServers":{"a":{"command":"x","env":{"MODE":"${PASTED}"}}}}`, "a", "everline add a --env 'MODE=${PASTED}' -- x", ""},
		{"a header", `{"mcpServers":{"a":{"url":"https://a.example/mcp","headers":{"X-Team":"red"}}}}`, "a", "everline add a https://a.example/mcp --header 'X-Team: red'", ""},
		{"TOML", "[mcp_servers.a]\ncommand = \"x\"\n", "a", "everline add a -- x", ""},
		{"YAML", "extensions:\n  a:\n    type: stdio\n    cmd: x\n    args: []\n    enabled: true\n", "a", "everline add a -- x", ""},
		{"what flags do not say", `{"mcpServers":{"a":{"command":"x","everline":{"callTimeout":"5m"}}}}`, "a", "", ""},
		{"an unknown key", `{"mcpServers":{"a":{"command":"x","comand":"y"}}}`, "a", "everline add a -- x", "comand"},
		{"one that could not start", `{"mcpServers":{"a":{"args":["x"]}}}`, "", "", "pasted.json:1"},
	} {
		body, err := json.Marshal(map[string]string{"text": c.pasted})
		if err != nil {
			t.Fatal(err)
		}
		resp, text := s.ask(t, "POST", "/api/v1/validate", string(body), with(token))
		if resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, text)
			continue
		}
		var got Pasted
		into(t, text, &got)
		var names []string
		for _, one := range got.Servers {
			names = append(names, one.Name)
			if !strings.Contains(one.Text, `"mcpServers"`) {
				t.Errorf("%s: our own file would say %q", c.name, one.Text)
			}
		}
		if strings.Join(names, " ") != c.servers || len(got.Servers) > 0 && got.Servers[0].Command != c.command || !strings.Contains(strings.Join(got.Warnings, "\n"), c.warning) {
			t.Errorf("%s: %s", c.name, text)
		}
		if strings.Contains(text, "from-the-environment") {
			t.Errorf("%s: the environment shows", c.name)
		}
	}
	for _, bad := range []string{`{"text":"{\"mcpServers\": "}`, `{"text":""}`, `{`} {
		if resp, text := s.ask(t, "POST", "/api/v1/validate", bad, with(token)); resp.StatusCode/100 != 4 || !strings.Contains(text, `"message"`) {
			t.Errorf("%s: %d %s", bad, resp.StatusCode, text)
		}
	}
	if resp, _ := s.ask(t, "POST", "/api/v1/validate", `{"text":"{}"}`, nil); resp.StatusCode != 401 {
		t.Errorf("without a token: %d", resp.StatusCode)
	}
}

// However many pages are open, the status is read as if there were one: what pages
// cost calls does not rise with their number.
func TestStatusIsReadOnceForAllViewers(t *testing.T) {
	s := newStand(t, true)
	var reads atomic.Int64
	read := s.board.read
	s.board.read = func() admin.Status {
		reads.Add(1)
		return read()
	}
	viewers := make([]*words, 10)
	for i := range viewers {
		viewers[i] = s.listen(t, "servers,events,tick", "")
		viewers[i].next("servers", &Servers{})
	}
	begun, before := time.Now(), reads.Load()
	for range 3 {
		if _, err := s.hub.CallTool(t.Context(), "echo", nil); err != nil {
			t.Fatal(err)
		}
		for _, v := range viewers {
			v.next("tick", &Tick{})
		}
	}
	if n, most := reads.Load()-before, int64(time.Since(begun)/lookAge)+2; n > most {
		t.Errorf("the status was read %d times for 10 pages in %s, at most %d", n, time.Since(begun), most)
	}
}

// A viewer that does not read is cut off and frees its place, and nothing is kept for it
// meanwhile.
func TestViewerThatDoesNotReadIsCutOff(t *testing.T) {
	s := newStand(t, true)
	s.readTime = 500 * time.Millisecond
	conn, err := net.Dial("tcp", s.host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /api/v1/stream?topics=events HTTP/1.1\r\nHost: %s\r\n\r\n", s.host); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); len(s.viewers) == 0; runtime.Gosched() {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("no viewer comes")
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	detail, before, said := strings.Repeat("x", 8<<10), heap(), 0
	for begun := time.Now(); len(s.viewers) > 0; {
		if time.Since(begun) > 60*time.Second {
			t.Fatalf("it has not read %d MiB, and is still there", said>>20)
		}
		s.journal.Record(event.Operated{Head: event.Head{Server: "up"}, By: "cli", Action: "x", Detail: detail})
		said += len(detail)
		runtime.Gosched()
	}
	// The journal has 1,000 events, whoever looks: 500 of one server.
	if after := heap(); after > before+24<<20 {
		t.Errorf("%d MiB said, and %d MiB more in use", said>>20, (after-before)>>20)
	}
}
