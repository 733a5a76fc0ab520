package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
)

// slow is from when on a request is of interest because it took so long.
const slow = 10 * time.Second

// End implements tracing.Recorder.
func (t *Telemetry) End(tr *tracing.Trace) {
	if t.metrics != nil {
		t.measure(tr)
	}
	root := &tr.Root
	if t.tracer == nil || !root.Own.Sampled() && !(t.keeps && !root.Parent.Valid() && ofInterest(tr)) {
		return
	}
	n := int64(1 + len(tr.Spans()))
	if !t.outlet.take(n) {
		return
	}
	t.write(tr, root)
	for _, s := range tr.Spans() {
		t.write(tr, s)
	}
}

// ofInterest tells whether a request shows what everline is there for.
func ofInterest(tr *tracing.Trace) bool {
	f := &tr.Facts
	return tr.Root.Ended.Sub(tr.Root.Began) > slow ||
		tr.Called && (f.Sends > 1 || f.Saved != event.NotSaved || f.Result == event.CallUnknown)
}

var kinds = [...]trace.SpanKind{tracing.Internal: trace.SpanKindInternal, tracing.Server: trace.SpanKindServer, tracing.Client: trace.SpanKindClient}

// write gives the SDK a span that is over.
func (t *Telemetry) write(tr *tracing.Trace, s *tracing.Span) {
	ctx := context.WithValue(context.Background(), givenKey{}, s)
	if s.Parent.Valid() {
		parent := spanContext(s.Parent)
		if s == &tr.Root {
			parent = parent.WithRemote(true)
		}
		ctx = trace.ContextWithSpanContext(ctx, parent)
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(s.Began), trace.WithSpanKind(kinds[s.Kind]), trace.WithAttributes(attributes(tr, s)...),
	}
	if s.Link.Valid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: spanContext(s.Link)}))
	}
	_, span := t.tracer.Start(ctx, s.Name, options...)
	if s.Error != "" {
		span.SetStatus(codes.Error, short(s.Text))
	}
	span.End(trace.WithTimestamp(s.Ended))
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
	text(requestID, s.RequestID)
	text(errorType, s.Error)
	if s.Code != 0 {
		a = append(a, statusCode.Int64(s.Code))
	}
	if s.Peer != nil {
		a = appendPeer(a, s)
	}
	text(ownWait, s.For)
	server, generation := s.Server, s.Generation
	if s == &tr.Root && tr.Called {
		f := &tr.Facts
		server, generation = f.Server, f.Gen
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
	s := ctx.Value(givenKey{}).(*tracing.Span)
	return s.Own.Trace, s.Own.Span
}

func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return ctx.Value(givenKey{}).(*tracing.Span).Own.Span
}

// An outlet counts what goes out, and what does not.
type outlet struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	room int64 // for spans that wait

	waiting atomic.Int64
	lost    atomic.Uint64
	failing atomic.Bool // the last export has failed
}

// take makes room for spans; false if there is none, and they are lost. The SDK's
// own queue has as much and is never full, so that no loss is uncounted.
func (o *outlet) take(n int64) bool {
	if o.waiting.Add(n) <= o.room {
		return true
	}
	o.waiting.Add(-n)
	o.lost.Add(uint64(n))
	return false
}

// ExportSpans implements sdktrace.SpanExporter.
func (o *outlet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := o.SpanExporter.ExportSpans(ctx, spans)
	o.waiting.Add(-int64(len(spans)))
	if err != nil {
		o.lost.Add(uint64(len(spans)))
	}
	if was := o.failing.Swap(err != nil); err != nil && !was {
		o.log.Warn("spans are lost: they cannot be exported", "cause", err)
	} else if was && err == nil {
		o.log.Info("spans are exported again", "lost", o.lost.Load())
	}
	return err
}
