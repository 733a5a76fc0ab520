package telemetry

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/everline/everline/internal/tracing"
)

func (t *Telemetry) openMetrics(ctx context.Context, o Options, res *resource.Resource) error {
	t.durations, t.unmetered = &tracing.Durations{}, &outlet{signal: "metrics", log: o.Log}
	counted := o.Metrics
	if counted == nil {
		counted = prometheus.Gatherers{}
	}
	autoexport.WithFallbackMetricProducer(func(context.Context) (sdkmetric.Producer, error) {
		return producer{bridge.NewMetricProducer(bridge.WithGatherer(counted)), t.durations, o.Version, time.Now()}, nil
	})
	reader, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		return fmt.Errorf("OTEL_METRICS_EXPORTER: %w", err)
	}
	t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(reader))
	return nil
}

// Durations implements tracing.Recorder.
func (t *Telemetry) Durations() *tracing.Durations { return t.durations }

// A producer has what everline counts, and durations as the conventions want them.
type producer struct {
	counts    sdkmetric.Producer
	durations *tracing.Durations
	version   string
	began     time.Time
}

// Produce implements sdkmetric.Producer.
func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	all, err := p.counts.Produce(ctx)
	for _, scope := range all {
		for i := range scope.Metrics {
			m := &scope.Metrics[i]
			m.Name, m.Unit = dotted(m.Name)
		}
	}
	own := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope, Version: p.version, SchemaURL: schemaURL}}
	for _, m := range []struct {
		name, about string
		of          *tracing.Measure
		server      bool // everline is the server
	}{
		{"mcp.server.operation.duration", "How long requests of clients took.", &p.durations.Answered, true},
		{"mcp.client.operation.duration", "How long requests to servers took, each send by itself.", &p.durations.Asked, false},
		{"mcp.server.session.duration", "How long sessions of clients lasted.", &p.durations.Sessions, true},
		{"mcp.client.session.duration", "How long connections to servers lasted, from when they served.", &p.durations.Generations, false},
	} {
		h := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		for _, measured := range m.of.Read() {
			h.DataPoints = append(h.DataPoints, p.point(&measured, m.server))
		}
		if len(h.DataPoints) > 0 {
			own.Metrics = append(own.Metrics, metricdata.Metrics{Name: m.name, Description: m.about, Unit: "s", Data: h})
		}
	}
	if len(own.Metrics) > 0 {
		all = append(all, own)
	}
	return all, err
}

func (p producer) point(m *tracing.Measured, server bool) metricdata.HistogramDataPoint[float64] {
	bounds := make([]float64, len(m.Bounds))
	for i, b := range m.Bounds {
		bounds[i] = b.Seconds()
	}
	return metricdata.HistogramDataPoint[float64]{
		Attributes: attribute.NewSet(measured(&m.Operation, server)...), StartTime: p.began, Time: time.Now(),
		Count: m.Count(), Sum: m.Sum.Seconds(), Bounds: bounds, BucketCounts: m.Counts,
	}
}

// measured are the attributes by which durations are told apart: none of them has
// more values than servers and methods, which a client cannot make up.
func measured(o *tracing.Operation, server bool) []attribute.KeyValue {
	a := make([]attribute.KeyValue, 0, 8)
	text := func(k attribute.Key, v string) {
		if v != "" {
			a = append(a, k.String(v))
		}
	}
	text(mcpMethod, o.Method)
	text(errorType, o.Error)
	if o.Code != 0 {
		text(statusCode, strconv.FormatInt(o.Code, 10))
	}
	text(netTransport, o.Peer.Transport)
	text(mcpVersion, o.Peer.Version)
	if o.Peer.HTTP != "" {
		text(netProtocol, "http")
	}
	if !server && o.Peer.Address != "" {
		text(serverHost, o.Peer.Address)
		if o.Peer.Port != 0 {
			a = append(a, serverPort.Int(o.Peer.Port))
		}
	}
	return a
}

// dotted is a metric by the name and with the unit that OpenTelemetry would give it.
func dotted(name string) (_, unit string) {
	name = strings.TrimSuffix(name, "_total")
	for suffix, u := range map[string]string{"_seconds": "s", "_bytes": "By"} {
		if short, ok := strings.CutSuffix(name, suffix); ok {
			name, unit = short, u
		}
	}
	return strings.ReplaceAll(name, "_", "."), unit
}
