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

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/transport"
)

// A Slot is what calls and operators have of a server. Three kinds of code run
// here, and the receiver says which:
//
//   - *Slot: the goroutines of callers, any number of them. They load the View,
//     take leases, and leave notes in the inbox; they decide nothing about the server.
//   - *loop: the one long-lived goroutine, which owns every decision. Nobody has
//     a *loop but itself, and operations, which it runs.
//   - starter, closer, relist, probe and the watch: workers, which do the IO for the
//     loop and come back as notes. There is at most one of each, but of closers one
//     for each generation that is ending.
//
// What they share is below; each field is either constant or safe for all of them.
type Slot struct {
	opts       Options
	name       string
	born       time.Time // base of the atomic times below, which count from here
	view       atomic.Pointer[View]
	logs       ring
	gate       gate             // bounds calls at a time
	pause      pause            // while the server wants no calls
	probeAt    atomic.Int64     // a call may bring a slow retry forward from then on
	callEvents chan event.Event // what calls have to tell; events that find it full are dropped
	waiting    atomic.Int64
	meter      *meter.Server                 // the server's, whatever slots it has
	durations  *tracing.Durations            // of the Recorder; nil: none are noted
	faults     transport.Injector            // breaks the server on purpose; off
	drill      atomic.Pointer[drill]         // the drill that runs; nil if none does
	alive      atomic.Pointer[[]*generation] // the generations that are not gone yet; replaced by the loop

	forced      context.Context // ends when a Close ran out of time
	forceCancel context.CancelFunc
	drainCut    chan struct{} // closed when a Close cannot wait for drains any longer
	cutOnce     sync.Once
	ended       chan struct{} // closed when the loop and all workers have ended

	inbox inbox
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
	if o.Meter == nil {
		o.Meter = meter.New()
	}
	s := &Slot{
		opts:       o,
		meter:      o.Meter,
		durations:  tracing.DurationsOf(o.Recorder),
		name:       o.Server.Name,
		born:       time.Now(),
		callEvents: make(chan event.Event, maxCallEvents),
		drainCut:   make(chan struct{}),
		ended:      make(chan struct{}),
	}
	s.inbox.wake = make(chan struct{}, 1)
	s.pause.born = s.born
	s.forced, s.forceCancel = context.WithCancel(context.Background())
	s.alive.Store(new([]*generation))
	go newLoop(s).run() // ended by Close, which waits for it
	return s
}

// View is the picture that is out now.
func (s *Slot) View() *View { return s.view.Load() }

// Counts are the numbers of one slot; those that only rise, and the times, are of
// all slots that have its meter.
type Counts struct {
	Out      int                       // calls in flight
	Waiting  int                       // calls that wait for the server
	Results  [event.CallResults]uint64 // calls that have ended, by how they did
	Saved    uint64                    // calls that were answered, and had failed without everline
	Repeated uint64                    // sends beyond the first of a call
	Parked   uint64                    // waits of calls for a generation that are over
	Starts   uint64                    // generations started
	Outage   time.Duration             // for how long the server was away, without an outage that lasts

	// P50 and P95 are how long the newest answers took from when the call came,
	// waiting and sending again included; 0 if there was none yet.
	P50, P95 time.Duration
}

// Counts are the totals as of now.
func (s *Slot) Counts() Counts {
	c := Counts{
		Waiting: int(s.waiting.Load()),
	}
	c.P50, c.P95 = s.meter.Percentiles()
	c.Results, c.Outage = s.meter.Results(), s.meter.Outages()
	c.Saved, c.Repeated, c.Parked, c.Starts = s.meter.Totals()
	for _, g := range *s.alive.Load() {
		c.Out += g.leases()
	}
	return c
}

// CountLinks brings what its meter says of links up to date.
func (s *Slot) CountLinks() {
	for _, g := range *s.alive.Load() {
		g.countLink(s.meter)
	}
}

// Ended is how many calls have ended, however they did.
func (c *Counts) Ended() (n uint64) {
	for _, k := range c.Results {
		n += k
	}
	return n
}

// Logs returns the last lines that the server wrote to stderr, over all its
// generations, the oldest first.
func (s *Slot) Logs() []Line { return s.logs.lines() }

// Close refuses calls, ends whatever serves or is starting, and waits for all
// goroutines. Calls in flight get their drain time, but no more than half of
// what ctx leaves. When ctx ends first the rest is cut short, and a Closed
// fault names what would not stop; a later Close waits on. It is idempotent.
func (s *Slot) Close(ctx context.Context) error {
	s.inbox.post(&operation{op: (*loop).shut, done: make(chan struct{})})
	if deadline, ok := ctx.Deadline(); ok {
		t := time.AfterFunc(time.Until(deadline)/2, s.cutDrains)
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

// since is t as a number that an atomic can hold.
func (s *Slot) since(t time.Time) int64 { return sinceBirth(s.born, t) }

// demand asks the loop for a generation; see inbox.demand.
func (s *Slot) demand() <-chan struct{} {
	if answered := s.inbox.demand(); answered != nil {
		return answered
	}
	return s.ended // closed soon: the caller then finds the slot closed
}

func (s *Slot) closedFault(what string) *fault.Fault {
	f := fault.New(fault.Closed, what, "everline is letting go of this server")
	f.Server, f.Outcome = s.name, fault.NotSent
	return f
}

// maxCallEvents is how many events of calls may wait for the loop; more are
// dropped, the counters of Counts are exact.
const maxCallEvents = 64

func (s *Slot) head(gen uint64) event.Head {
	return event.Head{Time: time.Now(), Server: s.name, Gen: gen, Session: s.opts.Session}
}

// emitLater has the loop emit an event of a call. It never waits: what does not
// fit is dropped.
func (s *Slot) emitLater(e event.Event) {
	select {
	case s.callEvents <- e:
	default:
	}
}
