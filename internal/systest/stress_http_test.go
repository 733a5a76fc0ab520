package systest

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcptest"
)

// stressFor is how long the stress tests run; make long NAME=stress gives them a minute.
var stressFor = flag.Duration("stress", 3*time.Second, "how long each stress test runs")

const (
	lossEvery     = 300 * time.Millisecond
	stressCallers = 50
)

// lose calls one loss after the other until ctx ends, and returns the sum of
// what they returned.
func lose(ctx context.Context, loss func() int) (sum int) {
	tick := time.NewTicker(lossEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			sum += loss()
		case <-ctx.Done():
			return sum
		}
	}
}

// once is one call, within soon.
func once(hub *everline.Hub, name, arguments string) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	params := fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)
	_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: name, Params: []byte(params)})
	return err
}

// Fifty callers of a server that forgets its sessions again and again: no call
// fails, none runs twice, each loss costs one initialize, and nothing is left
// behind on the server.
func TestStressLostSessions(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
	ready(t, hub, "a", 0)
	ctx, cancel := context.WithTimeout(context.Background(), *stressFor)
	defer cancel()
	var callers sync.WaitGroup
	var calls atomic.Int64
	for range stressCallers {
		callers.Go(func() {
			for ctx.Err() == nil {
				id := fmt.Sprintf("n%d", calls.Add(1))
				if err := once(hub, "work", `{"id":"`+id+`","ms":5}`); err != nil {
					t.Errorf("call %s: %v", id, err)
				}
				if n := s.Executions(id); n != 1 {
					t.Errorf("call %s ran %d times", id, n)
				}
			}
		})
	}
	// A session is lost once every caller has had an answer on it: a machine
	// that cannot make one in time is not what is tested.
	var next int64
	lost := lose(ctx, func() int {
		if calls.Load() < next {
			return 0
		}
		next = calls.Load() + 2*stressCallers
		return s.DropSessions()
	})
	callers.Wait()
	together(t, hub, 1, "after the last loss", s)
	if err := hub.Close(within(t)); err != nil {
		t.Error(err)
	}
	if n := s.Count("initialize"); n != 1+lost {
		t.Errorf("%d initializes for %d lost sessions", n, lost)
	}
	if n := s.Sessions(); n != 0 {
		t.Errorf("%d sessions are left on the server", n)
	}
	t.Logf("%d calls, %d lost sessions", calls.Load(), lost)
}
