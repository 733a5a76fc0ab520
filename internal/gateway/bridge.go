package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// Bounds of a bridge.
const (
	bridgeWait    = 30 * time.Second // how long a request waits for a daemon that is away
	bridgeRetry   = 100 * time.Millisecond
	bridgeMaxStep = 2 * time.Second
	bridgeNotice  = 10 * time.Second // one notification
	bridgeLimit   = 30 * time.Minute // one request; the daemon's own limits are below
	bridgeBody    = 256 << 20        // bytes of one answer
	bridgeTries   = 2                // how often one request opens a new session
)

// A bridge speaks stdio with a client and Streamable HTTP with a running
// daemon. It keeps the client's initialize, so that a daemon that was started
// anew gets a new session without the client's doing. It serves nothing itself.
type bridge struct {
	url       string
	name      string // of the connection, which is the session of its modern requests
	web       *http.Client
	life      context.Context // ends with the bridge
	listens   context.Context // of the requests that subscribe: ends with the client's side of the pipe
	held      holder
	outbox    *stream.Outbox
	admission *message.Admission

	renew chan struct{} // one slot: held while a session is being opened

	mu      sync.Mutex        // guards the rest; nothing waits under it
	hello   []byte            // the client's initialize
	wishes  map[string][]byte // its subscriptions by raw URI, and its log level under ""
	session link
	stand   func()                       // ends the standing stream of session, and waits for it
	named   bool                         // a request has named the session
	flying  map[string]flown             // requests in flight, by raw id
	mirrors map[string][]mcp.HeaderParam // by tool
}

// A relayed message is one on its way to the daemon.
type relayed struct {
	*message.Message
	emit  func(frame []byte) // takes what comes before the answer; nil: the client's stream does
	muted atomic.Bool        // the client wants no answer
}

// A flown is a request that is with the daemon.
type flown struct {
	rq     *relayed
	cancel context.CancelFunc
	ended  <-chan struct{}
}

