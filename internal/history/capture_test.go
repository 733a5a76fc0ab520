package history

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/event"
)

func TestCaptureEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCapture(func(p []byte) string { return string(p) })
		defer c.Close()
		var passed int
		call := func(server, params string) {
			c.Watch([]byte(params), func(event.CallFacts) { passed++ })(event.CallFacts{Server: server, Name: "t", By: &event.Caller{Name: "x"}})
		}
		if c.Watch(nil, nil) != nil {
			t.Error("while nothing is recorded somebody watches")
		}
		call("a", "before")
		c.Begin("a")
		call("a", "one")
		call("b", "of another")
		time.Sleep(CaptureTime - time.Second)
		c.Begin("a") // longer
		time.Sleep(2 * time.Second)
		call("a", "two")
		got := c.Records("a")
		if len(got) != 2 || got[0].Params != "two" || got[1].Params != "one" || len(c.Records("b")) != 0 {
			t.Errorf("%+v", got)
		}
		time.Sleep(CaptureTime)
		synctest.Wait()
		if len(c.Records("a")) != 0 || len(c.Running()) != 0 || cap(c.records) != 0 {
			t.Errorf("after its end: %+v, %v", c.Records("a"), c.Running())
		}
		call("a", "after")
		if len(c.Records("a")) != 0 || passed != 5 {
			t.Errorf("%+v; %d calls were passed on", c.Records("a"), passed)
		}
	})
}

// A recording that is prolonged just when it ends goes on: its timer, which comes
// late, ends nothing.
func TestCaptureIsProlongedAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCapture(func(p []byte) string { return string(p) })
		defer c.Close()
		c.Begin("a")
		time.Sleep(CaptureTime - time.Second)
		c.Begin("a")
		c.forget("a", false) // as its first timer would
		if len(c.Running()) != 1 {
			t.Error("it has ended")
		}
		time.Sleep(CaptureTime)
		synctest.Wait()
		if len(c.Running()) != 0 {
			t.Error("it does not end any more")
		}
	})
}

func TestCaptureIsBounded(t *testing.T) {
	c := NewCapture(func(p []byte) string { return string(p) })
	defer c.Close()
	c.Begin("a")
	for i := range captureMost + 10 {
		c.Watch(fmt.Appendf(nil, "%d %s", i, strings.Repeat("ü", captureSize)), nil)(event.CallFacts{Server: "a"})
	}
	got := c.Records("a")
	if len(got) != captureMost || !got[0].Cut || len(got[0].Params) > captureSize || !strings.HasPrefix(got[0].Params, fmt.Sprint(captureMost+9)) {
		t.Errorf("%d records, the newest of %d bytes", len(got), len(got[0].Params))
	}
}
