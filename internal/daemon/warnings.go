package daemon

import (
	"log/slog"
	"slices"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
)

func logWarnings(log *slog.Logger, all []config.Warning) {
	for _, w := range all {
		log.Warn(w.Text, "server", w.Server, "at", w.Origin.String())
	}
}

// lookAtWarnings has late warnings logged; it does not wait.
func (d *daemon) lookAtWarnings() {
	select {
	case d.warnable <- struct{}{}:
	default:
	}
}

// logLateWarnings logs each warning that only the lists of servers show, once.
func (d *daemon) logLateWarnings() {
	defer d.hub.OnChange(func([]everline.Kind) { d.lookAtWarnings() })()
	var logged []config.Warning
	for {
		known := slices.Concat(logged, d.hub.Config().Warnings) // these were logged when they were read
		late := slices.DeleteFunc(d.hub.Warnings(), func(w config.Warning) bool { return slices.Contains(known, w) })
		logWarnings(d.parts.Log, late)
		logged = append(logged, late...)
		select {
		case <-d.warnable:
		case <-d.base.Done():
			return
		}
	}
}
