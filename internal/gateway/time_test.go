package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/pipe"
)

// These run on the fake clock of a bubble, so their times are exact.

func TestStdioEndsCallsTwoSecondsAfterItsInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHub()
		g := New(h, Options{})
		defer g.Close(context.Background())
		start := time.Now()
		out := &strings.Builder{}
		err := g.ServeStdio(context.Background(), strings.NewReader(call("1", "echo", "")+"\n"), out)
		if err != nil || time.Since(start) != pipe.Grace {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if got := out.String(); !strings.Contains(got, `"id":1,"error"`) || !strings.Contains(got, `"outcome":"unknown"`) || !strings.Contains(got, pipe.ErrLeft.Error()) {
			t.Errorf("got %s", got)
		}
	})
}
