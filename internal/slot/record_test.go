package slot

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/upstream"
)

// leftOut is a recorder whose sampler takes nothing.
type leftOut struct{}

func (leftOut) Begin(tracing.Context, time.Time) (*tracing.Trace, bool) { return nil, true }
func (leftOut) End(*tracing.Trace)                                      {}
func (leftOut) Late(*tracing.Span)                                      {}
func (leftOut) Durations() *tracing.Durations                           { return nil }

// A call that was parked is recorded with its wait and its send, although both were over
// when it was known that it is of interest; one that was not is not recorded.
func TestParkedCallsAreRecorded(t *testing.T) {
	srv := newServer("q")
	srv.dial = func(ctx context.Context, _ int) error { return sleep(ctx, second) }
	play(t, Options{Recorder: leftOut{}}, srv, 0.5, func(b *bench) {
		b.at(5 * second)
		for _, want := range [][]string{nil, {"everline.wait generation 1s", "tools/call q 1 0s"}} {
			ctx := tracing.Perhaps(context.Background(), time.Now())
			if _, err := b.Call(ctx, &upstream.Call{Method: "tools/call", Name: "q"}, config.ReplayNever); err != nil {
				t.Fatal(err)
			}
			var got []string
			if tr := ctx.Over(time.Now()); tr != nil {
				for _, s := range tr.Spans {
					if s.Name != "" {
						got = append(got, fmt.Sprint(s.Name, " ", s.For, " ", s.Ended.Sub(s.Began)))
					} else {
						got = append(got, fmt.Sprint(s.Method, " ", s.Target, " ", s.Send, " ", s.Ended.Sub(s.Began)))
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("recorded: %q, want %q", got, want)
			}
			srv.fake(1).end(errDied)
			synctest.Wait()
		}
	})
}
