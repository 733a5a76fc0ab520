package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/policy"
)

// channelled is a server with a generation for each session that has declared this, and
// its settings.
func channelled(t *testing.T, name string, era mcptest.Era, isolation config.Isolation, declares string) (*mcptest.Server, config.Server) {
	t.Helper()
	srv := mcptest.New(mcptest.Config{Era: era, Capabilities: `{"tools":{}` + declares + `}`})
	srv.On("com.example/thing", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Result: "{}"} })
	cfg := config.NewServer(name)
	cfg.Transport, cfg.URL, cfg.Isolation = "http", mcptest.Web(t, srv).URL+"/mcp", isolation
	return srv, cfg
}

const (
	channel = `,"experimental":{"com.example/channel":{},"progress":{},"tasks":{}}`
	// What a client says in a notification, and what must arrive.
	saidParams = `{"n":1.50,"s":"\u00e9","_meta":{"com.example/m":2.0}}`
)

func notification(method string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":` + saidParams + `}`
}

// What a client says of an extension reaches the generation that a server which has
// declared it has for this client, byte for byte, and before what the client sends next.
func TestNotificationsOfClientsReachTheServerOfTheirExtension(t *testing.T) {
	said := []string{"notifications/com.example/channel/said", "notifications/com.example/channel", "com.example/channel/said"}
	srv, cfg := channelled(t, "one", mcptest.Legacy, config.IsolationSession, channel)
	other, second := channelled(t, "two", mcptest.Legacy, config.IsolationSession, `,"extensions":{"com.example/other":{}}`)
	s := wholeOf(t, cfg, second)
	const thing = `{"jsonrpc":"2.0","id":1,"method":"com.example/thing","params":{"_meta":{"everline/server":"one"}}}`
	id := s.initialize("2025-11-25")
	pipes, events := talk(t, s.g.ServeStdio), s.eventSource("")
	pipes.say(hello)
	answer(pipes.next)
	want(t, s.do("POST", events.messages, sseHello), 202)
	answer(events.next)
	clients := map[string]struct {
		say func(frame string)
		ask func()
	}{
		"HTTP": {func(frame string) { want(t, s.post(frame, id), 202) }, func() { want(t, s.post(thing, id), 200, `"result"`) }},
		"stdio": {func(frame string) { pipes.say(frame) }, func() {
			pipes.say(thing)
			if got := answer(pipes.next); !strings.Contains(got, `"result":{}`) {
				t.Error(got)
			}
		}},
		"HTTP+SSE": {func(frame string) { want(t, s.do("POST", events.messages, frame), 202) }, func() {
			want(t, s.do("POST", events.messages, thing), 202)
			if got := answer(events.next); !strings.Contains(got, `"result":{}`) {
				t.Error(got)
			}
		}},
	}
	for transport, c := range clients {
		c.say(notification(said[0])) // nothing is started for it
		c.ask()
		if n := srv.Count(said[0]); n != 0 {
			t.Errorf("%s: a server that has nothing of the client got %d", transport, n)
		}
	}
	passed := 0
	srv.On("com.example/thing", func(*mcptest.Request) *mcptest.Reply {
		for _, method := range said {
			if got := srv.Count(method); got != passed {
				return &mcptest.Reply{Error: fmt.Sprintf(`{"code":1,"message":"%s came %d times before the request, not %d"}`, method, got, passed)}
			}
		}
		return &mcptest.Reply{Result: "{}"}
	})
	for transport, c := range clients {
		passed++
		for _, method := range said {
			c.say(notification(method))
		}
		c.ask()
		for _, method := range said {
			all := srv.Notifications(method)
			if len(all) != passed || string(all[len(all)-1].Params) != saidParams {
				t.Errorf("%s: %s came as %v", transport, method, all)
			}
		}
	}
	newer := strings.Replace(modernBody("1", said[0], `,"n":1`), `"id":1,`, "", 1) // which has no such notifications
	pipes.say(newer)
	want(t, s.post(newer, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+said[0]), 202)
	pipes.say(thing)
	if got := answer(pipes.next); !strings.Contains(got, `"result":{}`) {
		t.Error(got)
	}
	if all := other.Notifications(""); slices.ContainsFunc(all, func(r mcptest.Request) bool { return strings.Contains(r.Method, "com.example") }) {
		t.Errorf("the other server got %v", all)
	}
}

