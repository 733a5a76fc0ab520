package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

const (
	eofGrace  = 2 * time.Second // what is in flight when the client closes its side may take so long
	stopGrace = time.Second     // what a reader or writer may take to end once its file is closed
)

// A pipe is one client on a pair of byte streams, a message a line. It speaks
// both eras: each message says which it is of. Its long-lived goroutines are a
// reader and a writer; each request in flight is one more.
type pipe struct {
	g         *Gateway
	sess      *session // of the legacy era; it also keeps the ids of modern requests, for cancels
	admission *message.Admission
	outbox    *stream.Outbox
	listen    context.Context // ends the listens
}

// ServeStdio serves the one client whose messages come in on in and go out on
// out, until in ends, out cannot be written to, or ctx or the gateway ends.
// The end of in is a clean end. What does not stop by itself is made to: in and
// out are closed if they are io.Closers. Where that does not end a Read or a
// Write that waits it is given up after a second; of a Write the error says so.
func (g *Gateway) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	calls, cancelCalls := context.WithCancelCause(ctx)
	defer cancelCalls(nil)
	listen, stopListens := context.WithCancel(calls)
	defer stopListens()
	p := &pipe{g: g, sess: g.newSession(mcp.LatestLegacy), admission: &message.Admission{Limit: g.opts.MaxInFlight}, outbox: stream.NewOutbox(), listen: listen}
	p.sess.outbox, p.sess.admission = p.outbox, p.admission
	p.sess.standing.Attach()
	defer p.outbox.Close()
	defer p.sess.end()
	defer g.inputs.forget(p.sess.client)

	lines := stream.NewLines(out, g.opts.WriteTimeout)
	quiet := make(chan struct{}) // closed: write what is left, and end
	reading, writing := make(chan error, 1), make(chan error, 1)
	go func() { reading <- p.read(calls, in) }()          // ends with in; settle waits for it
	go func() { writing <- p.write(ctx, lines, quiet) }() // ends with quiet, ctx or out; settle waits for it

	var err error
	select {
	case err = <-reading:
		reading = nil
		stopListens()
		p.sess.requests.close()
		defer time.AfterFunc(eofGrace, func() { cancelCalls(errLeft) }).Stop()
	case <-g.stop: // Close bounds what is in flight
	case err = <-writing:
		writing = nil
	case <-lines.Stuck():
		err = stream.ErrSlow
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		cancelCalls(err)
	}
	p.admission.Drain()
	close(quiet)
	if err == nil {
		select {
		case err = <-writing:
			writing = nil
		case <-lines.Stuck():
			err = stream.ErrSlow
		}
	}
	_ = settle(reading, in, "read") // a standard input need not come back from a Read; nothing is taken from it any more
	return errors.Join(err, settle(writing, out, "write"))
}

// settle makes a reader or writer end; nil if it did, or has ended before.
func settle(done <-chan error, file any, op string) error {
	if done == nil {
		return nil
	}
	if c, ok := file.(io.Closer); ok {
		_ = c.Close() // whether it ended anything is seen below
	}
	select {
	case <-done: //nolint:errcheck // how it ended was told to whoever waited before
		return nil
	case <-time.After(stopGrace):
		return fault.New(fault.Wedged, op, "did not stop")
	}
}

// write tells the client what there is to tell until quiet is closed, and then
// what is left.
func (p *pipe) write(ctx context.Context, out stream.Sink, quiet <-chan struct{}) error {
	err := stream.NewWriter(stream.Options{
		Sink: out, Outbox: p.outbox, Lists: p.g.lists, KeepAlive: p.g.opts.KeepAlive, Announced: p.sess.hasHeard(), Want: p.sess.wants, Over: quiet,
	}).Run(ctx)
	if !errors.Is(err, stream.ErrOver) {
		return err
	}
	return p.outbox.WriteLeft(out)
}

// read takes messages until in ends.
func (p *pipe) read(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r, p.g.opts.MaxBody)
		switch {
		case errors.Is(err, errLongLine):
			p.outbox.Send(message.Refuse(nil, mcp.CodeInvalidRequest, "The message is too large").Frame())
		case err == nil || len(line) > 0:
			p.take(ctx, line)
		}
		if err != nil && !errors.Is(err, errLongLine) {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fault.From("read", err)
		}
	}
}

