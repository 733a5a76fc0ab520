package http

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/transport"
)

const (
	maxHops     = 3
	maxErrBody  = 64 << 10
	errBodyWait = 2 * time.Second // a refusal whose body does not come is judged without it
	stopWait    = 2 * time.Second // how long Close waits for what it ended
	sessionWait = time.Second     // for the answer to an initialize that was given up: without its id nothing could end its session
)

// core is what the two HTTP transports share: the requests under way, the
// end of the link, and what every request carries. It starts no goroutine;
// those of its owner hang on linkCtx and wg.
type core struct {
	url      *url.URL
	host     string // configured Host field; "" for that of the URL
	shown    string // the URL for people
	rt       http.RoundTripper
	own      *http.Transport // to be closed with the link; nil if rt is the caller's
	conns    *conns          // those of own
	cookies  *cookies
	auth     auth.Source // nil: what the configured headers say
	header   http.Header // what every request carries; never changed
	opts     transport.Options
	max      int64
	idle     time.Duration
	started  time.Time
	noise    atomic.Uint64
	late     atomic.Uint64 // answers that no call waited for
	major    atomic.Int32  // version of HTTP that the last answer came by; 0 before the first
	relisten chan struct{}

	link         transport.Breakable // what the injector reaches; the owner
	sessionInURL bool                // HTTP+SSE
	forgotten    atomic.Bool         // the injector has made the server forget the session
	standing     atomic.Pointer[eventBody]

	linkCtx context.Context // ends with the link
	stop    context.CancelFunc
	wg      sync.WaitGroup // the owner's goroutines
	done    chan struct{}  // closed by finish

	closing sync.Once
	closed  chan struct{} // closed when Close has finished its work

	// mu guards the fields below. Nothing that waits is done under it.
	mu        sync.Mutex
	exchanges map[*exchange]struct{}
	ended     bool
	ordered   bool // ended by Close
	err       *fault.Fault
}

// newCore checks the spec; it dials nothing.
func newCore(spec *Spec, opts transport.Options) (*core, *fault.Fault) {
	target, f := parseTarget(spec.URL)
	if f != nil {
		return nil, f
	}
	header, f := baseHeader(spec.Headers)
	if f != nil {
		return nil, f
	}
	if target.user != nil && header.Get("Authorization") == "" {
		password, _ := target.user.Password()
		r := http.Request{Header: header}
		r.SetBasicAuth(target.user.Username(), password)
	}
	host := header.Get("Host")
	header.Del("Host") // net/http takes it from elsewhere
	k := &core{
		url: target.url, host: host, shown: shownURL(spec.URL), header: header, cookies: newCookies(), auth: spec.Auth,
		opts: opts, max: opts.MaxMessage, idle: spec.IdleTimeout, started: time.Now(),
		relisten: make(chan struct{}, 1), done: make(chan struct{}), closed: make(chan struct{}),
		exchanges: map[*exchange]struct{}{},
	}
	if k.max <= 0 {
		k.max = transport.DefaultMaxMessage
	}
	if opts.Inbound == nil {
		k.opts.Inbound = func(transport.Inbound) {}
	}
	k.rt, k.own, k.conns = target.tripper(spec)
	if spec.Wrap != nil {
		if rt := spec.Wrap(k.rt); rt != nil {
			k.rt = rt
		}
	}
	if k.conns != nil {
		k.conns.injector = opts.Injector
	}
	k.linkCtx, k.stop = context.WithCancel(context.Background())
	return k, nil
}

// finish ends the link, once. Nothing more is sent after it.
func (k *core) finish(err *fault.Fault) {
	k.mu.Lock()
	first := !k.ended
	if first {
		k.ended, k.err, k.ordered = true, err, err == nil
	}
	k.mu.Unlock()
	if first {
		k.opts.Injector.Leave(k.link)
		close(k.done)
		k.stop()
	}
}

// gone is the fault of a request that comes after the end, or nil.
func (k *core) gone(op string) *fault.Fault {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.goneLocked(op)
}

func (k *core) goneLocked(op string) *fault.Fault {
	switch {
	case !k.ended:
		return nil
	case k.ordered:
		return &fault.Fault{Kind: fault.Closed, Op: op, Outcome: fault.NotSent, Err: errors.New("the link was closed")}
	default:
		f := *k.err
		f.Op, f.Outcome = op, fault.NotSent
		return &f
	}
}

// Done implements Conn.
func (k *core) Done() <-chan struct{} { return k.done }

