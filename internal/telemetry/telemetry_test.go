package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/tracing"
)

// env is an environment.
type env map[string]string

func (e env) get(key string) string { return e[key] }

func hide(text string) string { return strings.ReplaceAll(text, "hunter2", "•••") }

// openTo opens one whose spans go to an exporter.
func openTo(t *testing.T, e env, to sdktrace.SpanExporter) *Telemetry {
	t.Helper()
	rec, err := Open(t.Context(), Options{Version: "1", Log: slog.New(slog.DiscardHandler), Getenv: e.get, Exporter: to, Hide: hide})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close(context.Background()) }) // what is left is nobody's
	return rec
}

// flush has all exported that has ended.
func (t *Telemetry) flush(ctx context.Context) error {
	t.ended.flush()
	return t.batch.ForceFlush(ctx)
}

func TestNothingIsOpenedUnasked(t *testing.T) {
	for _, e := range []env{
		{},
		{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_SERVICE_NAME": "x"},
	} {
		if rec, err := Open(t.Context(), Options{Getenv: e.get}); rec != nil || err != nil {
			t.Errorf("%v: %v, %v", e, rec, err)
		}
	}
	var none *Telemetry
	if len(none.Lost()) != 0 || none.Close(t.Context()) != nil {
		t.Error("without one something is lost")
	}
}

func TestSamplers(t *testing.T) {
	yes, no := tracing.Context{}.Child(), tracing.Context{}.Child()
	yes.Sample()
	for name, want := range map[string]struct{ root, sampled, unsampled, share bool }{
		"always_on": {true, true, true, false}, "always_off": {}, "parentbased_always_on": {true, true, false, false},
		"parentbased_always_off": {false, true, false, false}, "traceidratio": {true, true, true, true},
		" ParentBased_TraceIDRatio ": {true, true, false, true},
	} {
		s, err := samplerOf(env{"OTEL_TRACES_SAMPLER": name}.get)
		if err != nil {
			t.Fatal(err)
		}
		for caller, want := range map[tracing.Context]bool{{}: want.root, yes: want.sampled, no: want.unsampled} {
			if s.takes(1, &caller) != want {
				t.Errorf("%s below %s: not %v", name, caller.String(), want)
			}
		}
		if s.share != want.share {
			t.Errorf("%s: a share %v", name, s.share)
		}
	}
	for _, e := range []env{{"OTEL_TRACES_SAMPLER": "sometimes"}, {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "5"}, {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN"}} {
		if _, err := samplerOf(e.get); err == nil || !strings.HasPrefix(err.Error(), "OTEL_TRACES_SAMPLER") {
			t.Errorf("%v: %v", e, err)
		}
	}
	usual, _ := samplerOf(env{}.get)
	sdk, n := sdktrace.TraceIDRatioBased(usualRatio), 0
	for range 20_000 {
		own := tracing.Context{}.Child()
		got := usual.takes(binary.BigEndian.Uint64(own.Trace[8:]), &tracing.Context{})
		want := sdk.ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: own.Trace}).Decision == sdktrace.RecordAndSample
		if got != want {
			t.Fatalf("%x: the SDK's sampler says %v", own.Trace, want)
		}
		if got {
			n++
		}
	}
	if n < 800 || n > 1200 {
		t.Errorf("%d of 20,000 were sampled: 5 %% is 1,000", n)
	}
	rec := openTo(t, env{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}, tracetest.NewNoopExporter())
	half, n := sdktrace.TraceIDRatioBased(0.5), 0
	for range 1000 {
		if tr, _ := rec.Begin(tracing.Context{}, time.Now()); tr != nil {
			n++
			if half.ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: tr.ID()}).Decision != sdktrace.RecordAndSample {
				t.Fatalf("%x: others with the same ratio leave the trace out", tr.ID())
			}
		}
	}
	if n < 350 || n > 650 {
		t.Errorf("%d of 1,000 were sampled: one half is 500", n)
	}
}

