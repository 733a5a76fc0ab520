package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// core is what all parts of an upstream share: the link, how one request is put
// over it, and the end. It knows none of them. What the handshake finds out is
// final when Start returns.
type core struct {
	opts  Options
	link  *link
	era   Era
	hello hello

	ctx  context.Context // ends calls and work in progress: on Close, or when the server is wedged
	stop context.CancelFunc
	done chan struct{} // closed by end

	ids     atomic.Int64
	born    time.Time
	heard   atomic.Int64  // when the server was last heard, as nanoseconds since born
	spared  atomic.Int64  // until when the server asked to be left alone, likewise
	ignored atomic.Uint64 // messages that meant nothing: unknown notifications, late progress, requests that the era forbids

	work sync.WaitGroup // what spawn started

	// mu guards what follows. Nothing waits while it is held, no callback is
	// called, and no other lock is taken; the parts may hold theirs.
	mu     sync.Mutex
	closed bool
	ended  bool
	err    *fault.Fault
	unsent chan struct{} // nil until Close; closed once nothing is on its way any more
	sends  int           // on their way
}

// link is one opened transport. The handshake may use up two.
type link struct {
	conn  transport.Conn
	ready chan struct{} // closed once conn is set
}

func newCore(opts Options) *core {
	opts.Server = opts.Server.WithDefaults()
	c := &core{opts: opts, done: make(chan struct{}), born: time.Now()}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// now is the time since born.
func (c *core) now() time.Duration { return time.Since(c.born) }

// Done is closed when the upstream has ended: its link broke, the server lost
// the session or does not answer any more, or Close was called.
func (c *core) Done() <-chan struct{} { return c.done }

// Err is the *fault.Fault that ended the upstream; nil while it lives, and if
// Close ended it.
func (c *core) Err() error {
	if f := c.cause(); f != nil {
		return f
	}
	return nil
}

func (c *core) cause() *fault.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end records why the upstream ended, once.
func (c *core) end(f *fault.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if f != nil {
		c.err = f.At(c.opts.Server.Name, c.opts.Gen)
	}
	close(c.done)
}

// spawn runs f on a goroutine that Close waits for. It is false, and f does
// not run, once Close has begun.
func (c *core) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.work.Go(f)
	return true
}

// blame turns an error into a Fault that names this generation.
func (c *core) blame(op string, err error) *fault.Fault {
	f := fault.From(op, err).At(c.opts.Server.Name, c.opts.Gen)
	if f.Op == "" {
		f.Op = op
	}
	return f
}

// describe adds what is known here to what a transport knows.
func (c *core) describe(conn transport.Conn) transport.Info {
	l := conn.Info()
	l.Ignored = c.ignored.Load()
	return l
}

// hear notes a sign of life.
func (c *core) hear() { c.heard.Store(int64(c.now())) }

// spare notes how long the server asked to be left alone.
func (c *core) spare(f *fault.Fault) {
	c.spared.Store(int64(c.now() + f.RetryAfter))
}

func (c *core) pause(ctx context.Context, d time.Duration, op string) *fault.Fault {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return c.blame(op, ctx.Err())
	case <-c.done:
		return c.blame(op, fault.New(fault.Closed, op, "the connection ended"))
	}
}

// declares tells whether the server declared a capability. {} declares it,
// null does not.
func (c *core) declares(path ...string) bool {
	v := wire.Get(c.hello.capabilities, path...)
	return v != nil && !wire.IsNull(v)
}

func (c *core) declaresTools() bool { return c.declares("tools") }

func (c *core) announced(k catalog.Kind) {
	if c.opts.Announced != nil {
		c.opts.Announced(k)
	}
	c.changed(k)
}

func (c *core) changed(k catalog.Kind) {
	if c.opts.Changed != nil {
		c.opts.Changed(k)
	}
}

// encode makes the request of one call.
func (c *core) encode(call *Call, id int64) (*transport.Request, *fault.Fault) {
	params, f := c.hello.envelope.params(call, id)
	if f != nil {
		return nil, f
	}
	req := &transport.Request{ID: id, Method: call.Method, Name: call.Name}
	if c.era.Modern && len(call.Headers) > 0 {
		req.Header = headers(call)
	}
	if call.Span != nil {
		call.Span.Number = id
		if call.Span.Tells() && c.opts.Server.URL != "" { // what stands before a server may read headers alone
			own := call.Span.Own()
			req.Header = append(slices.Clip(req.Header), [2]string{mcp.MetaTraceParent, own.String()})
		}
	}
	req.Frame = wire.AppendRequest(wire.Room(len(params)+len(call.Method)+64), id, call.Method, params)
	return req, nil
}

// ask sends one request of our own, watched by nobody but ctx.
func (c *core) ask(ctx context.Context, method string, params []byte) (wire.Message, *fault.Fault) {
	req, f := c.encode(&Call{Method: method, Params: params}, c.ids.Add(1))
	if f != nil {
		return wire.Message{}, f
	}
	msg, err := c.link.conn.Call(ctx, req)
	if err != nil {
		return wire.Message{}, c.blame(method, err)
	}
	c.hear()
	return msg, nil
}

// rpcFault is a server's own error, which says nothing against the link.
func (c *core) rpcFault(op string, raw []byte) *fault.Fault {
	code, text, raw := wire.StrictError(raw)
	return &fault.Fault{
		Kind: fault.RPC, Op: op, Server: c.opts.Server.Name, Gen: c.opts.Gen, Outcome: fault.Answered,
		RPC: &fault.RPCError{Code: code, Message: text, Raw: raw},
	}
}

// cutOff is the failure of a call that ended because the upstream did.
func (c *core) cutOff(f *fault.Fault) *fault.Fault {
	out := *f
	out.Kind, out.Err = fault.Closed, errors.New("the connection was closed while the request was in flight")
	if cause := c.cause(); cause != nil {
		because(&out, cause)
	}
	return &out
}

// because makes cause, which ended the upstream, what f says.
func because(f, cause *fault.Fault) {
	f.Kind, f.Err = cause.Kind, cause.Cause()
	f.Status, f.Exit, f.Stderr, f.Remedy = cause.Status, cause.Exit, cause.Stderr, cause.Remedy
}

// lose ends the upstream because its session is gone. A transport with sessions
// does not send the id again.
func (c *core) lose(f *fault.Fault) {
	c.end(f)
	if conn, ok := c.link.conn.(interface{ Lost(*fault.Fault) }); ok {
		conn.Lost(f)
	}
}

// updated hands on what a server tells about a resource, or a task.
func (c *core) updated(uri string, params []byte) {
	if c.opts.Updated != nil {
		c.opts.Updated(uri, params)
	}
}

// over is the fault of a call on an upstream that has ended; nil before.
func (c *core) over(method string) *fault.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		return nil
	}
	f := &fault.Fault{Kind: fault.Closed, Op: method, Outcome: fault.NotSent, Server: c.opts.Server.Name, Gen: c.opts.Gen}
	if c.err != nil {
		because(f, c.err)
	}
	return f
}

// errorCode is the code of an error answer; 0 for a result.
func errorCode(m *wire.Message) int64 {
	if m.Error == nil {
		return 0
	}
	code, _ := wire.DecodeError(m.Error)
	return code
}
