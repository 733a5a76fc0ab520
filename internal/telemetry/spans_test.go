package telemetry

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/everline/everline/internal/tracing"
)

// What has ended is written soon, and at once where there is much of it. All is written
// when the backlog is closed, and nothing that ends later.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []time.Duration
		began := time.Now()
		b := newBacklog(func(ended) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, time.Since(began))
		})
		written := func(want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("written after %v, want %v", got, want)
			}
			got, began = nil, time.Now()
		}
		for range 2 {
			b.add(ended{})
			time.Sleep(togetherFor / 2)
			b.add(ended{})
			time.Sleep(togetherFor)
			written(togetherFor, togetherFor)
		}
		for range together {
			b.add(ended{})
		}
		written(make([]time.Duration, together)...)
		b.add(ended{})
		b.close()
		written(0)
		b.add(ended{})
		time.Sleep(time.Hour)
		written()
	})
}

// The SDK's limits of spans are those of the environment.
func TestLimits(t *testing.T) {
	t.Setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3")
	t.Setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "4")
	to := tracetest.NewInMemoryExporter()
	rec := openTo(t, env{"OTEL_TRACES_SAMPLER": "always_on"}, to)
	tr, _ := rec.Begin(tracing.Context{}, time.Now())
	root := tr.Over(time.Now())
	root.Method, root.Target = "tools/call", "äöüßx"
	root.Server = "s"
	tr.End(rec)
	if err := rec.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := to.GetSpans()[0]
	want := []attribute.KeyValue{mcpMethod.String("tool"), operation.String("exec"), toolName.String("äöüß")}
	if !slices.Equal(got.Attributes, want) || got.DroppedAttributes != 1 {
		t.Errorf("%v, %d dropped", got.Attributes, got.DroppedAttributes)
	}
}

// A caller is somewhere else, and a span of ours is not.
func TestRemoteParents(t *testing.T) {
	to := tracetest.NewInMemoryExporter()
	rec := openTo(t, env{"OTEL_TRACES_SAMPLER": "always_on"}, to)
	tr, _ := rec.Begin(tracing.Context{}.Child(), time.Now())
	tr.Below(nil, tracing.Client).End(time.Now())
	tr.Over(time.Now())
	tr.End(rec)
	if err := rec.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := to.GetSpans(); !got[0].Parent.IsRemote() || got[1].Parent.IsRemote() || !got[1].Parent.IsValid() {
		t.Errorf("%+v, %+v", got[0].Parent, got[1].Parent)
	}
}
