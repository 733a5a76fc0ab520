package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

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
	elsewhere := &lasting{t: t, dir: t.TempDir()}
	want(t, elsewhere.start(newHub()).post(listRequest("1"), s.initialize("2025-11-25")), 404)
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

// A session that has been idle for long, or had to make room, is over for good.
func TestSessionsThatExpiredStayOver(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir(), opts: Options{MaxSessions: 2}}
	s := l.start(newHub())
	first := s.initialize("2025-11-25")
	s.initialize("2025-11-25")
	s.initialize("2025-11-25")
	want(t, s.post(listRequest("1"), first), 404)
	s = l.start(newHub())
	want(t, s.post(listRequest("1"), first), 404)
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
		if s, _ := g.sessions.Restore(id); s != nil {
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
