// Package stdio runs servers as child processes and speaks with them over their
// standard streams. It owns the process and what it starts: none outlives its
// link. It knows nothing of when a server is to be started, or started again.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/cgroup"
	"github.com/everline/everline/internal/sandbox"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// A Spec says how to start a server that speaks over its standard streams.
type Spec struct {
	Command string   // a path, or a name to look for in PATH
	Args    []string // without the command itself
	// Env is the complete environment, KEY=VALUE; nil: BaseEnv(nil). Its PATH
	// is also where Command is looked for; without one, our own PATH is.
	Env []string
	Dir string // the folder to start in; "": ours
	// CloseWait is how long Close waits after closing stdin before it sends
	// SIGTERM. 0: 500 ms.
	CloseWait time.Duration
	// StopGrace is how long Close waits after SIGTERM before SIGKILL. 0: 1.5 s.
	StopGrace time.Duration
	// Limits are what the process, and what it starts, may use. Where they
	// cannot be had, Info.Notices says why.
	Limits cgroup.Limits
	// Sandbox is what the process, and what it starts, may do; nil: everything that
	// the user may. Where that cannot be enforced, Info.Notices says so, and with
	// SandboxRequired it is a fault of kind Invalid.
	Sandbox         *sandbox.Rules
	SandboxRequired bool
	// Privileges lets the process gain some by what it starts, as sudo does.
	Privileges bool
	// Spares has a shim ready; nil: one is started when it is needed.
	Spares *Spares
	// WriteStall is how long the process may read nothing of a message before
	// it counts as wedged. 0: 10 s.
	WriteStall time.Duration

	cgroups cgroupRoot // where limits can be set; nil: the system's
	plain   bool       // without a shim, even where there could be one
}

const (
	// drainWait bounds the wait for what a dead process left in its pipes.
	drainWait = 100 * time.Millisecond
	// exitWait bounds the wait for the exit that mostly follows the end of a
	// stream at once, on a busy machine a little later: the exit says more.
	exitWait = time.Second
)

func (s Spec) withDefaults() Spec {
	if s.Env == nil {
		s.Env = BaseEnv(nil)
	}
	orDefault := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	orDefault(&s.CloseWait, 500*time.Millisecond)
	orDefault(&s.StopGrace, 1500*time.Millisecond)
	orDefault(&s.WriteStall, 10*time.Second)
	return s
}

// A conn is a child process and the three pipes to it. Long-lived
// goroutines: one each that reads stdout, reads stderr, feeds the stderr sink
// if there is one, waits for the process, and supervises. They end with the
// process or with Close, and stopped closes after them.
type conn struct {
	spec     Spec
	path     string // of the program that was started
	max      int64
	started  time.Time
	mux      *transport.Mux
	injector *transport.Injector
	proc     *procChild
	group    *cgroup.Group // nil without limits
	writer   *lineWriter
	out      io.Reader    // stdout, behind injected if there is an injector
	injected *injectedOut // nil without one
	stderr   *stderrDrain

	stdin, stdout, errout *os.File // our ends
	notices               []string // what could not be had; set by start

	read    chan struct{} // closed when stdout has ended
	readErr error         // valid then; nil at EOF

	failed chan *fault.Fault // room for one: the first complaint about stdin

	closeOnce, forceOnce sync.Once
	closing              chan struct{} // closed by Close
	forced               chan struct{} // closed when Close may wait no longer
	stopped              chan struct{} // closed when all is over
	stopErr              *fault.Fault  // valid then
}

