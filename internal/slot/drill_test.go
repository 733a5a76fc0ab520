package slot

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
)

// TestTally is what each end of a call counts as.
func TestTally(t *testing.T) {
	ctx := context.Background()
	var none *drill
	none.note(ctx, time.Now(), nil) // nobody drills
	none.count(ctx, waits)

	d := &drill{}
	d.note(ctx, time.Now(), nil) // ended before the fault was on
	d.began = time.Now()
	for _, kind := range []fault.Kind{fault.RPC, fault.Canceled, fault.Exited, fault.Exited, fault.Deadline} {
		d.note(ctx, d.began, &fault.Fault{Kind: kind, Err: errors.New("x")})
	}
	d.note(ctx, d.began.Add(-time.Hour), nil) // it was in flight when the fault came
	d.note(door.Probing(ctx), d.began, nil)
	d.count(ctx, waits)
	d.count(door.Probing(ctx), resends)

	clients, probes := d.clients.result(), d.probes.result()
	if clients.Calls != 6 || clients.Answered != 2 || clients.GaveUp != 1 || clients.Waited != 1 || clients.Resent != 0 {
		t.Errorf("clients %+v", clients)
	}
	if clients.Failed[fault.Exited] != 2 || clients.Failed[fault.Deadline] != 1 || len(clients.Failed) != 2 || clients.OK() {
		t.Errorf("failed %v", clients.Failed)
	}
	if clients.Longest > time.Minute {
		t.Errorf("a call that was in flight took %v: it counts from the fault on", clients.Longest)
	}
	if probes.Calls != 1 || probes.Resent != 1 || probes.Waited != 0 || !probes.OK() {
		t.Errorf("probes %+v", probes)
	}
}

// TestTallySample: the median is that of a bounded, fair sample; the longest is
// that of all.
func TestTallySample(t *testing.T) {
	var c counted
	const n = 10 * sampleSize
	for i := range n {
		c.add(time.Duration(i)*time.Microsecond, nil)
	}
	r := c.result()
	if len(c.sample) != sampleSize || r.Longest != (n-1)*time.Microsecond {
		t.Errorf("%d kept, the longest is %v", len(c.sample), r.Longest)
	}
	if half := n / 2 * time.Microsecond; r.Median < half*8/10 || r.Median > half*12/10 {
		t.Errorf("the median is %v, want about %v", r.Median, half)
	}
}
