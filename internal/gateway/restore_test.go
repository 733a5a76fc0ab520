package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/sessions"
)

// A lasting is an endpoint that is started again on the same state folder.
type lasting struct {
	t     *testing.T
	dir   string
	opts  Options
	store *sessions.Store
}

func (l *lasting) start(h *hub) *site {
	l.t.Helper()
	var err error
	if l.store, err = sessions.OpenStore(l.dir, func(text string) { l.t.Error("warned:", text) }); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = l.store.Close() })
	opts := l.opts
	opts.Sessions = l.store
	return serve(l.t, h, opts)
}

// stop ends an endpoint in order; without it the next start is that after a kill.
func (l *lasting) stop(s *site) {
	l.t.Helper()
	if err := s.g.Close(context.Background()); err != nil {
		l.t.Error(err)
	}
	if err := l.store.Close(); err != nil {
		l.t.Error(err)
	}
}

func TestFaultW1SessionsOutliveARestart(t *testing.T) {
	for _, orderly := range []bool{true, false} {
		t.Run(fmt.Sprintf("orderly %v", orderly), func(t *testing.T) {
			l := &lasting{t: t, dir: t.TempDir()}
			h := newHub()
			s := l.start(h)
			id := s.initialize("2025-06-18")
			want(t, s.post(listRequest("1"), id), 200)
			want(t, s.post(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"warning"}}`, id), 200)
			want(t, s.post(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"file:///a"}}`, id), 200)
			want(t, s.post(`{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"file:///b"}}`, id), 200)
			want(t, s.post(`{"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"file:///b"}}`, id), 200)
			if orderly {
				l.stop(s)
			}

			next := newHub()
			s = l.start(next)
			tp := s.tap("GET", "/mcp", "", id, "Last-Event-ID: standing-gone-7")
			told := map[string]bool{}
			for range 4 {
				told[tp.next()] = true
			}
			for _, wanted := range []string{"tools/list_changed", "prompts/list_changed", "resources/list_changed", `"file:///a"`} {
				if !anyContains(told, wanted) {
					t.Errorf("the client is not told of %s: %v", wanted, told)
				}
			}
			if anyContains(told, "file:///b") {
				t.Error("it is told of what it has no subscription to")
			}
			eventually(t, "the level is asked for", func() bool {
				next.log(`{"level":"info","data":"quiet"}`)
				next.log(`{"level":"error","data":"loud"}`)
				return len(tp.events) > 0
			})
			if e := tp.next(); !strings.Contains(e, "loud") {
				t.Errorf("a log message came: %s", e)
			}
			want(t, s.post(call("6", "echo", ""), id), 200)
			tp.cancel()
			tp.end()
		})
	}
}

