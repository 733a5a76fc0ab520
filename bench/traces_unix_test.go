//go:build unix

package main

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/telemetry"
)

// traced is newPath whose requests are recorded, so many of them for somebody; "" for
// no recorder.
func traced(tb testing.TB, ratio string) *path {
	tb.Helper()
	if ratio == "" {
		return newPath(tb, overHTTP, 5)
	}
	rec, err := telemetry.Open(tb.Context(), telemetry.Options{
		Log: slog.New(slog.DiscardHandler), Exporter: tracetest.NewNoopExporter(),
		Getenv: func(name string) string {
			return map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": ratio}[name]
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = rec.Close(context.Background()) }) // what it would export goes nowhere
	p := newPathWith(tb, overHTTP, 5, func(*config.Config) {}, func(o *everline.Options, g *gateway.Options) {
		door.Record(o, rec)
		g.Recorder = rec
	})
	p.session = p.open(tb)
	return p
}

// cpu is what this process has used.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTraces compares, in turns and in an order that changes, the processor's time
// for a whole call: without a recorder, and where 0, 5 and 100 of a hundred traces are
// wanted. It is that of the process, so a server that costs nearly nothing is in it. Each
// is there four times, since two that are the same differ by where they lie in memory: by
// how much is the spread.
func BenchmarkTraces(b *testing.B) {
	const turn, times = 20, 4
	all := []struct{ name, ratio string }{{"off", ""}, {"0%", "0"}, {"5%", "0.05"}, {"100%", "1"}}
	shots, took := make([]*shot, times*len(all)), make([][]time.Duration, times*len(all))
	for i := range shots {
		shots[i] = traced(b, all[i%len(all)].ratio).shot(b, "tools/call", echoParams, 100)
		shots[i].fire(b)
	}
	for b.Loop() {
		for _, i := range rand.Perm(len(shots)) {
			began := cpu(b)
			for range turn {
				shots[i].fire(b)
			}
			took[i] = append(took[i], (cpu(b)-began)/turn)
		}
	}
	base := 0.0
	for v := range all {
		sum, least, most := 0.0, math.Inf(1), 0.0
		for i := v; i < len(shots); i += len(all) {
			m := middle(took[i])
			sum, least, most = sum+m/times, min(least, m), max(most, m)
		}
		if v == 0 {
			base = sum
			b.ReportMetric((most/least-1)*100, "spread-%")
		}
		b.ReportMetric(sum, all[v].name+"-ns")
		b.ReportMetric((sum/base-1)*100, all[v].name+"-more-%")
	}
}

// middle is the mean without the tenth that took longest, which is the machine's.
func middle(took []time.Duration) float64 {
	slices.Sort(took)
	took = took[:len(took)-len(took)/10]
	var sum time.Duration
	for _, t := range took {
		sum += t
	}
	return float64(sum) / float64(len(took))
}