var errLongLine = errors.New("the line is too long")

// readLine returns the next line without its end, in a buffer of its own. A
// line over the limit is passed over.
func readLine(r *bufio.Reader, limit int64) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || int64(len(line)+len(part)) > limit+1; !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && err == nil {
			return nil, errLongLine
		}
		return trimEnd(line), err
	}
}

func trimEnd(line []byte) []byte {
	for len(line) > 0 && strings.IndexByte(" \t\r\n", line[len(line)-1]) >= 0 {
		line = line[:len(line)-1]
	}
	return line
}

// take serves one line. Only requests that wait for something run beside it.
func (p *pipe) take(ctx context.Context, line []byte) {
	if len(line) == 0 {
		return
	}
	if wire.IsBatch(line) {
		p.takeBatch(ctx, line)
		return
	}
	m, bad := message.Parse(line, "")
	if bad == nil {
		bad = p.takeMessage(ctx, m)
	}
	if bad != nil {
		p.outbox.Send(bad.Frame())
	}
}

func (p *pipe) takeMessage(ctx context.Context, m *message.Message) *message.Answer {
	x := p.g.exchange(m)
	x.sess = p.sess
	switch {
	case !m.IsRequest():
		p.g.notice(x)
		return nil
	case !m.Modern && m.Method == mcp.ServerDiscover:
		return m.CheckModern() // a modern probe without _meta: its sender is told what it lacks
	case !m.Modern && m.Method == mcp.Initialize:
		return p.initialize(ctx, x)
	case !m.Modern:
		return p.g.serveOn(ctx, x, p.admission, p.outbox)
	}
	if bad := m.CheckModern(); bad != nil {
		return bad
	}
	if m.Method == mcp.SubscriptionsListen {
		return p.startListen(x)
	}
	return p.g.serveOn(ctx, x, p.admission, p.outbox)
}

// initialize answers before the next message is read, which depends on it.
func (p *pipe) initialize(ctx context.Context, x *exchange) *message.Answer {
	if bad := p.admission.Enter(x.Message); bad != nil {
		return bad
	}
	defer p.admission.Leave(x.Message)
	if p.g.closing() {
		return x.Refusal(mcp.CodeShuttingDown, errClosing.Text(), nil)
	}
	a := p.g.serve(ctx, x)
	return &a
}

// startListen runs a listen beside the others; all of them share out.
func (p *pipe) startListen(x *exchange) *message.Answer {
	l, bad := p.g.newListener(x)
	if bad != nil {
		return bad
	}
	l.of = &p.sess.own
	if bad := p.admission.Enter(x.Message); bad != nil {
		return bad
	}
	ctx, track, err := p.g.inflight.begin(p.listen, x)
	if err != nil {
		p.admission.Leave(x.Message)
		a := x.Failure(fault.From(mcp.SubscriptionsListen, err))
		return &a
	}
	go func() { // ends with the listen; the admission's drain waits for it
		defer p.admission.Leave(x.Message)
		defer p.g.inflight.end(track)
		err := p.g.guarded(mcp.SubscriptionsListen, func() { _ = l.run(ctx, p.outbox.Forward()) }) // its end is in what it wrote
		if err != nil {
			a := x.Failure(errPanic)
			p.outbox.Send(a.Frame())
		}
		if p.g.closing() {
			p.outbox.Send(l.canceled())
		}
	}()
	return nil
}

// takeBatch serves a batch, which revisions up to 2025-03-26 have.
func (p *pipe) takeBatch(ctx context.Context, line []byte) {
	frames, bad := message.SplitBatch(line, p.sess.protocol(), p.g.opts.MaxInFlight)
	if bad != nil {
		p.outbox.Send(bad.Frame())
		return
	}
	if !p.admission.Admit() {
		return
	}
	wait := p.g.startBatch(ctx, p.sess, nil, frames)
	go func() { // ends with its requests; the admission's drain waits for it
		defer p.admission.Work.Done()
		if answers := wait(); len(answers) > 0 {
			p.outbox.Send(message.JoinBatch(answers))
		}
	}()
}
