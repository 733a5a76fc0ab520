package telemetry

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/everline/everline/internal/tracing"
)

// usualRatio is how many of the requests are sampled whose callers do not decide,
// where the environment does not say.
const usualRatio = 0.05

// samplerOf is the sampler of the environment, and whether it takes a share of what
// it decides about: then what is of interest may be kept beside it.
func samplerOf(getenv func(string) string) (s sdktrace.Sampler, share bool, err error) {
	name := strings.ToLower(strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER")))
	if name == "" {
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(usualRatio)), true, nil
	}
	kind, byParent := strings.CutPrefix(name, "parentbased_")
	switch kind {
	case "always_on":
		s = sdktrace.AlwaysSample()
	case "always_off":
		s = sdktrace.NeverSample()
	case "traceidratio":
		ratio := 1.0
		if arg := strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER_ARG")); arg != "" {
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || ratio < 0 || ratio > 1 {
				return nil, false, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is no number from 0 to 1", arg)
			}
		}
		s, share = sdktrace.TraceIDRatioBased(ratio), true
	default:
		return nil, false, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is none of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio", name)
	}
	if byParent {
		s = sdktrace.ParentBased(s)
	}
	return s, share, nil
}

// Begin implements tracing.Recorder.
func (t *Telemetry) Begin(caller tracing.Context, method string) *tracing.Trace {
	own := caller.Child()
	if t.sampler != nil && t.samples(own, caller, method) {
		own.Sample()
	} else if t.metrics == nil && (!t.keeps || caller.Valid()) {
		return nil
	}
	return tracing.New(own, caller)
}

func (t *Telemetry) samples(own, caller tracing.Context, method string) bool {
	ctx := context.Background()
	if caller.Valid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(caller))
	}
	return t.sampler.ShouldSample(sdktrace.SamplingParameters{
		ParentContext: ctx, TraceID: own.Trace, Name: method, Kind: trace.SpanKindServer,
	}).Decision == sdktrace.RecordAndSample
}

func spanContext(c tracing.Context) trace.SpanContext {
	state, _ := trace.ParseTraceState(c.State) // what cannot be read is left out
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: c.Trace, SpanID: c.Span, TraceFlags: trace.TraceFlags(c.Flags), TraceState: state,
	})
}