// What names no server for certain, or goes to one that many share, goes nowhere.
func TestNotificationsOfClientsThatGoNowhere(t *testing.T) {
	const said, nothing = "notifications/com.example/channel/said", ``
	for name, c := range map[string]struct {
		method, meta string
		era          mcptest.Era
		isolation    config.Isolation
		first, other string // what the servers declare
		reach        int    // how many of them get it
	}{
		"as it should be":             {said, "", mcptest.Legacy, config.IsolationSession, channel, nothing, 1},
		"of no extension":             {"notifications/com.example/else", "", mcptest.Legacy, config.IsolationSession, channel, nothing, 0},
		"of a longer name":            {"notifications/com.example/channels", "", mcptest.Legacy, config.IsolationSession, channel, nothing, 0},
		"of the protocol":             {"notifications/progress", "", mcptest.Legacy, config.IsolationSession, channel, nothing, 0},
		"of one of its families":      {"notifications/tasks/status", "", mcptest.Legacy, config.IsolationSession, channel, nothing, 0},
		"a server that declares none": {said, "", mcptest.Legacy, config.IsolationSession, nothing, nothing, 0},
		"a server of many clients":    {said, "", mcptest.Legacy, config.IsolationShared, channel, nothing, 0},
		"a newer server":              {said, "", mcptest.Modern, config.IsolationSession, channel, nothing, 0},
		"two that declare it":         {said, "", mcptest.Legacy, config.IsolationSession, channel, channel, 0},
		"one of two that is named":    {said, "one", mcptest.Legacy, config.IsolationSession, channel, channel, 1},
		"another one that is named":   {said, "two", mcptest.Legacy, config.IsolationSession, channel, channel, 1},
		"of another name, by name":    {"else/said", "one", mcptest.Legacy, config.IsolationSession, channel, nothing, 1},
		"named, and declares none":    {said, "one", mcptest.Legacy, config.IsolationSession, nothing, channel, 0},
		"named, and is not there":     {said, "three", mcptest.Legacy, config.IsolationSession, channel, nothing, 0},
	} {
		t.Run(name, func(t *testing.T) {
			srv, cfg := channelled(t, "one", c.era, c.isolation, c.first)
			other, second := channelled(t, "two", c.era, c.isolation, c.other)
			s := wholeOf(t, cfg, second)
			id := s.initialize("2025-11-25")
			for _, server := range []string{"one", "two"} {
				want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"com.example/thing","params":{"_meta":{"everline/server":"`+server+`"}}}`, id), 200, `"result"`)
			}
			before := srv.Count(c.method) + other.Count(c.method)
			want(t, s.post(`{"jsonrpc":"2.0","method":"`+c.method+`","params":{"_meta":{"everline/server":"`+c.meta+`"}}}`, id), 202)
			if c.meta == "" { // which is the name of none
				want(t, s.post(notification(c.method), id), 202)
			}
			if got := srv.Count(c.method) + other.Count(c.method) - before; got != c.reach {
				t.Errorf("it came %d times, not %d", got, c.reach)
			}
		})
	}
}

// A notification that is passed on counts as a request does where its client has a limit.
func TestNotificationsOfClientsAreLimited(t *testing.T) {
	h := newHub()
	h.declare([]byte(`{"tools":{}` + channel + `}`))
	some := granting(config.Policy{Rate: config.Rate{Calls: 2, Per: time.Hour}})
	h.may = func() *policy.Scope { return some }
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	for range 3 {
		want(t, s.post(notification("notifications/com.example/channel/said"), id), 202)
	}
	want(t, s.post(call("1", "echo", ""), id), 429)
	if h.mu.Lock(); len(h.notified) != 2 {
		t.Errorf("%q were passed on, of which two may be", h.notified)
	}
	h.mu.Unlock()
}

// A notification that is passed on is recorded as a request is.
func TestNotificationsOfClientsAreRecorded(t *testing.T) {
	log, folder := auditing(t)
	_, cfg := channelled(t, "one", mcptest.Legacy, config.IsolationSession, channel)
	s := assembleWith(t, Options{Audit: log}, cfg).up()
	id := s.initialize("2025-11-25")
	const method = "notifications/com.example/channel/said"
	want(t, s.post(notification(method), id), 202)
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"com.example/thing"}`, id), 200, `"result"`)
	want(t, s.post(notification(method), id), 202)
	var got []string
	all, _ := records(t, folder, log)
	for _, r := range all {
		if r.Action == method {
			got = append(got, fmt.Sprint(r.Outcome, " ", r.Target.Server, " ", r.Actor.Name, " ", r.Request.Bytes))
		}
	}
	if want := []string{fmt.Sprint("not_sent one t ", len(saidParams)), fmt.Sprint("answered one t ", len(saidParams))}; !slices.Equal(got, want) {
		t.Errorf("recorded are %q, not %q", got, want)
	}
}
