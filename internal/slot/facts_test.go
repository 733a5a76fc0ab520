package slot

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// Each call has its facts once, and the counters say the same.
func TestFactsOfCalls(t *testing.T) {
	srv := newServer("q")
	var dies, isError bool
	srv.call = func(ctx context.Context, u *fake, _ *upstream.Call) ([]byte, error) {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
		switch {
		case dies:
			dies = false
			u.end(errDied)
			return nil, errCut
		case isError:
			return []byte(`{"content":[],"isError":true}`), nil
		}
		return []byte(`{"content":[{"isError":true}]}`), nil
	}
	var facts []event.CallFacts
	o := Options{Meter: meter.New(), Observe: func(f event.CallFacts) { facts = append(facts, f) }}
	play(t, o, srv, 0.5, func(b *bench) {
		call := func(ctx context.Context, replay config.Replay) event.CallFacts {
			t.Helper()
			was := len(facts)
			_, _ = b.Call(ctx, &upstream.Call{Method: "tools/call", Name: "q", Params: []byte(`{}`)}, replay)
			synctest.Wait()
			if len(facts) != was+1 {
				t.Fatalf("%d facts of one call", len(facts)-was)
			}
			return facts[was]
		}
		want := func(what string, got, want event.CallFacts) {
			t.Helper()
			want.Server, want.Method, want.Name, want.ParamBytes = got.Server, "tools/call", "q", 2
			got.Began = time.Time{}
			if got != want {
				t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
			}
		}
		minute := b.within(time.Minute)
		const ten = 10 * time.Millisecond
		want("a good one", call(minute, config.ReplayNever), event.CallFacts{Gen: 1, FirstGen: 1, Took: ten, Upstream: ten, Sends: 1, Bytes: 30})
		isError = true
		want("a tool's error", call(minute, config.ReplayNever), event.CallFacts{Gen: 1, FirstGen: 1, Result: event.CallToolError, Took: ten, Upstream: ten, Sends: 1, Bytes: 29})
		isError, dies = false, true
		got := call(minute, config.ReplayAlways)
		if got.Saved != event.ByReplay || got.Sends != 2 || got.FirstGen != 1 || got.Gen != 2 || got.Upstream != 2*ten || got.Result != event.CallAnswered {
			t.Errorf("sent again: %+v", got)
		}
		dies = true
		if got = call(minute, config.ReplayNever); got.Result != event.CallUnknown || got.Kind != fault.Broken {
			t.Errorf("unknown: %+v", got)
		}
		short, cancel := context.WithTimeout(context.Background(), ten/2)
		defer cancel()
		if got = call(short, config.ReplayNever); got.Kind != fault.Deadline {
			t.Errorf("late: %+v", got)
		}
		n := b.Counts()
		if n.Results != [event.CallResults]uint64{event.CallAnswered: 2, event.CallToolError: 1, event.CallUnknown: 2} || n.Saved != 1 || n.Repeated != 1 || n.Starts != 3 {
			t.Errorf("%+v", n)
		}
		c := o.Meter.Read()
		if c.Losses[fault.Exited]+c.Losses[fault.Broken] != 2 || c.Starts[meter.First] != 1 || c.Repeated[fault.Broken] != 1 || c.StartTimes.Count() != 3 {
			t.Errorf("%+v", c)
		}
	})
}

// What is counted on connections is counted over all of them, each thing once.
func TestLinksAreCountedOverGenerations(t *testing.T) {
	srv := newServer("q")
	o := Options{Meter: meter.New()}
	play(t, o, srv, 0.5, func(b *bench) {
		var links [2]atomic.Pointer[transport.Info]
		for i := range links {
			links[i].Store(&transport.Info{})
			gen := uint64(i + 1)
			for b.View().State.Serving != gen {
				time.Sleep(second)
			}
			srv.fake(i + 1).hooks.Linked(func() transport.Info { return *links[i].Load() })
			links[i].Store(&transport.Info{Noise: 1, StderrBytes: 100})
			b.CountLinks()
			b.CountLinks()
			if i == 0 {
				links[0].Store(&transport.Info{Noise: 3, Ignored: 1, LateAnswers: 2, StderrBytes: 150, CPU: second})
				srv.fake(1).end(errDied) // nobody looks between that and its end
			}
		}
		b.CountLinks()
		if got, want := o.Meter.Read().Links, (meter.Link{Late: 2, Noise: 4, Ignored: 1, Stderr: 250, CPU: second}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A call that comes while the server is away is parked, and saved by that; one
// that starts a lazy server is neither.
func TestParkedCallsAreSaved(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		srv := newServer("q")
		srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, second) }
		o := Options{Meter: meter.New(), Server: spec()}
		o.Server.Lazy, o.Server.IdleTimeout, o.Server.RefreshInterval = lazy, time.Minute, 0
		play(t, o, srv, 0.5, func(b *bench) {
			if lazy {
				b.at(time.Hour)
			} else {
				b.at(5 * second)
				srv.fake(1).end(errDied)
				synctest.Wait()
			}
			if f, _ := b.callNow(false); f != nil {
				t.Fatal(f)
			}
			want := uint64(1)
			if lazy {
				want = 0
			}
			if c := o.Meter.Read(); c.Parked[meter.Served] != want || c.Saved[event.ByParking] != want || c.Park.Count() != want || c.Recovered.Count() != want {
				t.Errorf("lazy %v: %d parked, %d saved", lazy, c.Parked, c.Saved)
			}
			if !lazy && o.Meter.Outages() != 2*second { // its first start, and the loss
				t.Errorf("away for %s", o.Meter.Outages())
			}
		})
	}
}
