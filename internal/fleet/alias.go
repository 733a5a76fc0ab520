package fleet

import "github.com/everline/everline/internal/slot"

// What a slot shows and takes, for those who see slots only through a fleet.
type (
	Slot    = slot.Slot
	View    = slot.View
	Event   = slot.Event
	Line    = slot.Line
	Request = slot.Request
)
