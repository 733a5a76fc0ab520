package daemon

import (
	"log/slog"
)

// eventLevels are the levels of events that are not plain information.
var eventLevels = map[string]slog.Level{
	"connecting":    slog.LevelDebug,
	"start_failed":  slog.LevelWarn,
	"lost":          slog.LevelWarn,
	"stopped":       slog.LevelError,
	"list_failed":   slog.LevelWarn,
	"unapproved":    slog.LevelWarn,
	"close_failed":  slog.LevelWarn,
	"call_replayed": slog.LevelWarn,
	"call_failed":   slog.LevelWarn,

	"client_refused": slog.LevelWarn,
}

// logEvents writes events as log lines. It reads from the journal, so that a
// stderr that nobody empties holds up nothing: events are then left out.
func (d *daemon) logEvents() {
	var seen uint64
	for {
		events, more := d.journal.After(seen)
		for _, e := range events {
			if e.Seq > seen+1 {
				d.parts.Log.Warn("events were left out of this log", "count", e.Seq-seen-1)
			}
			seen = e.Seq
			d.parts.Log.LogAttrs(d.base, eventLevels[e.Kind], d.api.Hide(e.Text),
				slog.String("server", e.Server), slog.Uint64("generation", e.Generation), slog.String("event", e.Kind))
		}
		select {
		case <-more:
		case <-d.base.Done():
			return
		}
	}
}
