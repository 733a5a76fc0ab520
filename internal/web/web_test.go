package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/everlinetest"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/history"
)

// A stand is a site on a real hub with one server.
type stand struct {
	*Site
	hub       *everline.Hub
	cfg       *config.Config
	server    *everlinetest.Server
	journal   *admin.Journal
	capturing *history.Capture
	url       string
	host      string
}

func newStand(t *testing.T, local bool) *stand {
	t.Helper()
	s := &stand{cfg: config.New(), server: everlinetest.New(everlinetest.Tool{Name: "echo"})}
	t.Cleanup(s.server.Close)
	s.cfg.Servers = []config.Server{s.server.Config("up")}
	journal, hist := admin.NewJournal(), history.New()
	s.capturing = history.NewCapture(func(params []byte) string { return "kept:" + string(params) })
	t.Cleanup(s.capturing.Close)
	var err error
	s.hub, err = everline.Open(t.Context(), s.cfg, everline.Options{Observe: hist.Call, Emit: func(e event.Event) {
		hist.Event(e)
		journal.Record(e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.hub.Close(context.Background()) })
	s.journal = journal
	s.Site = New(Options{
		API: admin.New(admin.Options{Hub: s.hub, Journal: journal, Version: "1", Watch: s.capturing.Watch}), Hub: s.hub, Journal: journal, History: hist,
		Capture: s.capturing, Endpoint: "http://127.0.0.1:1/mcp", StateDir: t.TempDir(), Local: local,
		Host: func(h string) bool { return strings.HasPrefix(h, "127.0.0.1:") || h == "gw.example" }, Effective: func() []byte { return []byte("{}") },
	})
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	s.url, s.host = web.URL, strings.TrimPrefix(web.URL, "http://")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.hub.Await(ctx, "up", 0); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) ask(t *testing.T, method, path string, body string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// token opens the page as everline ui does.
func (s *stand) token(t *testing.T) string {
	t.Helper()
	link, err := s.Link()
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(link, "#code=")
	resp, text := s.ask(t, "POST", "/api/v1/unlock", `{"code":"`+code+`"}`, nil)
	var got Token
	if json.Unmarshal([]byte(text), &got) != nil || got.Token == "" {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	return got.Token
}

func with(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// Only our own page may ask, and no page may read an answer of another's.
func TestGuard(t *testing.T) {
	s := newStand(t, true)
	token := s.token(t)
	for _, c := range []struct {
		name   string
		host   string
		header map[string]string
		api    int
		ui     int
	}{
		{"no browser", "", nil, 200, 200},
		{"our page", "", map[string]string{"Origin": "http://" + s.host, "Sec-Fetch-Site": "same-origin"}, 200, 200},
		{"typed by hand", "", map[string]string{"Sec-Fetch-Site": "none"}, 200, 200},
		{"DNS rebinding", "evil.example:80", nil, 403, 403},
		{"a name that is allowed", "gw.example", nil, 200, 200},
		{"another site", "", map[string]string{"Origin": "https://evil.example"}, 403, 403},
		{"another port of this machine", "", map[string]string{"Origin": "http://127.0.0.1:1"}, 403, 403},
		{"a file", "", map[string]string{"Origin": "null"}, 403, 403},
		{"an image of another site", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, 200},
		{"a page beside ours", "", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, 200},
	} {
		change := func(r *http.Request) {
			with(token)(r)
			if c.host != "" {
				r.Host = c.host
			}
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
		}
		for path, want := range map[string]int{"/api/v1/status": c.api, "/ui/": c.ui} {
			resp, text := s.ask(t, "GET", path, "", change)
			if resp.StatusCode != want {
				t.Errorf("%s: %s: %d, want %d: %s", c.name, path, resp.StatusCode, want, text)
			}
			for name := range resp.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s: %s: %s", c.name, path, name)
				}
			}
			if resp.Header.Get("Content-Security-Policy") != policy || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %s: %v", c.name, path, resp.Header)
			}
		}
	}
	resp, _ := s.ask(t, "POST", "/api/v1/servers/up/reconnect", "{}", func(r *http.Request) {
		with(token)(r)
		r.Header.Set("Content-Type", "text/plain") // as a form of another site would send
	})
	if resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a simple request: %d", resp.StatusCode)
	}
}

// Looking is free where only this machine reaches the endpoint; doing never is.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		page    config.Page
		clients config.Clients
		local   bool
		look    int
	}{
		{config.PageOpen, config.ClientsSameUser, true, 200},
		{config.PageToken, config.ClientsSameUser, true, 401},
		{config.PageOpen, config.ClientsTokens, true, 401},
		{config.PageOpen, config.ClientsSameUser, false, 401},
		{config.PageOff, config.ClientsSameUser, true, 404},
	} {
		s := newStand(t, c.local)
		s.cfg.Page, s.cfg.Clients = c.page, c.clients
		if resp, text := s.ask(t, "GET", "/api/v1/status", "", nil); resp.StatusCode != c.look {
			t.Errorf("%+v: looking: %d %s", c, resp.StatusCode, text)
		}
		if c.page == config.PageOff {
			if link, err := s.Link(); err == nil {
				t.Errorf("a link to no page: %s", link)
			}
			continue
		}
		resp, text := s.ask(t, "POST", "/api/v1/servers/up/disable", "{}", nil)
		if resp.StatusCode != 401 || !strings.Contains(text, "everline ui") {
			t.Errorf("%+v: doing: %d %s", c, resp.StatusCode, text)
		}
		token := s.token(t)
		if resp, text := s.ask(t, "GET", "/api/v1/status", "", with(token)); resp.StatusCode != 200 || !strings.Contains(text, `"name":"up"`) {
			t.Errorf("%+v: looking with a token: %d %s", c, resp.StatusCode, text)
		}
		if resp, text := s.ask(t, "POST", "/api/v1/servers/up/disable", "{}", with(token)); resp.StatusCode != 200 {
			t.Errorf("%+v: doing with a token: %d %s", c, resp.StatusCode, text)
		}
		if st, _ := s.hub.Server("up"); !st.State.Off() {
			t.Errorf("%+v: it is %s", c, st.State)
		}
		events, _ := s.opts.API.Since(0)
		by := ""
		for _, e := range events {
			if e.Kind == "operated" {
				by = e.Server + " " + e.Text
			}
		}
		if by != "up disable, by hand (web)" {
			t.Errorf("%+v: who did it: %q", c, by)
		}
	}
}

