package fleet

import (
	"context"

	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/stray"
)

// What a slot shows and takes, for those who see slots only through a fleet.
type (
	Slot    = slot.Slot
	View    = slot.View
	Event   = slot.Event
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

// The events; see package slot.
type (
	Connecting     = slot.Connecting
	Connected      = slot.Connected
	StartFailed    = slot.StartFailed
	Lost           = slot.Lost
	Parked         = slot.Parked
	Idled          = slot.Idled
	Disabled       = slot.Disabled
	Enabled        = slot.Enabled
	Reconfigured   = slot.Reconfigured
	CatalogChanged = slot.CatalogChanged
	ListFailed     = slot.ListFailed
	Pinned         = slot.Pinned
	Unapproved     = slot.Unapproved
	CloseFailed    = slot.CloseFailed
	DrillBegan     = slot.DrillBegan
	DrillEnded     = slot.DrillEnded
	CallReplayed   = slot.CallReplayed
	CallFailed     = slot.CallFailed
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
