package slot

import (
	"github.com/everline/everline/event"
	"slices"
	"time"

	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
)

// saidMax is how many events of calls may wait for the loop; more are dropped,
// the counters of Counts are exact.
const maxCallEvents = 64

func (s *Slot) head(gen uint64) event.Head {
	return event.Head{Time: time.Now(), Server: s.name, Gen: gen, Session: s.opts.Session}
}

// emit tells of something once the view that shows it is out. It is called by
// the loop alone, as is emitAt, which puts e before what followed from it.
func (s *Slot) emit(e event.Event) { s.loop.events = append(s.loop.events, e) }

func (s *Slot) emitAt(i int, e event.Event) { s.loop.events = slices.Insert(s.loop.events, i, e) }

// emitLater has the loop emit an event of a call. It never waits: what does not fit
// is dropped.
func (s *Slot) emitLater(e event.Event) {
	select {
	case s.callEvents <- e:
	default:
	}
}

// narrate tells of changes that follow from the state alone.
func (s *Slot) narrate(before, after lifecycle.State) {
	head := s.head(after.Gen)
	if before.Want != after.Want {
		if after.Want {
			s.emit(event.Enabled{Head: head})
		} else {
			s.loop.cause = nil
			s.emit(s.unwanted(head))
		}
	}
	if after.Phase() == lifecycle.Stopped && (before.Phase() != lifecycle.Stopped || before.Stopped != after.Stopped) {
		s.emit(event.Stopped{
			Head: head, Reason: event.Reason(after.Stopped.String()), Cause: s.loop.cause, Next: s.loop.next,
			Remedy: remedyOf(s.name, after.Stopped, s.loop.cause),
		})
	}
}

// countsOf is how many items a catalog has.
func countsOf(c *catalog.Catalog) event.Counts {
	return event.Counts{
		Tools:     len(c.Items[catalog.Tools]),
		Prompts:   len(c.Items[catalog.Prompts]),
		Resources: len(c.Items[catalog.Resources]),
		Templates: len(c.Items[catalog.Templates]),
	}
}

// changeOf is a difference of catalogs as it is told to people.
func changeOf(diff catalog.Change) event.Change {
	c := event.Change{Instructions: diff.Instructions}
	for _, k := range diff.Kinds() {
		c.Lists = append(c.Lists, event.ListChange{
			Kind: k.String(), Added: diff.Added[k], Removed: diff.Removed[k], Changed: diff.Changed[k], Reordered: diff.Reordered[k],
		})
	}
	return c
}

// unwanted tells why the server does not run any more: somebody has disabled
// it, or it ends together with something else.
func (s *Slot) unwanted(head event.Head) event.Event {
	switch lp := &s.loop; {
	case !lp.owned:
		return event.Ending{Head: head, Why: "it is not configured any more"}
	case lp.closing && head.Session != 0:
		return event.Ending{Head: head, Why: "its client's session is over"}
	case lp.closing:
		return event.Ending{Head: head, Why: "everline shuts down"}
	default:
		return event.Disabled{Head: head}
	}
}
