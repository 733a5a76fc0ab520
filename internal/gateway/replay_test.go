package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/everline/everline/internal/mcp"
)

// lines reads so many events of a stream as "id data".
func (s *site) events(n int, headers ...string) (got []string, end func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	resp := s.open(ctx, "GET", "/mcp", "", headers...)
	sc := bufio.NewScanner(resp.Body)
	id := ""
	for len(got) < n && sc.Scan() {
		if v, ok := strings.CutPrefix(sc.Text(), "id: "); ok {
			id = v
		}
		if v, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			got = append(got, id+" "+v)
		}
	}
	if len(got) < n {
		s.t.Errorf("%d events of %d: %v", len(got), n, sc.Err())
	}
	return got, func() {
		cancel()
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// A client that lost its standing stream gets what it missed, once, and then
// what is new.
func TestStandingStreamsAreResumed(t *testing.T) {
	h := newHub()
	s := serve(t, h, Options{})
	id := s.initialize("2025-11-25")
	want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`, id), 200)
	hold := s.tap("GET", "/mcp", "", id) // logs go to a stream alone
	for i := range 3 {
		h.log(fmt.Sprintf(`{"level":"info","data":"n%d"}`, i))
		if e := hold.next(); !strings.Contains(e, fmt.Sprintf("n%d", i)) {
			t.Fatalf("got %s", e)
		}
	}
	hold.cancel()
	hold.end()
	got, end := s.events(2, id, "Last-Event-ID: standing-0")
	if !strings.HasPrefix(got[0], "standing-1 ") || !strings.Contains(got[0], "n1") || !strings.Contains(got[1], "n2") {
		t.Errorf("got %s", got)
	}
	end()
	for _, other := range []string{"standing-2", "standing-99", "elsewhere-0", "standing--5", ""} {
		headers := []string{id}
		if other != "" {
			headers = append(headers, "Last-Event-ID: "+other)
		}
		tp := s.tap("GET", "/mcp", "", headers...)
		eventually(t, "the stream is attached", func() bool {
			h.log(`{"level":"info","data":"new"}`)
			return len(tp.events) > 0
		})
		if e := tp.next(); !strings.Contains(e, "new") {
			t.Errorf("behind %q came %s", other, e)
		}
		tp.cancel()
		tp.end()
	}
}

func TestWhatIsKeptForResumingIsBounded(t *testing.T) {
	s := &session{}
	for i := range 10 * replayFrames {
		s.keep([][]byte{[]byte(fmt.Sprint(i))})
	}
	if first, frames := s.missed("standing-0"); len(frames) != replayFrames || first != 9*replayFrames || string(frames[0]) != fmt.Sprint(first) {
		t.Errorf("%d frames from %d on: %s", len(frames), first, frames[0])
	}
	s.keep([][]byte{make([]byte, replayBytes), make([]byte, 1)})
	if _, frames := s.missed("standing-0"); len(frames) != 1 || s.sent.bytes != 1 {
		t.Errorf("%d frames, %d bytes", len(frames), s.sent.bytes)
	}
}

func TestListensAreBounded(t *testing.T) {
	s := serve(t, newHub(), Options{MaxListens: 1})
	headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"}
	body := modernBody("1", "subscriptions/listen", `,"notifications":{"toolsListChanged":true}`)
	first := s.tap("POST", "/mcp", body, headers...)
	first.next()
	want(t, s.post(body, headers...), 503, `"code":-31003`)
	first.cancel()
	first.end()
	eventually(t, "there is room again", func() bool { return s.g.listens.Load() == 0 })
}

// A sink that counts.
type countSink struct{ n atomic.Int64 }

func (s *countSink) write(frames [][]byte) error { s.n.Add(int64(len(frames))); return nil }
func (*countSink) alive() error                  { return nil }

// Once a stream has taken over, nothing goes out on the one before.
func TestFaultN6NothingGoesToAStreamThatWasReplaced(t *testing.T) {
	g := New(newHub(), Options{})
	defer g.Close(context.Background())
	for i := range 1000 {
		s := g.newSession(mcp.LatestLegacy)
		out := s.out()
		var both sync.WaitGroup
		open := func() *countSink {
			sink, st := &countSink{}, &standing{over: make(chan struct{})}
			s.attach(st)
			t := &teller{g: g, out: sink, feed: out, want: everything, told: s.announced(), note: plainNote, turn: s.turnOf(st), over: st.over, stop: g.stop}
			both.Go(func() { _ = t.run(context.Background()) }) // ends with st, or the session
			return sink
		}
		first := open()
		runtime.Gosched()
		second := open()
		out.update("file:///a", []byte(`{}`))
		eventually(t, "the update", func() bool { return first.n.Load()+second.n.Load() > 0 })
		if n := first.n.Load(); n > 0 {
			t.Fatalf("round %d: it went to the stream that was over", i)
		}
		s.end()
		both.Wait()
	}
}

// What a stream has taken has its number before another takes over, and so is
// among what that one replays.
func TestFaultN6WhatWasTakenIsReplayed(t *testing.T) {
	g := New(newHub(), Options{})
	defer g.Close(context.Background())
	s := g.newSession(mcp.LatestLegacy)
	out := s.out()
	s.keep([][]byte{[]byte(`{"told":0}`)})
	old := &standing{over: make(chan struct{})}
	s.attach(old)
	out.update("file:///a", []byte(`{"told":1}`))
	<-out.wake
	taking, took := make(chan struct{}), make(chan bool, 1)
	go func() { // ends once it has taken
		took <- s.turnOf(old)(func() [][]byte {
			close(taking)
			runtime.Gosched()
			frames, _ := out.take()
			return frames
		})
	}()
	<-taking
	s.attach(&standing{over: make(chan struct{})})
	if first, missed := s.missed("standing-0"); first != 1 || len(missed) != 1 {
		t.Errorf("missed %q from %d on", missed, first)
	}
	if !within(t, "the turn", took) || s.turnOf(old)(func() [][]byte { return nil }) {
		t.Error("the turn was refused before the takeover, or granted after it")
	}
	late := &teller{g: g, feed: out, turn: s.turnOf(old)}
	if _, _, err := late.take(g.news.now.Load(), true); !errors.Is(err, errOver) || len(out.wake) != 1 {
		t.Errorf("%v; a wake that was not for it is passed on %d times", err, len(out.wake))
	}
}
