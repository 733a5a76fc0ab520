// Package meter counts what happens to servers and their calls: atomics that are
// written where it happens, never reset, and read by whoever shows them. It shows
// nothing itself.
package meter

import (
	"sync/atomic"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
)

// A Cause is why something happened: a kind of fault, or one of the constants.
type Cause uint8

// Causes of generations that are no faults.
const (
	First    Cause = kinds + iota // the first one of this run
	Call                          // a lazy or long absent server was called
	Operator                      // somebody ordered it
	Config                        // another configuration applies
	Strikes                       // the one before was given up for its failures
	Drill                         // a drill is over
	causes
)

const kinds = Cause(fault.Closed) + 1

var causeNames = [causes - kinds]string{"first", "call", "operator", "config", "strikes", "drill"}

// String is the name as used in metrics; that of a fault is its kind's.
func (c Cause) String() string {
	if c < kinds {
		return fault.Kind(c).String()
	}
	return causeNames[c-kinds]
}

// Methods are what calls are counted by; the last stands for all others.
var Methods = [...]string{
	mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead, mcp.CompletionComplete,
	mcp.ToolsList, mcp.PromptsList, mcp.ResourcesList, mcp.ResourcesTemplatesList, "tasks", "other",
}

func methodOf(name string) int {
	for i, m := range Methods[:8] {
		if m == name {
			return i
		}
	}
	if len(name) > 6 && name[:6] == "tasks/" {
		return 8
	}
	return 9
}

// Parked are how waits for a generation end.
var Parked = [...]string{"served", "failed", "gave_up"}

// Ends of a wait, in the order of Parked.
const (
	Served = iota
	Failed
	GaveUp
)

// A Server counts for one server, over all its slots and generations. It is made
// by New; all methods may be called by many goroutines at a time.
type Server struct {
	latency  latency
	calls    [len(Methods)][event.CallResults]atomic.Uint64
	failures counters
	saved    [event.ByParking + 1]atomic.Uint64
	repeated counters
	parked   [len(Parked)]atomic.Uint64
	sent     atomic.Uint64
	received atomic.Uint64
	limited  atomic.Uint64
	pings    [2]atomic.Uint64 // that were missed, and that were answered
	paused   atomic.Int64
	link     struct{ late, noise, ignored, stderr, cpu atomic.Int64 }
	drills   drills
	tools    tools

	starts        counters
	losses        counters
	startFailures counters
	listFailures  counters
	changes       atomic.Uint64
	outage        atomic.Int64 // those that are over

	took                               exemplary
	upstream, park, started, recovered Histogram
}

type counters [causes]atomic.Uint64

// New returns the meter of a server.
func New() *Server {
	return &Server{took: makeExemplary(Calls), upstream: Make(Calls), park: Make(Recovery), started: Make(Recovery), recovered: Make(Recovery)}
}

// Call counts a call that has ended.
func (m *Server) Call(f *event.CallFacts) {
	m.calls[methodOf(f.Method)][f.Result].Add(1)
	m.took.Observe(f.Took)
	if f.Sends > 0 {
		m.sent.Add(uint64(f.ParamBytes) * uint64(f.Sends))
		m.received.Add(uint64(f.Bytes))
	}
	switch f.Result {
	case event.CallAnswered, event.CallToolError, event.CallRPCError:
		m.latency.note(f.Took) // others' times say when they were given up, and nothing about the server
		if f.Saved != event.NotSaved {
			m.saved[f.Saved].Add(1)
		}
	case event.CallNotSent, event.CallUnknown, event.CallRefused:
		m.failures[f.Kind].Add(1)
	case event.CallCanceled:
	}
}

// Sampled notes that the trace of a call which was counted is recorded.
func (m *Server) Sampled(trace [16]byte, f *event.CallFacts) {
	m.took.show(&Exemplar{trace, f.Took, f.Began.Add(f.Took)})
}

// Sent counts a send that was answered, or failed, after d.
func (m *Server) Sent(d time.Duration) { m.upstream.Observe(d) }

// Repeated counts a send of a call whose last one failed in this way.
func (m *Server) Repeated(kind fault.Kind) { m.repeated[kind].Add(1) }

// Parked counts the end of a wait for a generation.
func (m *Server) Parked(end int, d time.Duration) {
	m.parked[end].Add(1)
	m.park.Observe(d)
}

// Limited counts a refusal of the server because of a rate, and by how much it
// has lengthened the pause.
func (m *Server) Limited(d time.Duration) {
	m.limited.Add(1)
	m.paused.Add(int64(d))
}

// A Link is what is counted on one connection, from its begin.
type Link struct {
	Late    uint64        // answers that no call waited for
	Noise   uint64        // lines or events that were no messages
	Ignored uint64        // messages that meant nothing
	Stderr  uint64        // bytes
	CPU     time.Duration // of the process and what it had started, once all of it has ended
}

