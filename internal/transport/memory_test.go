package transport

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// memoryEcho answers each request with its own params, except "never".
func memoryEcho(_ context.Context, in <-chan []byte, out func([]byte)) {
	for frame := range in {
		m, err := wire.Parse(frame)
		switch {
		case err != nil, m.Method == "never":
		case m.Method == "return":
			return
		case m.Method == "big":
			out(wire.AppendResult(nil, m.ID, wire.AppendString(nil, string(make([]byte, 1000)))))
		case m.IsRequest():
			out(wire.AppendResult(nil, m.ID, m.Params))
		default:
			out(frame)
		}
	}
}

func memoryRequest(id int64, method string) *Request {
	return &Request{ID: id, Method: method, Frame: wire.AppendRequest(nil, id, method, fmt.Append(nil, id))}
}

func TestMemoryCalls(t *testing.T) {
	got := make(chan Inbound, 1)
	c := OpenMemory(memoryEcho, Options{Inbound: func(in Inbound) { got <- in }, MaxMessage: 1000})
	var all sync.WaitGroup
	for id := range int64(50) {
		all.Go(func() {
			m, err := c.Call(t.Context(), memoryRequest(id, "echo"))
			if err != nil || string(m.Result) != fmt.Sprint(id) {
				t.Errorf("%d: %s, %v", id, m.Result, err)
			}
		})
	}
	all.Wait()
	if err := c.Send(t.Context(), wire.AppendNotification(nil, "n", nil)); err != nil {
		t.Error(err)
	}
	if in := <-got; in.Msg.Method != "n" {
		t.Errorf("%+v", in)
	}
	_, err := c.Call(t.Context(), memoryRequest(100, "big"))
	wantFault(t, err, fault.TooLarge, fault.Answered)
	if c.Info().Kind != Memory || c.Err() != nil {
		t.Errorf("%+v, %v", c.Info(), c.Err())
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = c.Call(t.Context(), memoryRequest(101, "echo"))
	wantFault(t, err, fault.Closed, fault.NotSent)
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestMemoryServerReturns(t *testing.T) {
	c := OpenMemory(memoryEcho, Options{Inbound: func(Inbound) {}})
	_, err := c.Call(t.Context(), memoryRequest(1, "return"))
	if f := wantFault(t, err, fault.Exited, fault.Unknown); f.Exit != cleanExit || f.Op != "return" {
		t.Errorf("%#v", f)
	}
	wait(t, "the end", c.Done())
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// All of the table's waiting, with exact times.
func TestMemoryDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := OpenMemory(memoryEcho, Options{Inbound: func(Inbound) {}})
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Call(ctx, memoryRequest(1, "never"))
		wantFault(t, err, fault.Deadline, fault.Unknown)
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("took %v", took)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("Close took time: %v", took)
		}
	})
}

func TestMemoryServerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := OpenMemory(func(context.Context, <-chan []byte, func([]byte)) { <-release }, Options{Inbound: func(Inbound) {}})
		var all sync.WaitGroup
		outcomes := make(chan fault.Outcome, 40)
		for id := range int64(40) {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Call(ctx, memoryRequest(id, "echo"))
				outcomes <- fault.From("", err).Outcome
			})
		}
		all.Wait()
		close(outcomes)
		sent := 0
		for o := range outcomes {
			if o == fault.Unknown {
				sent++
			}
		}
		if sent != cap(c.(*memoryConn).in) {
			t.Errorf("%d calls say that they were sent", sent)
		}
		begun := time.Now()
		wantFault(t, c.Close(t.Context()), fault.Wedged, fault.Unknown)
		if took := time.Since(begun); took != killWait {
			t.Errorf("Close took %v", took)
		}
		close(release)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestMemoryCloseMeetsCalls(t *testing.T) {
	for range 50 {
		c := OpenMemory(memoryEcho, Options{Inbound: func(Inbound) {}})
		var all sync.WaitGroup
		for id := range int64(8) {
			all.Go(func() {
				for c.Err() == nil {
					if _, err := c.Call(t.Context(), memoryRequest(id, "echo")); err != nil {
						if kind := fault.KindOf(err); kind != fault.Closed {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		if _, err := c.Call(t.Context(), memoryRequest(100, "echo")); err != nil {
			t.Error(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}

func TestMuxRefusesAnIDTwice(t *testing.T) {
	m := newLinkMux(Options{})
	w, f := m.register(&Request{ID: 1, Method: "a"})
	if f != nil {
		t.Fatal(f)
	}
	if _, f := m.register(&Request{ID: 1, Method: "b"}); f == nil || f.Kind != fault.Internal || f.Outcome != fault.NotSent {
		t.Errorf("got %v", f)
	}
	if _, answered := m.forget(1, w); answered {
		t.Error("nobody answered")
	}
}

// An answer that arrives while its caller gives up is not lost for the next
// user of the waiter.
func TestMuxAnswerMeetsCancel(t *testing.T) {
	m := newLinkMux(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for id := range int64(1000) {
		w, _ := m.register(&Request{ID: id, Method: "a"})
		go m.deliver(fmt.Appendf(nil, `{"id":%d,"result":%d}`, id, id)) // ends by itself
		msg, err := m.await(ctx, id, w)
		if err == nil && string(msg.Result) != fmt.Sprint(id) {
			t.Fatalf("call %d got the answer %s", id, msg.Result)
		}
	}
}

func BenchmarkMemoryCall(b *testing.B) {
	c := OpenMemory(memoryEcho, Options{Inbound: func(Inbound) {}})
	b.ReportAllocs()
	frame := wire.AppendRequest(nil, 1, "echo", nil)
	for b.Loop() {
		if _, err := c.Call(b.Context(), &Request{ID: 1, Method: "echo", Frame: frame}); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
