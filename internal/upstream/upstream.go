// Package upstream is one generation of one server: it finds the era, shakes
// hands, lists, calls, pings and hears notifications. It does not reconnect:
// when the link is gone, so is the upstream.
package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

// Options say which server to start and who hears from it. The func fields
// are called on the reader's goroutine and must not block; nil is allowed.
type Options struct {
	Server  config.Server
	Gen     uint64
	Name    string // our own name and version, for clientInfo
	Version string
	Era     Era // what an earlier life found; zero if unknown. Tried first, and found anew if it is no longer true

	Changed func(catalog.Kind)              // a list_changed arrived, or notifications may have been lost
	Updated func(uri string, params []byte) // notifications/resources/updated
	Log     func(params []byte)             // notifications/message, the whole params
	Stderr  func(line string)
	Modern  func()                           // the probe was answered after the handshake went on without it: the next generation may be modern
	Spawned func(pid int)                    // a process was started; a handshake may use up two
	Linked  func(info func() transport.Info) // a link is open, likewise; info describes it as it is when it is called

	// Owner is the one client that the life is for: what the server says by
	// itself goes there. nil: the life is shared, and only calls have clients.
	Owner Client
	// Capabilities are what initialize declares for the Owner: a raw object;
	// nil for nothing.
	Capabilities []byte

	// Spares has a process that guards a server ready; may be nil.
	Spares *transport.Spares
	// Faults can break the server's links on purpose; may be nil.
	Faults *transport.Faults

	// Open opens the transport; nil opens the one that Server names.
	Open func(context.Context, transport.Kind, transport.Options) (transport.Conn, error)
}

// Era is what a life found out about how to talk to its server.
type Era struct {
	Transport transport.Kind
	Version   string // the protocol version; "" if unknown
	Modern    bool   // without a version: it was once
	// Answered: the server has said so itself. A legacy era without it rests on
	// silence, which is no verdict: it is not to be kept.
	Answered bool
}

// Proven tells whether the server itself has shown its era, so that it may be
// kept. Earlier versions kept eras without Answered: of those only a modern one
// is sure to have been answered.
func (e Era) Proven() bool { return e.Modern || e.Answered }

// A Call is one request to the server. Params are the client's; where they
// name a tool or prompt (params.name, or params.ref.name of a completion) the
// upstream puts Name there if it differs.
type Call struct {
	Method string
	Name   string // tool or prompt name or resource URI, for headers; "" if the method has none
	Sent   []byte // the name as JSON, where the server's own is no text; else nil
	Params []byte // raw object; nil for none. Not changed
	// Headers are the tool's header parameters (modern Streamable HTTP).
	Headers []mcp.HeaderParam
	// Progress gets the params of each progress notification, in order, with
	// the client's own progressToken; it must not block. nil: no progress wanted.
	Progress func(params []byte)
	// LogLevel is what the client wants to hear during this call (modern); "".
	LogLevel string
	// Capabilities are what the client has declared to serve, for a modern
	// server, where Params do not say it themselves; nil for nothing.
	Capabilities []byte
	// Client is who the call is made for. nil: somebody who serves no requests;
	// what the server asks for during the call is refused, and put to no other.
	Client Client
	// Internal tells that everline asks of its own accord, as each new
	// generation is told of the clients' subscriptions: a good answer then
	// proves no health.
	Internal bool
}

// A Result is what a server has answered a Call with.
type Result struct {
	Raw  []byte // the result as the server sent it, but for what Upstream.Call says
	URIs bool   // some member of it is called "uri"
}

// Numbers that hold where the configuration says nothing (zero).
const (
	defaultCallTimeout = 10 * time.Minute
	defaultPingAfter   = 30 * time.Second
	defaultPingMisses  = 3
)

const (
	sendTimeout  = 10 * time.Second       // for a notification or an answer of ours
	probeTimeout = 10 * time.Second       // for the probe that decides a suspicion
	eraVouched   = time.Minute            // how long a probe that a modern server answered settles doubts about its era
	farewellTime = 500 * time.Millisecond // for what is on its way when Close begins
	maxSends     = 512                    // notifications and answers that may be on their way at a time
)

