// Package telemetry hands on what everline records and counts to OpenTelemetry, as
// the OTEL_* variables of the environment say. It decides nothing else, and nobody
// waits for it.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/everline/everline/internal/tracing"
)

// Options make a Telemetry.
type Options struct {
	Version string
	Log     *slog.Logger
	Hide    func(text string) string // takes secrets out of the text of an error; nil: there are none
	Getenv  func(string) string      // nil: os.Getenv. The SDK itself reads the environment whatever this says
	// Metrics are what is exported as metrics besides what is measured here; nil
	// for nothing. It may be used before Open returns.
	Metrics prometheus.Gatherer
	// Exporter is what spans go to in place of what the environment says; for tests.
	Exporter sdktrace.SpanExporter
}

// A Telemetry is a tracing.Recorder.
type Telemetry struct {
	batch   sdktrace.SpanProcessor // nil where no spans are exported
	ended   *backlog               // on its way there
	blank   sdktrace.ReadOnlySpan  // see finished
	limits  sdktrace.SpanLimits
	sampler sampler
	outlet  *spanOutlet
	hide    func(string) string

	metrics   *sdkmetric.MeterProvider // nil where no metrics are exported
	durations *tracing.Durations       // nil, too
	unmetered *outlet                  // of metrics; nil, too

	logs      *sdklog.LoggerProvider // nil where no events are exported
	logger    log.Logger
	logOutlet *logOutlet
}

// scope is the name of what measures.
const scope = "github.com/everline/everline"

// Open starts what the environment asks for; nil if that is nothing. The caller
// must Close it. What cannot be had is an error that says which variable is why.
func Open(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	wantSpans, wantMetrics, wantLogs := wants(o.Getenv, "TRACES") || o.Exporter != nil, wants(o.Getenv, "METRICS"), wants(o.Getenv, "LOGS")
	if !wantSpans && !wantMetrics && !wantLogs {
		return nil, nil
	}
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "everline"), attribute.String("service.version", o.Version)),
		resource.WithFromEnv(), // last: it says more
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &Telemetry{hide: o.Hide}
	if wantSpans {
		if err := t.openSpans(ctx, o, res); err != nil {
			return nil, err
		}
	}
	if wantMetrics {
		if err := t.openMetrics(ctx, o, res); err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
	}
	if wantLogs {
		if err := t.openLogs(ctx, o, res); err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(t.failed))
	return t, nil
}

// wants tells whether the environment asks for a signal: by an exporter, or by
// where there is one.
func wants(getenv func(string) string, signal string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	if exporter := getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

func (t *Telemetry) openSpans(ctx context.Context, o Options, res *resource.Resource) (err error) {
	if t.sampler, err = samplerOf(o.Getenv); err != nil {
		return err
	}
	exporter := o.Exporter
	if exporter == nil {
		if exporter, err = autoexport.NewSpanExporter(ctx); err != nil {
			return fmt.Errorf("OTEL_TRACES_EXPORTER: %w", err)
		}
	}
	t.outlet = &spanOutlet{exporter, outlet{signal: "spans", log: o.Log, room: roomOf(o.Getenv, "OTEL_BSP_MAX_QUEUE_SIZE")}}
	t.batch, t.ended = sdktrace.NewBatchSpanProcessor(t.outlet), newBacklog(t.writeEnded)
	t.blank, t.limits = blank(o.Version, res), sdktrace.NewSpanLimits()
	return nil
}

// blank is a span as the SDK makes them, of which nothing is known yet.
func blank(version string, res *resource.Resource) sdktrace.ReadOnlySpan {
	made := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	_, span := made.Tracer(scope, trace.WithInstrumentationVersion(version), trace.WithSchemaURL(schemaURL)).Start(context.Background(), "")
	return span.(sdktrace.ReadOnlySpan)
}

// Close exports what is left, until ctx ends.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	done := make(chan error, 3)
	ends := []func(context.Context) error{}
	if t.batch != nil {
		t.ended.close()
		ends = append(ends, t.batch.Shutdown)
	}
	if t.metrics != nil {
		ends = append(ends, t.metrics.Shutdown)
	}
	if t.logs != nil {
		ends = append(ends, t.logs.Shutdown)
	}
	for _, end := range ends {
		go func() { done <- end(ctx) }() // ends with ctx; waited for below
	}
	var failed error
	for range ends {
		failed = errors.Join(failed, <-done)
	}
	return failed
}

// failed takes what the SDK fails with that nobody else has taken: exports of metrics.
func (t *Telemetry) failed(err error) {
	if t.unmetered != nil {
		t.unmetered.waiting.Add(1)
		t.unmetered.exported(1, err)
	}
}

// Lost is what was recorded and not exported, by signal: spans, log records, and
// exports of metrics.
func (t *Telemetry) Lost() map[string]uint64 {
	lost := map[string]uint64{}
	if t == nil {
		return lost
	}
	if t.outlet != nil {
		lost[t.outlet.signal] = t.outlet.lost.Load()
	}
	if t.logOutlet != nil {
		lost[t.logOutlet.signal] = t.logOutlet.lost.Load()
	}
	if t.unmetered != nil {
		lost[t.unmetered.signal] = t.unmetered.lost.Load()
	}
	return lost
}

var _ tracing.Recorder = (*Telemetry)(nil)
