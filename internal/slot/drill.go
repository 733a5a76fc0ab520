package slot

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/typed"
	"github.com/everline/everline/internal/upstream"
)

// The times of a Drill where it does not say them, and the longest it may last.
const (
	drillFor      = 10 * time.Second
	drillDelay    = time.Second
	drillRecovery = 30 * time.Second
	drillLongest  = 10 * time.Minute
)

const (
	drillPing  = 5 * time.Second        // how long the server may take to answer one
	drillPause = 100 * time.Millisecond // between two that failed, unless the view changes
	// drillSettle is for the calls that waited for the server as the drill did.
	drillSettle = 250 * time.Millisecond
	sampleSize  = 4096 // times that a tally keeps
)

// A Drill says how to break a server on purpose.
type Drill struct {
	// Fault is one of DrillFaults: kill (SIGKILL to the process and what it
	// started; all connections to a URL are cut), hang (requests are written,
	// and nothing that the server says comes through), 404 (an HTTP server
	// forgets the session), slow (each answer is held back), garbage (what is no
	// message comes ahead of what the server says), drop (stdout ends; the open
	// event streams are cut).
	Fault string
	// For is how long hang, slow and garbage last; the others strike once, at
	// the beginning. No drill is over before. 0: 10 s; at most 10 min.
	For time.Duration
	// Delay is how long slow holds an answer back. 0: 1 s.
	Delay time.Duration
	// Recovery is how long the server may take to be well again by itself once
	// the fault is over; after that it is told once to connect at once. 0: 30 s.
	Recovery time.Duration
	// Broken is called once the fault is on, and Over once it is over; nil is
	// allowed, and they must not block.
	Broken, Over func()
}

// DrillFaults are the words for the faults of a Drill.
func DrillFaults() []string { return transport.Breakages() }

// A Drilled is what a Drill saw.
type Drilled struct {
	Began     time.Time
	Lasted    time.Duration // how long the fault was on; 0 for one that strikes once
	Before    uint64        // the generation that was broken
	After     uint64        // the newest one at the end
	Recovered bool          // the server answered again
	Recovery  time.Duration // from the fault's end until it did; valid if Recovered
	Woken     bool          // it was told to connect, because it was not well in time
	Clients   Tally         // what the calls of clients saw
	Probes    Tally         // what calls by Probe saw
}

// A Tally is what calls saw while a server was drilled. A call that was in
// flight when the fault began counts from then on.
type Tally struct {
	Calls    int                // that ended
	Answered int                // those with a result, or the server's own error
	Failed   map[fault.Kind]int // those that failed, by kind
	GaveUp   int                // those that their client ended
	Waited   int                // times that a call waited for the server to come back
	Resent   int                // times that a call was sent again
	Longest  time.Duration      // of all but those that gave up
	Median   time.Duration
}

// failed counts all failures.
func (t *Tally) failed() (n int) {
	for _, count := range t.Failed {
		n += count
	}
	return n
}

// OK tells whether no call failed.
func (t *Tally) OK() bool { return t.failed() == 0 }

// A drill is one that runs.
type drill struct {
	fault  string
	method string // a request that the server answers, and that does nothing

	mu      sync.Mutex // guards the rest
	began   time.Time  // zero until the fault is on
	clients counted
	probes  counted
}

// counted is a Tally in the making.
type counted struct {
	tally  Tally
	sample []time.Duration // a fair one of the times
	seen   int
}

type probing struct{}

// Probing marks a call as a drill's own.
func Probing(ctx context.Context) context.Context { return context.WithValue(ctx, probing{}, true) }

// tallyOf is whom the call of ctx is counted for; nil before the fault is on.
// The caller has the lock.
func (d *drill) tallyOf(ctx context.Context) *counted {
	switch {
	case d.began.IsZero():
		return nil
	case ctx.Value(probing{}) != nil:
		return &d.probes
	default:
		return &d.clients
	}
}

// note counts a call that has ended. A nil drill counts nothing.
func (d *drill) note(ctx context.Context, began time.Time, err error) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.tallyOf(ctx)
	if c == nil {
		return
	}
	if began.Before(d.began) {
		began = d.began
	}
	c.add(time.Since(began), err)
}