// A token is of the state folder: another everline on it takes it, until the key
// is replaced.
func TestTokenOutlivesEverline(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	first, second := keys{dir: dir}, keys{dir: dir}
	token, until, err := first.token(now)
	if err != nil || until.Sub(now) > tokenTime {
		t.Fatal(err, until)
	}
	if info, err := os.Stat(filepath.Join(dir, keyName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for _, c := range []struct {
		token string
		at    time.Duration
		want  string
	}{
		{token, 0, tokenOK},
		{token, tokenTime - 2*time.Second, tokenOK},
		{token, tokenTime, tokenExpired},
		{"", 0, tokenNone},
		{token[:len(token)-2] + "AA", 0, tokenNone},
		{"A" + token[1:], 0, tokenNone},
		{strings.Repeat("A", 64), 0, tokenNone},
	} {
		if got := second.state(c.token, now.Add(c.at)); got != c.want {
			t.Errorf("%q at %s: %s, want %s", c.token, c.at, got, c.want)
		}
	}
	if err := second.revoke(); err != nil {
		t.Fatal(err)
	}
	third := keys{dir: dir}
	if got := third.state(token, now); got != tokenNone || second.state(token, now) != tokenNone {
		t.Errorf("revoked: %s", got)
	}
}

func TestCodes(t *testing.T) {
	k, now := keys{dir: t.TempDir()}, time.Now()
	made := func() string {
		c, err := k.code(now)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	once := made()
	if _, _, err := k.redeem(once, now); err != nil {
		t.Error(err)
	}
	if _, _, err := k.redeem(once, now); err == nil {
		t.Error("a code was taken twice")
	}
	late := made()
	if _, _, err := k.redeem(late, now.Add(codeTime)); err == nil {
		t.Error("a code was taken after a minute")
	}
	good := made()
	for range badMost - 2 {
		_, _, _ = k.redeem("wrong", now)
	}
	if _, _, err := k.redeem(good, now); !errors.Is(err, errPaused) { // two were wrong above
		t.Errorf("guessing is not slowed down: %v", err)
	}
	good = made()
	if _, _, err := k.redeem(good, now.Add(pauseTime-time.Second)); !errors.Is(err, errPaused) {
		t.Errorf("in the pause: %v", err)
	}
	k.codes[len(k.codes)-1].until = now.Add(2 * pauseTime)
	if _, _, err := k.redeem(good, now.Add(pauseTime)); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	for range 3 * codesMost {
		made()
	}
	if len(k.codes) != codesMost {
		t.Errorf("%d codes", len(k.codes))
	}
}

// words reads a stream: "name data", with "id" where there is one.
type words struct {
	t    *testing.T
	in   *bufio.Scanner
	last string // id
}

func (s *stand) listen(t *testing.T, topics, lastID string) *words {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/api/v1/stream?topics="+topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", lastID)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	w := &words{t: t, in: bufio.NewScanner(resp.Body)}
	w.in.Buffer(nil, 1<<20)
	return w
}

// next is the next word of this name, and of what it says into v.
func (w *words) next(name string, v any) {
	w.t.Helper()
	said := ""
	for w.in.Scan() {
		line := w.in.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			w.last = id
		}
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			said = n
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && said == name {
			if err := json.Unmarshal([]byte(data), v); err != nil {
				w.t.Fatal(err)
			}
			return
		}
	}
	w.t.Fatalf("the stream ended before %s: %v", name, w.in.Err())
}

func TestStream(t *testing.T) {
	s := newStand(t, true)
	w := s.listen(t, "servers,events,tick,calls", "")
	var hello Hello
	w.next("hello", &hello)
	if hello.Run != s.opts.Journal.Run() || hello.Token != tokenNone || hello.Assets != s.assets.tag || hello.Seq == 0 {
		t.Errorf("%+v", hello)
	}
	var servers Servers
	w.next("servers", &servers)
	if len(servers.Set) != 1 || servers.Set[0].Name != "up" || len(servers.Order) != 1 {
		t.Errorf("%+v", servers)
	}
	beside := s.listen(t, "servers,tick", "") // a tick may come before its call, and a server before its event, or behind it
	beside.next("servers", &Servers{})
	if _, err := s.hub.CallTool(t.Context(), "echo", nil); err != nil {
		t.Fatal(err)
	}
	var c Call
	w.next("call", &c)
	if c.Name != "echo" || c.Outcome != "answered" || c.Sends != 1 {
		t.Errorf("%+v", c)
	}
	var tick Tick
	for tick.Servers["up"][0] != 1 { // one before may tell of less
		beside.next("tick", &tick)
	}
	gen := servers.Set[0].Generation
	s.server.Crash()
	s.server.Restart()
	for servers = (Servers{}); len(servers.Set) == 0 || servers.Set[0].Generation == gen; {
		beside.next("servers", &servers)
	}
	var e admin.Event
	for e.Kind != "connected" || e.Generation == gen {
		w.next("event", &e)
	}
	if w.last != fmt.Sprintf("%s-%d", hello.Run, e.Seq) {
		t.Errorf("id %s of event %d", w.last, e.Seq)
	}
	s.EndStreams()
	var bye map[string]string
	w.next("bye", &bye)
}

// Who comes back hears what it has missed, and that something is missing where
// that is not kept.
func TestStreamResumes(t *testing.T) {
	s := newStand(t, true)
	record := func(n int) {
		for range n {
			s.opts.Journal.Record(event.Enabled{Head: event.Head{Server: "other"}})
		}
	}
	run, last := s.opts.Journal.Run(), s.opts.Journal.Last()
	record(3)
	var e admin.Event
	w := s.listen(t, "events", fmt.Sprintf("%s-%d", run, last+1))
	w.next("event", &e)
	if e.Seq != last+2 {
		t.Errorf("it goes on with %d after %d", e.Seq, last+1)
	}
	// Of another run everything is new.
	s.listen(t, "events", "00000000-2").next("event", &e)
	if e.Seq != 1 {
		t.Errorf("another run goes on with %d", e.Seq)
	}
	record(3000)
	w = s.listen(t, "events", fmt.Sprintf("%s-%d", run, last+2))
	var gap Gap
	w.next("gap", &gap)
	w.next("event", &e)
	if gap.From != last+3 || gap.To != e.Seq-1 {
		t.Errorf("%+v, then %d", gap, e.Seq)
	}
}

// The number of streams has a bound, and a place that was left is free.
func TestViewersAreBounded(t *testing.T) {
	s := newStand(t, true)
	for range maxViewers {
		s.viewers <- struct{}{}
	}
	if resp, _ := s.ask(t, "GET", "/api/v1/stream", "", nil); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d", resp.StatusCode)
	}
	<-s.viewers
	s.listen(t, "servers", "").next("hello", &Hello{})
}

