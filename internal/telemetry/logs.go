package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

func (t *Telemetry) openLogs(ctx context.Context, o Options, res *resource.Resource) error {
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return fmt.Errorf("OTEL_LOGS_EXPORTER: %w", err)
	}
	t.logOutlet = &logOutlet{exporter, outlet{signal: "logs", log: o.Log, room: roomOf(o.Getenv, "OTEL_BLRP_MAX_QUEUE_SIZE")}}
	t.logs = sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(t.logOutlet)))
	t.logger = t.logs.Logger(scope, log.WithInstrumentationVersion(o.Version), log.WithSchemaURL(schemaURL))
	return nil
}

// Logs tells whether events are wanted.
func (t *Telemetry) Logs() bool { return t != nil && t.logs != nil }

// An Event is what happened to a server or to one of its calls.
type Event struct {
	At         time.Time
	Level      slog.Level
	Kind, Text string
	Server     string
	Generation uint64
	Trace      [16]byte       // of the call that it is about; zero for none
	Data       map[string]any // as in the events of the API
}

// Log exports an event as a log record. It does not wait.
func (t *Telemetry) Log(e *Event) {
	if !t.logOutlet.take(1) {
		return
	}
	var r log.Record
	r.SetTimestamp(e.At)
	r.SetObservedTimestamp(time.Now())
	r.SetEventName("everline." + e.Kind)
	r.SetSeverity(severityOf(e.Level))
	r.SetSeverityText(e.Level.String())
	r.SetBody(attribute.StringValue(e.Text))
	if e.Server != "" {
		r.AddAttributes(ownServer.String(e.Server))
	}
	if e.Generation != 0 {
		r.AddAttributes(ownGeneration.Int64(int64(e.Generation)))
	}
	for key, value := range e.Data {
		r.AddAttributes(attribute.KeyValue{Key: attribute.Key("everline." + key), Value: valueOf(value)})
	}
	ctx := context.Background()
	if e.Trace != [16]byte{} {
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: e.Trace}))
	}
	t.logger.Emit(ctx, r)
}

func severityOf(l slog.Level) log.Severity {
	switch {
	case l >= slog.LevelError:
		return log.SeverityError
	case l >= slog.LevelWarn:
		return log.SeverityWarn
	case l >= slog.LevelInfo:
		return log.SeverityInfo
	default:
		return log.SeverityDebug
	}
}

// valueOf is what JSON would have of a value.
func valueOf(v any) attribute.Value {
	text, err := json.Marshal(v)
	if err != nil {
		panic("bug: an event that is no JSON: " + err.Error())
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain any
	_ = d.Decode(&plain) // it was encoded above
	return plainValue(plain)
}

func plainValue(v any) attribute.Value {
	switch v := v.(type) {
	case string:
		return attribute.StringValue(v)
	case bool:
		return attribute.BoolValue(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return attribute.Int64Value(n)
		}
		f, _ := v.Float64() // of JSON's numbers only those too large are none, and infinite then
		return attribute.Float64Value(f)
	case []any:
		all := make([]attribute.Value, len(v))
		for i := range v {
			all[i] = plainValue(v[i])
		}
		return attribute.SliceValue(all...)
	case map[string]any:
		all := make([]attribute.KeyValue, 0, len(v))
		for key, member := range v {
			all = append(all, attribute.KeyValue{Key: attribute.Key(key), Value: plainValue(member)})
		}
		return attribute.MapValue(all...)
	default:
		return attribute.Value{}
	}
}

// A logOutlet counts what of the logs goes out, and what does not.
type logOutlet struct {
	sdklog.Exporter
	outlet
}

// Export implements sdklog.Exporter. Nobody else is told of a failure.
func (o *logOutlet) Export(ctx context.Context, records []sdklog.Record) error {
	o.exported(len(records), o.Exporter.Export(ctx, records))
	return nil
}
