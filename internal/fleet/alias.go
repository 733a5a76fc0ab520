package fleet

import (
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

	Link     = slot.Link
	Leftover = stray.Leftover
)

// NewClientID returns a number that no other client of this process has.
func NewClientID() uint64 { return slot.NewClientID() }
