// Package slot is the permanent place of one server: one loop goroutine runs
// the lifecycle, workers that it owns do the IO, an immutable View is
// published by pointer swap, and calls take leases without entering the loop.
// It merges nothing and knows no other slot.
package slot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
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
	Changed func(catalog.Kind)
	Stderr  func(line string)
	Linked  func(info func() transport.Info) // a link is open; info describes it as it is when it is called
	Faults  *transport.Faults                // breaks the server on purpose; the slot's
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
	// Admit is asked before a request is sent, with what the generation that would get
	// it lists; a fault refuses it. It must not block. nil: all are sent.
	Admit func(c *upstream.Call, offers *catalog.Catalog) *fault.Fault
	// Watch returns true once what the last start failed for is there again, and
	// false when that cannot be seen or ctx ends. lost is when the server was
	// lost. nil: nothing is watched.
	Watch func(ctx context.Context, server config.Server, lost time.Time) bool
	// Published is called by the loop after each new view is out; it must not block. May be nil.
	Published func(*View)
	// Emit receives events, from the loop; it must not block. May be nil.
	Emit func(event.Event)
	// Rand returns a number in [0,1) for jitter; nil: math/rand.
	Rand func() float64
}

// A View is the published picture of a slot. It is never changed; the next
// one replaces it, and then Changed is closed.
type View struct {
	Server  config.Server
	State   lifecycle.State
	Catalog *catalog.Catalog // last good; nil if there never was one
	// CatalogOf is the Identity of the configuration that Catalog was listed
	// with: after a change of it the last good one may be another server's.
	CatalogOf string
	Cause     *fault.Fault // why the last generation or attempt ended, or why it cannot be listed; nil after proven health
	// ListCause is why the newest listing of the serving generation failed; nil if it
	// did not. The last good one is kept.
	ListCause *fault.Fault
	// CloseCause is why the last generation that was ended would not end in order;
	// nil if it did.
	CloseCause *fault.Fault
	Since      time.Time       // when the seen state began
	AwaySince  time.Time       // since when no generation serves that should, over all attempts; zero if one does, or none is wanted now
	Next       time.Time       // when the next attempt is due; zero if none is
	Checked    time.Time       // when the catalog was last found to be true, as of this view; zero if never in this run
	Info       upstream.Info   // of the serving generation, as of its start
	Changed    <-chan struct{} // closed when this view is stale

	serving *generation // the serving generation; nil if none
	newest  *generation // of a server that is away: started last; nil if none was
	began   time.Time   // when the newest generation was started; zero if none was
	closed  bool        // the slot is closing
}

// Seen is the state in the words that people see: "connected", "reconnecting", …
func (v *View) Seen() string { return v.State.Seen() }

// Now is Info as it is at this moment: what is counted has grown since the
// generation's start.
func (v *View) Now() upstream.Info {
	if v.serving == nil {
		return v.Info
	}
	return v.serving.up.Info()
}

// Link describes the link of the serving generation as it is now; while the server
// is away, that of the generation which is starting or was the last to.
func (v *View) Link() transport.Info {
	switch {
	case v.serving != nil:
		return v.serving.up.Info().Info
	case v.newest == nil:
		return transport.Info{}
	}
	if info := v.newest.link.Load(); info != nil {
		return (*info)()
	}
	return transport.Info{}
}

// Counts are totals of one slot.
type Counts struct {
	Out      int    // calls in flight
	Waiting  int    // calls that wait for the server
	Replayed uint64 // calls that were sent again
	Failed   uint64 // calls that failed for another reason than the server's own answer
	Starts   uint64 // generations started
	Ended    uint64 // calls that have ended, however they did

	// P50 and P95 are how long the newest answers took from when the call came,
	// waiting and sending again included; 0 if there was none yet.
	P50, P95 time.Duration
}

