package fleet

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/mcptest"
)

// subscribers are n clients that want the same at once, each with its own
// patience; errs are what they are told, and took is how long the last waited.
func subscribers(f *Fleet, ctxs []context.Context, uri func(i int) string) (errs []error, took time.Duration) {
	begun := time.Now()
	errs = make([]error, len(ctxs))
	var all sync.WaitGroup
	for i, ctx := range ctxs {
		all.Go(func() { _, errs[i] = f.Subscribe(ctx, nil, "a", uri(i), func([]byte) {}) })
		synctest.Wait() // the first one is the first
	}
	all.Wait()
	return errs, time.Since(begun)
}

// TestFaultS19: a subscription that fails fails once for all who wait for it.
func TestFaultS19(t *testing.T) {
	const refusal = `{"code":-32602,"message":"no such resource"}`
	one := func(int) string { return "file:///r" }
	ten := func(ctx context.Context) []context.Context {
		ctxs := make([]context.Context, 10)
		for i := range ctxs {
			ctxs[i] = ctx //nolint:fatcontext // ten times the same one
		}
		return ctxs
	}
	run := func(name string, test func(t *testing.T, f *Fleet, s *mcptest.Server)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPark()
				s := p.add("a", mcptest.Config{Resources: []string{`{"uri":"file:///r","name":"r"}`}})
				f := start(t, configOf("a"), p.options())
				defer stop(t, f)
				test(t, f, s)
			})
		})
	}
	refuse := func(s *mcptest.Server) {
		s.On("resources/subscribe", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Delay: 500 * time.Millisecond, Error: refusal}
		})
	}
	run("one refusal for all", func(t *testing.T, f *Fleet, s *mcptest.Server) {
		refuse(s)
		errs, took := subscribers(f, ten(t.Context()), one)
		for i, err := range errs {
			if err == nil {
				t.Errorf("client %d has a subscription", i)
			}
		}
		if n := s.Count("resources/subscribe"); n != 1 || took != 500*time.Millisecond {
			t.Errorf("%d requests in %v", n, took)
		}
		if _, err := f.Subscribe(t.Context(), nil, "a", "file:///r", func([]byte) {}); err == nil || s.Count("resources/subscribe") != 2 {
			t.Errorf("who comes later asks anew: %v, %d requests", err, s.Count("resources/subscribe"))
		}
	})
	run("other resources are asked for by themselves", func(t *testing.T, f *Fleet, s *mcptest.Server) {
		refuse(s)
		_, took := subscribers(f, ten(t.Context()), func(i int) string { return "file:///" + strconv.Itoa(i%2) })
		if n := s.Count("resources/subscribe"); n != 2 || took != 500*time.Millisecond {
			t.Errorf("%d requests in %v", n, took)
		}
	})
	run("who gives up fails alone", func(t *testing.T, f *Fleet, s *mcptest.Server) {
		s.On("resources/subscribe", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Delay: 500 * time.Millisecond, Result: `{}`}
		})
		ctxs := ten(t.Context())
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		ctxs[0] = short
		errs, took := subscribers(f, ctxs, one)
		for i, err := range errs {
			if (err != nil) != (i == 0) {
				t.Errorf("client %d: %v", i, err)
			}
		}
		if n := s.Count("resources/subscribe"); n != 2 || took != 600*time.Millisecond {
			t.Errorf("%d requests in %v", n, took)
		}
	})
	run("a failed end is no failed beginning", func(t *testing.T, f *Fleet, s *mcptest.Server) {
		s.On("resources/unsubscribe", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Delay: 500 * time.Millisecond, Error: refusal}
		})
		end, err := f.Subscribe(t.Context(), nil, "a", "file:///r", func([]byte) {})
		if err != nil {
			t.Fatal(err)
		}
		end()
		synctest.Wait() // it is being taken back
		if _, err := f.Subscribe(t.Context(), nil, "a", "file:///r", func([]byte) {}); err != nil || s.Count("resources/subscribe") != 2 {
			t.Errorf("%v, %d requests", err, s.Count("resources/subscribe"))
		}
	})
}
