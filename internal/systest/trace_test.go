package systest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/telemetry"
)

// A stub is a collector: what speaks OTLP to it is remembered.
type stub struct {
	url string

	mu    sync.Mutex
	spans []tracedSpan
}

type tracedSpan struct {
	service, name, kind, trace, id, parent string
	status, link                           string
	began                                  uint64
	attrs                                  map[string]string
}

func newStub(t *testing.T) *stub {
	s := &stub{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			if zipped, err := gzip.NewReader(body); err == nil {
				body = zipped
			}
		}
		raw, _ := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &req); err != nil {
			t.Errorf("a trace that cannot be read: %v", err)
		}
		s.take(&req)
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

func (s *stub) take(req *collector.ExportTraceServiceRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range req.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, sp := range ss.Spans {
				got := tracedSpan{
					service: service, name: sp.Name, kind: strings.TrimPrefix(sp.Kind.String(), "SPAN_KIND_"), attrs: map[string]string{},
					trace: hex.EncodeToString(sp.TraceId), id: hex.EncodeToString(sp.SpanId), parent: hex.EncodeToString(sp.ParentSpanId), began: sp.StartTimeUnixNano,
				}
				if sp.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
					got.status = strings.TrimRight(" ERROR "+sp.Status.Message, " ")
				}
				for _, l := range sp.Links {
					got.link = hex.EncodeToString(l.SpanId)
				}
				for _, a := range sp.Attributes {
					got.attrs[a.Key] = strings.Trim(strings.SplitN(a.Value.String(), ":", 2)[1], `"`)
				}
				s.spans = append(s.spans, got)
			}
		}
	}
}

// of are the spans of a service and a kind, in the order in which they ended.
func (s *stub) of(service, kind, name string) (found []tracedSpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spans {
		if sp.service == service && sp.kind == kind && sp.name == name {
			found = append(found, sp)
		}
	}
	return found
}

// tracerTo is the official SDK, as a program uses it that wants each span at once.
func tracerTo(url, service string) (trace.Tracer, func()) {
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(url+"/v1/traces"))
	if err != nil {
		panic(err)
	}
	res := resource.NewSchemaless(attribute.String("service.name", service))
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithResource(res))
	return p.Tracer("test"), func() { _ = p.Shutdown(context.Background()) }
}

var w3c = propagation.TraceContext{}

// sends has a client record what it asks, and tell of it, as SEP-414 has it.
func sends(tr trace.Tracer) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			p, ok := r.GetParams().(*mcp.CallToolParams)
			if !ok {
				return next(ctx, method, r)
			}
			ctx, span := tr.Start(ctx, method, trace.WithSpanKind(trace.SpanKindClient))
			defer span.End()
			carrier := propagation.MapCarrier{}
			w3c.Inject(ctx, carrier)
			meta := p.GetMeta()
			if meta == nil {
				meta = map[string]any{}
			}
			for k, v := range carrier {
				meta[k] = v
			}
			p.SetMeta(meta)
			return next(ctx, method, r)
		}
	}
}

// receives has a server record what it is asked.
func receives(tr trace.Tracer) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "tools/call" {
				carrier := propagation.MapCarrier{}
				if p, ok := r.GetParams().(*mcp.CallToolParamsRaw); ok {
					for k, v := range p.GetMeta() {
						if text, ok := v.(string); ok {
							carrier[k] = text
						}
					}
				}
				var span trace.Span
				ctx, span = tr.Start(w3c.Extract(ctx, carrier), method, trace.WithSpanKind(trace.SpanKindServer))
				defer span.End()
			}
			return next(ctx, method, r)
		}
	}
}

// speaks lets a server of go-sdk speak one era.
func speaks(modern bool) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if p, ok := r.GetParams().(*mcp.InitializeParams); ok {
				p.ProtocolVersion = "2025-11-25"
			}
			if modern && method == "initialize" || !modern && method == "server/discover" {
				return nil, &jsonrpc.Error{Code: -32601, Message: "method not found"}
			}
			return next(ctx, method, r)
		}
	}
}

