package everline

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/slot"
)

// A Drill says how to break a server on purpose.
type Drill = slot.Drill

// A DrillTally is what calls saw while a server was drilled.
type DrillTally = slot.Tally

// A DrillReport is what a drill has shown.
type DrillReport struct {
	slot.Drilled
	// Short tells that an item that the server had offered before was not
	// listed all the time.
	Short bool
}

// OK tells whether every call was answered, the server is well again, and no
// list was short.
func (r *DrillReport) OK() bool {
	return r.Recovered && !r.Short && r.Clients.OK() && r.Probes.OK()
}

// DrillFaults are the words for the faults of a Drill.
func DrillFaults() []string { return slot.DrillFaults() }

// Drill breaks a server on purpose, as a crash or a bad network would, counts
// what calls see of it, and returns once the server is well again, or twice
// the drill's Recovery has passed. The fault is over when Drill returns, and
// immediately when ctx ends. Errors: NotFound; Conflict if the server is not
// connected or is drilled already; Invalid if it cannot be broken so.
//
// Where a server's isolation gives some clients a slot of their own, the shared
// one is broken.
func (h *Hub) Drill(ctx context.Context, server string, d Drill) (DrillReport, error) {
	if f := h.closed("drill"); f != nil {
		return DrillReport{}, f
	}
	s := h.fleet.Slot(server)
	if s == nil {
		return DrillReport{}, fault.New(fault.NotFound, "drill", "no server is called "+server)
	}
	whole := h.listed(server)
	var short atomic.Bool
	cancel := h.OnChange(func([]Kind) {
		if !includes(h.listed(server), whole) {
			short.Store(true)
		}
	})
	defer cancel()
	drilled, err := s.Drill(ctx, d)
	if err != nil {
		return DrillReport{}, err
	}
	return DrillReport{Drilled: drilled, Short: short.Load()}, nil
}

// Ping sends a request that every server answers and that does nothing. It
// takes the way of every call: it waits for the server while that is away. A
// drill counts it as its own, and not as a client's.
func (h *Hub) Ping(ctx context.Context, server string) error {
	if f := h.closed("ping"); f != nil {
		return f
	}
	s := h.fleet.Slot(server)
	if s == nil {
		return fault.New(fault.NotFound, "ping", "no server is called "+server)
	}
	return s.Ping(door.Probing(ctx))
}

// listed are the exposed names of what a server offers, by kind, sorted.
func (h *Hub) listed(server string) (names [4][]string) {
	table := h.Catalog()
	for _, k := range []Kind{Tools, Prompts, Resources, Templates} {
		for l := range table.Items(k) {
			if l.Server == server {
				names[k] = append(names[k], l.Exposed)
			}
		}
		slices.Sort(names[k])
	}
	return names
}

// includes tells whether now has all that was there before.
func includes(now, before [4][]string) bool {
	for k := range before {
		for _, name := range before[k] {
			if _, found := slices.BinarySearch(now[k], name); !found {
				return false
			}
		}
	}
	return true
}
