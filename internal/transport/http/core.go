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
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
)

const (
	maxHops     = 3
	maxErrBody  = 64 << 10
	errBodyWait = 2 * time.Second // a refusal whose body does not come is judged without it
	stopWait    = 2 * time.Second // how long Close waits for what it ended
)

// core is what the two HTTP transports share: the requests under way, the
// end of the link, and what every request carries. It starts no goroutine;
// those of its owner hang on life and wg.
type core struct {
	url      *url.URL
	host     string // configured Host field; "" for that of the URL
	shown    string // the URL for people
	rt       http.RoundTripper
	own      *http.Transport // to be closed with the link; nil if rt is the caller's
	conns    *conns          // those of own
	cookies  *cookies
	header   http.Header // what every request carries; never changed
	opts     transport.Options
	max      int64
	idle     time.Duration
	started  time.Time
	noise    atomic.Uint64
	relisten chan struct{}

	link         transport.Breakable // what the fault layer reaches; the owner
	sessionInURL bool                // HTTP+SSE
	forgotten    atomic.Bool         // the fault layer has made the server forget the session
	standing     atomic.Pointer[eventBody]

	life context.Context // ends with the link
	stop context.CancelFunc
	wg   sync.WaitGroup // the owner's goroutines
	done chan struct{}  // closed by finish

	closing sync.Once
	closed  chan struct{} // closed when Close has finished its work

	// mu guards the fields below. Nothing that waits is done under it.
	mu      sync.Mutex
	flights map[*flight]struct{}
	ended   bool
	ordered bool // ended by Close
	err     *fault.Fault
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
		url: target.url, host: host, shown: shownURL(spec.URL), header: header, cookies: newCookies(),
		opts: opts, max: opts.MaxMessage, idle: spec.IdleTimeout, started: time.Now(),
		relisten: make(chan struct{}, 1), done: make(chan struct{}), closed: make(chan struct{}),
		flights: map[*flight]struct{}{},
	}
	if k.max <= 0 {
		k.max = transport.DefaultMaxMessage
	}
	if opts.Inbound == nil {
		k.opts.Inbound = func(transport.Inbound) {}
	}
	k.rt, k.own, k.conns = target.tripper(spec)
	if k.conns != nil {
		k.conns.faults = opts.Faults
	}
	k.life, k.stop = context.WithCancel(context.Background())
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
		k.opts.Faults.Leave(k.link)
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
		k.cancelFlights()
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

func (k *core) cancelFlights() {
	k.mu.Lock()
	flights := make([]*flight, 0, len(k.flights))
	for fl := range k.flights {
		flights = append(flights, fl)
	}
	k.mu.Unlock()
	for _, fl := range flights {
		fl.cancel()
	}
}

// flight is one request under way, from before it is sent until its answer
// was read. It keeps what can be proved about it.
type flight struct {
	op     string
	caller context.Context // whoever waits for the answer
	plain  context.Context // ends with the caller's, and when the link is closed
	ctx    context.Context // plain with the trace: the request's
	cancel context.CancelFunc

	trace httptrace.ClientTrace
	phase atomic.Uint32 // flightIdle, flightSeeking, flightHeld
	wrote atomic.Bool   // the whole request was handed to the connection
	conn  net.Conn      // set before phase is flightHeld

	frame []byte
	body  bytes.Reader

	events eventBody // of an answer that is an event stream
}

const (
	flightIdle    = iota
	flightSeeking // a connection is being looked for: nothing is written
	flightHeld    // a connection was there: the request may be on it
)

// errPostWritten refuses to let net/http send a message a second time.
var errPostWritten = errors.New("the connection ended after the request was written")

// begin registers a request. end must be called. Where f is not nil the link
// has ended and there is no flight.
func (k *core) begin(caller context.Context, op string) (*flight, *fault.Fault) {
	fl := &flight{op: op, caller: caller}
	fl.plain, fl.cancel = context.WithCancel(caller)
	fl.trace.GetConn = fl.seeking
	fl.trace.GotConn = fl.held
	fl.trace.WroteRequest = fl.written
	fl.ctx = httptrace.WithClientTrace(fl.plain, &fl.trace)
	k.mu.Lock()
	f := k.goneLocked(op)
	if f == nil {
		k.flights[fl] = struct{}{}
	}
	k.mu.Unlock()
	if f != nil {
		fl.cancel()
		return nil, f
	}
	return fl, nil
}