// Relisten implements Conn.
func (k *core) Relisten() <-chan struct{} { return k.relisten }

// Err implements Conn.
func (k *core) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		return nil
	}
	return k.err
}

// gap tells the owner that notifications may have been lost.
func (k *core) gap() {
	select {
	case k.relisten <- struct{}{}:
	default:
	}
}

// close ends everything that is under way, runs farewell, and waits for the
// owner's goroutines.
func (k *core) close(ctx context.Context, farewell func(context.Context)) error {
	k.closing.Do(func() {
		k.finish(nil)
		k.cancelExchanges()
		bounded, cancel := context.WithTimeout(ctx, stopWait)
		defer cancel()
		farewell(bounded)
		// Ends when the streams have, which stop ended.
		go func() {
			k.wg.Wait()
			if k.own != nil {
				k.own.CloseIdleConnections()
				k.conns.close()
			}
			close(k.closed)
		}()
	})
	wait := time.NewTimer(stopWait)
	defer wait.Stop()
	select {
	case <-k.closed:
		return nil
	case <-ctx.Done():
	case <-wait.C:
	}
	return fault.New(fault.Wedged, "close", "an event stream of "+k.shown+" would not stop")
}

func (k *core) cancelExchanges() {
	k.mu.Lock()
	exchanges := make([]*exchange, 0, len(k.exchanges))
	for ex := range k.exchanges {
		exchanges = append(exchanges, ex)
	}
	k.mu.Unlock()
	for _, ex := range exchanges {
		ex.cancel()
	}
}

// exchange is one request under way, from before it is sent until its answer
// was read. It keeps what can be proved about it.
type exchange struct {
	op     string
	caller context.Context // whoever waits for the answer
	plain  context.Context // ends with the caller's, and when the link is closed
	ctx    context.Context // plain with the trace: the request's
	cancel context.CancelFunc

	trace httptrace.ClientTrace
	phase atomic.Uint32 // Idle, Seeking, Held
	wrote atomic.Bool   // the whole request was handed to the connection
	token atomic.Bool   // it waits for one, and is not on its way
	conn  net.Conn      // set before phase is Held

	frame []byte
	body  bytes.Reader

	events eventBody // of an answer that is an event stream
}

const (
	noConnYet   = iota
	seekingConn // a connection is being looked for: nothing is written
	hasConn     // a connection was there: the request may be on it
)

// errPostWritten refuses to let net/http send a message a second time.
var errPostWritten = errors.New("the connection ended after the request was written")

// begin registers a request. end must be called. A request that is on its way
// when the caller's context ends has linger more for its answer. Where f is not
// nil the link has ended and there is no exchange.
func (k *core) begin(caller context.Context, op string, linger time.Duration) (*exchange, *fault.Fault) {
	ex := &exchange{op: op, caller: caller}
	ex.plain, ex.cancel = ex.within(caller, linger)
	ex.trace.GetConn = ex.seeking
	ex.trace.GotConn = ex.held
	ex.trace.WroteRequest = ex.written
	ex.ctx = httptrace.WithClientTrace(ex.plain, &ex.trace)
	k.mu.Lock()
	f := k.goneLocked(op)
	if f == nil {
		k.exchanges[ex] = struct{}{}
	}
	k.mu.Unlock()
	if f != nil {
		ex.cancel()
		return nil, f
	}
	return ex, nil
}