// Open starts a server. ctx bounds nothing but the start itself; Close
// ends the process. Errors: Missing (the command or the folder does not
// exist), Spawn, and ctx's; the outcome is always NotSent. A process that dies
// right after its start is no error here: Done closes, and Err says why.
func Open(ctx context.Context, spec Spec, opt transport.Options) (transport.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, transport.GaveUp(opStart, err)
	}
	spec = spec.withDefaults()
	c := &conn{
		spec: spec, max: opt.MaxMessage, mux: transport.NewMux(opt), injector: opt.Injector, stderr: newStderrDrain(opt.Stderr),
		read: make(chan struct{}), failed: make(chan *fault.Fault, 1),
		closing: make(chan struct{}), forced: make(chan struct{}), stopped: make(chan struct{}),
	}
	if c.max <= 0 {
		c.max = transport.DefaultMaxMessage
	}
	if f := c.start(); f != nil {
		return nil, f
	}
	if opt.Spawned != nil {
		opt.Spawned(c.proc.pid)
	}
	c.stderr.start(c.errout)
	c.output()
	c.injector.Join(c)
	go c.readAll()   // ends when stdout does, or supervise closes it
	go c.supervise() // ends after the process or Close; closes stopped
	return c, nil
}

const opStart = "start"

// start looks the command up, makes the pipes and starts the process.
func (c *conn) start() *fault.Fault {
	cmd, f := command(c.spec)
	if f != nil {
		return f
	}
	c.path = cmd.Path
	if f := c.confine(cmd); f != nil {
		return f
	}
	if err := c.spawn(cmd); err != nil {
		return startFault(cmd.Path, err)
	}
	c.stdin, c.stdout, c.errout = c.proc.ours.stdin, c.proc.ours.stdout, c.proc.ours.stderr
	c.writer = newLineWriter(c.stdin, c.mux.Done(), c.spec.WriteStall)
	c.writer.onWait = func() {
		c.fail(fault.New(fault.Wedged, "", fmt.Sprintf("the server has not read its stdin for %v", c.spec.WriteStall)))
	}
	c.writer.onFail = func(err error) {
		c.fail(&fault.Fault{Kind: fault.Broken, Err: fmt.Errorf("writing to the server's stdin: %w", err)})
	}
	return nil
}

// spawn starts the process, within its limits.
func (c *conn) spawn(cmd *exec.Cmd) error {
	s := procSpec{cmd: cmd, grace: c.spec.StopGrace, plain: c.spec.plain, spares: c.spec.Spares, privileges: c.spec.Privileges}
	c.limit(&s)
	c.started = time.Now()
	var err error
	if c.proc, err = procStart(s); err != nil {
		c.endGroup()
		return err
	}
	c.notice(c.proc.notice)
	return nil
}

// fail ends the link because of its stdin.
func (c *conn) fail(f *fault.Fault) {
	select {
	case c.failed <- f:
	default: // there is a reason already
	}
}

func (c *conn) readAll() {
	defer close(c.read)
	r := newLineReader(c.out, c.max, c.mux)
	r.widen = func() { procWiden(c.stdout) }
	c.readErr = r.run()
}

// supervise waits for the first reason to end the link, ends it, and then makes
// sure that nothing of the process is left.
func (c *conn) supervise() {
	defer close(c.stopped)
	c.mux.End(c.watch())
	c.injector.Leave(c)
	_ = c.stdin.Close() // also frees whoever writes; its end is the message
	if closed(c.read) { // nobody drains stdout: the child must not hang in a write
		_ = c.stdout.Close()
	}
	stopped := c.proc.stop(c.spec.CloseWait, c.spec.StopGrace, c.forced)
	if !c.endGroup() || !stopped {
		c.stopErr = fault.New(fault.Wedged, "close", fmt.Sprintf("process %d, or what it started, would not stop", c.proc.pid))
	}
	within(drainWait, c.read, c.stderr.done)
	_ = errors.Join(c.stdout.Close(), c.errout.Close()) // who escaped the group may hold the other ends
	<-c.read
	<-c.stderr.done
	within(drainWait, c.stderr.fed)
}

// within waits until all channels are closed, but no longer than d.
func within(d time.Duration, all ...<-chan struct{}) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	for _, ch := range all {
		select {
		case <-ch:
		case <-limit.C:
			return false
		}
	}
	return true
}

