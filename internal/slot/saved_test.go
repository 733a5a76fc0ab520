package slot

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/upstream"
)

// savedRounds are the faults that calls_saved_total is held against.
const savedRounds = 60

// A plot is what happens to a server and to its calls, whatever becomes of them: its
// generations come up and end by the clock, and what a call meets is its own.
type plot struct {
	starts []start
	ends   []time.Duration // of whatever serves then
	calls  []plotted
}

type start struct {
	takes time.Duration
	fails bool
}

type plotted struct {
	at, takes, limit time.Duration
	replay           config.Replay
	first            error // of its first send
	answer           error // what the server answers; nil: a result
	isError          bool
	canceled         bool // its caller gives up at limit
}

func newPlot(seed uint64) plot {
	d := &dice{r: rand.New(rand.NewPCG(seed, 18))}
	var p plot
	const whole = 2 * time.Minute
	for range 200 {
		p.starts = append(p.starts, start{10*time.Millisecond + d.upTo(4*second), d.one(4)})
	}
	for range d.n(25) {
		p.ends = append(p.ends, d.upTo(whole))
	}
	for range 60 {
		c := plotted{at: d.upTo(whole), takes: d.upTo(2 * second), limit: second/2 + d.upTo(10*second), replay: replayIf(d.one(2)), canceled: d.one(10)}
		switch d.n(10) {
		case 0:
			c.first = errRefused
		case 1, 2:
			c.first = errCut
		}
		switch d.n(8) {
		case 0:
			c.answer = errRPC
		case 1:
			c.isError = true
		}
		p.calls = append(p.calls, c)
	}
	return p
}

// A run is what came of a plot.
type run struct {
	answered int
	results  [event.CallResults]uint64 // by the calls themselves
	counted  meter.Counts
}

// run plays the plot on a slot of which some features may be switched off.
func (p plot) run(t *testing.T, replays, waits bool) (r run) {
	if !replays {
		all := rules
		defer func() { rules = all }()
		for i := range rules {
			rules[i].then = giveUp
		}
	}
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("q")
		srv.dial = func(ctx context.Context, n int) error {
			if err := sleep(ctx, p.starts[n].takes); err != nil || !p.starts[n].fails {
				return err
			}
			return errRefused
		}
		var sent sync.Map
		srv.call = func(ctx context.Context, u *fake, c *upstream.Call) ([]byte, error) {
			var n int
			if _, err := fmt.Sscan(string(c.Params), &n); err != nil {
				t.Error(err)
			}
			call := &p.calls[n]
			_, again := sent.LoadOrStore(n, true)
			select {
			case <-time.After(call.takes):
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-u.done:
				return nil, errDied
			}
			if call.first != nil && !again {
				return nil, call.first
			}
			if call.isError {
				return []byte(`{"content":[],"isError":true}`), nil
			}
			return []byte(`{"content":[]}`), call.answer
		}
		o := Options{Server: spec(), Dial: srv.Dial, Rand: func() float64 { return 0.5 }, Meter: meter.New()}
		// What is sent again must not change when the next generation comes.
		o.Server.Retry.FirstDelay, o.Server.Retry.MaxDelay, o.Server.Retry.Strikes, o.Server.Retry.MaxStarts = 1, 1, 1000, 1000
		o.Server.RefreshInterval = 0
		if !waits {
			o.Server.MaxWaiting = -1 // 0 is the default
		}
		s := New(o)
		for _, at := range p.ends {
			time.AfterFunc(at, func() {
				srv.with(func() {
					if v := s.View(); v.serving != nil {
						v.serving.up.(*fake).end(errDied)
					}
				})
			})
		}
		var mu sync.Mutex
		var calls sync.WaitGroup
		for n, c := range p.calls {
			calls.Go(func() {
				time.Sleep(c.at)
				ctx, cancel := context.WithTimeout(context.Background(), c.limit)
				if c.canceled {
					ctx, cancel = context.WithCancel(context.Background())
					time.AfterFunc(c.limit, cancel)
				}
				defer cancel()
				_, err := s.Call(ctx, &upstream.Call{Method: "tools/call", Name: "q", Params: fmt.Append(nil, n)}, c.replay)
				mu.Lock()
				defer mu.Unlock()
				r.count(&c, err)
			})
		}
		calls.Wait()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		r.counted = o.Meter.Read()
	})
	return r
}

// count is what a client says of its call.
func (r *run) count(c *plotted, err error) {
	f := fault.From("", err)
	switch {
	case f == nil && c.isError:
		r.answered++
		r.results[event.CallToolError]++
	case f == nil:
		r.answered++
		r.results[event.CallAnswered]++
	case f.Kind == fault.RPC:
		r.answered++
		r.results[event.CallRPCError]++
	case f.Kind == fault.Canceled:
		r.results[event.CallCanceled]++
	case f.Outcome == fault.Unknown:
		r.results[event.CallUnknown]++
	case f.Kind == fault.Overloaded:
		r.results[event.CallRefused]++
	default:
		r.results[event.CallNotSent]++
	}
}

// The number of calls that were saved is what the same faults cost without replay and
// waiting; and each outcome is counted as often as it befell a client.
func TestSavedIsTheDifference(t *testing.T) {
	var replay, parking uint64
	for seed := range uint64(savedRounds) {
		p := newPlot(seed)
		all, without, neither := p.run(t, true, true), p.run(t, false, true), p.run(t, false, false)
		saved := all.counted.Saved
		replay, parking = replay+saved[event.ByReplay], parking+saved[event.ByParking]
		if lost := all.answered - without.answered; lost != int(saved[event.ByReplay]) {
			t.Errorf("seed %d: without replay %d calls more fail, and %d are said to be saved by it", seed, lost, saved[event.ByReplay])
		}
		if lost := all.answered - neither.answered; lost != int(saved[event.ByReplay]+saved[event.ByParking]) {
			t.Errorf("seed %d: without both %d calls more fail, and %v are said to be saved", seed, lost, saved[1:])
		}
		if n := neither.counted.Saved; n != [len(saved)]uint64{} {
			t.Errorf("seed %d: %v are saved by nothing", seed, n)
		}
		for _, r := range []run{all, without, neither} {
			if r.counted.Calls[0] != r.results {
				t.Errorf("seed %d: counted %v, and their callers say %v", seed, r.counted.Calls[0], r.results)
			}
		}
	}
	t.Logf("%d were saved by replay, %d by parking", replay, parking)
	if replay < savedRounds || parking < savedRounds {
		t.Error("the faults have no effect")
	}
}
