package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/everline/everline/internal/telemetry"
)

// lastExport is how long the end of everline waits for what is left to be exported.
const lastExport = 2 * time.Second

// openTelemetry is what the environment asks for; nil if that is nothing, or not to
// be had: it is no reason not to serve.
func (d *daemon) openTelemetry(ctx context.Context) *telemetry.Telemetry {
	t, err := telemetry.Open(ctx, telemetry.Options{
		Version: d.parts.Version, Log: d.parts.Log, Hide: d.hideLater,
		Metrics: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			if r := d.registry.Load(); r != nil {
				return r.Gather()
			}
			return nil, nil // everline is starting
		}),
	})
	if err != nil {
		d.parts.Log.Error("nothing is exported to OpenTelemetry", "cause", err)
	}
	return t
}

func (d *daemon) closeTelemetry() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	return d.telemetry.Close(ctx)
}