// Upstream is one live connection. It has two long-lived goroutines, or three
// toward a modern server (watch; the standing listen), one more for each
// subscription to a resource there, and short ones for notifications, answers
// and pings. Close waits for all of them.
type Upstream struct {
	opts   Options
	link   *link
	era    Era
	hello  hello
	phases phases

	life context.Context // ends calls and work in progress: on Close, or when the server is wedged
	stop context.CancelFunc
	done chan struct{} // closed by end

	ids     atomic.Int64
	heard   atomic.Int64 // when the server was last heard, as nanoseconds since born
	born    time.Time
	shown   atomic.Int64           // when a modern server has last proved to be one, likewise; 0: at the handshake alone
	listed  atomic.Int64           // when the first page of a list came, likewise; 0: none did
	spared  atomic.Int64           // until when the server asked to be left alone, likewise
	ignored atomic.Uint64          // messages that meant nothing: unknown notifications, late progress, requests that the era forbids
	probe   atomic.Pointer[string] // the method that asks for a sign of life
	modern  atomic.Bool            // the server is of the modern era; set once the handshake is over
	denied  atomic.Bool            // the doubt about the session is whether the server has forgotten it without saying so by its status
	own     atomic.Pointer[ownError]
	mute    atomic.Bool // requests of the server cannot be answered: modern Streamable HTTP

	work sync.WaitGroup // what spawn started

	late *lateProbe // a probe that was not answered in time; nil if there is none. The start's alone

	// mu guards what follows. Nothing waits while it is held, no callback is
	// called, and no other lock is taken.
	mu      sync.Mutex
	closed  bool
	ended   bool
	err     *fault.Fault
	unsent  chan struct{}                 // nil until Close; closed once nothing is on its way any more
	sends   int                           // on their way
	calls   map[int64]*flown              // in flight
	listens map[int64]*listen             // open streams of subscriptions/listen
	subs    map[string]*listen            // by resource URI
	asks    map[string]context.CancelFunc // requests of the server that wait for clients, by raw id
	tails   map[int64]*Call               // answered with a task, whose progress goes on; see tail
	visits  map[string]Client             // who was sent to a URL, by elicitation id
	owners
	asked   time.Duration // since born: when a call was last sent while no other waited
	pinging bool          // a silence timer is armed, or pings are running
	knocks  bool          // pings are running
	silence *time.Timer
	doubt   *doubt  // the suspicion that is being decided
	known   [4]bool // a kind that was listed on this life
	sources source  // whether a server that declares nothing lists tools nevertheless
}

// link is one opened transport. The handshake may use up two.
type link struct {
	conn  transport.Conn
	ready chan struct{} // closed once conn is set
}

func newUpstream(opts Options) *Upstream {
	if opts.Server.CallTimeout == 0 {
		opts.Server.CallTimeout = defaultCallTimeout
	}
	if opts.Server.PingAfter == 0 {
		opts.Server.PingAfter = defaultPingAfter
	}
	if opts.Server.PingMisses == 0 {
		opts.Server.PingMisses = defaultPingMisses
	}
	u := &Upstream{
		opts:    opts,
		done:    make(chan struct{}),
		born:    time.Now(),
		calls:   map[int64]*flown{},
		listens: map[int64]*listen{},
		subs:    map[string]*listen{},
	}
	u.life, u.stop = context.WithCancel(context.Background())
	return u
}

// Done is closed when the upstream has ended: its link broke, the server lost
// the session or does not answer any more, or Close was called.
func (u *Upstream) Done() <-chan struct{} { return u.done }

// Err is the *fault.Fault that ended the upstream; nil while it lives, and if
// Close ended it.
func (u *Upstream) Err() error {
	if f := u.cause(); f != nil {
		return f
	}
	return nil
}

func (u *Upstream) cause() *fault.Fault {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// end records why the upstream ended, once.
func (u *Upstream) end(f *fault.Fault) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return
	}
	u.ended = true
	if f != nil {
		u.err = f.At(u.opts.Server.Name, u.opts.Gen)
	}
	close(u.done)
}

// Close ends the link in order, bounded by ctx, and waits for everything that
// the upstream started. Calls in flight end as Closed, outcome unknown. It is
// idempotent, and returns what would not stop.
func (u *Upstream) Close(ctx context.Context) error {
	u.mu.Lock()
	u.closed = true
	if u.silence != nil {
		u.silence.Stop()
	}
	if u.unsent == nil {
		u.unsent = make(chan struct{})
		u.sentLocked()
	}
	u.mu.Unlock()
	u.end(nil)
	u.farewell(ctx)
	u.stop()
	err := u.link.conn.Close(ctx)
	gone := make(chan struct{})
	go func() { // ends when the last goroutine of the upstream does
		u.work.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		if err == nil {
			err = ctx.Err()
		}
	}
	if err == nil {
		return nil
	}
	return u.blame("close", err)
}

// farewell lets what is on its way be written before the link is closed: the
// cancel of the last call, which a server would else never hear of.
func (u *Upstream) farewell(ctx context.Context) {
	limit := time.NewTimer(farewellTime)
	defer limit.Stop()
	select {
	case <-u.unsent:
	case <-limit.C:
	case <-ctx.Done():
	case <-u.life.Done(): // the server does not read
	case <-u.link.conn.Done():
	}
}

// spawn runs f on a goroutine that Close waits for. It is false, and f does
// not run, once Close has begun.
func (u *Upstream) spawn(f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.work.Go(f)
	return true
}

// watch hears what the link itself has to say, until it or the upstream ends.
func (u *Upstream) watch() {
	for {
		select {
		case <-u.link.conn.Done():
			f := fault.From("", u.link.conn.Err())
			if f == nil {
				f = fault.New(fault.Broken, "", "the link ended")
			}
			u.end(f)
			return
		case <-u.link.conn.Relisten():
			for _, k := range catalog.Kinds {
				u.changed(k)
			}
		case <-u.life.Done():
			return
		}
	}
}

// blame turns an error into a Fault that names this life.
func (u *Upstream) blame(op string, err error) *fault.Fault {
	f := fault.From(op, err).At(u.opts.Server.Name, u.opts.Gen)
	if f.Op == "" {
		f.Op = op
	}
	return f
}