// Linked counts what has happened on a connection between two moments.
func (m *Server) Linked(was, now Link) {
	m.link.late.Add(int64(now.Late - was.Late))
	m.link.noise.Add(int64(now.Noise - was.Noise))
	m.link.ignored.Add(int64(now.Ignored - was.Ignored))
	m.link.stderr.Add(int64(now.Stderr - was.Stderr))
	m.link.cpu.Add(int64(now.CPU - was.CPU))
}

func (m *Server) links() Link {
	l := &m.link
	return Link{uint64(l.late.Load()), uint64(l.noise.Load()), uint64(l.ignored.Load()), uint64(l.stderr.Load()), time.Duration(l.cpu.Load())}
}

// Pinged counts a ping of a server that was silent.
func (m *Server) Pinged(answered bool) {
	i := 0
	if answered {
		i = 1
	}
	m.pings[i].Add(1)
}

// Started counts the begin of a generation.
func (m *Server) Started(why Cause) { m.starts[why].Add(1) }

// Outage counts an outage that is over.
func (m *Server) Outage(d time.Duration) { m.outage.Add(int64(d)) }

// Event counts what an event of a slot's loop tells. Those of calls do not all
// come by, and are counted as calls.
func (m *Server) Event(e event.Event) {
	switch e := e.(type) {
	case event.Connected:
		m.started.Observe(e.Took)
		if e.After > 0 {
			m.recovered.Observe(e.After)
		}
	case event.StartFailed:
		m.startFailures[e.Cause.Kind].Add(1)
	case event.Lost:
		m.losses[e.Cause.Kind].Add(1)
	case event.ListFailed:
		m.listFailures[e.Cause.Kind].Add(1)
	case event.CatalogChanged:
		m.changes.Add(1)
	}
}

// Counts are what a meter has counted until one moment. By cause: by the number
// of the Cause.
type Counts struct {
	Calls         [len(Methods)][event.CallResults]uint64 // by method and result
	Failures      [causes]uint64                          // of calls that were not sent, refused, or are unknown
	Saved         [event.ByParking + 1]uint64
	Repeated      [causes]uint64
	Parked        [len(Parked)]uint64
	Sent          uint64 // bytes of params
	Received      uint64 // bytes of results
	Limited       uint64
	Missed        uint64 // pings
	Heard         uint64 // pings that were answered
	Paused        time.Duration
	Starts        [causes]uint64
	Losses        [causes]uint64
	StartFailures [causes]uint64
	ListFailures  [causes]uint64
	Changes       uint64
	Outage        time.Duration // of outages that are over
	Links         Link
	Drills        map[string]uint64                    // by the word for the fault
	Tools         map[string][event.CallResults]uint64 // calls by tool, others by OtherTools; nil while they are not counted

	Took, Upstream, Park, StartTimes, Recovered Distribution
}

// Read is what was counted until now.
func (m *Server) Read() Counts {
	c := Counts{
		Failures: m.failures.read(), Repeated: m.repeated.read(), Starts: m.starts.read(), Losses: m.losses.read(),
		StartFailures: m.startFailures.read(), ListFailures: m.listFailures.read(),
		Missed: m.pings[0].Load(), Heard: m.pings[1].Load(),
		Sent: m.sent.Load(), Received: m.received.Load(), Limited: m.limited.Load(), Paused: time.Duration(m.paused.Load()),
		Changes: m.changes.Load(), Outage: time.Duration(m.outage.Load()), Links: m.links(), Drills: m.drills.read(), Tools: m.tools.read(),
		Took: m.took.Read(), Upstream: m.upstream.Read(), Park: m.park.Read(), StartTimes: m.started.Read(), Recovered: m.recovered.Read(),
	}
	for i := range m.calls {
		for j := range m.calls[i] {
			c.Calls[i][j] = m.calls[i][j].Load()
		}
	}
	for i := range m.saved {
		c.Saved[i] = m.saved[i].Load()
	}
	for i := range m.parked {
		c.Parked[i] = m.parked[i].Load()
	}
	return c
}

// Results are how many calls have ended, by result.
func (m *Server) Results() (n [event.CallResults]uint64) {
	for i := range m.calls {
		for j := range m.calls[i] {
			n[j] += m.calls[i][j].Load()
		}
	}
	return n
}

// Totals are the sums of what is counted by something: calls that were saved,
// sends beyond the first, waits for a generation, and generations.
func (m *Server) Totals() (saved, repeated, parked, starts uint64) {
	for i := range m.parked {
		parked += m.parked[i].Load()
	}
	return m.saved[event.ByReplay].Load() + m.saved[event.ByParking].Load(), m.repeated.sum(), parked, m.starts.sum()
}

// Outages is how long outages took that are over.
func (m *Server) Outages() time.Duration { return time.Duration(m.outage.Load()) }

// Percentiles are the middle and the 95th of 100 of how long the newest answers
// took, waiting included; 0 if there was no answer yet.
func (m *Server) Percentiles() (p50, p95 time.Duration) { return m.latency.percentiles() }

func (c *counters) read() (n [causes]uint64) {
	for i := range c {
		n[i] = c[i].Load()
	}
	return n
}

func (c *counters) sum() (n uint64) {
	for i := range c {
		n += c[i].Load()
	}
	return n
}
