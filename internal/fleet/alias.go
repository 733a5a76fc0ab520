package fleet

import (
	"context"
	"github.com/everline/everline/event"

	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/stray"
)

// What a slot shows and takes, for those who see slots only through a fleet.
type (
	Slot    = slot.Slot
	View    = slot.View
	Event   = event.Event
	Line    = slot.Line
	Request = slot.Request
	Client  = slot.Client

	Link           = slot.Link
	HandshakePhase = slot.HandshakePhase

	Leftover = stray.Leftover

	Drill   = slot.Drill
	Drilled = slot.Drilled
	Tally   = slot.Tally
)

// DrillFaults are the words for the faults of a Drill.
func DrillFaults() []string { return slot.DrillFaults() }

// Probing marks a call as a drill's own.
func Probing(ctx context.Context) context.Context { return slot.Probing(ctx) }

// TaskPrefix begins the names under which tasks are subscribed to; the rest is
// the server's id.
const TaskPrefix = slot.TaskPrefix

// NewClientID returns a number that no other client of this process has.
func NewClientID() uint64 { return slot.NewClientID() }
