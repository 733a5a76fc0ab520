package fleet

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
	"github.com/everline/everline/internal/upstream"
)

// alive counts the members of which something lives or is to live.
func alive(f *Fleet) (n int) {
	for _, v := range f.Views() {
		if v.State.Want || v.State.Serving != 0 || v.State.Trying != 0 {
			n++
		}
	}
	return n
}

// Nothing is started by a change of the configuration that comes after the
// end, or at the same time.
func TestNothingIsStartedBehindTheEnd(t *testing.T) {
	for round := range 40 {
		synctest.Test(t, func(t *testing.T) {
			p := newPark()
			p.add("a", mcptest.Config{})
			var more []string
			for i := range 20 {
				more = append(more, fmt.Sprint("s", i))
				p.add(more[i], mcptest.Config{})
			}
			f := start(t, configOf("a"), p.options())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = f.Apply(ctx, configOf(more...)) })
			for range 1 + round%2 {
				wg.Go(func() {
					if err := f.Close(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := alive(f); n > 0 {
				t.Errorf("round %d: %d servers live on", round, n)
			}
			if _, err := f.Apply(ctx, configOf("a", "s1")); fault.KindOf(err) != fault.Closed {
				t.Errorf("a change after the end: %v", err)
			}
			if n := alive(f); n > 0 {
				t.Errorf("round %d: %d servers were started after the end", round, n)
			}
			stop(t, f)
		})
	}
}

// Close takes no longer than its caller allows, a removed server that drains
// included, and says what did not stop in order.
func TestCloseIsBoundedWhileARemovedServerDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		a := p.add("a", mcptest.Config{Tools: []string{tool("send", "")}})
		a.On("tools/call", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Hang: true} })
		cfg := configOf("a")
		cfg.Servers[0].DrainTimeout = 5 * time.Minute
		f := start(t, cfg, p.options())
		s, _, _ := f.At(t.Context(), "a", nil)
		go func() {
			_, _ = s.Call(t.Context(), &upstream.Call{Method: "tools/call", Name: "send", Params: []byte(`{"name":"send"}`)}, config.ReplayNever)
		}()
		synctest.Wait()
		if _, err := f.Apply(t.Context(), configOf()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		err := f.Close(ctx)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		if err != nil { // half of the time was for the call
			t.Errorf("it could be ended in that time: %v", err)
		}
	})
}

// A change of the configuration that goes on, such as one that waits for a disk,
// keeps no server alive; Close says that it was there.
func TestCloseEndsServersBesideAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("send", "")}})
		f := start(t, configOf("a"), p.options())
		leave, err := f.enter(t.Context(), "apply")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- f.Close(ctx) }() // ends with ctx
		time.Sleep(time.Second)
		if got := f.Slot("a").View().State.Serving; got != 0 {
			t.Errorf("a second later generation %d serves", got)
		}
		if err := <-closed; fault.KindOf(err) != fault.Closed {
			t.Errorf("Close says %v", err)
		}
		leave()
	})
}

// A server that was removed and comes back goes on counting its generations.
func TestGenerationsOutliveARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("send", "")}})
		f := start(t, configOf("a"), p.options())
		defer stop(t, f)
		for want := uint64(1); want < 4; want++ {
			if gen := f.Slot("a").View().State.Gen; gen != want {
				t.Errorf("generation %d, want %d", gen, want)
			}
			for _, cfg := range []*config.Config{configOf(), configOf("a")} {
				if _, err := f.Apply(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
		}
	})
}
