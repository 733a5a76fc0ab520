package slot

import (
	"slices"
	"time"

	"github.com/everline/everline/internal/lifecycle"
)

func (s *Slot) head(gen uint64) Head {
	return Head{Time: time.Now(), Server: s.name, Gen: gen, Session: s.opts.Session}
}

// emit tells of something once the view that shows it is out. It is called by
// the loop alone, as is emitAt, which puts e before what followed from it.
func (s *Slot) emit(e Event) { s.loop.events = append(s.loop.events, e) }

func (s *Slot) emitAt(i int, e Event) { s.loop.events = slices.Insert(s.loop.events, i, e) }

// say has the loop emit an event of a call. It never waits: what does not fit
// is dropped.
func (s *Slot) say(e Event) {
	select {
	case s.said <- e:
	default:
	}
}

// narrate tells of changes that follow from the state alone.
func (s *Slot) narrate(before, after lifecycle.State) {
	head := s.head(after.Gen)
	if before.Want != after.Want {
		if after.Want {
			s.emit(Enabled{head})
		} else {
			s.loop.cause = nil
			s.emit(Disabled{head})
		}
	}
	if after.Phase == lifecycle.Parked && (before.Phase != lifecycle.Parked || before.Parked != after.Parked) {
		s.emit(Parked{
			Head: head, Reason: after.Parked, Cause: s.loop.cause, Next: s.loop.next,
			Remedy: remedyOf(s.name, after.Parked, s.loop.cause),
		})
	}
}