func anyContains(texts map[string]bool, part string) bool {
	for text := range texts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// What is over stays over, and what is not ours was never there.
func TestSessionsThatAreNotRestored(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	l.opts.Part = func(string, *access.Identity) Backend { return newHub() }
	h := newHub()
	s := l.start(h)
	deleted, kept := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	want(t, s.do("DELETE", "/mcp", "", deleted), 204)
	want(t, s.post(listRequest("1"), deleted), 404)
	s = l.start(newHub())
	want(t, s.post(listRequest("1"), deleted), 404)
	want(t, s.do("POST", "/groups/one/mcp", listRequest("1"), kept), 404)
	want(t, s.post(listRequest("1"), kept), 200)
	want(t, s.do("DELETE", "/mcp", "", kept), 204)
	want(t, s.post(listRequest("1"), kept), 404)
	without := serve(t, newHub(), Options{})
	id := without.initialize("2025-11-25")
	want(t, serve(t, newHub(), Options{}).post(listRequest("1"), id), 404)
}

// Many requests of one session that come at once restore it once.
func TestASessionIsRestoredOnce(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	id := l.start(newHub()).initialize("2025-11-25")
	s := l.start(newHub())
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if r := s.post(listRequest("1"), id); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	if n := s.g.sessions.Len(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// A session that has been idle for long, or had to make room, is put away: it goes on
// with its client's next request, with what the client has asked for.
func TestSessionsThatWerePutAwayGoOn(t *testing.T) {
	for how, opts := range map[string]Options{"idle": {SessionIdle: 50 * time.Millisecond}, "no room": {MaxSessions: 1}} {
		t.Run(how, func(t *testing.T) {
			l := &lasting{t: t, dir: t.TempDir(), opts: opts}
			h := newHub()
			s := l.start(h)
			first := s.initialize("2025-11-25")
			want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`, first), 200)
			if opts.MaxSessions == 1 {
				s.initialize("2025-11-25")
			}
			eventually(t, "the session is put away, and holds nothing", func() bool { return h.subscribers("file:///a") == 0 })
			eventually(t, "the subscription is made again", func() bool {
				want(t, s.post(listRequest("2"), first), 200)
				return h.subscribers("file:///a") == 1
			})
			want(t, s.do("DELETE", "/mcp", "", first), 204)
			want(t, s.post(listRequest("3"), first), 404)
			want(t, l.start(newHub()).post(listRequest("4"), first), 404)
		})
	}
}

// Where nothing is kept a session that was put away is over.
func TestSessionsThatAreNotKeptExpire(t *testing.T) {
	s := serve(t, newHub(), Options{MaxSessions: 1})
	first := s.initialize("2025-11-25")
	s.initialize("2025-11-25")
	want(t, s.post(listRequest("1"), first), 404)
}

// A client goes on with a session of an everline whose key is lost, as what it was: most
// clients never open another one. What is over, and what was made up, is not there.
func TestASessionOfALostKeyGoesOn(t *testing.T) {
	b := (&lasting{t: t, dir: t.TempDir()}).start(newHub())
	id := b.initialize("2025-06-18")
	l := &lasting{t: t, dir: t.TempDir()}
	s := l.start(newHub())
	own := s.initialize("2025-06-18")
	want(t, s.do("DELETE", "/mcp", "", own), 204)
	broken := own[:len(own)-4] + "AAAA"
	for _, stranger := range []string{own, broken, "Mcp-Session-Id: e2.short", strings.Replace(id, "e2.", "e3.", 1)} {
		want(t, s.post(listRequest("1"), stranger), 404)
	}
	want(t, s.post(listRequest("2"), id), 200)
	tp := s.tap("GET", "/mcp", "", id)
	if got := tp.next(); !strings.Contains(got, "list_changed") {
		t.Errorf("told %s", got)
	}
	tp.cancel()
	tp.end()
	want(t, s.post(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"file:///a"}}`, id), 200)
	next := newHub()
	s = l.start(next)
	want(t, s.post(listRequest("4"), id), 200)
	eventually(t, "its subscription outlives a restart", func() bool { return next.subscribers("file:///a") == 1 })
	want(t, s.do("DELETE", "/mcp", "", id), 204)
	want(t, s.post(listRequest("5"), id), 404)
	want(t, l.start(newHub()).post(listRequest("6"), id), 404)
}

func BenchmarkRestore(b *testing.B) {
	store, err := sessions.OpenStore(b.TempDir(), func(string) {})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	g := New(newHub(), Options{Sessions: store})
	defer func() { _ = g.Close(context.Background()) }()
	ids := make([]string, b.N)
	for i := range ids {
		ids[i] = store.Seal("", sessions.New("2025-11-25", 0))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, id := range ids {
		if s, _ := g.sessions.Restore(id, g.renewTasks); s != nil {
			g.sessions.Unpin(s)
		}
	}
}

// A client of HTTP+SSE goes on posting to the address that it has, and its stream
// comes back a moment later.
func TestFaultW6MessagesWaitForTheirStream(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	before := l.start(newHub())
	e := before.eventSource("")
	want(t, before.do("POST", e.messages, sseHello), 202)
	e.next()
	want(t, before.do("POST", e.messages, initialized), 202)
	want(t, before.do("POST", e.messages, `{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"file:///a"}}`), 202)
	e.next()

	after := l.start(newHub())
	if resp, err := after.try(t.Context(), "POST", e.messages, listRequest("6")); err == nil { // its stream does not come
		resp.Body.Close()
		t.Errorf("a message is answered with %d while its stream is away", resp.StatusCode)
	}
	posted := make(chan reply, 1)
	go func() { posted <- after.do("POST", e.messages, listRequest("7")) }() // ends with the answer
	again := after.eventSource(e.last)
	want(t, within(t, "the message is taken", posted), 202)
	told := ""
	for range 5 {
		told += again.next()
	}
	for _, wanted := range []string{`"id":7,"result"`, "tools/list_changed", "prompts/list_changed", "resources/list_changed", `"file:///a"`} {
		if !strings.Contains(told, wanted) {
			t.Errorf("the client does not hear %s: %s", wanted, told)
		}
	}
	if again.messages != e.messages {
		t.Errorf("the session is %s, and was %s", again.messages, e.messages)
	}
	want(t, after.do("POST", "/messages?sessionId=e1.unknown", listRequest("8")), 404)
}
