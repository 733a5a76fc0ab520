package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/pipe"
)

// These run on the fake clock of a bubble, so their times are exact.

func TestSessionsExpireOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(newHub(), Options{SessionIdle: time.Hour})
		defer g.Close(context.Background())
		open := func() *session {
			s := g.sessions.newSession(mcp.LatestLegacy)
			if g.sessions.addAs(s, sessionID()) == nil {
				t.Fatal("full")
			}
			g.sessions.unpin(s)
			return s
		}
		alive := func(s *session) bool {
			g.sessions.mu.Lock()
			defer g.sessions.mu.Unlock()
			return g.sessions.byID[s.id] == s
		}
		first := open()
		time.Sleep(40 * time.Minute)
		second, used := open(), open()
		time.Sleep(20*time.Minute + time.Second) // the first has been idle for an hour
		if alive(first) || !alive(second) || !alive(used) {
			t.Errorf("after an hour: %v %v %v", alive(first), alive(second), alive(used))
		}
		if s := g.sessions.pin(used.id); s != used {
			t.Fatal("not there")
		}
		g.sessions.unpin(used)
		time.Sleep(40 * time.Minute)
		if alive(second) || !alive(used) {
			t.Errorf("after another: %v %v", alive(second), alive(used))
		}
		time.Sleep(21 * time.Minute)
		if alive(used) {
			t.Error("the last one lives on")
		}
	})
}

func TestStdioEndsCallsTwoSecondsAfterItsInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHub()
		g := New(h, Options{})
		defer g.Close(context.Background())
		start := time.Now()
		out := &strings.Builder{}
		err := g.ServeStdio(context.Background(), strings.NewReader(call("1", "echo", "")+"\n"), out)
		if err != nil || time.Since(start) != pipe.Grace {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if got := out.String(); !strings.Contains(got, `"id":1,"error"`) || !strings.Contains(got, `"outcome":"unknown"`) || !strings.Contains(got, pipe.ErrLeft.Error()) {
			t.Errorf("got %s", got)
		}
	})
}
