package slot

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/fault"
)

// ready is a slot on the real clock whose server is up.
func ready(tb testing.TB) *Slot {
	tb.Helper()
	srv := newServer("a")
	s := New(Options{Server: spec(), Dial: srv.Dial})
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	l, err := s.Acquire(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	l.Release(nil)
	for v := s.View(); !v.State.Proven; v = s.View() {
		select {
		case <-v.Changed:
		case <-time.After(30 * time.Second):
			tb.Fatal("the good answer did not arrive")
		}
	}
	return s
}

func TestLeaseAllocations(t *testing.T) {
	s := ready(t)
	ctx := context.Background()
	n := testing.AllocsPerRun(1000, func() {
		l, _ := s.Acquire(ctx)
		l.Release(nil)
	})
	if n != 0 {
		t.Errorf("a lease costs %v allocations", n)
	}
}

// A notification holds its generation no longer than it takes, and none is waited for.
func TestNotificationsHoldTheirGeneration(t *testing.T) {
	s := ready(t)
	if err := s.Notify(t.Context(), "com.example/said", nil); err != nil {
		t.Error(err)
	}
	g := s.View().serving
	if left := g.word.Load(); left != 0 {
		t.Errorf("the generation is held behind it: %d", left)
	}
	g.refuse()
	if f := fault.From("", s.Notify(t.Context(), "com.example/said", nil)); f == nil || f.Outcome != fault.NotSent || f.Kind != fault.Unavailable {
		t.Errorf("a generation that ends: %v", f)
	}
}

// However leases and the end of a generation race, drained is told exactly when
// the last lease is back, and no lease is given after that.
func TestLeaseRace(t *testing.T) {
	for range 200 {
		g := newGeneration(context.Background(), "db", 1, spec(), new(ring), make(chan struct{}, 1))
		var out atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for g.lease() {
					out.Add(1)
					runtime.Gosched()
					out.Add(-1)
					g.release()
				}
			})
		}
		g.refuse()
		<-g.drained
		if n := out.Load(); n != 0 {
			t.Fatalf("drained with %d leases out", n)
		}
		wg.Wait()
		if g.lease() {
			t.Fatal("a generation that is ended gave a lease")
		}
		g.cancel()
	}
}

// A lease that is released twice would end the hold of another call. It panics,
// and says which server and generation.
func TestLeaseReleasedTwice(t *testing.T) {
	s := ready(t)
	hold := func() Lease {
		l, err := s.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	twice := func(what string, release func()) {
		t.Helper()
		defer func() {
			if got, want := fmt.Sprint(recover()), "bug: a lease on generation 1 of server db was released twice"; got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}()
		release()
	}
	other, lease := hold(), hold()
	lease.Release(nil)
	twice("while another is out", func() { lease.Release(nil) })
	if n := s.Counts().Out; n != 1 {
		t.Errorf("%d leases are out, want the other one", n)
	}
	other.Release(nil)
	last := hold()
	first := last
	last.Release(nil)
	twice("of a copy, with none out", func() { first.Release(nil) })
	s.View().serving.word.Add(2) // as if it had not happened: Close waits for all
}

func TestFeedback(t *testing.T) {
	var m feedback
	check := func(what string, good bool, strikes int) {
		t.Helper()
		if g, s := m.take(); g != good || s != strikes {
			t.Errorf("%s: good %v, %d strikes; want %v, %d", what, g, s, good, strikes)
		}
	}
	check("nothing", false, 0)
	if !m.good() || m.good() {
		t.Error("the first good answer wakes the loop, the second does not")
	}
	check("good", true, 0)
	if m.good() {
		t.Error("what the loop knows is not told again")
	}
	m.doubt()
	m.doubt()
	check("strikes", false, 2)
	if !m.good() {
		t.Error("a good answer after strikes is news")
	}
	m.doubt()
	check("good, then a strike", true, 1)
	m.doubt()
	m.good()
	check("a strike, then good", true, 0)
}

func BenchmarkLease(b *testing.B) {
	s := ready(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := s.Acquire(ctx)
		if err != nil {
			b.Fatal(err)
		}
		l.Release(nil)
	}
}

func BenchmarkLeaseParallel(b *testing.B) {
	s := ready(b)
	ctx := context.Background()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := s.Acquire(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			l.Release(nil)
		}
	})
}
