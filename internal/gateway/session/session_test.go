package session

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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
		Lists: stream.NewListVersions(), Limit: func() int { return 100 }, Most: 100, Idle: 30 * time.Minute, SetLevel: func(string) {}, Forget: func(string) {}, PutAway: func(string) {}, Client: func(string) uint64 { return 0 },
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

// What a session has elsewhere stays if its client may come back, and only then.
func TestOnlyWhatIsOverForGoodIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore()
		defer st.Close()
		var said []string
		st.o.Forget = func(string) { said = append(said, "forgotten") }
		st.o.PutAway = func(string) { said = append(said, "put away") }
		is := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := strings.Join(said, ", "); got != want {
				t.Errorf("%s: %s", what, got)
			}
			said = nil
		}
		open := func(outlives bool) *Session {
			s := st.New(mcp.LatestLegacy)
			s.outlives = outlives
			if st.addAs(s, fmt.Sprint(s.client)) == nil {
				t.Fatal("full")
			}
			st.Unpin(s)
			return s
		}
		idle := func() { time.Sleep(st.o.Idle + time.Minute) }
		open(true)
		idle()
		is("idle, and kept", "put away")
		open(false)
		idle()
		is("idle, and not kept", "forgotten")
		st.Unpin(st.Named("a name"))
		idle()
		is("idle, with a name", "put away")
		st.evictIdlest()
		is("nobody", "")
		open(true)
		st.evictIdlest()
		is("no room", "put away")
		st.Leave(open(true))
		is("its stream has ended", "put away")
		s := open(true)
		st.Remove(s)
		st.Leave(s)
		is("ended by its client", "forgotten")
		s = st.New(mcp.LatestLegacy)
		s.End()
		is("a connection's", "forgotten")
	})
}

// A session that is back is the client that it was, hears where the one before it would,
// and has what it has elsewhere renewed until that is over, or the store ends.
func TestASessionThatIsBackIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStore()
		defer st.Close()
		first := st.Named("a name")
		st.Unpin(first)
		st.o.Client = func(owner string) uint64 {
			if owner != first.Owner() || owner != OwnerOfName("a name") {
				t.Errorf("%s is asked for, and not %s", owner, first.Owner())
			}
			return first.client
		}
		st.evictIdlest()
		if first.Outlet() != nil {
			t.Error("a session that was put away hears something")
		}
		second := st.Named("a name")
		if second == first || second.ID() != first.ID() {
			t.Error("the client is another one for servers")
		}
		second.Out()
		second.Standing.Attach()
		if first.Outlet() != Outlet(second.Out()) {
			t.Error("what is for the session before does not go to the one that is there")
		}
		var tries atomic.Int32
		began := time.Now()
		renewal := func(*Session) func(context.Context) bool {
			return func(context.Context) bool { return tries.Add(1) == 3 }
		}
		st.resubscribe(second, renewal)
		synctest.Wait()
		if tries.Load() != 1 {
			t.Errorf("%d attempts at once", tries.Load())
		}
		time.Sleep(time.Hour)
		if tries.Load() != 3 {
			t.Errorf("%d attempts in %v", tries.Load(), time.Since(began))
		}
		st.resubscribe(second, renewal) // never over: Close ends it
		st.Unpin(second)
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
