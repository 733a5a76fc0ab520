package tracing

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/everline/everline/event"
)

// A Chance is a request that the sampler left out. Nothing is recorded of it unless it
// turns out to show what everline is there for; nobody else is told of that trace then.
type Chance struct {
	context.Context // of the request: a Chance is of one alone
	began           time.Time
	trace           atomic.Pointer[Trace]
}

// gone is in the place of a trace that nobody would end any more.
var gone = new(Trace)

// Perhaps returns ctx with a chance to record the request later, which came then.
func Perhaps(ctx context.Context, came time.Time) *Chance {
	return &Chance{Context: ctx, began: came}
}

// Value implements context.Context.
func (c *Chance) Value(k any) any {
	if k == (key{}) {
		return c
	}
	return c.Context.Value(k)
}

// Late begins to record the request of a context that has a chance to be, and returns
// its trace, the same to all who ask; nil if it has none, or is over.
func Late(ctx context.Context) *Trace {
	c, ok := ctx.Value(key{}).(*Chance)
	if !ok {
		return nil
	}
	if c.trace.Load() == nil {
		c.trace.CompareAndSwap(nil, c.begin())
	}
	return c.Begun()
}

func (c *Chance) begin() *Trace { return New(Context{}.Child(), Context{}, c.began) }

// Begun is the trace if there is one by now; else nil.
func (c *Chance) Begun() *Trace {
	if t := c.trace.Load(); t != gone {
		return t
	}
	return nil
}

// Over returns the trace for its end if the request was of interest, as also one is that
// took long; else nil. None is begun any more.
func (c *Chance) Over(now time.Time) *Trace {
	t := c.trace.Swap(gone)
	if t == nil && now.Sub(c.began) > slow {
		t = c.begin()
	}
	return t
}

// slow is from when on a request is of interest because it took so long.
const slow = 10 * time.Second

// Interesting tells whether a call shows what everline is there for.
func Interesting(f *event.CallFacts) bool {
	return f.Sends > 1 || f.Parked || f.Result == event.CallUnknown || f.Took > slow
}