// Bridge connects the client on in and out with the daemon at url until in
// ends, out cannot be written to, or ctx ends. The end of in is a clean end.
// Files are ended as by ServeStdio.
func Bridge(ctx context.Context, in io.Reader, out io.Writer, url string) error {
	opts := Options{}.filled()
	tr := http.DefaultTransport.(*http.Transport).Clone()
	calls, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listens, stopListens := context.WithCancel(calls)
	defer stopListens()
	b := &bridge{
		url: url, name: sessionID(), web: &http.Client{Transport: tr}, life: calls, listens: listens, outbox: stream.NewOutbox(), admission: &message.Admission{Limit: opts.MaxInFlight},
		renew: make(chan struct{}, 1), wishes: map[string][]byte{},
		stand: func() {}, flying: map[string]flown{},
	}
	defer tr.CloseIdleConnections()
	defer b.outbox.Close()

	lines := stream.NewLines(out, opts.WriteTimeout)
	quiet := make(chan struct{}) // closed: write what is left, and end
	reading, writing := make(chan error, 1), make(chan error, 1)
	go func() { reading <- b.read(calls, in, opts.MaxBody) }()         // ends with in; settle waits for it
	go func() { writing <- drainLines(ctx, b.outbox, lines, quiet) }() // ends with quiet, ctx or out; settle waits for it

	var err error
	select {
	case err = <-reading:
		reading = nil
		stopListens() // nothing is in flight there
		defer time.AfterFunc(eofGrace, func() { cancel(errLeft) }).Stop()
		b.held.wait(calls)
	case err = <-writing:
		writing = nil
	case <-lines.Stuck():
		err = stream.ErrSlow
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(err)
	}
	b.admission.Drain()
	b.endStanding()
	b.goodbye()
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

// drainLines writes what is put into the outbox until quiet is closed, and then
// what is left.
func drainLines(ctx context.Context, o *stream.Outbox, out stream.Sink, quiet <-chan struct{}) error {
	for {
		frames, ok := o.Take()
		if !ok {
			return stream.ErrSlow
		}
		if len(frames) > 0 {
			if err := out.Write(frames); err != nil {
				return err
			}
			continue
		}
		select {
		case <-o.Wake():
		case <-quiet:
			return o.WriteLeft(out)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read takes messages until in ends.
func (b *bridge) read(ctx context.Context, in io.Reader, limit int64) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r, limit)
		if len(line) > 0 && !b.held.hold(ctx, line) {
			b.take(ctx, line)
		}
		switch {
		case errors.Is(err, errLongLine):
			b.outbox.Send(message.Refuse(nil, mcp.CodeInvalidRequest, "The message is too large").Frame())
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fault.From("read", err)
		}
	}
}

// take passes one message on. It is false if what comes behind the message is
// held, until it has been answered.
func (b *bridge) take(ctx context.Context, line []byte) bool {
	if wire.IsBatch(line) {
		b.takeBatch(ctx, line)
		return true
	}
	m, bad := message.Parse(line, "")
	if bad != nil {
		b.outbox.Send(bad.Frame())
		return true
	}
	rq := &relayed{Message: m}
	if !rq.IsRequest() {
		b.notice(ctx, rq, line)
		return true
	}
	serve, bad := b.begin(ctx, rq, line)
	if bad != nil {
		b.outbox.Send(bad.Frame())
		return true
	}
	opens := !rq.Modern && rq.Method == mcp.Initialize
	if opens {
		b.held.begin()
	}
	go func() { // ends with its request; the admission's drain waits for it
		defer b.admission.Work.Done()
		if a := serve(); !a.Silent {
			b.outbox.Send(a.Frame())
		}
		if opens {
			b.held.release(func(line []byte) bool { return b.take(ctx, line) })
		}
	}()
	return !opens
}

// takeBatch passes the messages of a batch on one by one, and their answers
// together: so each of them is canceled, repeated and refused like any other.
func (b *bridge) takeBatch(ctx context.Context, line []byte) {
	frames, bad := message.SplitBatch(line, b.current().version, b.admission.Limit)
	if bad != nil {
		b.outbox.Send(bad.Frame())
		return
	}
	if !b.admission.Admit() {
		return
	}
	wait := message.StartBatch(frames, func(m *message.Message, frame []byte) { b.notice(ctx, &relayed{Message: m}, frame) },
		func(m *message.Message, frame []byte) func() message.Answer {
			rq := &relayed{Message: m}
			serve, bad := b.begin(ctx, rq, frame)
			if bad != nil {
				return func() message.Answer { return *bad }
			}
			return func() message.Answer {
				defer b.admission.Work.Done()
				return serve()
			}
		})
	go func() { // ends with its requests; the admission's drain waits for it
		defer b.admission.Work.Done()
		if answers := wait(); len(answers) > 0 {
			b.outbox.Send(message.JoinBatch(answers))
		}
	}()
}

// begin registers a request, so that a cancel that comes right behind finds it,
// and returns what serves it; the caller ends the admission's work for it then.
func (b *bridge) begin(ctx context.Context, rq *relayed, line []byte) (serve func() message.Answer, bad *message.Answer) {
	if bad := b.admission.Enter(rq.Message); bad != nil {
		return nil, bad
	}
	id := string(rq.ID)
	if rq.Method == mcp.SubscriptionsListen {
		ctx = b.listens
	}
	call, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	b.flying[id] = flown{rq, cancel, call.Done()}
	b.mu.Unlock()
	return func() message.Answer {
		defer cancel()
		a := b.serve(call, rq, line)
		b.mu.Lock()
		delete(b.flying, id)
		b.mu.Unlock()
		b.admission.Free(rq.Message) // first: who reads the answer may use the id at once
		return a
	}, nil
}

// serve sends one request and returns the answer. One that the client canceled
// is not answered.
func (b *bridge) serve(ctx context.Context, rq *relayed, line []byte) message.Answer {
	deliver := b.deliver
	if rq.Method == mcp.SubscriptionsListen {
		deliver = b.relay
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bridgeLimit)
		defer cancel()
	}
	frame, err := deliver(ctx, rq, line)
	a := message.Answer{Head: frame}
	if err != nil {
		a = rq.Failure(fault.From(rq.Method, err).At("everline", 0))
	}
	a.Silent = rq.muted.Load() || rq.Method == mcp.SubscriptionsListen && ctx.Err() != nil
	return a
}

