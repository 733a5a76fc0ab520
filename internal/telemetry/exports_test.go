package telemetry

import (
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/everline/everline/internal/tracing"
)

// exported has what a Telemetry exports of one signal, all at its end, put into req.
func exported(t *testing.T, signal string, counted prometheus.Gatherer, play func(*Telemetry), req proto.Message) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(body)
		}
		raw, _ := io.ReadAll(body)
		if err := proto.Unmarshal(raw, req); err != nil {
			t.Error(err)
		}
	}))
	defer web.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT", web.URL)
	rec, err := Open(t.Context(), Options{Version: "1", Log: slog.New(slog.DiscardHandler), Metrics: counted})
	if err != nil {
		t.Fatal(err)
	}
	play(rec)
	if err := rec.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// pairs are attributes as text, sorted.
func pairs(all []*common.KeyValue) string {
	var out []string
	for _, a := range all {
		text, _ := protojson.Marshal(a.Value)
		out = append(out, a.Key+"="+strings.ReplaceAll(string(text), " ", ""))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Durations are exported as the conventions want them, beside what is counted, by its
// name with dots.
func TestExportedDurations(t *testing.T) {
	registry := prometheus.NewRegistry()
	total := prometheus.NewCounter(prometheus.CounterOpts{Name: "everline_server_outage_seconds_total"})
	registry.MustRegister(total)
	total.Add(7)
	var req metrics.ExportMetricsServiceRequest
	exported(t, "METRICS", registry, func(rec *Telemetry) {
		if tr, chance := rec.Begin(tracing.Context{}, time.Now()); tr != nil || chance {
			t.Error("metrics alone are wanted, and a trace is begun")
		}
		d := rec.Durations()
		web := tracing.Peer{Version: "2025-11-25", Session: "a", Transport: "tcp", HTTP: "2", Address: "mcp.example.com", Port: 443}
		again := web
		again.Session = "b"
		d.Answered.Observe(tracing.Operation{Method: "tools/call", Error: "broken", Peer: tracing.Peer{Version: "2026-07-28", Transport: "pipe"}}, 30*time.Millisecond)
		d.Answered.Observe(tracing.Operation{Method: "made/up"}, time.Hour)
		d.Asked.Observe(tracing.Operation{Method: "tools/call", Error: "-32603", Code: -32603, Peer: web}, time.Millisecond)
		d.Asked.Observe(tracing.Operation{Method: "tools/call", Error: "-32603", Code: -32603, Peer: again}, time.Second)
		d.Sessions.Observe(tracing.Operation{Peer: web}, time.Minute)
		d.Generations.Observe(tracing.Operation{Peer: web}, time.Minute)
	}, &req)
	var got []string
	for _, sm := range req.ResourceMetrics[0].ScopeMetrics {
		for _, m := range sm.Metrics {
			for _, p := range m.GetHistogram().GetDataPoints() {
				if fmt.Sprint(p.ExplicitBounds) != "[0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 30 60 120 300]" {
					t.Errorf("%s has the bounds %v", m.Name, p.ExplicitBounds)
				}
				got = append(got, fmt.Sprintf("%s %s %d %g: %s", m.Name, m.Unit, p.GetCount(), p.GetSum(), pairs(p.Attributes)))
			}
			for _, p := range m.GetSum().GetDataPoints() {
				got = append(got, fmt.Sprintf("%s %s %g", m.Name, m.Unit, p.GetAsDouble()))
			}
		}
	}
	const client = `mcp.protocol.version={"stringValue":"2025-11-25"} network.protocol.name={"stringValue":"http"} network.transport={"stringValue":"tcp"}`
	const server = ` server.address={"stringValue":"mcp.example.com"} server.port={"intValue":"443"}`
	want := []string{
		`everline.server.outage s 7`,
		`mcp.server.operation.duration s 1 3600: mcp.method.name={"stringValue":"_OTHER"}`,
		`mcp.server.operation.duration s 1 0.03: error.type={"stringValue":"broken"} mcp.method.name={"stringValue":"tools/call"} mcp.protocol.version={"stringValue":"2026-07-28"} network.transport={"stringValue":"pipe"}`,
		`mcp.client.operation.duration s 2 1.001: error.type={"stringValue":"-32603"} mcp.method.name={"stringValue":"tools/call"} ` +
			client + ` rpc.response.status_code={"stringValue":"-32603"}` + server,
		`mcp.server.session.duration s 1 60: ` + client,
		`mcp.client.session.duration s 1 60: ` + client + server,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A server chooses the codes of its errors: what has no place is counted together.
func TestDurationsAreBounded(t *testing.T) {
	var m tracing.Measure
	for i := range int64(5000) {
		m.Observe(tracing.Operation{Method: "tools/call", Error: fmt.Sprint(i), Code: i}, time.Second)
	}
	all, others, n := m.Read(), uint64(0), uint64(0)
	for _, o := range all {
		n += o.Count()
		if o.Error == "_OTHER" {
			others += o.Count()
		}
	}
	if len(all) > 2001 || n != 5000 || others != 3000 {
		t.Errorf("%d histograms count %d, %d of them together", len(all), n, others)
	}
}

// Events are log records, with what they say for programs.
func TestExportedEvents(t *testing.T) {
	var req logs.ExportLogsServiceRequest
	at := time.Unix(1_800_000_000, 0)
	exported(t, "LOGS", nil, func(rec *Telemetry) {
		rec.Log(&Event{
			At: at, Level: slog.LevelWarn, Kind: "call_failed", Text: "a call failed", Server: "github", Generation: 3, Trace: [16]byte{1},
			Data: map[string]any{"kind": "broken", "next": nil, "tookMs": 7, "items": map[string]int{"tools": 2}, "names": []string{"a"}, "ok": true, "share": 0.5},
		})
	}, &req)
	r := req.ResourceLogs[0].ScopeLogs[0].LogRecords[0]
	got := fmt.Sprintf("%d %s %s %q %x %s", r.TimeUnixNano/1e9, r.EventName, r.SeverityText, r.Body.GetStringValue(), r.TraceId, pairs(r.Attributes))
	want := `1800000000 everline.call_failed WARN "a call failed" 01000000000000000000000000000000 everline.generation={"intValue":"3"} ` +
		`everline.items={"kvlistValue":{"values":[{"key":"tools","value":{"intValue":"2"}}]}} everline.kind={"stringValue":"broken"} ` +
		`everline.names={"arrayValue":{"values":[{"stringValue":"a"}]}} everline.next={} everline.ok={"boolValue":true} everline.server={"stringValue":"github"} ` +
		`everline.share={"doubleValue":0.5} everline.tookMs={"intValue":"7"}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
