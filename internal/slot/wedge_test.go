package slot

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// whole runs a slot with real upstreams on a server in memory, in a bubble.
func whole(t *testing.T, story func(srv *mcptest.Server, s *Slot, t0 time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := mcptest.New(mcptest.Config{})
		dial := func(ctx context.Context, spec config.Server, gen uint64, h Hooks) (Upstream, error) {
			u, err := upstream.Start(ctx, upstream.Options{
				Server: spec, Gen: gen, Name: "everline", Version: "test", Changed: h.Changed, Stderr: h.Stderr,
				Open: func(_ context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
					return mcptest.OpenMemory(srv.ServeFrames, o), nil
				},
			})
			if err != nil {
				return nil, err
			}
			return u, nil
		}
		sp := spec()
		sp.RefreshInterval = 0
		s := New(Options{Server: sp, Dial: dial, Rand: func() float64 { return 0.5 }})
		synctest.Wait()
		if seen := s.View().Seen(); seen != "connected" {
			t.Fatalf("it is %s", seen)
		}
		story(srv, s, time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// workFor calls the tool that works for d, and gives up after limit.
func workFor(s *Slot, d, limit time.Duration) *fault.Fault {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	params := fmt.Appendf(nil, `{"name":"work","arguments":{"id":"x","ms":%d}}`, d.Milliseconds())
	_, err := s.Call(ctx, &upstream.Call{Method: "tools/call", Name: "work", Params: params}, config.ReplaySafe)
	return fault.From("", err)
}

// A server that hangs is replaced though its clients' deadlines are short, and
// every other call that it has ends as unknown at that moment.
func TestHungServerIsRecycledUnderShortDeadlines(t *testing.T) {
	whole(t, func(srv *mcptest.Server, s *Slot, t0 time.Time) {
		hang := func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} }
		srv.On("tools/call", hang)
		srv.On("ping", hang)
		var patient sync.WaitGroup
		for range 5 {
			patient.Go(func() {
				f := workFor(s, 0, 10*time.Minute)
				if f == nil || f.Kind != fault.Wedged || f.Outcome != fault.Unknown || time.Since(t0) != 31*second {
					t.Errorf("after %s: %s", time.Since(t0), describe(f))
				}
			})
		}
		if f := workFor(s, 0, second); f.Kind != fault.Deadline {
			t.Error(f)
		}
		patient.Wait()
		srv.On("tools/call", nil)
		srv.On("ping", nil)
		if f := workFor(s, 0, second); f != nil || time.Since(t0) != 31*second {
			t.Errorf("the next generation at %s: %s", time.Since(t0), describe(f))
		}
		if st := s.View().State; st.Gen != 2 {
			t.Errorf("generation %d", st.Gen)
		}
	})
}

// A busy server keeps its generation: for ten minutes of one call with other
// clients that give up after a second all the time, and also if it does one
// thing at a time, as long as it says something within three pings.
func TestBusyServerKeepsItsLife(t *testing.T) {
	for name, quiet := range map[string]time.Duration{"answers pings at once": 0, "one thing at a time": 25 * second} {
		t.Run(name, func(t *testing.T) {
			whole(t, func(srv *mcptest.Server, s *Slot, t0 time.Time) {
				srv.On("ping", func(*mcptest.Request) *mcptest.Reply {
					return &mcptest.Reply{Result: "{}", Delay: quiet}
				})
				done := make(chan *fault.Fault, 1)
				go func() { done <- workFor(s, 9*time.Minute+59*second, 10*time.Minute) }() // ends with its call
				for time.Since(t0) < 9*time.Minute {
					if f := workFor(s, time.Hour, second); f.Kind != fault.Deadline || f.Outcome != fault.Unknown {
						t.Fatalf("at %s: %s", time.Since(t0), describe(f))
					}
				}
				if f := <-done; f != nil || time.Since(t0) != 9*time.Minute+59*second {
					t.Errorf("at %s: %s", time.Since(t0), describe(f))
				}
				if st := s.View().State; st.Gen != 1 || st.CallStrikes != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A raised callTimeout holds immediately: the generation that is running does
// not know it.
func TestCallTimeoutIsTheNewestOne(t *testing.T) {
	whole(t, func(_ *mcptest.Server, s *Slot, t0 time.Time) {
		sp := spec()
		sp.CallTimeout, sp.RefreshInterval = 30*time.Minute, 0
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Apply(ctx, sp); err != nil {
			t.Fatal(err)
		}
		if f := workFor(s, 20*time.Minute, time.Hour); f != nil || s.View().State.Gen != 1 {
			t.Errorf("at %s: %s, generation %d", time.Since(t0), describe(f), s.View().State.Gen)
		}
		if f := workFor(s, time.Hour, 2*time.Hour); f == nil || f.Kind != fault.Deadline || time.Since(t0) != 50*time.Minute {
			t.Errorf("at %s: %s", time.Since(t0), describe(f))
		}
	})
}