// watch returns why the link ends, once it does; nil for Close.
func (c *conn) watch() *fault.Fault {
	var cause *fault.Fault
	select {
	case <-c.closing:
	case <-c.proc.exited:
	case <-c.read:
		cause = c.stdoutEnded()
	case cause = <-c.failed:
	}
	mayHaveExited := cause == nil || cause.Kind == fault.Exited || cause.Kind == fault.Broken
	switch {
	case closed(c.closing):
		return nil
	case mayHaveExited && within(exitWait, c.proc.exited):
		return c.exited()
	}
	cause.Stderr = c.stderr.tail.tail()
	return cause
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// stdoutEnded is the cause if the process does not end at once as well.
func (c *conn) stdoutEnded() *fault.Fault {
	var f *fault.Fault
	switch {
	case errors.As(c.readErr, &f):
		return f
	case c.readErr != nil:
		return &fault.Fault{Kind: fault.Broken, Err: fmt.Errorf("reading the server's stdout: %w", c.readErr)}
	default:
		return &fault.Fault{Kind: fault.Exited, Exit: transport.CleanExit, Err: errors.New("the server closed its stdout")}
	}
}

// exited describes the end of the process. What it started goes with it; then
// the pipes end as well, and with them its last words.
func (c *conn) exited() *fault.Fault {
	c.proc.group.kill()
	within(drainWait, c.read, c.stderr.done)
	f := &fault.Fault{Kind: fault.Exited, Exit: c.proc.state, Stderr: c.stderr.tail.tail()}
	cause := exitCause(f.Exit, time.Since(c.started))
	if c.proc.unguarded {
		cause = "the process that guards the server ended: " + cause
	}
	f.Err = errors.New(cause)
	f.Remedy = exitRemedy(f.Exit, c.path, c.spec.Env)
	return f
}

// Call implements Conn.
func (c *conn) Call(ctx context.Context, r *transport.Request) (wire.Message, error) {
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
func (c *conn) Send(ctx context.Context, frame []byte) error {
	c.mux.SendingOneWay()
	if f := c.write(ctx, "send", frame); f != nil {
		return f
	}
	return nil
}

func (c *conn) write(ctx context.Context, op string, frame []byte) *fault.Fault {
	if int64(len(frame)) > c.max {
		return transport.TooLargeToSend(op, len(frame), c.max)
	}
	end, err := c.writer.write(ctx, frame)
	switch end {
	case writeDone:
		return nil
	case writeRefused:
		return transport.GaveUp(op, err)
	case writePending:
		return fault.From(op, err)
	default:
		select { // why is known in a moment
		case <-c.mux.Done():
			return c.mux.Gone(op, fault.NotSent)
		case <-ctx.Done():
			return transport.GaveUp(op, ctx.Err())
		}
	}
}

// Agree implements Conn; lines look the same in every version.
func (c *conn) Agree(string, bool) {}

// Relisten implements Conn: a pipe has no gaps, so nothing is ever received.
func (c *conn) Relisten() <-chan struct{} { return nil }

func (c *conn) Done() <-chan struct{} { return c.mux.Done() }

func (c *conn) Err() error { return c.mux.Err() }

func (c *conn) Info() transport.Info {
	info := c.mux.Counts(transport.Info{Kind: transport.Stdio, PID: c.proc.pid, Started: c.started, Notices: c.notices})
	info.StderrBytes, info.StderrRate = c.stderr.rate.now()
	info.CPU = time.Duration(c.proc.cpu.Load())
	return info
}

// Close implements Conn. Calls that still wait fail at once. When ctx ends,
// what is left of the process is killed without more patience.
func (c *conn) Close(ctx context.Context) error {
	c.closeOnce.Do(func() { close(c.closing) })
	select {
	case <-c.stopped:
	case <-ctx.Done():
		c.forceOnce.Do(func() { close(c.forced) })
		<-c.stopped // bounded by killWait and drainWait
	}
	if c.stopErr != nil {
		return c.stopErr
	}
	return nil
}
