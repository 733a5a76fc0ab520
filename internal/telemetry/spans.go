package telemetry

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
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
	if t.outlet.take(int64(1 + len(tr.Spans))) {
		t.ended.add(ended{tr, nil})
	}
}

// Late implements tracing.Recorder.
func (t *Telemetry) Late(s *tracing.Span) {
	if t.outlet.take(1) {
		t.ended.add(ended{s.Trace(), s})
	}
}

// What has ended is written together: one by one, each wakes the SDK out of the cold,
// which costs more than the writing.
const (
	togetherFor = 100 * time.Millisecond
	together    = 64
)

// An ended span of a trace, or the trace with all that it holds.
type ended struct {
	trace *tracing.Trace
	span  *tracing.Span
}

// A backlog is what has ended and is not written yet. The outlet bounds it.
type backlog struct {
	write   func(ended)
	writing sync.Mutex // held while all is written

	mu     sync.Mutex // guards the rest; nothing waits under it
	all    []ended
	timer  *time.Timer // writes; stopped while all is empty
	closed bool
}

func newBacklog(write func(ended)) *backlog {
	b := &backlog{write: write}
	b.timer = time.AfterFunc(time.Hour, b.flush)
	b.timer.Stop()
	return b
}

func (b *backlog) add(e ended) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.all = append(b.all, e)
	switch len(b.all) {
	case 1:
		b.timer.Reset(togetherFor)
	case together:
		b.timer.Reset(0)
	}
}

// flush writes what there is. When it returns, that is written whoever did it.
func (b *backlog) flush() {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	all := b.all
	b.all = nil
	b.timer.Stop()
	b.mu.Unlock()
	for _, e := range all {
		b.write(e)
	}
}

// close writes what is left. What ends later is nobody's.
func (b *backlog) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.flush()
}

// writeEnded gives the SDK what has ended.
func (t *Telemetry) writeEnded(e ended) {
	if e.span != nil {
		t.write(e.trace, e.span)
		return
	}
	t.write(e.trace, e.trace.Root)
	for _, s := range e.trace.Spans {
		t.write(e.trace, s)
	}
}

var kinds = [...]trace.SpanKind{tracing.Internal: trace.SpanKindInternal, tracing.Server: trace.SpanKindServer, tracing.Client: trace.SpanKindClient}

// A finished span is how the SDK reads one that is over. What everline does not know of
// its spans is that of the embedded one, as its resource and its scope. To begin and end
// each of them with the SDK's tracer costs four times as much.
type finished struct {
	sdktrace.ReadOnlySpan
	name         string
	kind         trace.SpanKind
	own, parent  trace.SpanContext
	began, ended time.Time
	attributes   []attribute.KeyValue
	dropped      int // attributes
	links        []sdktrace.Link
	status       sdktrace.Status
}

func (f *finished) Name() string                     { return f.name }
func (f *finished) SpanKind() trace.SpanKind         { return f.kind }
func (f *finished) SpanContext() trace.SpanContext   { return f.own }
func (f *finished) Parent() trace.SpanContext        { return f.parent }
func (f *finished) StartTime() time.Time             { return f.began }
func (f *finished) EndTime() time.Time               { return f.ended }
func (f *finished) Attributes() []attribute.KeyValue { return f.attributes }
func (f *finished) DroppedAttributes() int           { return f.dropped }
func (f *finished) Links() []sdktrace.Link           { return f.links }
func (f *finished) Status() sdktrace.Status          { return f.status }

// write gives the SDK a span that is over. It is exported, so it is sampled, whatever
// others were told of it.
func (t *Telemetry) write(tr *tracing.Trace, s *tracing.Span) {
	own := s.Own()
	own.Sample()
	f := &finished{
		ReadOnlySpan: t.blank, name: nameOf(s), kind: kinds[s.Kind], own: spanContext(&own),
		began: s.Began, ended: s.Ended,
	}
	f.attributes, f.dropped = t.limited(attributes(tr, s))
	if parent := s.Parent(); parent.Valid() {
		f.parent = spanContext(&parent).WithRemote(s == tr.Root)
	}
	if s == tr.Root && tr.Link != nil {
		f.links = []sdktrace.Link{{SpanContext: spanContext(tr.Link)}}
	}
	if s.Error != "" {
		text := s.Text
		if t.hide != nil {
			text = t.hide(text)
		}
		f.status = sdktrace.Status{Code: codes.Error, Description: short(text)}
	}
	t.batch.OnEnd(f)
}

// limited cuts attributes to the SDK's limits, which the environment sets.
func (t *Telemetry) limited(all []attribute.KeyValue) (kept []attribute.KeyValue, dropped int) {
	if n := t.limits.AttributeCountLimit; n >= 0 && len(all) > n {
		all, dropped = all[:n], len(all)-n
	}
	if n := t.limits.AttributeValueLengthLimit; n >= 0 {
		for i := range all {
			if v := &all[i].Value; v.Type() == attribute.STRING && utf8.RuneCountInString(v.AsString()) > n {
				*v = attribute.StringValue(string([]rune(v.AsString())[:n]))
			}
		}
	}
	return all, dropped
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
	a := make([]attribute.KeyValue, 0, 16) // few have more
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
