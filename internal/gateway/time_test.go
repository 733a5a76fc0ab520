package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
)

// These run on the fake clock of a bubble, so their times are exact.

func TestSessionsExpireOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(newHub(), Options{SessionIdle: time.Hour})
		defer g.Close(context.Background())
		open := func() *session {
			s := g.newSession(mcp.LatestLegacy)
			if !g.table.add(s) {
				t.Fatal("full")
			}
			g.table.unpin(s)
			return s
		}
		alive := func(s *session) bool {
			g.table.mu.Lock()
			defer g.table.mu.Unlock()
			return g.table.byID[s.id] == s
		}
		first := open()
		time.Sleep(40 * time.Minute)
		second, used := open(), open()
		time.Sleep(20*time.Minute + time.Second) // the first has been idle for an hour
		if alive(first) || !alive(second) || !alive(used) {
			t.Errorf("after an hour: %v %v %v", alive(first), alive(second), alive(used))
		}
		if s := g.table.pin(used.id); s != used {
			t.Fatal("not there")
		}
		g.table.unpin(used)
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

// A diary is a sink that notes when it was used.
type diary struct {
	start time.Time
	log   []string
	err   error
}

func (d *diary) write(frames [][]byte) error {
	for _, f := range frames {
		_, method, _ := strings.Cut(string(f), "notifications/")
		d.log = append(d.log, fmt.Sprintf("%v %s", time.Since(d.start), method[:strings.IndexByte(method, '/')]))
	}
	return d.err
}

func (d *diary) alive() error {
	d.log = append(d.log, fmt.Sprintf("%v :", time.Since(d.start)))
	return nil
}

func TestAnnouncementsAndKeepAlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		g := New(h, Options{})
		defer g.Close(context.Background())
		d := &diary{start: time.Now()}
		tl := &teller{g: g, out: d, feed: newFeed(), want: everything, told: g.news.now.Load().count, note: plainNote, stop: g.stop}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- tl.run(ctx) }() // ends with ctx
		synctest.Wait()
		time.Sleep(20 * time.Second)
		h.changed(everline.Tools)
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		h.changed(everline.Tools)
		h.changed(everline.Prompts)
		synctest.Wait()
		time.Sleep(20 * time.Second)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want := "15s :,20s tools,20.1s tools,20.1s prompts,35.1s :"
		if got := strings.Join(d.log, ","); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
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
		if err != nil || time.Since(start) != eofGrace {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if got := out.String(); !strings.Contains(got, `"id":1,"error"`) || !strings.Contains(got, `"outcome":"unknown"`) || !strings.Contains(got, errLeft.Error()) {
			t.Errorf("got %s", got)
		}
	})
}
