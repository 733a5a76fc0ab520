package mcptest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// A ServeFunc is a server inside this process. It reads frames from in until
// that is closed or ctx ends, and writes with out, which many goroutines may
// call, and which copies the frame. When it returns, the link has ended.
type ServeFunc func(ctx context.Context, input <-chan []byte, out func(frame []byte))

// returnWait bounds the wait for a server whose input was closed.
const returnWait = 2 * time.Second

// A memoryConn is a pipe to a server in this process. One goroutine: the
// server's own.
type memoryConn struct {
	max     int64
	started time.Time
	mux     *transport.Mux

	cancel    context.CancelFunc // of the server's context
	input     chan []byte
	lock      chan struct{} // room for one: the owner may send to in, or close it
	closeOnce sync.Once
	returned  chan struct{} // closed when the server has returned
}

// OpenMemory starts serve in a goroutine of its own and connects to it.
func OpenMemory(serve ServeFunc, opt transport.Options) transport.Conn {
	ctx, cancel := context.WithCancel(context.Background())
	c := &memoryConn{
		max: opt.MaxMessage, started: time.Now(), mux: transport.NewMux(opt), cancel: cancel,
		input: make(chan []byte, 16), lock: make(chan struct{}, 1), returned: make(chan struct{}),
	}
	if c.max <= 0 {
		c.max = transport.DefaultMaxMessage
	}
	go c.run(ctx, serve) // ends when serve returns, which Close waits for
	return c
}

func (c *memoryConn) run(ctx context.Context, serve ServeFunc) {
	defer close(c.returned)
	defer c.cancel()
	serve(ctx, c.input, func(frame []byte) {
		if int64(len(frame)) <= c.max {
			c.mux.Deliver(bytes.Clone(frame))
			return
		}
		c.tooLarge(frame)
	})
	c.mux.End(&fault.Fault{Kind: fault.Exited, Exit: transport.CleanExit, Err: errors.New("the server returned")})
}

func (c *memoryConn) tooLarge(frame []byte) {
	msg, err := wire.Parse(frame)
	id, ok := wire.ParseID(msg.ID)
	answered := err == nil && ok && msg.IsResponse() &&
		c.mux.Fail(id, func(op string) *fault.Fault { return transport.TooLargeAnswer(op, int64(len(frame)), c.max) })
	if !answered {
		c.mux.AddNoise(frame)
	}
}

// Call implements Conn.
func (c *memoryConn) Call(ctx context.Context, r *transport.Request) (wire.Message, error) {
	w, f := c.mux.Register(r)
	if f != nil {
		return wire.Message{}, f
	}
	if f := c.write(ctx, r.Method, r.Frame); f != nil {
		c.mux.Forget(r.ID, w)
		return wire.Message{}, f
	}
	return c.mux.Await(ctx, r.ID, w)
}

// Send implements Conn.
func (c *memoryConn) Send(ctx context.Context, frame []byte) error {
	c.mux.SendingOneWay()
	if f := c.write(ctx, "send", frame); f != nil {
		return f
	}
	return nil
}

func (c *memoryConn) write(ctx context.Context, op string, frame []byte) *fault.Fault {
	if err := ctx.Err(); err != nil {
		return transport.GaveUp(op, err)
	}
	if int64(len(frame)) > c.max {
		return transport.TooLargeToSend(op, len(frame), c.max)
	}
	select {
	case c.lock <- struct{}{}:
		defer func() { <-c.lock }()
	case <-ctx.Done():
		return transport.GaveUp(op, ctx.Err())
	case <-c.mux.Done():
		return c.mux.Gone(op, fault.NotSent)
	}
	select {
	case <-c.mux.Done(): // and in perhaps too
		return c.mux.Gone(op, fault.NotSent)
	default:
	}
	select {
	case c.input <- bytes.Clone(frame):
		return nil
	case <-ctx.Done():
		return transport.GaveUp(op, ctx.Err())
	case <-c.mux.Done():
		return c.mux.Gone(op, fault.NotSent)
	}
}

// Agree implements Conn; it has nothing to do.
func (c *memoryConn) Agree(string, bool) {}

// Relisten implements Conn: nothing is ever received from it.
func (c *memoryConn) Relisten() <-chan struct{} { return nil }

func (c *memoryConn) Done() <-chan struct{} { return c.mux.Done() }

func (c *memoryConn) Err() error { return c.mux.Err() }

func (c *memoryConn) Info() transport.Info {
	return c.mux.Counts(transport.Info{Kind: transport.Memory, Started: c.started})
}

// Close implements Conn: it closes the server's input, then ends its context,
// and waits for it to return as long as ctx and returnWait allow.
func (c *memoryConn) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		c.mux.End(nil)
		c.lock <- struct{}{} // whoever has it was freed by end
		close(c.input)
		<-c.lock
		c.cancel()
	})
	limit := time.NewTimer(returnWait)
	defer limit.Stop()
	select {
	case <-c.returned:
		return nil
	case <-ctx.Done():
	case <-limit.C:
	}
	select {
	case <-c.returned:
		return nil
	default:
		return fault.New(fault.Wedged, "close", "the server in memory would not return")
	}
}
