package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/policy"
)

// byHeader takes the word of a test for who it is; a goes when it says so.
type byHeader struct{ gone *atomic.Bool }

func (e byHeader) Admits(who *access.Identity) bool {
	return e.gone == nil || !e.gone.Load() || who.Name() != "a"
}

func (byHeader) NothingGranted(h http.Header, r *http.Request, who *access.Identity) {
	h.Set("WWW-Authenticate", "for "+who.Name()+" at "+r.URL.Path)
}

func (byHeader) Enter(_ http.ResponseWriter, r *http.Request) *access.Identity {
	return access.Token(r.Header.Get("Who"), r.Header.Get("Who"), "", time.Time{})
}

// granting returns a scope with the limits of a policy.
func granting(p config.Policy) *policy.Scope {
	cfg := config.New()
	p.Name = "some"
	cfg.Policies = []config.Policy{p}
	return policy.New(cfg).For(access.Token("", "", "some", time.Time{}))
}

// To one identity, what another one has does not exist: the answer is the same, to
// the byte, as for what nobody has.
func TestFaultX25IdentitiesShareNothing(t *testing.T) {
	h := newHub()
	h.publish(item("echo", `{"name":"echo","inputSchema":{"type":"object"}}`))
	var gone atomic.Bool
	s := serve(t, h, Options{Entrance: byHeader{&gone}, Keep: func(string) time.Duration { return time.Minute }})
	resultID := `"_meta":{"everline/resultId":"0123456789012345678901"},"name":"echo"`
	session := "Mcp-Session-Id: " + s.post(hello, "Who: a").header.Get("Mcp-Session-Id")
	want(t, s.post(listRequest("1"), session, "Who: a"), 200)
	want(t, s.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+resultID+`}}`, session, "Who: a"), 200)
	stream := s.tap("GET", "/mcp", "", session, "Who: a")
	standing := s.tap("GET", "/sse", "", "Who: a")
	messages := "/" + standing.next()

	never := "Mcp-Session-Id: " + strings.Repeat("x", len(session)-len("Mcp-Session-Id: "))
	for _, who := range []string{"Who: b", "Who: a b"} {
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/mcp", listRequest("1")},
			{"GET", "/mcp", ""},
			{"DELETE", "/mcp", ""},
			{"POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		} {
			got, none := s.do(c.method, c.path, c.body, session, who), s.do(c.method, c.path, c.body, never, who)
			want(t, got, 404)
			if got.body != none.body || got.status != none.status {
				t.Errorf("%s %s: %s is told %q of a's session, and %q of none", c.method, c.body, who, got.body, none.body)
			}
		}
		want(t, s.do("POST", messages, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, who), 404)
	}
	other := "Mcp-Session-Id: " + s.post(hello, "Who: b").header.Get("Mcp-Session-Id")
	fetch := func(id string) string {
		return `{"jsonrpc":"2.0","id":9,"method":"everline/result","params":{"resultId":"` + id + `"}}`
	}
	want(t, s.post(fetch("0123456789012345678901"), session, "Who: a"), 200, `"result"`)
	if got, none := s.post(fetch("0123456789012345678901"), other, "Who: b"), s.post(fetch("9999999999999999999999"), other, "Who: b"); got.body != none.body {
		t.Errorf("b is told %q of a's result, and %q of none", got.body, none.body)
	}
	want(t, s.post(listRequest("1"), session, "Who: a"), 200)
	gone.Store(true)
	s.g.Recheck()
	stream.end()
	standing.end()
	want(t, s.post(listRequest("1"), session, "Who: a"), 404)
	want(t, s.post(listRequest("1"), other, "Who: b"), 200)
}

// asNamed takes the word of a test for which of some identities one is.
type asNamed map[string]*access.Identity

func (asNamed) Admits(*access.Identity) bool { return true }

func (asNamed) NothingGranted(http.Header, *http.Request, *access.Identity) {}

func (e asNamed) Enter(_ http.ResponseWriter, r *http.Request) *access.Identity {
	return e[r.Header.Get("Who")]
}

// ann is one subject who shows tokens with this scope.
func ann(scope string) *access.Identity {
	return access.JWT("https://idp.example.com", "ann", []string{scope}, nil, time.Time{})
}

