package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/proto"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
)

// bounds are the buckets that the conventions want, in seconds.
var bounds = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}

func (t *Telemetry) openMetrics(ctx context.Context, o Options, res *resource.Resource) error {
	autoexport.WithFallbackMetricProducer(func(context.Context) (sdkmetric.Producer, error) {
		return bridge.NewMetricProducer(bridge.WithGatherer(dotted{o.Metrics})), nil
	})
	reader, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		return fmt.Errorf("OTEL_METRICS_EXPORTER: %w", err)
	}
	t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(reader))
	m := t.metrics.Meter(scope, metric.WithInstrumentationVersion(o.Version), metric.WithSchemaURL(schemaURL))
	histogram := func(name, about string) metric.Float64Histogram {
		h, problem := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
		if problem != nil {
			err = problem
		}
		return h
	}
	t.answered = histogram("mcp.server.operation.duration", "How long requests of clients took.")
	t.asked = histogram("mcp.client.operation.duration", "How long requests to servers took, each send by itself.")
	return err
}

// measure notes how long a request and its sends took.
func (t *Telemetry) measure(tr *tracing.Trace) {
	ctx := context.Background()
	if tr.Root.Kind == tracing.Server {
		t.answered.Record(ctx, tr.Root.Ended.Sub(tr.Root.Began).Seconds(), metric.WithAttributes(measured(&tr.Root)...))
	}
	for _, s := range tr.Spans() {
		if s.Kind == tracing.Client && s.Server != "" {
			t.asked.Record(ctx, s.Ended.Sub(s.Began).Seconds(), metric.WithAttributes(measured(s)...))
		}
	}
}

// measured are the attributes by which durations are told apart: none of them has
// more values than servers and methods, which a client cannot make up.
func measured(s *tracing.Span) []attribute.KeyValue {
	a := []attribute.KeyValue{mcpMethod.String(known(s.Method))}
	if s.Error != "" {
		a = append(a, errorType.String(s.Error))
	}
	if s.Code != 0 {
		a = append(a, statusCode.Int64(s.Code))
	}
	p := s.Peer
	if p == nil {
		return a
	}
	a = append(a, netTransport.String(p.Transport))
	if p.Version != "" {
		a = append(a, mcpVersion.String(p.Version))
	}
	if p.HTTP != "" {
		a = append(a, netProtocol.String("http"))
	}
	if s.Kind == tracing.Client && p.Address != "" {
		a = append(a, serverHost.String(p.Address), serverPort.Int(p.Port))
	}
	return a
}

// methods are those that durations are told apart by.
var methods = []string{
	mcp.Initialize, mcp.Ping, mcp.ServerDiscover, mcp.ToolsList, mcp.ToolsCall, mcp.PromptsList, mcp.PromptsGet,
	mcp.ResourcesList, mcp.ResourcesTemplatesList, mcp.ResourcesRead, mcp.ResourcesSubscribe, mcp.ResourcesUnsubscribe,
	mcp.CompletionComplete, mcp.LoggingSetLevel, mcp.TasksGet, mcp.TasksList, mcp.TasksResult, mcp.TasksCancel, mcp.TasksUpdate,
}

// known is a method, or "_OTHER" for one that somebody has made up.
func known(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "_OTHER"
}

// dotted has what a gatherer has by the names that OpenTelemetry would give it.
type dotted struct{ from prometheus.Gatherer }

// Gather implements prometheus.Gatherer.
func (d dotted) Gather() ([]*dto.MetricFamily, error) {
	if d.from == nil {
		return nil, nil
	}
	all, err := d.from.Gather()
	for _, f := range all {
		name := strings.TrimSuffix(f.GetName(), "_total")
		for suffix, unit := range map[string]string{"_seconds": "s", "_bytes": "By"} {
			if short, ok := strings.CutSuffix(name, suffix); ok {
				name, f.Unit = short, proto.String(unit)
			}
		}
		f.Name = proto.String(strings.ReplaceAll(name, "_", "."))
	}
	return all, err
}