func TestFacts(t *testing.T) {
	s := newStand(t, true)
	for range 3 {
		if _, err := s.hub.CallTool(t.Context(), "echo", nil); err != nil {
			t.Fatal(err)
		}
	}
	get := func(path string, v any) {
		t.Helper()
		resp, text := s.ask(t, "GET", "/api/v1/"+path, "", nil)
		if resp.StatusCode != 200 || resp.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
		}
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatal(err)
		}
	}
	var h History
	get("history", &h)
	spans := h.Servers[0].Spans
	if last := spans[len(spans)-1]; last.State != event.StateConnected || last.To != nil || last.Generation != 1 {
		t.Errorf("%+v", h)
	}
	var calls Calls
	get("calls?limit=2&server=up", &calls)
	if len(calls.Calls) != 2 || calls.Next == nil {
		t.Fatalf("%+v", calls)
	}
	var rest Calls
	get("calls?limit=2&before="+*calls.Next, &rest)
	if len(rest.Calls) != 1 || rest.Next != nil || rest.Calls[0].ID == calls.Calls[1].ID {
		t.Errorf("%+v", rest)
	}
	var c Call
	get("calls/"+rest.Calls[0].ID, &c)
	if !reflect.DeepEqual(c, rest.Calls[0]) {
		t.Errorf("%+v", c)
	}
	var series Series
	get("series?server=up", &series)
	sum := uint32(0)
	for _, n := range series.Calls {
		sum += n
	}
	if sum != 3 || series.StepS != 10 {
		t.Errorf("%+v", series)
	}
	var one admin.Server
	get("servers/up", &one)
	if one.Calls != 3 {
		t.Errorf("%+v", one)
	}
	var setups []ClientSetup
	get("connect", &setups)
	for _, c := range setups {
		if !strings.Contains(c.Text, "127.0.0.1:1/mcp") && !strings.Contains(c.Text, "stdio") {
			t.Errorf("%s: %s", c.Client, c.Text)
		}
	}
	var lines []admin.LogLine
	get("servers/up/logs", &lines)
	var events []admin.Event
	get("events?after=1", &events)
	if len(events) == 0 || events[0].Seq != 2 {
		t.Errorf("%+v", events)
	}
	for _, path := range []string{"calls/x", "servers/none/logs", "servers/none", "history?from=x", "nothing"} {
		if resp, text := s.ask(t, "GET", "/api/v1/"+path, "", nil); resp.StatusCode/100 != 4 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
}

