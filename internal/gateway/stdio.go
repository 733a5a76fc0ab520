package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/pipe"
	"github.com/everline/everline/internal/wire"
)

// A stdioClient is one client on a pair of byte streams, a message a line. It speaks
// both eras: each message says which it is of. Its long-lived goroutines are a
// reader and a writer; each request in flight is one more.
type stdioClient struct {
	svc       *service
	sess      *session.Session // of the legacy era; it also keeps the ids of modern requests, for cancels
	admission *message.Admission
	outbox    *stream.Outbox
	listen    context.Context // of the listens: ends with the client's side of the pipe
}

// ServeStdio serves the one client whose messages come in on in and go out on
// out, until in ends, out cannot be written to, or ctx or the gateway ends. How it
// ends is told by pipe.Serve.
func (g *Gateway) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	g.users.Add(1)
	defer g.leave()
	sess := g.sessions.New(mcp.LatestLegacy)
	sess.ShareStream(g.opts.MaxInFlight, nil)
	p := &stdioClient{svc: &g.service, sess: sess, admission: sess.Admission, outbox: sess.Out()}
	defer p.outbox.Close()
	defer p.sess.End()
	defer g.inputs.forget(p.sess.ID())
	stopListens := func() {}
	return pipe.Serve(ctx, in, out, pipe.Options{
		Limit: g.opts.MaxBody, WriteTimeout: g.opts.WriteTimeout,
		Stream: stream.Options{
			Outbox: p.outbox, Lists: g.lists, KeepAlive: g.opts.KeepAlive, Announced: p.sess.Announced(), Want: p.sess.Wants,
		},
		Start: func(calls context.Context) { p.listen, stopListens = context.WithCancel(calls) },
		Take:  p.take,
		Ended: func(context.Context) {
			stopListens()
			p.sess.Requests.Close()
		},
		Drain: p.admission.Drain,
		Stop:  g.stop, // Close bounds what is in flight
	})
}

// take serves one line. Only requests that wait for something run beside it.
func (p *stdioClient) take(ctx context.Context, line []byte) {
	if wire.IsBatch(line) {
		p.takeBatch(ctx, line)
		return
	}
	m, bad := message.Parse(line, "")
	if p.svc.malformed(bad) == nil {
		bad = p.takeMessage(ctx, m)
	}
	if bad != nil {
		p.outbox.Send(bad.Frame())
	}
}

func (p *stdioClient) takeMessage(ctx context.Context, m *message.Message) *message.Answer {
	x := p.svc.exchange(m)
	x.sess = p.sess
	switch {
	case !m.IsRequest():
		p.svc.notice(x)
		return nil
	case !m.Modern && m.Method == mcp.ServerDiscover:
		return p.svc.malformed(m.CheckModern()) // a modern probe without _meta: its sender is told what it lacks
	case !m.Modern && m.Method == mcp.Initialize:
		return p.initialize(ctx, x)
	case !m.Modern:
		return p.svc.serveOn(ctx, x, p.admission, p.outbox)
	}
	if bad := p.svc.malformed(m.CheckModern()); bad != nil {
		return bad
	}
	if m.Method == mcp.SubscriptionsListen {
		return p.startListen(x)
	}
	return p.svc.serveOn(ctx, x, p.admission, p.outbox)
}

// initialize answers before the next message is read, which depends on it.
func (p *stdioClient) initialize(ctx context.Context, x *exchange) *message.Answer {
	if bad := p.admission.Enter(x.Message); bad != nil {
		return bad
	}
	defer p.admission.Leave(x.Message)
	if p.svc.closing() {
		return x.Refusal(mcp.CodeShuttingDown, errClosing.Reason(), nil)
	}
	a := p.svc.serve(ctx, x)
	return &a
}

// startListen runs a listen beside the others; all of them share out.
func (p *stdioClient) startListen(x *exchange) *message.Answer {
	l, bad := p.svc.newListener(x)
	if bad != nil {
		return bad
	}
	l.session = &p.sess.Isolated
	if bad := p.admission.Enter(x.Message); bad != nil {
		return bad
	}
	ctx, track, err := p.svc.inflight.begin(p.listen, x)
	if err != nil {
		p.admission.Leave(x.Message)
		a := x.Failure(fault.From(mcp.SubscriptionsListen, err))
		return &a
	}
	go func() { // ends with the listen; the admission's drain waits for it
		defer p.admission.Leave(x.Message)
		defer p.svc.inflight.end(track)
		err := p.svc.guarded(mcp.SubscriptionsListen, func() { _ = l.run(ctx, p.outbox.Forward()) }) // its end is in what it wrote
		if err != nil {
			a := x.Failure(errPanic)
			p.outbox.Send(a.Frame())
		}
		if p.svc.closing() {
			p.outbox.Send(l.canceled())
		}
	}()
	return nil
}

// takeBatch serves a batch, which revisions up to 2025-03-26 have.
func (p *stdioClient) takeBatch(ctx context.Context, line []byte) {
	frames, bad := message.SplitBatch(line, p.sess.Protocol(), p.svc.opts.MaxInFlight)
	if p.svc.malformed(bad) != nil {
		p.outbox.Send(bad.Frame())
		return
	}
	if !p.admission.Admit() {
		return
	}
	wait := p.svc.startBatch(ctx, p.sess, nil, frames)
	go func() { // ends with its requests; the admission's drain waits for it
		defer p.admission.Work.Done()
		if answers := wait(); len(answers) > 0 {
			p.outbox.Send(message.JoinBatch(answers))
		}
	}()
}

// ServeLoop stands in for a gateway that would start itself again without end:
// it refuses the requests on in, until in ends or out cannot be written to.
func ServeLoop(in io.Reader, out io.Writer) error {
	r, limit := bufio.NewReaderSize(in, 64<<10), Options{}.filled().MaxBody
	for {
		line, err := pipe.ReadLine(r, limit)
		if m, bad := message.ParseLegacy(line); bad == nil && m.IsRequest() {
			if _, err := out.Write(append(m.LoopRefusal().Frame(), '\n')); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, pipe.ErrLongLine):
			return err
		}
	}
}
