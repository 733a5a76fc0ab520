package daemon

import (
	"log/slog"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/telemetry"
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

// logEvents writes events as log lines.
func (d *daemon) logEvents() {
	d.follow(func(e *admin.Event) {
		d.parts.Log.LogAttrs(d.base, eventLevels[e.Kind], d.api.Hide(e.Text),
			slog.String("server", e.Server), slog.Uint64("generation", e.Generation), slog.String("event", e.Kind))
	}, func(n uint64) { d.parts.Log.Warn("events were left out of this log", "count", n) })
}

// exportEvents exports events as log records.
func (d *daemon) exportEvents() {
	d.follow(func(e *admin.Event) {
		d.telemetry.Log(&telemetry.Event{
			At: e.Time, Level: eventLevels[e.Kind], Kind: e.Kind, Text: d.api.Hide(e.Text),
			Server: e.Server, Generation: e.Generation, Trace: e.Trace, Data: d.api.HideData(e.Data),
		})
	}, func(uint64) {}) // whoever misses them sees the gap in what is counted
}

// follow hands on events until d.base ends, those before included. It reads from the
// journal, so that whoever is slow holds up nothing: events are then left out.
func (d *daemon) follow(each func(*admin.Event), missed func(n uint64)) {
	var seen uint64
	for last := false; ; {
		events, more := d.journal.After(seen)
		for i := range events {
			e := &events[i]
			if e.Seq > seen+1 {
				missed(e.Seq - seen - 1)
			}
			seen = e.Seq
			each(e)
		}
		if last {
			return
		}
		select {
		case <-more:
		case <-d.base.Done():
			last = true
		}
	}
}
