package slot

import (
	"context"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// Upstream is what a slot needs of one generation. *upstream.Upstream is one.
type Upstream interface {
	// List fetches all kinds, complete, or returns an error. old is the last
	// good catalog or nil; kinds that are not asked for are taken from it.
	List(ctx context.Context, old *catalog.Catalog, kinds ...catalog.Kind) (*catalog.Catalog, error)
	// Call sends one request and returns its result. It returns when ctx ends.
	Call(ctx context.Context, c *upstream.Call) (upstream.Result, error)
	// Notify writes a notification of a client; it returns when ctx ends.
	Notify(ctx context.Context, method string, params []byte) error
	// Ping asks for a sign of life, in the way of the server's era.
	Ping(ctx context.Context) error
	Done() <-chan struct{}
	Err() error
	Close(ctx context.Context) error
	Info() upstream.Info
}

// Hooks are what a generation tells its slot. They must not block, and carry the
// generation by closure.
type Hooks struct {
	Changed   func(catalog.Kind)
	Announced func(catalog.Kind) // the server itself has said so; before Changed
	Stderr    func(line string)
	Linked    func(info func() transport.Info) // a link is open; info describes it as it is when it is called
	// Failed is told how far a start has come that failed.
	Failed func(upstream.Era, []upstream.Phase)
	Faults *transport.Injector // breaks the server on purpose; the slot's
}

// Dial starts one generation: it returns after the handshake, or with a
// *fault.Fault and nothing left alive. ctx bounds the start alone.
type Dial func(ctx context.Context, s config.Server, gen uint64, h Hooks) (Upstream, error)

// Options make a Slot.
type Options struct {
	Server config.Server
	Dial   Dial             // required
	Last   *catalog.Catalog // last good catalog from disk; may be nil
	Gen    uint64           // newest generation of an earlier run; the first generation gets the next
	// Session is the client that the slot is for, in the heads of events; 0: all clients.
	Session uint64
	// Starting bounds the starts of processes over all slots: a worker sends to
	// it before it dials, and receives from it when the start has ended or has
	// become a mere wait for an answer. nil: no bound.
	Starting chan struct{}
	// After holds back every start until it is closed; nil: not at all.
	After <-chan struct{}
	// Admit is asked before a request is sent, with what the generation that
	// would get it lists; a fault refuses it. It must not block. nil: all are
	// sent.
	Admit func(c *upstream.Call, offers *catalog.Catalog) *fault.Fault
	// Ready is waited for before each start, and by no limit of the start: what it
	// returns is why none is possible. It must end with ctx. nil: nothing is.
	Ready func(ctx context.Context, server config.Server) error
	// Credential is asked where the server refuses what it is shown. It must not
	// block. nil: Foreign.
	Credential func() Credential
	// Hide takes secrets out of a text that the configuration does not know; nil:
	// there are none.
	Hide func(text string) string
	// Watch returns true once what the last start failed for is there again, and
	// false when that cannot be seen or ctx ends. lost is when the server was
	// lost. nil: nothing is watched.
	Watch func(ctx context.Context, server config.Server, lost time.Time) bool
	// Published is called by the loop after each new view is out; it must not
	// block. May be nil.
	Published func(*View)
	// Announced is called by the loop when the server has announced a change of these
	// lists, and they are the same; it must not block. May be nil.
	Announced func([]catalog.Kind)
	// Meter counts for the server. nil: one of the slot's own.
	Meter *meter.Server
	// Observe gets the facts of each call that has ended, on the call's own
	// goroutine; it must not block. May be nil.
	Observe func(event.CallFacts)
	// Recorder takes what is recorded and measured of calls and of generations. nil:
	// nothing is.
	Recorder tracing.Recorder
	// Emit receives events, from the loop; it must not block. May be nil.
	Emit func(event.Event)
	// Rand returns a number in [0,1) for jitter; nil: math/rand.
	Rand func() float64
}