// within is how long the requests of an exchange have: until the caller's context
// ends, and linger more if one is on its way then.
func (ex *exchange) within(caller context.Context, linger time.Duration) (context.Context, context.CancelFunc) {
	if linger == 0 {
		return context.WithCancel(caller)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(caller))
	stop := context.AfterFunc(caller, func() {
		if ex.token.Load() {
			cancel(context.Cause(caller))
			return
		}
		late := time.AfterFunc(linger, func() { cancel(context.Cause(caller)) })
		context.AfterFunc(ctx, func() { late.Stop() })
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

func (k *core) end(ex *exchange) {
	k.mu.Lock()
	delete(k.exchanges, ex)
	k.mu.Unlock()
	ex.cancel()
}

// seeking may run again for the same request: net/http looks for another
// connection where a pooled one turned out to be dead before anything was
// written to it.
func (ex *exchange) seeking(string) { ex.phase.Store(seekingConn) }

func (ex *exchange) held(info httptrace.GotConnInfo) {
	ex.conn = info.Conn
	ex.phase.Store(hasConn)
}

func (ex *exchange) written(info httptrace.WroteRequestInfo) { ex.wrote.Store(info.Err == nil) }

// load gives the request its body: a copy, because a connection may still read
// it when the call has returned already.
func (ex *exchange) load(req *http.Request, frame []byte) {
	ex.frame = bytes.Clone(frame)
	ex.body.Reset(ex.frame)
	// These very types: net/http then writes head and body at once.
	req.Body = io.NopCloser(&ex.body)
	req.ContentLength = int64(len(frame))
	req.GetBody = ex.again
}

// again is asked for the body of a second try. Over HTTP/1 net/http tries a
// POST again only if no byte of it was written; over HTTP/2 also after a
// stream error that proves nothing.
func (ex *exchange) again() (io.ReadCloser, error) {
	if ex.wrote.Load() && isH2(ex.conn) {
		return nil, errPostWritten
	}
	return io.NopCloser(bytes.NewReader(ex.frame)), nil
}

// follow sends a request, follows redirects and keeps cookies.
func (k *core) follow(req *http.Request, ex *exchange) (*http.Response, *http.Request, error) {
	header := req.Header
	for hop := 0; ; hop++ {
		k.cookies.put(req)
		resp, err := k.roundTrip(req)
		if err != nil {
			return nil, req, err
		}
		k.major.Store(int32(resp.ProtoMajor))
		k.cookies.take(req.URL, resp)
		if resp.StatusCode < 300 || resp.StatusCode > 399 || hop == maxHops {
			return resp, req, nil
		}
		if ex != nil {
			ex.wrote.Store(false) // a redirect is no answer: the message is to be sent again
		}
		next := redirected(req, resp)
		if next == nil {
			return resp, req, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrBody)
		_ = resp.Body.Close()
		next.Header = header
		req = next
	}
}

// httpVersion is Info's HTTP.
func (k *core) httpVersion() string {
	switch n := k.major.Load(); n {
	case 0:
		return ""
	case 1:
		return "1.1"
	default:
		return strconv.Itoa(int(n))
	}
}

// request builds a request of this link. The header is not changed.
func (k *core) request(ctx context.Context, method string, to *url.URL, header http.Header) *http.Request {
	req := http.Request{
		Method: method, URL: to, Host: k.host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return req.WithContext(ctx)
}

// lost turns the error of a request or of reading its answer into a fault:
// whose end it was, and what is proved about the request.
func (k *core) lost(ex *exchange, err error) *fault.Fault {
	if f, ok := fault.As(err); ok && f.Op == fault.OpAuthorize { // it was not sent, whoever could not wait
		return f
	}
	out := fault.Unknown
	if ex.unsent(err) {
		out = fault.NotSent
	}
	if cause := ex.caller.Err(); cause != nil {
		kind := fault.Canceled
		if errors.Is(cause, context.DeadlineExceeded) {
			kind = fault.Deadline
		}
		return &fault.Fault{Kind: kind, Op: ex.op, Outcome: out, Err: cause}
	}
	if ex.ctx.Err() != nil && k.gone("") != nil {
		return &fault.Fault{Kind: fault.Closed, Op: ex.op, Outcome: out, Err: errors.New("the link was closed")}
	}
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	if errors.Is(err, errPostWritten) {
		// The server put the connection aside, as HTTP/2 servers do now and then;
		// net/http would send again, but tells nobody for which reason. It speaks
		// neither for nor against the link.
		return &fault.Fault{Kind: fault.Closed, Op: ex.op, Outcome: out, Err: err}
	}
	if out == fault.NotSent && ex.phase.Load() != hasConn || isDial(err) {
		return &fault.Fault{Kind: fault.Dial, Op: ex.op, Outcome: fault.NotSent, Err: err, Remedy: dialRemedy(err)}
	}
	return &fault.Fault{Kind: fault.Broken, Op: ex.op, Outcome: out, Err: err, Remedy: dialRemedy(err)}
}

// unsent reports whether err proves that the server did not get the request.
// That no connection was seen proves it only where the round tripper reports
// connections at all.
func (ex *exchange) unsent(err error) bool {
	var refused streamError
	return ex.phase.Load() == seekingConn || isDial(err) ||
		errors.As(err, &refused) && refused.Code == refusedStream
}

// isDial tells an error of getting a connection. net/http returns one for
// a request that was sent before only if nothing of it had been written.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// streamError has the shape of HTTP/2's stream error in net/http, whose
// type is not exported but converts itself to this one.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "HTTP/2 stream error" }

// refusedStream: the stream was closed before any processing (RFC 9113
// section 8.7).
const refusedStream = 0x7
