package tracing

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/meter"
)

// Durations are those that the conventions for MCP want measured. The zero value is
// ready to use.
type Durations struct {
	Answered    Measure // requests of clients
	Asked       Measure // requests to servers, each send by itself
	Sessions    Measure // of clients that have any
	Generations Measure // connections to servers, from when they served to their end
}

// An Operation is what durations are told apart by. Of a Peer's Session nothing is
// kept.
type Operation struct {
	Method string // "" of what is no request
	Error  string // as of a Span
	Code   int64
	Peer   Peer
}

// maxOperations bounds a Measure. Servers choose the codes of their errors; what has no
// place goes by other.
const (
	maxOperations = 2000
	other         = "_OTHER"
)

// A Measure is one histogram for each operation.
type Measure struct {
	mu  sync.RWMutex // guards all; nothing waits under it
	all map[Operation]*meter.Histogram
}

// A Measured operation is how often it took how long.
type Measured struct {
	Operation
	meter.Distribution
}

// Observe notes how long an operation took.
func (m *Measure) Observe(o Operation, took time.Duration) {
	o.Peer.Session = ""
	if o.Method != "" {
		o.Method = known(o.Method)
	}
	m.mu.RLock()
	h := m.all[o]
	m.mu.RUnlock()
	if h == nil {
		h = m.add(o)
	}
	h.Observe(took)
}

func (m *Measure) add(o Operation) *meter.Histogram {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[Operation]*meter.Histogram{}
	}
	if len(m.all) >= maxOperations {
		o = Operation{Error: other}
	}
	h := m.all[o]
	if h == nil {
		made := meter.Make(meter.Conventional)
		h = &made
		m.all[o] = h
	}
	return h
}

// Read is what was measured until now, in a fixed order.
func (m *Measure) Read() []Measured {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]Measured, 0, len(m.all))
	for o, h := range m.all {
		out = append(out, Measured{o, h.Read()})
	}
	slices.SortFunc(out, func(a, b Measured) int {
		return cmp.Or(
			cmp.Compare(a.Method, b.Method), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Peer.Address, b.Peer.Address), cmp.Compare(a.Peer.Port, b.Peer.Port),
			cmp.Compare(a.Peer.Version, b.Peer.Version), cmp.Compare(a.Peer.Transport, b.Peer.Transport), cmp.Compare(a.Peer.HTTP, b.Peer.HTTP),
		)
	})
	return out
}

// methods are those that durations are told apart by: a client can make up others.
var methods = []string{
	mcp.ToolsCall, mcp.ToolsList, mcp.Initialize, mcp.Ping, mcp.ServerDiscover, mcp.PromptsList, mcp.PromptsGet,
	mcp.ResourcesList, mcp.ResourcesTemplatesList, mcp.ResourcesRead, mcp.ResourcesSubscribe, mcp.ResourcesUnsubscribe,
	mcp.CompletionComplete, mcp.LoggingSetLevel, mcp.TasksGet, mcp.TasksList, mcp.TasksResult, mcp.TasksCancel, mcp.TasksUpdate,
}

// known is a method, or "_OTHER" for one that somebody has made up.
func known(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return other
}