// A name of a file changes with what is in it, and the index has it.
func TestAssets(t *testing.T) {
	s := newStand(t, true)
	resp, index := s.ask(t, "GET", "/ui/", "", nil)
	if resp.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v", resp.Header)
	}
	again, _ := s.ask(t, "GET", "/ui/", "", func(r *http.Request) { r.Header.Set("If-None-Match", resp.Header.Get("ETag")) })
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("%d", again.StatusCode)
	}
	for name := range s.assets.named {
		if !strings.Contains(index, name) {
			t.Errorf("the index has no %s", name)
		}
		if resp, _ := s.ask(t, "GET", "/ui/"+name, "", nil); resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, resp.StatusCode, resp.Header)
		}
	}
	if resp, _ := s.ask(t, "GET", "/ui/app.js", "", nil); resp.StatusCode != 404 {
		t.Errorf("%d", resp.StatusCode)
	}
	if resp, _ := s.ask(t, "GET", "/ui", "", nil); resp.Request.URL.Path != "/ui/" {
		t.Errorf("%s", resp.Request.URL)
	}
}

// The budget of the page: what a browser has to load, compressed.
func TestAssetsAreSmall(t *testing.T) {
	all := 0
	for name, most := range map[string]int{"index.html": 2_000, "app.js": 45_000, "app.css": 8_000, "icon.svg": 1_000} {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(read(name)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		if packed.Len() > most {
			t.Errorf("%s: %d bytes, at most %d", name, packed.Len(), most)
		}
		all += packed.Len()
	}
	if all > 60_000 {
		t.Errorf("%d bytes in all", all)
	}
}
