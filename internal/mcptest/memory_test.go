package mcptest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// memoryEcho answers each request with its own params, except "never".
func memoryEcho(_ context.Context, input <-chan []byte, out func([]byte)) {
	for frame := range input {
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

func memoryRequest(id int64, method string) *transport.Request {
	return &transport.Request{ID: id, Method: method, Frame: wire.AppendRequest(nil, id, method, fmt.Append(nil, id))}
}

func TestMemoryCalls(t *testing.T) {
	got := make(chan transport.Inbound, 1)
	c := OpenMemory(memoryEcho, transport.Options{Inbound: func(message transport.Inbound) { got <- message }, MaxMessage: 1000})
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
	if message := <-got; message.Msg.Method != "n" {
		t.Errorf("%+v", message)
	}
	_, err := c.Call(t.Context(), memoryRequest(100, "big"))
	wantFault(t, err, fault.TooLarge, fault.Answered)
	if c.Info().Kind != transport.Memory || c.Err() != nil {
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
	c := OpenMemory(memoryEcho, transport.Options{Inbound: func(transport.Inbound) {}})
	_, err := c.Call(t.Context(), memoryRequest(1, "return"))
	if f := wantFault(t, err, fault.Exited, fault.Unknown); f.Exit != transport.CleanExit || f.Op != "return" {
		t.Errorf("%#v", f)
	}
	<-c.Done()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// All of the table's waiting, with exact times.
func TestMemoryDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := OpenMemory(memoryEcho, transport.Options{Inbound: func(transport.Inbound) {}})
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
		c := OpenMemory(func(context.Context, <-chan []byte, func([]byte)) { <-release }, transport.Options{Inbound: func(transport.Inbound) {}})
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
		if sent != cap(c.(*memoryConn).input) {
			t.Errorf("%d calls say that they were sent", sent)
		}
		begun := time.Now()
		wantFault(t, c.Close(t.Context()), fault.Wedged, fault.Unknown)
		if took := time.Since(begun); took != returnWait {
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
		c := OpenMemory(memoryEcho, transport.Options{Inbound: func(transport.Inbound) {}})
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

func BenchmarkMemoryCall(b *testing.B) {
	c := OpenMemory(memoryEcho, transport.Options{Inbound: func(transport.Inbound) {}})
	b.ReportAllocs()
	frame := wire.AppendRequest(nil, 1, "echo", nil)
	for b.Loop() {
		if _, err := c.Call(b.Context(), &transport.Request{ID: 1, Method: "echo", Frame: frame}); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// wantFault checks kind and outcome of an error and returns it.
func wantFault(t *testing.T, err error, kind fault.Kind, outcome fault.Outcome) *fault.Fault {
	t.Helper()
	f := fault.From("", err)
	if f == nil || f.Kind != kind || f.Outcome != outcome {
		t.Fatalf("got %v, want %v, %v", err, kind, outcome)
	}
	return f
}