func (k *core) end(fl *flight) {
	k.mu.Lock()
	delete(k.flights, fl)
	k.mu.Unlock()
	fl.cancel()
}

// seeking may run again for the same request: net/http looks for another
// connection where a pooled one turned out to be dead before anything was
// written to it.
func (fl *flight) seeking(string) { fl.phase.Store(flightSeeking) }

func (fl *flight) held(info httptrace.GotConnInfo) {
	fl.conn = info.Conn
	fl.phase.Store(flightHeld)
}

func (fl *flight) written(info httptrace.WroteRequestInfo) { fl.wrote.Store(info.Err == nil) }

// load gives the request its body: a copy, because a connection may still read
// it when the call has returned already.
func (fl *flight) load(req *http.Request, frame []byte) {
	fl.frame = bytes.Clone(frame)
	fl.body.Reset(fl.frame)
	// These very types: net/http then writes head and body at once.
	req.Body = io.NopCloser(&fl.body)
	req.ContentLength = int64(len(frame))
	req.GetBody = fl.again
}

// again is asked for the body of a second try. Over HTTP/1 net/http tries a
// POST again only if no byte of it was written; over HTTP/2 also after a
// stream error that proves nothing.
func (fl *flight) again() (io.ReadCloser, error) {
	if fl.wrote.Load() && isH2(fl.conn) {
		return nil, errPostWritten
	}
	return io.NopCloser(bytes.NewReader(fl.frame)), nil
}

// do sends a request, follows redirects and keeps cookies. fl is the flight of
// a POST.
func (k *core) do(req *http.Request, fl *flight) (*http.Response, *http.Request, error) {
	header := req.Header
	for hop := 0; ; hop++ {
		k.cookies.put(req)
		resp, err := k.roundTrip(req)
		if err != nil {
			return nil, req, err
		}
		k.cookies.take(req.URL, resp)
		if resp.StatusCode < 300 || resp.StatusCode > 399 || hop == maxHops {
			return resp, req, nil
		}
		if fl != nil {
			fl.wrote.Store(false) // a redirect is no answer: the message is to be sent again
		}
		next := follow(req, resp)
		if next == nil {
			return resp, req, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrBody)
		_ = resp.Body.Close()
		next.Header = header
		req = next
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
func (k *core) lost(fl *flight, err error) *fault.Fault {
	out := fault.Unknown
	if fl.unsent(err) {
		out = fault.NotSent
	}
	if cause := fl.caller.Err(); cause != nil {
		kind := fault.Canceled
		if errors.Is(cause, context.DeadlineExceeded) {
			kind = fault.Deadline
		}
		return &fault.Fault{Kind: kind, Op: fl.op, Outcome: out, Err: cause}
	}
	if fl.ctx.Err() != nil && k.gone("") != nil {
		return &fault.Fault{Kind: fault.Closed, Op: fl.op, Outcome: out, Err: errors.New("the link was closed")}
	}
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	if errors.Is(err, errPostWritten) {
		// The server put the connection aside, as HTTP/2 servers do now and then;
		// net/http would send again, but tells nobody for which reason. It speaks
		// neither for nor against the link.
		return &fault.Fault{Kind: fault.Closed, Op: fl.op, Outcome: out, Err: err}
	}
	if out == fault.NotSent && fl.phase.Load() != flightHeld || isDial(err) {
		return &fault.Fault{Kind: fault.Dial, Op: fl.op, Outcome: fault.NotSent, Err: err, Remedy: dialRemedy(err)}
	}
	return &fault.Fault{Kind: fault.Broken, Op: fl.op, Outcome: out, Err: err}
}

// unsent tells whether err proves that the server did not get the request.
// That no connection was seen proves it only where the round tripper reports
// connections at all.
func (fl *flight) unsent(err error) bool {
	var refused streamError
	return fl.phase.Load() == flightSeeking || isDial(err) ||
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
