package telemetry

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
)

// End implements tracing.Recorder.
func (t *Telemetry) End(tr *tracing.Trace) {
	if !t.outlet.take(int64(1 + len(tr.Spans))) {
		return
	}
	t.write(tr, tr.Root)
	for _, s := range tr.Spans {
		t.write(tr, s)
	}
}

// Late implements tracing.Recorder.
func (t *Telemetry) Late(s *tracing.Span) {
	if t.outlet.take(1) {
		t.write(s.Trace(), s)
	}
}

var kinds = [...]trace.SpanKind{tracing.Internal: trace.SpanKindInternal, tracing.Server: trace.SpanKindServer, tracing.Client: trace.SpanKindClient}

// write gives the SDK a span that is over.
func (t *Telemetry) write(tr *tracing.Trace, s *tracing.Span) {
	ctx := context.WithValue(context.Background(), givenKey{}, s)
	if parent := s.Parent(); parent.Valid() {
		ctx = trace.ContextWithSpanContext(ctx, spanContext(&parent).WithRemote(s == tr.Root))
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(s.Began), trace.WithSpanKind(kinds[s.Kind]), trace.WithAttributes(attributes(tr, s)...),
	}
	if s == tr.Root && tr.Link != nil {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: spanContext(tr.Link)}))
	}
	_, span := t.tracer.Start(ctx, nameOf(s), options...)
	if s.Error != "" {
		text := s.Text
		if t.hide != nil {
			text = t.hide(text)
		}
		span.SetStatus(codes.Error, short(text))
	}
	span.End(trace.WithTimestamp(s.Ended))
}

// nameOf is never a URI: only tools and prompts are targets.
func nameOf(s *tracing.Span) string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Target != "":
		return s.Method + " " + s.Target
	default:
		return s.Method
	}
}

func spanContext(c *tracing.Context) trace.SpanContext {
	state, _ := trace.ParseTraceState(c.State) // what cannot be read is left out
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: c.Trace, SpanID: c.Span, TraceFlags: trace.TraceFlags(c.Flags), TraceState: state,
	})
}

// maxText is how many bytes of a text of an error go into a span.
const maxText = 200

func short(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxText {
		return text
	}
	cut := maxText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// attributes are those of the semantic conventions, and our own.
func attributes(tr *tracing.Trace, s *tracing.Span) []attribute.KeyValue {
	a := make([]attribute.KeyValue, 0, 20)
	text := func(k attribute.Key, v string) {
		if v != "" {
			a = append(a, k.String(v))
		}
	}
	text(mcpMethod, s.Method)
	switch s.Method {
	case mcp.ToolsCall:
		text(operation, executeTool)
		text(toolName, s.Target)
	case mcp.PromptsGet:
		text(promptName, s.Target)
	}
	if s.Number != 0 {
		text(requestID, strconv.FormatInt(s.Number, 10))
	}
	text(requestID, s.RequestID)
	text(errorType, s.Error)
	if s.Code != 0 {
		text(statusCode, strconv.FormatInt(s.Code, 10))
	}
	if s.Peer != nil {
		a = appendPeer(a, s)
	}
	text(ownWait, s.For)
	server, generation := s.Server, s.Generation
	if s == tr.Root && tr.Asked {
		f := &tr.Facts
		server, generation = f.Server, f.Generation
		text(ownOutcome, f.Result.String())
		text(ownSaved, f.Saved.String())
		text(ownState, tr.State)
		a = append(a, ownSends.Int(f.Sends))
	}
	text(ownServer, server)
	if generation != 0 {
		a = append(a, ownGeneration.Int64(int64(generation)))
	}
	if s.Send != 0 {
		a = append(a, ownSend.Int(s.Send))
	}
	return a
}

// appendPeer has the other side: who asks, or who is asked, and never both.
func appendPeer(a []attribute.KeyValue, s *tracing.Span) []attribute.KeyValue {
	p := s.Peer
	host, port := serverHost, serverPort
	if s.Kind == tracing.Server || s.Server == "" { // a client of ours, whoever asks
		host, port = clientHost, clientPort
	}
	a = append(a, netTransport.String(p.Transport))
	for _, x := range []struct {
		key  attribute.Key
		text string
	}{{mcpVersion, p.Version}, {mcpSession, p.Session}, {netVersion, p.HTTP}, {host, p.Address}} {
		if x.text != "" {
			a = append(a, x.key.String(x.text))
		}
	}
	if p.HTTP != "" {
		a = append(a, netProtocol.String("http"))
	}
	if p.Port != 0 {
		a = append(a, port.Int(p.Port))
	}
	return a
}

// given is the generator of ids that were generated before: others have been told
// of them.
type given struct{}

type givenKey struct{}

func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	own := ctx.Value(givenKey{}).(*tracing.Span).Own()
	return own.Trace, own.Span
}

func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return ctx.Value(givenKey{}).(*tracing.Span).Own().Span
}

// A spanOutlet counts what of the spans goes out, and what does not.
type spanOutlet struct {
	sdktrace.SpanExporter
	outlet
}

// ExportSpans implements sdktrace.SpanExporter. Nobody else is told of a failure.
func (o *spanOutlet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	o.exported(len(spans), o.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