func (c *counted) add(took time.Duration, err error) {
	t := &c.tally
	t.Calls++
	switch {
	case err == nil || fault.KindOf(err) == fault.RPC:
		t.Answered++
	case fault.KindOf(err) == fault.Canceled:
		t.GaveUp++
		return
	default:
		if t.Failed == nil {
			t.Failed = map[fault.Kind]int{}
		}
		t.Failed[fault.KindOf(err)]++
	}
	t.Longest = max(t.Longest, took)
	c.seen++
	if len(c.sample) < sampleSize {
		c.sample = append(c.sample, took)
	} else if i := rand.IntN(c.seen); i < sampleSize {
		c.sample[i] = took
	}
}

// count adds one to a field of the caller's tally. A nil drill counts nothing.
func (d *drill) count(ctx context.Context, field func(*Tally) *int) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.tallyOf(ctx); c != nil {
		*field(&c.tally)++
	}
}

func waits(t *Tally) *int   { return &t.Waited }
func resends(t *Tally) *int { return &t.Resent }

func (c *counted) result() Tally {
	if len(c.sample) > 0 {
		slices.Sort(c.sample)
		c.tally.Median = c.sample[len(c.sample)/2]
	}
	return c.tally
}

// Drilling names the fault of the drill that runs; "" if none does.
func (s *Slot) Drilling() string {
	if d := s.drill.Load(); d != nil {
		return d.fault
	}
	return ""
}

