package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

// openTo opens one whose spans go to an exporter.
func openTo(t *testing.T, e env, to sdktrace.SpanExporter) *Telemetry {
	t.Helper()
	rec, err := Open(t.Context(), Options{Version: "1", Log: slog.New(slog.DiscardHandler), Getenv: e.get, Exporter: to})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close(context.Background()) }) // what is left is nobody's
	return rec
}

func TestNothingIsOpenedUnasked(t *testing.T) {
	for _, e := range []env{
		{},
		{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_SERVICE_NAME": "x"},
	} {
		if rec, err := Open(t.Context(), Options{Getenv: e.get}); rec != nil || err != nil {
			t.Errorf("%v: %v, %v", e, rec, err)
		}
	}
	var none *Telemetry
	if none.Lost() != 0 || none.Close(t.Context()) != nil {
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
		s, share, err := samplerOf(env{"OTEL_TRACES_SAMPLER": name}.get)
		if err != nil {
			t.Fatal(err)
		}
		rec := &Telemetry{sampler: s}
		for caller, want := range map[tracing.Context]bool{{}: want.root, yes: want.sampled, no: want.unsampled} {
			if got := rec.samples(caller.Child(), caller, "ping"); got != want {
				t.Errorf("%s below %s: %v", name, caller.String(), got)
			}
		}
		if share != want.share {
			t.Errorf("%s: a share %v", name, share)
		}
	}
	for _, e := range []env{{"OTEL_TRACES_SAMPLER": "sometimes"}, {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "5"}} {
		if _, _, err := samplerOf(e.get); err == nil || !strings.HasPrefix(err.Error(), "OTEL_TRACES_SAMPLER") {
			t.Errorf("%v: %v", e, err)
		}
	}
	usual, _, _ := samplerOf(env{}.get)
	rec, n := &Telemetry{sampler: usual}, 0
	for range 20_000 {
		if rec.samples(tracing.Context{}.Child(), tracing.Context{}, "ping") {
			n++
		}
	}
	if n < 800 || n > 1200 {
		t.Errorf("%d of 20,000 were sampled: 5 %% is 1,000", n)
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
	tr := rec.Begin(tracing.Context{}, "tools/call")
	send := tr.Below(&tr.Root, tracing.Client, "tools/call search")
	send.Method, send.Target, send.RequestID, send.Server, send.Generation, send.Send = "tools/call", "search", "7", "github", 3, 1
	send.Peer = &tracing.Peer{Version: "2025-11-25", Session: "abc", Transport: "tcp", HTTP: "1.1", Address: "mcp.example.com", Port: 443}
	send.Error, send.Code, send.Text = "-32603", -32603, strings.Repeat("ä", 150)
	send.End(time.Now())
	tr.Settle(&event.CallFacts{Server: "github", Gen: 3, Result: event.CallUnknown, Kind: fault.Broken, Sends: 1})
	tr.Failed("reconnecting", "the connection broke")
	root := &tr.Root
	root.Kind, root.Name, root.Method, root.Target, root.RequestID = tracing.Server, "tools/call github__search", "tools/call", "github__search", "x"
	root.Peer, root.Error, root.Ended = &tracing.Peer{Version: "2026-07-28", Transport: "tcp", HTTP: "1.1", Address: "127.0.0.1", Port: 4711}, tr.Verdict(), time.Now()
	tr.End(rec)
	if err := rec.spans.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `server tools/call github__search Error (the connection broke)
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
	if spans[1].Parent.SpanID() != spans[0].SpanContext.SpanID() || spans[0].SpanContext.SpanID() != root.Own.Span || spans[0].Parent.IsValid() {
		t.Error("the ids are not those that others were told of")
	}
}

// Of what the sampler left out, that is kept which shows what everline is there for;
// of requests whose callers decide nothing is.
func TestWhatIsOfInterestIsKept(t *testing.T) {
	to := tracetest.NewInMemoryExporter()
	rec := openTo(t, env{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, to)
	play := func(f event.CallFacts, took time.Duration) int {
		t.Helper()
		to.Reset()
		tr := rec.Begin(tracing.Context{}, "tools/call")
		if tr == nil || tr.Root.Own.Sampled() {
			t.Fatal("a root is not looked at, or others are told of it")
		}
		tr.Settle(&f)
		tr.Root.Ended = tr.Root.Began.Add(took)
		tr.End(rec)
		if err := rec.spans.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(to.GetSpans())
	}
	for _, c := range []struct {
		what string
		f    event.CallFacts
		took time.Duration
		kept int
	}{
		{"usual", event.CallFacts{Sends: 1}, time.Second, 0},
		{"repeated", event.CallFacts{Sends: 2}, time.Second, 1},
		{"parked", event.CallFacts{Sends: 1, Saved: event.ByParking}, time.Second, 1},
		{"unknown", event.CallFacts{Sends: 1, Result: event.CallUnknown}, time.Second, 1},
		{"slow", event.CallFacts{Sends: 1}, 11 * time.Second, 1},
	} {
		if n := play(c.f, c.took); n != c.kept {
			t.Errorf("%s: %d spans", c.what, n)
		}
	}
	if tr := rec.Begin(tracing.Context{}.Child(), "tools/call"); tr != nil {
		t.Error("a caller decides, and something is recorded all the same")
	}
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
		tr := rec.Begin(tracing.Context{}, "ping")
		tr.Root.Ended = time.Now()
		tr.End(rec)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("5,000 requests took %s", took)
	}
	if lost, waits := rec.Lost(), rec.outlet.waiting.Load(); lost != 4900 || waits != 100 {
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
		tr := rec.Begin(tracing.Context{}, "ping")
		tr.Root.Ended = time.Now()
		tr.End(rec)
		_ = rec.spans.ForceFlush(t.Context()) // its failure is what is counted
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if rec.Lost() != 2 || strings.Count(said.String(), "cannot be exported") != 1 || !strings.Contains(said.String(), "again") {
		t.Errorf("%d lost: %s", rec.Lost(), said.String())
	}
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
				tr := rec.Begin(tracing.Context{}, "tools/call")
				send := tr.Below(&tr.Root, tracing.Client, "tools/call x")
				send.Method, send.Target, send.Peer = "tools/call", "x", peer
				send.End(time.Now())
				tr.Settle(&event.CallFacts{Server: "s", Sends: 1})
				tr.Root.Method, tr.Root.Peer, tr.Root.Ended = "tools/call", peer, time.Now()
				tr.End(rec)
			}
		})
	}
}
