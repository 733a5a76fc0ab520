// Package bridge connects a client that speaks stdio with a running daemon, as a
// client of it over Streamable HTTP, and hides from the one that the other was
// started anew. It serves nothing itself.
package bridge

import (
	"context"
	"crypto/rand"
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
	"github.com/everline/everline/internal/pipe"
	"github.com/everline/everline/internal/wire"
)

// Bounds of a bridge. Those of one client are the ones that the daemon's endpoint has
// by default.
const (
	maxMessage   = 64 << 20 // bytes of one message of the client
	maxInFlight  = 1024     // its requests at a time
	writeTimeout = 30 * time.Second

	maxAway      = 30 * time.Second // how long a request waits for a daemon that is away
	firstPause   = 100 * time.Millisecond
	maxPause     = 2 * time.Second
	noticeLimit  = 10 * time.Second // one notification
	requestLimit = 30 * time.Minute // one request; the daemon's own limits are below
	maxAnswer    = 256 << 20        // bytes of one answer
	maxSessions  = 2                // how often one request opens a new session
)

// A bridge speaks stdio with a client and Streamable HTTP with a running
// daemon. It keeps the client's initialize, so that a daemon that was started
// anew gets a new session without the client's doing.
type bridge struct {
	url       string
	name      string // of the connection, which is the session of its modern requests
	web       *http.Client
	calls     context.Context // ends with the bridge
	listens   context.Context // of the requests that subscribe: ends with the client's side of the pipe
	held      holder
	outbox    *stream.Outbox
	admission *message.Admission

	renew chan struct{} // one slot: held while a session is being opened

	mu         sync.Mutex        // guards the rest; nothing waits under it
	initialize []byte            // the client's initialize
	repeated   map[string][]byte // its subscriptions by raw URI, and its log level under ""
	session    session
	stand      func()                       // ends the standing stream of session, and waits for it
	nameUsed   bool                         // a request has named the session
	inFlight   map[string]pending           // requests in flight, by raw id
	params     map[string][]mcp.HeaderParam // by tool
}

// A relayed message is one on its way to the daemon.
type relayed struct {
	*message.Message
	emit  func(frame []byte) // takes what comes before the answer; nil: the client's stream does
	muted atomic.Bool        // the client wants no answer
}

// A pending is a request that is with the daemon.
type pending struct {
	rq     *relayed
	cancel context.CancelFunc
	ended  <-chan struct{}
}

// Run connects the client on in and out with the daemon at url, by way, until in ends,
// out cannot be written to, or ctx ends. How it ends is told by pipe.Serve.
func Run(ctx context.Context, in io.Reader, out io.Writer, url string, way http.RoundTripper) error {
	b := &bridge{
		url: url, name: rand.Text(), web: &http.Client{Transport: way},
		outbox: stream.NewOutbox(), admission: &message.Admission{Limit: maxInFlight},
		renew: make(chan struct{}, 1), repeated: map[string][]byte{}, stand: func() {}, inFlight: map[string]pending{},
	}
	defer b.outbox.Close()
	stopListens := func() {}
	return pipe.Serve(ctx, in, out, pipe.Options{
		Limit: maxMessage, WriteTimeout: writeTimeout, Stream: stream.Options{Outbox: b.outbox},
		Start: func(calls context.Context) {
			b.calls = calls
			b.listens, stopListens = context.WithCancel(calls)
		},
		Take: func(calls context.Context, line []byte) {
			if !b.held.hold(calls, line) {
				b.take(calls, line)
			}
		},
		Ended: func(calls context.Context) {
			stopListens() // nothing is in flight there
			b.held.wait(calls)
		},
		Drain: func() {
			b.admission.Drain()
			b.endStanding()
			b.goodbye()
		},
	})
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
	b.inFlight[id] = pending{rq, cancel, call.Done()}
	b.mu.Unlock()
	return func() message.Answer {
		defer cancel()
		a := b.serve(call, rq, line)
		b.mu.Lock()
		delete(b.inFlight, id)
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
		ctx, cancel = context.WithTimeout(ctx, requestLimit)
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
	deadline := time.Now().Add(maxAway)
	step := firstPause
	for tries := 0; ; tries++ {
		session := b.current()
		frame, err := b.post(ctx, rq, line, session)
		if err == nil {
			return frame, nil
		}
		again := false
		switch fault.KindOf(err) {
		case fault.SessionLost:
			again = tries < maxSessions && b.reopen(ctx, session) == nil
		case fault.Conflict: // the headers do not fit the tool
			again = tries < maxSessions && b.learn(ctx) == nil
		case fault.Dial, fault.Broken, fault.Unavailable:
			safe := fault.From("", err).Outcome == fault.NotSent || message.Repeatable(rq.Method)
			again = safe && time.Now().Add(step).Before(deadline) && pause(ctx, step)
			step = min(2*step, maxPause)
			tries--
		default: // nothing that trying again would fix
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

// A session is the daemon's session for the client; the zero value is none.
type session struct{ id, version string }

func (b *bridge) current() session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// notice passes a notification on.
func (b *bridge) notice(ctx context.Context, rq *relayed, line []byte) {
	pass := func() { b.inform(ctx, rq, line) }
	if rq.Method == mcp.NotifyCancelled {
		b.mu.Lock()
		f, ok := b.inFlight[string(rq.Fields.RequestID)]
		named := b.nameUsed
		b.mu.Unlock()
		switch {
		case ok && f.rq.muted.Swap(true), !ok && !named:
			return // it is being canceled already, or has ended
		case !ok || f.rq.Modern:
			if ok {
				f.cancel() // which is the cancel, unless it crosses an interim result
			}
			rq.Modern, rq.Fields.Meta.Version = true, wire.AppendString(nil, mcp.ModernVersion)
		default:
			pass = func() { b.revoke(ctx, f, rq, line) }
		}
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
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	_, _ = b.post(ctx, rq, line, b.current())
}

// revoke sends a cancel until its request has ended: each is an exchange of its
// own, and the cancel may have come first.
func (b *bridge) revoke(ctx context.Context, f pending, rq *relayed, line []byte) {
	for step := firstPause; ; step = min(2*step, maxPause) {
		b.inform(ctx, rq, line)
		select {
		case <-f.ended: // also with ctx
			return
		case <-time.After(step):
		}
	}
}

// remember keeps what a new session has to be asked again.
func (b *bridge) remember(rq *relayed, line []byte) {
	if rq.muted.Load() {
		return // it is being repeated
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch rq.Method {
	case mcp.Initialize:
		b.initialize, b.repeated = line, map[string][]byte{}
	case mcp.LoggingSetLevel:
		b.repeated[""] = line
	case mcp.ResourcesSubscribe:
		b.repeated[string(rq.Fields.URI)] = line
	case mcp.ResourcesUnsubscribe:
		delete(b.repeated, string(rq.Fields.URI))
	}
}

// reopen replaces a session that the daemon does not know any more. Requests
// that lose the same session share one initialize.
func (b *bridge) reopen(ctx context.Context, lost session) error {
	select {
	case b.renew <- struct{}{}:
		defer func() { <-b.renew }()
	case <-ctx.Done():
		return ctx.Err()
	}
	b.mu.Lock()
	initialize := b.initialize
	repeated := slices.Collect(maps.Values(b.repeated))
	done := b.session != lost || initialize == nil
	b.mu.Unlock()
	if done {
		return nil
	}
	for i, line := range append([][]byte{initialize, initializedNote}, repeated...) {
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