// Drill breaks the server on purpose, counts what calls see of it, and returns
// once the server is well again, or twice Recovery has passed. The fault is
// over when Drill returns, and at once when ctx ends. Errors are faults:
// Conflict if the server is not connected, is being drilled, or has nothing
// that could be broken so; Invalid if the fault does not fit it; Canceled.
func (s *Slot) Drill(ctx context.Context, d Drill) (Drilled, error) {
	kind, err := d.check()
	if err != nil {
		return Drilled{}, err.At(s.name, 0)
	}
	if s.Drilling() != "" {
		return Drilled{}, s.undrillable("it is being drilled already")
	}
	run := &drill{fault: d.Fault}
	if run.method, err = s.findProbe(ctx); err != nil {
		return Drilled{}, err
	}
	if !s.drill.CompareAndSwap(nil, run) {
		return Drilled{}, s.undrillable("it is being drilled already")
	}
	defer s.drill.Store(nil)
	r := Drilled{Before: s.view.Load().State.Gen}
	trouble, begin := run.begin(&s.faults, kind, d)
	if begin != nil {
		return Drilled{}, fault.From("drill", begin).At(s.name, r.Before)
	}
	defer s.restore(trouble)
	s.emitLater(event.DrillBegan{Head: s.headOf(r.Before), Fault: d.Fault, For: lasting(kind, d.For)})
	d.tell(d.Broken)
	r.Began = run.began
	select {
	case <-trouble.Over():
	case <-ctx.Done():
		return Drilled{}, fault.From("drill", ctx.Err()).At(s.name, r.Before)
	}
	over := time.Now()
	r.Lasted = lasting(kind, over.Sub(r.Began))
	d.tell(d.Over)
	s.watchRecovery(ctx, trouble, &r, over, d.Recovery)
	if pauseFor(ctx, nil, max(time.Until(r.Began.Add(d.For)), drillSettle)); ctx.Err() != nil {
		return Drilled{}, fault.From("drill", ctx.Err()).At(s.name, r.Before)
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	r.Clients, r.Probes, r.After = run.clients.result(), run.probes.result(), s.view.Load().State.Gen
	s.emitLater(event.DrillEnded{Head: s.headOf(r.After), Fault: d.Fault, Recovered: r.Recovered, Took: r.Recovery})
	return r, nil
}

func lasting(kind transport.Breakage, d time.Duration) time.Duration {
	if !kind.Lasts() {
		return 0
	}
	return d
}

// check reads the fault and fills in the times.
func (d *Drill) check() (transport.Breakage, *fault.Fault) {
	kind, ok := transport.ParseBreakage(d.Fault)
	if !ok {
		f := fault.New(fault.Invalid, "drill", fmt.Sprintf("no fault is called %q", d.Fault))
		f.Remedy, f.Outcome = "--fault "+strings.Join(DrillFaults(), "|"), fault.NotSent
		return 0, f
	}
	d.For, d.Delay, d.Recovery = orElse(d.For, drillFor), orElse(d.Delay, drillDelay), orElse(d.Recovery, drillRecovery)
	if max(d.For, d.Delay, d.Recovery) > drillLongest {
		f := fault.New(fault.Invalid, "drill", "a drill has at most 10 minutes for each of its parts")
		f.Outcome = fault.NotSent
		return 0, f
	}
	return kind, nil
}

func (d *Drill) tell(fn func()) {
	if fn != nil {
		fn()
	}
}

// begin breaks the server. Calls that end from the first moment on count.
func (r *drill) begin(faults *transport.Faults, kind transport.Breakage, d Drill) (*transport.Trouble, error) {
	r.mu.Lock()
	r.began = time.Now()
	r.mu.Unlock()
	return faults.Begin(kind, d.Delay, d.For)
}

func (s *Slot) undrillable(text string) *fault.Fault {
	f := fault.New(fault.Conflict, "drill", text)
	f.Server, f.Outcome = s.name, fault.NotSent
	return f
}

// probeMethods are requests that do nothing, by what most servers like best.
var probeMethods = []string{mcp.Ping, mcp.ServerDiscover, mcp.ToolsList}

// findProbe finds a request that the server answers while all is well.
func (s *Slot) findProbe(ctx context.Context) (string, *fault.Fault) {
	ctx, cancel := context.WithTimeout(ctx, drillPing)
	defer cancel()
	v := s.view.Load()
	if v.serving == nil {
		f := s.undrillable("a drill breaks a server that works, and this one is " + v.Seen())
		f.Remedy = "everline status " + typed.Argument(s.name)
		return "", f
	}
	var last error
	for _, method := range probeMethods {
		if (method == mcp.Ping) == v.Info.Era.Modern && method != mcp.ToolsList {
			continue // the other era's word
		}
		if last = s.pingBy(ctx, method); last == nil {
			return method, nil
		}
	}
	f := s.undrillable("")
	f.Err = fmt.Errorf("a drill breaks a server that works, and this one does not answer: %w", last)
	return "", f
}

// Ping makes the server answer a request that does nothing, on the way of
// every call: it waits for a generation, and is sent again, as one that is harmless.
// An error that the server answers is an answer.
func (s *Slot) Ping(ctx context.Context) error {
	method := probeMethods[0]
	if d := s.drill.Load(); d != nil {
		method = d.method
	} else if s.view.Load().Info.Era.Modern {
		method = probeMethods[1]
	}
	return s.pingBy(ctx, method)
}

func (s *Slot) pingBy(ctx context.Context, method string) error {
	_, err := s.Call(ctx, &upstream.Call{Method: method}, config.ReplaySafe)
	if err == nil || fault.KindOf(err) == fault.RPC {
		return nil
	}
	return err
}

// watchRecovery waits until the server answers. One that does not do so within
// limit by itself, such as one whose next attempt is minutes away, is woken as
// by an operator: a drill leaves nothing broken behind.
func (s *Slot) watchRecovery(ctx context.Context, t *transport.Trouble, r *Drilled, over time.Time, limit time.Duration) {
	felt, cancel := context.WithTimeout(ctx, drillPing)
	t.Felt(felt) // what is broken may answer until then
	cancel()
	r.Recovered = s.pingUntil(ctx, limit)
	if !r.Recovered && ctx.Err() == nil {
		r.Woken = s.operate(ctx, "drill", (*Slot).wakeAfterDrill) == nil
		r.Recovered = s.pingUntil(ctx, limit)
	}
	r.Recovery = time.Since(over)
}

// pingUntil pings until there is an answer; false if none comes within limit.
func (s *Slot) pingUntil(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(Probing(ctx), limit)
	defer cancel()
	for {
		v := s.view.Load()
		once, stop := context.WithTimeout(ctx, drillPing)
		err := s.Ping(once)
		stop()
		switch {
		case err == nil:
			return true
		case fault.KindOf(err) == fault.Disabled || v.closed:
			return false
		}
		if !pauseFor(ctx, v.Changed, drillPause) && ctx.Err() != nil {
			return false
		}
	}
}

// restore ends the fault, whatever the drill came to, and leaves no long wait
// behind that the drill has caused.
func (s *Slot) restore(trouble *transport.Trouble) {
	trouble.End()
	s.post(&operation{op: (*Slot).wakeAfterDrill, done: make(chan struct{})}) // nobody waits for it
}

// wakeAfterDrill ends the wait for the next attempt.
func (s *Slot) wakeAfterDrill() error {
	switch s.loop.state.Phase() {
	case lifecycle.Backoff, lifecycle.Stopped:
		s.step(lifecycle.Wake{Operator: true})
	default:
	}
	return nil
}

func (s *Slot) headOf(gen uint64) event.Head {
	return event.Head{Time: time.Now(), Server: s.name, Gen: gen, Session: s.opts.Session}
}