// written is what an exporter got, as text.
func written(spans tracetest.SpanStubs) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&b, "%s %s %s", s.SpanKind, s.Name, s.Status.Code)
		if s.Status.Description != "" {
			fmt.Fprintf(&b, " (%s)", s.Status.Description)
		}
		slices.SortFunc(s.Attributes, func(a, b attribute.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
		for _, a := range s.Attributes {
			fmt.Fprintf(&b, "\n  %s=%s", a.Key, a.Value.Emit())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestAttributes(t *testing.T) {
	to := tracetest.NewInMemoryExporter()
	rec := openTo(t, env{"OTEL_TRACES_SAMPLER": "always_on"}, to)
	tr, _ := rec.Begin(tracing.Context{}, time.Now())
	send := tr.Below(nil, tracing.Client)
	send.Method, send.Target, send.Number, send.Server, send.Generation, send.Send = "tools/call", "search", 7, "github", 3, 1
	send.Peer = &tracing.Peer{Version: "2025-11-25", Session: "abc", Transport: "tcp", HTTP: "2", Address: "mcp.example.com", Port: 443}
	send.Error, send.Code, send.Text = "-32603", -32603, strings.Repeat("ä", 150)
	send.End(time.Now())
	tr.Settle(&event.CallFacts{Server: "github", Gen: 3, Result: event.CallUnknown, Kind: fault.Broken, Sends: 1})
	tr.Failed(&fault.Fault{Kind: fault.Broken, State: "reconnecting", Err: errors.New("the connection of hunter2 broke")})
	root := tr.Over(time.Now())
	root.Kind, root.Method, root.Target, root.RequestID = tracing.Server, "tools/call", "github__search", "x"
	root.Peer, root.Error = &tracing.Peer{Version: "2026-07-28", Transport: "tcp", HTTP: "1.1", Address: "127.0.0.1", Port: 4711}, tr.Facts.Verdict()
	tr.End(rec)
	if err := rec.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `server tools/call github__search Error (the connection of ••• broke)
  client.address=127.0.0.1
  client.port=4711
  error.type=broken
  everline.generation=3
  everline.outcome=unknown
  everline.sends=1
  everline.server=github
  everline.state=reconnecting
  gen_ai.operation.name=execute_tool
  gen_ai.tool.name=github__search
  jsonrpc.request.id=x
  mcp.method.name=tools/call
  mcp.protocol.version=2026-07-28
  network.protocol.name=http
  network.protocol.version=1.1
  network.transport=tcp
`
	got := written(to.GetSpans())
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant first\n%s", got, want)
	}
	for _, line := range []string{
		"client tools/call search Error (" + strings.Repeat("ä", 100) + ")\n", "  everline.send=1\n", "  server.address=mcp.example.com\n",
		"  server.port=443\n", "  rpc.response.status_code=-32603\n", "  mcp.session.id=abc\n", "  gen_ai.tool.name=search\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
	spans := to.GetSpans()
	if spans[1].Parent.SpanID() != spans[0].SpanContext.SpanID() || spans[0].SpanContext.SpanID() != root.Own().Span || spans[0].Parent.IsValid() {
		t.Error("the ids are not those that others were told of")
	}
}

// Of what the sampler left out, that is recorded which may show what everline is there
// for; of requests whose callers decide nothing is.
func TestWhatIsOfInterestIsKept(t *testing.T) {
	to := tracetest.NewInMemoryExporter()
	rec := openTo(t, env{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, to)
	tr, chance := rec.Begin(tracing.Context{}, time.Now())
	if tr != nil || !chance {
		t.Fatal("a root is recorded, or can never be")
	}
	tr = tracing.Late(tracing.Perhaps(t.Context(), time.Now()))
	tr.Over(time.Now())
	tr.End(rec)
	if err := rec.flush(t.Context()); err != nil || len(to.GetSpans()) != 1 {
		t.Errorf("%d spans, %v", len(to.GetSpans()), err)
	}
	if tr, chance := rec.Begin(tracing.Context{}.Child(), time.Now()); tr != nil || chance {
		t.Error("a caller decides, and something is recorded all the same")
	}
	always := openTo(t, env{"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, to)
	if tr, chance := always.Begin(tracing.Context{}, time.Now()); tr != nil || chance {
		t.Error("nothing is wanted, and something is recorded all the same")
	}
}

// ping records one request.
func ping(rec *Telemetry) {
	tr, _ := rec.Begin(tracing.Context{}, time.Now())
	tr.Over(time.Now()).Method = "ping"
	tr.End(rec)
}

// hung never exports, until its context ends.
type hung struct{}

func (hung) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}
func (hung) Shutdown(context.Context) error { return nil }

// A collector that does not answer holds up nobody, and memory is bounded: what does
// not fit is counted. The end waits no longer than it may.
func TestNobodyWaitsForACollector(t *testing.T) {
	rec := openTo(t, env{"OTEL_TRACES_SAMPLER": "always_on", "OTEL_BSP_MAX_QUEUE_SIZE": "100"}, hung{})
	began := time.Now()
	for range 5000 {
		ping(rec)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("5,000 requests took %s", took)
	}
	if lost, waits := rec.Lost()["spans"], rec.outlet.waiting.Load(); lost != 4900 || waits != 100 {
		t.Errorf("%d are lost, %d wait", lost, waits)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began = time.Now()
	if err := rec.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("closed after %s: %v", time.Since(began), err)
	}
}

// What a collector refuses is counted as lost, and what it takes later is not.
func TestRefusedExports(t *testing.T) {
	status := http.StatusBadRequest
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer web.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", web.URL)
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	var said strings.Builder
	rec, err := Open(t.Context(), Options{Version: "1", Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusOK} {
		ping(rec)
		_ = rec.flush(t.Context()) // its failure is what is counted
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if rec.Lost()["spans"] != 2 || strings.Count(said.String(), "cannot be exported") != 1 || !strings.Contains(said.String(), "again") {
		t.Errorf("%v lost: %s", rec.Lost(), said.String())
	}
}

// A collector that refuses, that hangs or that is not there costs nobody anything:
// requests go on, what waits is bounded, what is dropped is counted, somebody is told
// once, and the end is not held up.
func TestCollectorsThatFail(t *testing.T) {
	hang := make(chan struct{})
	for what, answer := range map[string]http.HandlerFunc{
		"429":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"500":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"hanging": func(http.ResponseWriter, *http.Request) { <-hang },
		"absent":  nil,
	} {
		t.Run(what, func(t *testing.T) {
			web := httptest.NewServer(answer)
			defer web.Close()
			switch what {
			case "absent":
				web.Close()
			case "hanging":
				defer close(hang)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", web.URL)
			t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
			t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "100")
			for _, variable := range []string{"OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BLRP_EXPORT_TIMEOUT", "OTEL_METRIC_EXPORT_TIMEOUT", "OTEL_METRIC_EXPORT_INTERVAL"} {
				t.Setenv(variable, "50") // ms
			}
			said := &lines{news: make(chan struct{}, 1)}
			rec, err := Open(t.Context(), Options{Version: "1", Log: slog.New(slog.NewTextHandler(said, nil))})
			if err != nil {
				t.Fatal(err)
			}
			rec.durations.Answered.Observe(tracing.Operation{Method: "ping"}, time.Second) // something to measure
			began := time.Now()
			for range 5000 {
				ping(rec)
				rec.Log(&Event{Kind: "lost", Text: "x"})
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("5,000 requests took %s", took)
			}
			if spans, logs := rec.outlet.waiting.Load(), rec.logOutlet.waiting.Load(); spans > 100 || logs > 100 {
				t.Errorf("%d spans and %d log records wait", spans, logs)
			}
			signals := []string{"spans", "logs", "metrics"}
			for _, signal := range signals {
				for said.count(signal+" are lost") == 0 {
					<-said.news
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began = time.Now()
			_ = rec.Close(ctx) // nothing was exported
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the end took %s", took)
			}
			if lost := rec.Lost(); lost["spans"] != 5000 || lost["logs"] != 5000 || lost["metrics"] == 0 {
				t.Errorf("of 5,000 spans and 5,000 log records are lost: %v", lost)
			}
			for _, signal := range signals {
				if n := said.count(signal + " are lost"); n != 1 {
					t.Errorf("of %s it was said %d times", signal, n)
				}
			}
		})
	}
}

// lines are those of a log.
type lines struct {
	news chan struct{} // one slot
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func BenchmarkRequest(b *testing.B) {
	for name, ratio := range map[string]string{"not sampled": "0", "sampled": "1", "5 percent": "0.05"} {
		b.Run(name, func(b *testing.B) {
			rec, err := Open(b.Context(), Options{
				Log: slog.New(slog.DiscardHandler), Exporter: tracetest.NewNoopExporter(),
				Getenv: env{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": ratio}.get,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer rec.Close(context.Background())
			peer := &tracing.Peer{Version: "2025-11-25", Transport: "pipe"}
			b.ReportAllocs()
			for b.Loop() {
				now := time.Now()
				tr, chance := rec.Begin(tracing.Context{}, now)
				if chance {
					tr = tracing.Perhaps(b.Context(), now).Over(time.Now())
				}
				if tr == nil {
					continue
				}
				send := tr.Below(nil, tracing.Client)
				send.Method, send.Target, send.Peer, send.Began = "tools/call", "x", peer, now
				send.End(now)
				tr.Settle(&event.CallFacts{Server: "s", Sends: 1})
				root := tr.Over(time.Now())
				root.Kind, root.Method, root.Peer = tracing.Server, "tools/call", peer
				tr.End(rec)
			}
		})
	}
}