// traceServer has a tool that may be repeated. dies is called with its first call.
func traceServer(tr trace.Tracer, modern bool, dies func()) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "traced", Version: "1"}, nil)
	s.AddReceivingMiddleware(receives(tr), speaks(modern))
	mcp.AddTool(s, &mcp.Tool{Name: "look", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
			dies()
			return &mcp.CallToolResult{}, nil, nil
		})
	return s
}

// The variables make this test binary a server on stdio.
const (
	traceChildEra  = "EVERLINE_TEST_TRACE_ERA"
	traceChildTo   = "EVERLINE_TEST_TRACE_TO"
	traceChildOnce = "EVERLINE_TEST_TRACE_ONCE"
)

// traceChild does nothing in a test process.
func traceChild() {
	era := os.Getenv(traceChildEra)
	if era == "" {
		return
	}
	tr, end := tracerTo(os.Getenv(traceChildTo), "server")
	defer end()
	s := traceServer(tr, era == "modern", func() {
		if f, err := os.OpenFile(os.Getenv(traceChildOnce), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			os.Exit(1)
		}
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{}) // the end of stdin is its end
	os.Exit(0)
}

// tracedServer is a server of go-sdk with the official SDK, which dies in its first call.
func tracedServer(t *testing.T, kind, era, to string) map[string]any {
	t.Helper()
	if kind == "stdio" {
		return map[string]any{"command": os.Args[0], "env": map[string]string{
			traceChildEra: era, traceChildTo: to, traceChildOnce: filepath.Join(t.TempDir(), "died"),
		}}
	}
	tr, end := tracerTo(to, "server")
	t.Cleanup(end)
	var once sync.Once
	s := traceServer(tr, era == "modern", func() { once.Do(func() { panic(http.ErrAbortHandler) }) })
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: era == "modern"})
	first := true
	var mu sync.Mutex
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		mu.Lock()
		cut := first && strings.Contains(string(body), `"tools/call"`)
		first = first && !cut
		mu.Unlock()
		if cut {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				c.Close()
			}
			return
		}
		h.ServeHTTP(w, r)
	}))
	once.Do(func() {}) // the connection dies, and not the handler
	t.Cleanup(web.Close)
	return map[string]any{"url": web.URL}
}

// One trace goes from a client through everline to a server and back, whichever era
// either of them speaks, over what it may. The first send is lost and the call is
// made again: the trace shows both.
func TestOneTrace(t *testing.T) {
	for _, server := range []string{"stdio legacy", "stdio modern", "http legacy", "http modern"} {
		for _, client := range []string{"stdio 2025-11-25", "stdio 2026-07-28", "http 2025-11-25", "http 2026-07-28"} {
			t.Run(server+" from "+client, func(t *testing.T) {
				to := newStub(t)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.url)
				kind, era, _ := strings.Cut(server, " ")
				traceOnce(t, to, tracedServer(t, kind, era, to.url), client)
				checkTrace(t, to, kind, client)
			})
		}
	}
}

// recording is what the environment asks for, and the options of a hub that records.
func recording(t *testing.T) (*telemetry.Telemetry, everline.Options) {
	t.Helper()
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	t.Setenv("OTEL_LOGS_EXPORTER", "none")
	rec, err := telemetry.Open(within(t), telemetry.Options{
		Version: "test", Log: slog.New(slog.DiscardHandler), Hide: func(text string) string { return strings.ReplaceAll(text, "hunter2", "•••") },
	})
	if err != nil || rec == nil {
		t.Fatal(rec, err)
	}
	var o everline.Options
	door.Record(&o, rec)
	return rec, o
}

