package slot

import (
	"slices"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
)

// flush publishes what has changed, then tells of it, then answers those who
// waited for it.
func (lp *loop) flush() {
	if lp.dirty {
		lp.dirty = false
		lp.publish()
	}
	for _, e := range lp.events {
		if lp.slot.opts.Emit != nil {
			lp.slot.opts.Emit(e)
		}
	}
	lp.events = nil
	for _, c := range lp.replies {
		close(c)
	}
	lp.replies = nil
}

// publish replaces the view: swap, then close.
func (lp *loop) publish() {
	old, stale := lp.slot.view.Load(), lp.changed
	lp.changed = make(chan struct{})
	v := &View{
		Server: lp.spec, State: lp.state, Catalog: lp.catalog, CatalogOf: lp.catalogOf, Cause: lp.cause, ListCause: lp.refresh.cause, CloseCause: lp.closeCause,
		Since: lp.since, AwaySince: lp.awayAt, Next: lp.next, Checked: lp.refresh.checked, Changed: lp.changed,
		serving: lp.serving(), began: lp.began, closed: lp.closing,
	}
	switch {
	case v.serving != nil:
		v.Info = v.serving.info
	case !v.AwaySince.IsZero():
		v.newest = lp.newest
	}
	if v.Seen() != old.Seen() {
		lp.since = time.Now()
		v.Since = lp.since
	}
	lp.slot.view.Store(v)
	if lp.slot.opts.Published != nil {
		lp.slot.opts.Published(v) // before those who wait for the view can ask whoever learns of it here
	}
	close(stale)
}

// emit tells of something once the view that shows it is out. It is called by
// the loop alone, as is emitAt, which puts e before what followed from it.
func (lp *loop) emit(e event.Event) { lp.emitAt(len(lp.events), e) }

func (lp *loop) emitAt(i int, e event.Event) {
	lp.slot.meter.Event(e)
	lp.events = slices.Insert(lp.events, i, e)
}

// narrate tells of changes that follow from the state alone.
func (lp *loop) narrate(before, after lifecycle.State) {
	head := lp.slot.head(after.Gen)
	if before.Want != after.Want {
		if after.Want {
			lp.emit(event.Enabled{Head: head})
		} else {
			lp.cause = nil
			lp.emit(lp.unwanted(head))
		}
	}
	if after.Phase() == lifecycle.Stopped && (before.Phase() != lifecycle.Stopped || before.Stopped != after.Stopped) {
		lp.emit(event.Stopped{
			Head: head, Reason: event.Reason(after.Stopped.String()), Cause: lp.cause, Next: lp.next,
			Remedy: stoppedRemedy(&lp.spec, after.Stopped, lp.cause),
		})
	}
}

// unwanted tells why the server does not run any more: somebody has disabled
// it, or it ends together with something else.
func (lp *loop) unwanted(head event.Head) event.Event {
	switch {
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

// countsOf is how many items a catalog has.
func countsOf(c *catalog.Catalog) event.Counts {
	return event.Counts{
		Tools:     len(c.Items[catalog.Tools]),
		Prompts:   len(c.Items[catalog.Prompts]),
		Resources: len(c.Items[catalog.Resources]),
		Templates: len(c.Items[catalog.Templates]),
	}
}

// changeOf is a difference of catalogs as people read it.
func changeOf(diff catalog.Change) event.Change {
	c := event.Change{Instructions: diff.Instructions}
	for _, k := range diff.Kinds() {
		c.Lists = append(c.Lists, event.ListChange{
			Kind: k.String(), Added: diff.Added[k], Removed: diff.Removed[k], Changed: diff.Changed[k], Reordered: diff.Reordered[k],
		})
	}
	return c
}
