package slot

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/upstream"
)

// rounds of the random schedules; a round is a few minutes of fake time.
const rounds = 500

// dice is a source of chance for many goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func (d *dice) float() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64()
}

func (d *dice) one(in int) bool                    { return d.n(in) == 0 }
func (d *dice) upTo(t time.Duration) time.Duration { return time.Duration(d.n(int(t))) }

// Operations and faults in random order: at most one generation is alive, every
// call ends in time and runs at most once, generations never go down, and
// nothing is left behind.
func TestRandomSchedules(t *testing.T) {
	for round := range rounds {
		synctest.Test(t, func(t *testing.T) {
			r := &storm{t: t, dice: &dice{r: rand.New(rand.NewPCG(uint64(round), 7))}}
			r.run()
		})
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

type storm struct {
	*dice
	t    *testing.T
	srv  *server
	slot *Slot
	last atomic.Pointer[View]
	stop chan struct{}
	wg   sync.WaitGroup
}

func (r *storm) run() {
	r.srv = newServer("a", "b")
	r.srv.dial, r.srv.list, r.srv.call, r.srv.close = r.dial, r.list, r.call, r.shut
	r.stop = make(chan struct{})
	r.slot = New(Options{Server: r.spec(), Dial: r.srv.Dial, Rand: r.float, Published: r.check, Gen: 10})
	for range 6 {
		r.wg.Go(r.caller)
	}
	var actors sync.WaitGroup
	actors.Go(r.operator)
	actors.Go(r.killer)
	r.wg.Wait()
	close(r.stop)
	actors.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := r.slot.Close(ctx); err != nil {
		r.t.Error(err)
	}
	if n := r.srv.living(); n != 0 {
		r.t.Errorf("%d generations are left", n)
	}
	if c := r.slot.Counts(); c.Out != 0 || c.Waiting != 0 || r.slot.gate.admitted != 0 || r.slot.gate.queue.Len() != 0 {
		r.t.Errorf("left behind: %+v, %d inside", c, r.slot.gate.admitted)
	}
	if n := r.srv.peak(); n > 1 {
		r.t.Errorf("%d generations at the same time", n)
	}
}

func (r *storm) spec() config.Server {
	s := spec()
	s.Args = []string{fmt.Sprint(r.n(3))}
	s.Lazy = r.one(4)
	s.IdleTimeout = r.upTo(20 * second)
	s.MaxConcurrent = r.n(4)
	s.MaxWaiting = 1 + r.n(10)
	s.ParkFor = 1 + r.upTo(40*second)
	s.DrainTimeout = 1 + r.upTo(5*second)
	s.RefreshInterval = r.upTo(30 * second)
	s.StartupTimeout = second + r.upTo(10*second)
	return s
}

// check looks at each view, in order.
func (r *storm) check(v *View) {
	old := r.last.Swap(v)
	if old != nil && (v.State.Gen < old.State.Gen || old.State.Serving > v.State.Serving && v.State.Serving != 0) {
		r.t.Errorf("generations go down: %+v, then %+v", old.State, v.State)
	}
	if serving := v.State.Serving; (v.serving == nil) != (serving == 0) || v.serving != nil && v.serving.gen != serving {
		r.t.Errorf("the view's generation is not the serving one: %+v", v.State)
	}
	if v.State.Serving != 0 && v.Catalog == nil {
		r.t.Error("connected without a catalog")
	}
	if old != nil && old.Catalog != nil && v.Catalog == nil {
		r.t.Error("the last good catalog is gone")
	}
	if v.Next.IsZero() == v.State.RetryArmed() {
		r.t.Errorf("next attempt %v in %+v", v.Next, v.State)
	}
}

func (r *storm) dial(ctx context.Context, _ int) error {
	wait := r.upTo(3 * second)
	if r.one(10) {
		ctx = context.Background() // it does not notice that nobody wants it any more
	}
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	switch r.n(20) {
	case 0, 1, 2, 3, 4, 5, 6:
		return errRefused
	case 7:
		return fault.New(fault.Missing, "start", "no such command")
	case 8:
		return fault.New(fault.Unauthorized, "start", "401")
	case 9:
		return &fault.Fault{Kind: fault.RateLimited, RetryAfter: r.upTo(5 * second)}
	}
	return nil
}

func (r *storm) list(ctx context.Context, u *fake, _ int) (*catalogT, error) {
	if err := sleep(ctx, r.upTo(second)); err != nil {
		return nil, err
	}
	select {
	case <-u.done:
		return nil, errCut
	default:
	}
	switch r.n(12) {
	case 0, 1, 2:
		return nil, errTimeout
	case 3:
		return nil, &fault.Fault{Kind: fault.RateLimited, RetryAfter: r.upTo(5 * second)}
	case 4:
		return nil, errRPC
	case 5:
		u.hooks.Changed(catalog.Tools)
		return tools2catalog("a", "c"), nil
	case 6:
		return tools2catalog(), nil
	}
	return r.srv.catalog, nil
}

// call counts in Params how often it was executed.
func (r *storm) call(ctx context.Context, u *fake, c *upstream.Call) ([]byte, error) {
	select {
	case <-u.done:
		return nil, errDied
	case <-ctx.Done():
		c.Params[0]++
		return nil, ctx.Err()
	case <-time.After(r.upTo(2 * second)):
	}
	what := r.n(16)
	if what < 12 {
		c.Params[0]++
	}
	switch what {
	case 10:
		return nil, errCut
	case 11:
		u.end(errDied)
		return nil, errDied
	case 12:
		return nil, errSession
	case 13:
		return nil, errRefused
	case 14:
		return nil, &fault.Fault{Kind: fault.RateLimited, Outcome: fault.NotSent, RetryAfter: r.upTo(5 * second)}
	case 15:
		u.end(nil)
		return nil, &fault.Fault{Kind: fault.Closed, Outcome: fault.NotSent}
	}
	return []byte(`{}`), nil
}

func (r *storm) shut(ctx context.Context, _ *fake) error {
	_ = sleep(ctx, r.upTo(3*second))
	if r.one(5) {
		return fault.New(fault.Wedged, "close", "it would not die")
	}
	return nil
}

func (r *storm) caller() {
	for range 8 {
		limit := second/10 + r.upTo(20*second)
		replay := r.one(2)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		c := &upstream.Call{Method: "tools/call", Params: []byte{0}}
		begun := time.Now()
		_, err := r.slot.Call(ctx, c, replayIf(replay))
		if took := time.Since(begun); took > limit {
			r.t.Errorf("a call with %s took %s", limit, took)
		}
		cancel()
		r.judge(err, replay, int(c.Params[0]))
		time.Sleep(r.upTo(3 * second))
	}
}

// judge compares what a call says with what happened.
func (r *storm) judge(err error, replay bool, ran int) {
	f := fault.From("", err)
	switch {
	case ran > 1 && !replay:
		r.t.Errorf("a call that may not be repeated ran %d times", ran)
	case f == nil && ran == 0:
		r.t.Error("an answer from nowhere")
	case f != nil && f.Outcome == fault.NotSent && ran > 0:
		r.t.Errorf("said to be not sent, but ran %d times: %s", ran, describe(f))
	case f != nil && f.Kind == fault.Internal:
		r.t.Errorf("unclassified: %v", f)
	}
}

func (r *storm) operator() {
	ctx := context.Background()
	for {
		select {
		case <-r.stop:
			return
		case <-time.After(r.upTo(8 * second)):
		}
		switch r.n(8) {
		case 0:
			_ = r.slot.Disable(ctx)
			if r.slot.View().State.Want {
				r.t.Error("Disable returned early")
			}
			time.Sleep(r.upTo(3 * second))
			_ = r.slot.Enable(ctx)
		case 1, 2:
			_ = r.slot.Reconnect(ctx)
		case 3, 4:
			_ = r.slot.Apply(ctx, r.spec())
		case 5:
			_ = r.slot.Want(ctx, false)
			_ = r.slot.Want(ctx, true)
		default:
			_ = r.slot.Wake(ctx)
		}
	}
}

// killer ends links, and announces changes, whoever's they are.
func (r *storm) killer() {
	for {
		select {
		case <-r.stop:
			return
		case <-time.After(r.upTo(6 * second)):
		}
		var u *fake
		r.srv.with(func() {
			if n := len(r.srv.fakes); n > 0 {
				u = r.srv.fakes[r.n(n)]
				if !r.one(3) {
					u = r.srv.fakes[n-1]
				}
			}
		})
		if u == nil {
			continue
		}
		u.hooks.Changed(catalog.Kind(r.n(4)))
		switch r.n(4) {
		case 0:
			u.end(errDied)
		case 1:
			u.end(nil)
		}
	}
}
