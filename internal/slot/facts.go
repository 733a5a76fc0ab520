package slot

import "github.com/everline/everline/internal/lifecycle"

// Published tells whether clients may see what the server offers: it is
// wanted, and there is a last good catalog.
func (v *View) Published() bool { return v.State.Want && v.Catalog != nil }

// Away tells whether a call that comes now finds no generation to take it: the
// server is down, coming up, or parked. An idle server is not away.
func (v *View) Away() bool {
	return v.State.Serving == 0 && v.State.Phase() != lifecycle.Idle
}

// Pending tells whether the server has never had a catalog and may still get
// its first one without anybody doing something.
func (v *View) Pending() bool {
	if v.Catalog != nil || !v.State.Want {
		return false
	}
	switch v.State.Phase() {
	case lifecycle.Starting, lifecycle.Ready, lifecycle.Draining, lifecycle.Backoff:
		return true
	default:
		return false
	}
}

// Settled tells whether nothing more happens by itself to bring up a generation
// newer than gen: it serves, or the server is off, idle or parked.
func (v *View) Settled(gen uint64) bool {
	switch v.State.Phase() {
	case lifecycle.Ready:
		return v.State.Serving > gen
	case lifecycle.Off, lifecycle.Idle, lifecycle.Stopped:
		return true
	default:
		return false
	}
}
