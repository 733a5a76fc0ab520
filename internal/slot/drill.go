package slot

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/transport"
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
	// the fault is over; after that it is made to connect immediately, once. 0:
	// 30 s.
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
	Woken     bool          // it was made to connect, because it was not well in time
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

// tallyOf is whom the call of ctx is counted for; nil before the fault is on.
// The caller has the lock.
func (d *drill) tallyOf(ctx context.Context) *counted {
	switch {
	case d.began.IsZero():
		return nil
	case door.IsProbe(ctx):
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

func waits(t *Tally) *int { return &t.Waited }

func resends(t *Tally) *int { return &t.Resent }

func (c *counted) result() Tally {
	if len(c.sample) > 0 {
		slices.Sort(c.sample)
		c.tally.Median = c.sample[len(c.sample)/2]
	}
	return c.tally
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
	d.For, d.Delay, d.Recovery = cmp.Or(max(d.For, 0), drillFor), cmp.Or(max(d.Delay, 0), drillDelay), cmp.Or(max(d.Recovery, 0), drillRecovery)
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
func (r *drill) begin(faults *transport.Injector, kind transport.Breakage, d Drill) (*transport.Injection, error) {
	r.mu.Lock()
	r.began = time.Now()
	r.mu.Unlock()
	return faults.Begin(kind, d.Delay, d.For)
}