// A Slot has one long-lived goroutine, the loop. Beside it live, for as long
// as their work takes, at most one worker that starts a generation, one that ends
// each generation that is ending, one that refreshes the catalog, and one that
// watches for what the server lacks.
type Slot struct {
	opts       Options
	name       string
	born       time.Time // base of the atomic times below, which count from here
	view       atomic.Pointer[View]
	logs       ring
	gate       gate             // bounds calls at a time
	paused     atomic.Int64     // the server asked for no calls until then; 0 if it did not
	probeAt    atomic.Int64     // a call may bring a slow retry forward from then on
	wake       chan struct{}    // one slot: the loop has something to do
	callEvents chan event.Event // what calls have to tell; events that find it full are dropped
	starts     atomic.Uint64
	waiting    atomic.Int64
	resent     atomic.Uint64
	failed     atomic.Uint64
	meter      meter
	faults     transport.Faults              // breaks the server on purpose; off
	drill      atomic.Pointer[drill]         // the drill that runs; nil if none does
	alive      atomic.Pointer[[]*generation] // the generations that are not gone yet; replaced by the loop

	workers     sync.WaitGroup
	forced      context.Context // ends when a Close ran out of time
	forceCancel context.CancelFunc
	drainCut    chan struct{} // closed when a Close cannot wait for drains any longer
	cutOnce     sync.Once
	ended       chan struct{} // closed when the loop and all workers have ended

	inbox inbox
	loop  loop // owned by the loop goroutine alone
}

// New starts the slot's loop, and with it the server unless that is disabled
// or lazy. The caller must Close the slot.
func New(o Options) *Slot {
	if o.Dial == nil {
		panic("bug: slot without Dial")
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	s := &Slot{
		opts:       o,
		name:       o.Server.Name,
		born:       time.Now(),
		wake:       make(chan struct{}, 1),
		callEvents: make(chan event.Event, maxCallEvents),
		drainCut:   make(chan struct{}),
		ended:      make(chan struct{}),
	}
	s.forced, s.forceCancel = context.WithCancel(context.Background())
	s.alive.Store(new([]*generation))
	s.begin()
	go s.run() // ended by Close, which waits for it
	return s
}

// View is the picture that is out now.
func (s *Slot) View() *View { return s.view.Load() }

// Counts are the totals as of now.
func (s *Slot) Counts() Counts {
	c := Counts{
		Waiting:  int(s.waiting.Load()),
		Replayed: s.resent.Load(),
		Failed:   s.failed.Load(),
		Starts:   s.starts.Load(),
		Ended:    s.meter.ended.Load(),
	}
	c.P50, c.P95 = s.meter.percentiles()
	for _, g := range *s.alive.Load() {
		c.Out += g.leases()
	}
	return c
}

// Logs returns the last lines that the server wrote to stderr, over all its
// generations, the oldest first.
func (s *Slot) Logs() []Line { return s.logs.lines() }

// Close refuses calls, ends whatever serves or is starting, and waits for all
// goroutines. Calls in flight get their drain time, but no more than half of
// what ctx leaves. When ctx ends first the rest is cut short, and a Closed
// fault names what would not stop; a later Close waits on. It is idempotent.
func (s *Slot) Close(ctx context.Context) error {
	s.post(&operation{op: (*Slot).shut, done: make(chan struct{})})
	if at, ok := ctx.Deadline(); ok {
		t := time.AfterFunc(time.Until(at)/2, s.cutDrains)
		defer t.Stop()
	}
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		s.cutDrains()
		s.forceCancel()
		return s.unstopped(ctx.Err())
	}
}

func (s *Slot) cutDrains() { s.cutOnce.Do(func() { close(s.drainCut) }) }

// unstopped names the generations that are still there.
func (s *Slot) unstopped(err error) error {
	var gens []string
	for _, g := range *s.alive.Load() {
		gens = append(gens, fmt.Sprint(g.gen))
	}
	slices.Sort(gens)
	what := "its last worker"
	if len(gens) > 0 {
		what = "generation " + strings.Join(gens, ", ")
	}
	return &fault.Fault{
		Kind: fault.Closed, Op: "close", Server: s.name,
		Err: fmt.Errorf("%s would not stop in time: %w", what, errors.Join(err)),
	}
}

// since is now as a number that an atomic can hold; never 0.
func (s *Slot) since(t time.Time) int64 { return max(int64(t.Sub(s.born)), 1) }
