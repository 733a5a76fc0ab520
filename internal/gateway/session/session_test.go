package session

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestStore() *Store {
	return NewStore(Options{
		Lists: stream.NewListVersions(), Limit: func() int { return 100 }, Most: 100, Idle: 30 * time.Minute, SetLevel: func(string) {}, Forget: func(string) {},
		Subscribe: func(context.Context, *everline.Session, string, func([]byte)) (func(), error) { return func() {}, nil },
	})
}

func TestSessionsExpireOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore()
		st.o.Idle = time.Hour
		defer st.Close()
		open := func() *Session {
			s := st.New(mcp.LatestLegacy)
			if st.addAs(s, fmt.Sprint(s.client)) == nil {
				t.Fatal("full")
			}
			st.Unpin(s)
			return s
		}
		alive := func(s *Session) bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.byID[s.Key] == s
		}
		first := open()
		time.Sleep(40 * time.Minute)
		second, used := open(), open()
		time.Sleep(20*time.Minute + time.Second) // the first has been idle for an hour
		if alive(first) || !alive(second) || !alive(used) {
			t.Errorf("after an hour: %v %v %v", alive(first), alive(second), alive(used))
		}
		if s := st.Pin(used.Key); s != used {
			t.Fatal("not there")
		}
		st.Unpin(used)
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

// A level that is set while the session ends goes with it.
func TestALevelDoesNotOutliveItsSession(t *testing.T) {
	st := newTestStore()
	defer st.Close()
	for range 2000 {
		s := st.New(mcp.LatestLegacy)
		st.levels.mu.Lock() // another session sets its level
		var set sync.WaitGroup
		set.Go(func() { s.SetLevel(1) })
		for s.wantedLevel() == 0 {
			runtime.Gosched()
		}
		st.levels.mu.Unlock()
		s.End()
		set.Wait()
		if len(st.levels.want) != 0 || st.levels.now != 0 {
			t.Fatalf("%d ended sessions want log messages, from %q on", len(st.levels.want), mcp.Levels[st.levels.now])
		}
	}
}

// TestAStoreLeavesItsRooms when it is closed, with the places of its sessions.
func TestAStoreLeavesItsRooms(t *testing.T) {
	st := newTestStore()
	if s := st.New(mcp.LatestLegacy); !st.Add(s) {
		t.Fatal("full")
	}
	own, all := st.o.Own, st.o.All
	if own.n.Load() != 1 || all.n.Load() != 1 {
		t.Errorf("one session counts %d and %d", own.n.Load(), all.n.Load())
	}
	st.Close()
	if own.n.Load() != 0 || all.n.Load() != 0 || len(own.stores)+len(all.stores) != 0 {
		t.Errorf("%d and %d places are taken, %d stores are left", own.n.Load(), all.n.Load(), len(own.stores)+len(all.stores))
	}
	if st.Add(st.New(mcp.LatestLegacy)) || own.n.Load() != 0 || all.n.Load() != 0 {
		t.Error("a session of a closed store takes a place")
	}
}