// deliver sends a request, and again where it certainly was not executed and a
// daemon that starts anew, or a tool that changed, explains why. It returns the
// answer.
func (b *bridge) deliver(ctx context.Context, rq *relayed, line []byte) ([]byte, error) {
	deadline := time.Now().Add(bridgeWait)
	step := bridgeRetry
	for tries := 0; ; tries++ {
		session := b.current()
		frame, err := b.post(ctx, rq, line, session)
		if err == nil {
			return frame, nil
		}
		again := false
		switch fault.KindOf(err) {
		case fault.SessionLost:
			again = tries < bridgeTries && b.reopen(ctx, session) == nil
		case fault.Conflict: // the headers do not fit the tool
			again = tries < bridgeTries && b.learn(ctx) == nil
		case fault.Dial, fault.Broken, fault.Unavailable:
			safe := fault.From("", err).Outcome == fault.NotSent || message.Repeatable(rq.Method)
			again = safe && time.Now().Add(step).Before(deadline) && pause(ctx, step)
			step = min(2*step, bridgeMaxStep)
			tries--
		default: // nothing that trying again would mend
		}
		if !again || rq.muted.Load() {
			return nil, err
		}
	}
}

// pause waits; false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A link is the daemon's session for the client; the zero value is none.
type link struct{ id, version string }

func (b *bridge) current() link {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// notice passes a notification on.
func (b *bridge) notice(ctx context.Context, rq *relayed, line []byte) {
	pass := func() { b.inform(ctx, rq, line) }
	if rq.Method == mcp.NotifyCancelled {
		b.mu.Lock()
		f, ok := b.flying[string(rq.Fields.RequestID)]
		b.mu.Unlock()
		switch {
		case !ok || f.rq.muted.Swap(true):
			return // it has ended, or is being canceled already
		case f.rq.Modern:
			f.cancel() // which is the cancel
			return
		}
		pass = func() { b.revoke(ctx, f, rq, line) }
	}
	if !b.admission.Admit() {
		return
	}
	go func() { // ends with its time, or with the request that it cancels; the admission's drain waits for it
		defer b.admission.Work.Done()
		pass()
	}()
}

// inform sends a notification; nobody waits for its outcome.
func (b *bridge) inform(ctx context.Context, rq *relayed, line []byte) {
	ctx, cancel := context.WithTimeout(ctx, bridgeNotice)
	defer cancel()
	_, _ = b.post(ctx, rq, line, b.current())
}

// revoke sends a cancel until its request has ended: each is an exchange of its
// own, and the cancel may have come first.
func (b *bridge) revoke(ctx context.Context, f flown, rq *relayed, line []byte) {
	for step := bridgeRetry; ; step = min(2*step, bridgeMaxStep) {
		b.inform(ctx, rq, line)
		select {
		case <-f.ended: // also with ctx
			return
		case <-time.After(step):
		}
	}
}

// remember keeps what a new session has to be told again.
func (b *bridge) remember(rq *relayed, line []byte) {
	if rq.muted.Load() {
		return // it is being told again
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch rq.Method {
	case mcp.Initialize:
		b.hello, b.wishes = line, map[string][]byte{}
	case mcp.LoggingSetLevel:
		b.wishes[""] = line
	case mcp.ResourcesSubscribe:
		b.wishes[string(rq.Fields.URI)] = line
	case mcp.ResourcesUnsubscribe:
		delete(b.wishes, string(rq.Fields.URI))
	}
}

// reopen replaces a session that the daemon does not know any more. Requests
// that lose the same session share one initialize.
func (b *bridge) reopen(ctx context.Context, lost link) error {
	select {
	case b.renew <- struct{}{}:
		defer func() { <-b.renew }()
	case <-ctx.Done():
		return ctx.Err()
	}
	b.mu.Lock()
	hello := b.hello
	wishes := slices.Collect(maps.Values(b.wishes))
	done := b.session != lost || hello == nil
	b.mu.Unlock()
	if done {
		return nil
	}
	for i, line := range append([][]byte{hello, initializedNote}, wishes...) {
		m, bad := message.ParseLegacy(line)
		if bad != nil {
			continue
		}
		rq := &relayed{Message: m}
		rq.muted.Store(true)
		if _, err := b.post(ctx, rq, line, b.current()); err != nil && i == 0 {
			return err
		}
	}
	// What was listed before may have changed while there was no session.
	b.outbox.SendAllChanged()
	return nil
}

var initializedNote = wire.AppendNotification(nil, mcp.NotifyInitialized, nil)