// traceOnce makes one call from a client of go-sdk through everline.
func traceOnce(t *testing.T, to *stub, server map[string]any, client string) {
	t.Helper()
	ctx := within(t)
	rec, o := recording(t)
	hub, err := everline.Open(ctx, servers{"s": server}.config(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rec.Close(within(t)) }()
	defer func() { _ = hub.Close(context.Background()) }()
	g := gateway.ForHub(hub, gateway.Options{Recorder: rec})
	defer func() { _ = g.Close(context.Background()) }()
	transport, version, _ := strings.Cut(client, " ")
	link, end := clientLink(t, g, transport)
	defer end()
	tr, shut := tracerTo(to.url, "client")
	defer shut()
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	c.AddSendingMiddleware(sends(tr))
	session, err := c.Connect(ctx, link, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.ListTools(ctx, nil); err != nil {
		t.Fatal(err)
	}
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "look", Arguments: map[string]any{}})
	if err != nil || res.IsError {
		t.Fatalf("%+v %v", res, err)
	}
}

// clientLink is a client's way to a gateway.
func clientLink(t *testing.T, g *gateway.Gateway, transport string) (mcp.Transport, func()) {
	if transport == "http" {
		web := httptest.NewServer(g.Handler())
		return &mcp.StreamableClientTransport{Endpoint: web.URL + "/mcp"}, web.Close
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan struct{})
	go func() { // ends with the client's side of the pipe
		defer close(done)
		_ = g.ServeStdio(context.Background(), inR, outW)
		outW.Close()
	}()
	return &mcp.IOTransport{Reader: outR, Writer: inW}, func() { inW.Close(); <-done }
}

func checkTrace(t *testing.T, to *stub, kind, client string) {
	t.Helper()
	called := to.of("client", "CLIENT", "tools/call")
	asked := to.of("everline", "SERVER", "tools/call look")
	sent := to.of("everline", "CLIENT", "tools/call look")
	served := to.of("server", "SERVER", "tools/call")
	if len(called) != 1 || len(asked) != 1 || len(sent) != 2 || len(served) != 1 {
		t.Fatalf("%d called, %d asked, %d sent, %d served: %+v", len(called), len(asked), len(sent), len(served), to.spans)
	}
	slices.SortFunc(sent, func(a, b tracedSpan) int { return strings.Compare(a.attrs["everline.send"], b.attrs["everline.send"]) })
	for what, is := range map[string][2]string{
		"everline's own":  {asked[0].parent, called[0].id},
		"the first send":  {sent[0].parent, asked[0].id},
		"the second send": {sent[1].parent, asked[0].id},
		"the server's":    {served[0].parent, sent[1].id},
	} {
		if is[0] != is[1] {
			t.Errorf("%s stands below %s, and should below %s", what, is[0], is[1])
		}
	}
	for _, sp := range []tracedSpan{asked[0], sent[0], sent[1], served[0]} {
		if sp.trace != called[0].trace {
			t.Errorf("%s of %s is of another trace", sp.name, sp.service)
		}
	}
	transport, version, _ := strings.Cut(client, " ")
	want := map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "look", "everline.sends": "2", "everline.saved": "replay",
		"everline.outcome": "answered", "mcp.protocol.version": version, "network.transport": map[string]string{"stdio": "pipe", "http": "tcp"}[transport],
	}
	for key, value := range want {
		if got := asked[0].attrs[key]; got != value {
			t.Errorf("%s is %q, and should be %q", key, got, value)
		}
	}
	if sent[0].attrs["error.type"] == "" || sent[1].attrs["error.type"] != "" || sent[0].attrs["everline.send"] != "1" {
		t.Errorf("the sends: %v, %v", sent[0].attrs, sent[1].attrs)
	}
	if got, want := fmt.Sprint(sent[1].attrs["server.address"] != "", sent[1].attrs["client.address"] != ""), fmt.Sprint(kind == "http", false); got != want {
		t.Errorf("addresses of a send: %v", sent[1].attrs)
	}
}