// The id of a session, and that of an outcome, open nothing for another identity, in
// the next everline either.
func TestFaultX25IdentitiesShareNothingOverARestart(t *testing.T) {
	all := asNamed{
		"self": access.Local(), "nobody": access.Anonymous, "user": access.User(4711), "token": access.Token("a", "a", "", time.Time{}),
		"other": access.Token("b", "a", "", time.Time{}), "cert": access.MTLS("a", time.Time{}), "reads": ann("read"), "writes": ann("write"),
	}
	l := &lasting{t: t, dir: t.TempDir(), opts: Options{Entrance: all, Keep: func(string) time.Duration { return time.Hour }}}
	h := newHub()
	h.publish(item("echo", `{"name":"echo","inputSchema":{"type":"object"}}`))
	s := l.start(h)
	ids, results := map[string]string{}, map[string]string{}
	for name := range all {
		ids[name] = "Mcp-Session-Id: " + s.post(hello, "Who: "+name).header.Get("Mcp-Session-Id")
		results[name] = fmt.Sprintf("%022s", name)
		want(t, s.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"everline/resultId":"`+results[name]+`"},"name":"echo"}}`, ids[name], "Who: "+name), 200)
	}
	look := func(when string) {
		for mine := range all {
			for who := range all {
				r := s.post(listRequest("1"), ids[mine], "Who: "+who)
				if (r.status == 200) != (who == mine) {
					t.Errorf("%s: %s with the session of %s: %d", when, who, mine, r.status)
				}
				r = s.post(`{"jsonrpc":"2.0","id":9,"method":"everline/result","params":{"resultId":"`+results[mine]+`"}}`, ids[who], "Who: "+who)
				if strings.Contains(r.body, `"result"`) != (who == mine) {
					t.Errorf("%s: %s with the outcome of %s: %s", when, who, mine, r.body)
				}
			}
		}
	}
	look("at first")
	l.stop(s)
	s = l.start(h)
	look("in the next everline")
}

// A question that waits for one identity is answered by that one. The state of it that
// another one brings is to it as one that was made up: it begins a call of its own.
func TestFaultX25QuestionsAreOfOneIdentity(t *testing.T) {
	h := newHub()
	h.publish(item("echo", `{"name":"echo","inputSchema":{"type":"object"}}`))
	calls := 0
	h.onCall = func(ctx context.Context, c *everline.Call) ([]byte, error) {
		if calls++; calls == 1 {
			return asksOnce(ctx, c)
		}
		return []byte(`{"content":[],"anew":true}`), nil
	}
	s := serve(t, h, Options{Entrance: byHeader{}})
	ask := func(who, extra string) string {
		body := strings.Replace(modernBody("1", "tools/call", `,"name":"echo","arguments":{}`+extra), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
		return s.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo", "Who: "+who).body
	}
	state := (&booth{t: t}).state(ask("a", ""))
	madeUp := []byte(state)
	for i := len(statePrefix) + 1; i < len(madeUp)-1; i++ {
		madeUp[i] = 'A'
	}
	if got, none := ask("b", yes+state), ask("b", yes+string(madeUp)); got != none || !strings.Contains(got, `"anew":true`) {
		t.Errorf("b is told %s of a's question, and %s of none", got, none)
	}
	if got := ask("a", yes+state); !strings.Contains(got, `"got":{"action":"accept"`) {
		t.Errorf("a has answered, and is told %s", got)
	}
}

// What one subject may do goes by the token that is shown, whatever another token of
// the same subject has been good for.
func TestScopesAreThoseOfTheToken(t *testing.T) {
	wide, narrow := newHub(), newHub()
	wide.publish(item("wipe", `{"name":"wipe","inputSchema":{"type":"object"}}`))
	narrow.publish(item("look", `{"name":"look","inputSchema":{"type":"object"}}`))
	s := serve(t, newHub(), Options{Entrance: asNamed{"writes": ann("write"), "reads": ann("read")}, Part: func(_ string, who *access.Identity) Backend {
		if slices.Contains(who.Labels(), "scope:write") {
			return wide
		}
		return narrow
	}})
	for range 2 {
		want(t, s.modern("1", "tools/list", "", "", "Who: writes"), 200, `"wipe"`)
		want(t, s.modern("1", "tools/list", "", "", "Who: reads"), 200, `"look"`)
	}
	session := "Mcp-Session-Id: " + s.post(hello, "Who: writes").header.Get("Mcp-Session-Id")
	want(t, s.post(listRequest("1"), session, "Who: writes"), 200, `"wipe"`)
	want(t, s.post(listRequest("1"), session, "Who: reads"), 404)
}

// Whoever has nothing granted opens no session.
func TestNothingGrantedOpensNoSession(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{Entrance: byHeader{}, Part: func(string, *access.Identity) Backend { return nothingGrantedHub{h} }})
	r := s.post(hello, "Who: a")
	want(t, r, 403, "nothing is granted")
	if got := r.header.Get("WWW-Authenticate"); got != "for a at /mcp" {
		t.Errorf("what could help is %q", got)
	}
}

type nothingGrantedHub struct{ *hub }

func (nothingGrantedHub) May() *policy.Scope { return nil }

// refusals collects what a gateway tells of refusals.
type told struct {
	mu  sync.Mutex
	all []event.ClientRefused
}

func (r *told) emit(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e.(event.ClientRefused))
}

func TestLimitsOfAnIdentity(t *testing.T) {
	h := newHub()
	h.publish(item("echo", `{"name":"echo","inputSchema":{"type":"object"}}`))
	some := granting(config.Policy{Rate: config.Rate{Calls: 2, Per: time.Hour}, Burst: 3, MaxBody: 2048})
	h.may = func() *policy.Scope { return some }
	var heard told
	count := meter.NewEndpoint()
	s := serve(t, h, Options{Entrance: byHeader{}, Emit: heard.emit, Meter: count})
	for _, who := range []string{"Who: a", "Who: b"} { // each for itself
		session := "Mcp-Session-Id: " + s.post(hello, who).header.Get("Mcp-Session-Id")
		for range 2 {
			want(t, s.post(call("1", "echo", "1"), session, who), 200, `"result"`)
		}
		want(t, s.modern("1", "tools/call", "echo", `,"name":"echo"`, who), 200, `"result"`)
		for range 3 {
			r := s.post(call("2", "echo", "1"), session, who)
			want(t, r, 429, `"id":2`, `"code":-31007`, `"outcome":"not_sent"`, `"retryAfterMs":1`)
			if r.header.Get("Retry-After") != "1800" {
				t.Errorf("Retry-After is %q: the next of two in an hour is half an hour away", r.header.Get("Retry-After"))
			}
		}
		want(t, s.modern("1", "tools/call", "echo", `,"name":"echo"`, who), 429)
		want(t, s.post(listRequest("1"), session, who), 200) // no server is asked
		want(t, s.post(call("3", "echo", `"`+strings.Repeat("x", 2048)+`"`), session, who), 413, "2048 bytes")
	}
	n := count.Read().Policies
	if n[meter.ByPolicy{Policy: "some", Reason: "rate"}] != 8 || n[meter.ByPolicy{Policy: "some", Reason: "body"}] != 2 {
		t.Errorf("counted: %v", n)
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if len(heard.all) != 4 || heard.all[0].Client != "token:a" || heard.all[0].Reason != policy.ReasonRate || heard.all[0].RetryAfter < time.Second {
		t.Errorf("told: %v", heard.all)
	}
}

// What a server lets everybody cache is not for everybody where a client has shown who
// it is, or does not see everything.
func TestWhatIsPublicStaysWithItsClient(t *testing.T) {
	h := newHub()
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		return []byte(`{"contents":[],"ttlMs":5,"cacheScope":"public"}`), nil
	}
	some := policy.Everything
	h.may = func() *policy.Scope { return some }
	s := serve(t, h, Options{Entrance: asNamed{"self": access.Local(), "nobody": access.Anonymous, "token": access.Token("a", "a", "", time.Time{})}})
	read := func(who string) reply {
		return s.modern("1", "resources/read", "mem://a", `,"uri":"mem://a"`, "Who: "+who)
	}
	for who, want := range map[string]string{"self": "public", "nobody": "public", "token": "private"} {
		if r := read(who); !strings.Contains(r.body, `"ttlMs":5,"cacheScope":"`+want+`"`) {
			t.Errorf("%s: %s", who, r.body)
		}
	}
	some = granting(config.Policy{})
	for _, who := range []string{"self", "nobody", "token"} {
		if r := read(who); !strings.Contains(r.body, `"cacheScope":"private"`) {
			t.Errorf("%s with a policy: %s", who, r.body)
		}
	}
}

// The size of a message is bounded by who sends it on every path.
func TestSizesOfAnIdentityOnEveryPath(t *testing.T) {
	h := newHub()
	some := granting(config.Policy{MaxBody: 2048})
	h.may = func() *policy.Scope { return some }
	s := serve(t, h, Options{Entrance: byHeader{}, Part: func(string, *access.Identity) Backend { return h }})
	large := call("1", "echo", `"`+strings.Repeat("x", 2048)+`"`)
	for _, prefix := range []string{"", "/groups/g"} {
		messages := prefix + "/" + s.tap("GET", prefix+"/sse", "", "Who: a").next()
		session := "Mcp-Session-Id: " + s.do("POST", prefix+"/mcp", hello, "Who: a").header.Get("Mcp-Session-Id")
		want(t, s.do("POST", messages, large, "Who: a"), 413, "2048 bytes")
		want(t, s.do("POST", prefix+"/mcp", large, session, "Who: a"), 413, "2048 bytes")
		want(t, s.do("POST", prefix+"/mcp", "["+large+"]", session, "Who: a"), 413, "2048 bytes")
		want(t, s.do("POST", prefix+"/mcp", large, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo", "Who: a"), 413, "2048 bytes")
		want(t, s.do("POST", messages, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Who: a"), 202)
	}
}

func TestConcurrentCallsOfAnIdentity(t *testing.T) {
	h := newHub()
	h.publish(item("echo", `{"name":"echo","inputSchema":{"type":"object"}}`))
	some := granting(config.Policy{Concurrent: 1})
	h.may = func() *policy.Scope { return some }
	entered, release := make(chan struct{}), make(chan struct{})
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return []byte(`{"content":[]}`), nil
	}
	s := serve(t, h, Options{Entrance: byHeader{}, Part: func(string, *access.Identity) Backend { return h }})
	first := make(chan reply)
	go func() { first <- s.modern("1", "tools/call", "echo", `,"name":"echo"`, "Who: a") }()
	<-entered
	// At a group, too, and of no other identity.
	r := s.do("POST", "/groups/g/mcp", modernBody("2", "tools/call", `,"name":"echo"`), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo", "Who: a")
	want(t, r, 429, `"retryAfterMs":1000`)
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
	}
	second := make(chan reply)
	go func() { second <- s.modern("3", "tools/call", "echo", `,"name":"echo"`, "Who: b") }()
	<-entered
	close(release)
	want(t, <-first, 200)
	want(t, <-second, 200)
	go func() { first <- s.modern("4", "tools/call", "echo", `,"name":"echo"`, "Who: a") }()
	<-entered
	want(t, <-first, 200)
}

func TestSessionsOfAnIdentity(t *testing.T) {
	h := newHub()
	some := granting(config.Policy{Sessions: 2})
	h.may = func() *policy.Scope { return some }
	count := meter.NewEndpoint()
	s := serve(t, h, Options{Entrance: byHeader{}, Meter: count})
	open := func(who string) string {
		return "Mcp-Session-Id: " + s.post(hello, who).header.Get("Mcp-Session-Id")
	}
	first, second := open("Who: a"), open("Who: a")
	s.tap("GET", "/mcp", "", second, "Who: a")
	third := open("Who: a") // the first is idle
	want(t, s.post(listRequest("1"), first, "Who: a"), 404)
	s.tap("GET", "/mcp", "", third, "Who: a")
	r := s.post(hello, "Who: a")
	want(t, r, 503, `"code":-31003`, `"outcome":"not_sent"`, `"retryAfterMs":1000`)
	if r.header.Get("Retry-After") == "" || count.Read().Policies[meter.ByPolicy{Policy: "some", Reason: "sessions"}] != 1 {
		t.Errorf("Retry-After %q, counted %v", r.header.Get("Retry-After"), count.Read().Policies)
	}
	want(t, s.post(hello, "Who: b"), 200)
}

func TestWhoIsGrantedNothing(t *testing.T) {
	h := newHub()
	var some atomic.Pointer[policy.Scope]
	some.Store(policy.Everything)
	h.may = some.Load
	s := serve(t, h, Options{Entrance: byHeader{}})
	session := "Mcp-Session-Id: " + s.post(hello, "Who: a").header.Get("Mcp-Session-Id")
	stream := s.tap("GET", "/mcp", "", session, "Who: a")
	some.Store(nil)
	h.changed(everline.Tools)
	stream.end()
	for _, r := range []reply{
		s.post(hello, "Who: a"), s.post(listRequest("1"), session, "Who: a"), s.do("GET", "/sse", "", "Who: b"),
		s.modern("1", "tools/list", "", "", "Who: a"), s.do("DELETE", "/mcp", "", session, "Who: a"),
	} {
		want(t, r, 403, "Forbidden: nothing is granted")
	}
	some.Store(policy.Everything)
	want(t, s.post(listRequest("1"), session, "Who: a"), 404) // it has ended
	want(t, s.post(hello, "Who: a"), 200)
}

// A part that nobody uses does not stay for ever.
func TestUnusedPartsAreTakenOut(t *testing.T) {
	s := serve(t, newHub(), Options{Entrance: byHeader{}})
	session := "Mcp-Session-Id: " + s.post(hello, "Who: a").header.Get("Mcp-Session-Id")
	stream := s.tap("GET", "/mcp", "", session, "Who: a")
	n := 0
	eventually(t, "parts are taken out", func() bool {
		n++
		want(t, s.modern("1", "ping", "", "", fmt.Sprint("Who: ", n)), 404)
		for _, p := range s.g.parts.list() {
			p.left.Store(0) // long ago
		}
		return n > 2*sweepFrom && len(s.g.parts.list()) < n
	})
	want(t, s.post(listRequest("1"), session, "Who: a"), 200)
	stream.cancel()
}

// TestSessionsAtAllAddresses has one identity, and the endpoint, fill their room at
// the address of a group and at that of all servers together.
func TestSessionsAtAllAddresses(t *testing.T) {
	h := newHub()
	may := granting(config.Policy{Sessions: 2})
	h.may = func() *policy.Scope { return may }
	s := serve(t, h, Options{Entrance: byHeader{}, MaxSessions: 3, Part: func(string, *access.Identity) Backend { return h }})
	at := func(path string, headers ...string) reply { return s.do("POST", path, hello, headers...) }
	id := func(r reply) string { return "Mcp-Session-Id: " + r.header.Get("Mcp-Session-Id") }
	lists := func(path, session, who string) int {
		return s.do("POST", path, listRequest("1"), session, who).status
	}
	const group, all = "/groups/g/mcp", "/mcp"

	first := id(at(group, "Who: a"))
	second := id(at(all, "Who: a"))
	third := id(at(all, "Who: a"))
	if lists(group, first, "Who: a") != 404 || lists(all, second, "Who: a") != 200 || lists(all, third, "Who: a") != 200 {
		t.Error("the third session did not take the place of the first, which was idle at another address")
	}
	other := id(at(group, "Who: b"))
	fourth := id(at(group, "Who: b")) // the endpoint is full, and b has an idle one
	if lists(group, other, "Who: b") != 404 || lists(all, second, "Who: a") != 200 {
		t.Error("b has paid with a session of a, and not with its own")
	}
	fifth := id(at(all, "Who: c")) // which has none
	if lists(all, third, "Who: a") != 404 || lists(group, fourth, "Who: b") != 200 || lists(all, fifth, "Who: c") != 200 {
		t.Error("the session that was idle for longest is not the one that ended")
	}

	streams := map[string]string{fourth: group, fifth: all}
	s.tap("GET", group, "", fourth, "Who: b")
	s.tap("GET", all, "", fifth, "Who: c")
	s.tap("GET", all, "", second, "Who: a")
	for _, who := range []string{"Who: a", "Who: d", "Who: d"} {
		r := at(group, who)
		want(t, r, 503, `"code":-31003`)
		if r.header.Get("Retry-After") == "" {
			t.Errorf("%s is not told when to come again", who)
		}
	}
	for session, path := range streams {
		want(t, s.do("DELETE", path, "", session, "Who: "+map[string]string{group: "b", all: "c"}[path]), 204)
	}
	want(t, at(group, "Who: d"), 200) // the places of those that ended are free
	want(t, at(all, "Who: c"), 200)
}
