package slot

import (
	"context"
	"fmt"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/typed"
	"github.com/everline/everline/internal/upstream"
)

// Drilling names the fault of the drill that runs; "" if none does.
func (s *Slot) Drilling() string {
	if d := s.drill.Load(); d != nil {
		return d.fault
	}
	return ""
}

// Drill breaks the server on purpose, counts what calls see of it, and returns
// once the server is well again, or twice Recovery has passed. The fault is
// over when Drill returns, and immediately when ctx ends. Errors are faults:
// Conflict if the server is not connected, is being drilled, or has nothing
// that could be broken so; Invalid if the fault does not fit it; Canceled.
func (s *Slot) Drill(ctx context.Context, d Drill) (Drilled, error) {
	kind, err := d.check()
	if err != nil {
		return Drilled{}, err.At(s.name, 0)
	}
	if s.Drilling() != "" {
		return Drilled{}, s.undrillable("it is being drilled already")
	}
	run := &drill{fault: d.Fault}
	if run.method, err = s.findProbe(ctx); err != nil {
		return Drilled{}, err
	}
	if !s.drill.CompareAndSwap(nil, run) {
		return Drilled{}, s.undrillable("it is being drilled already")
	}
	defer s.drill.Store(nil)
	r := Drilled{Before: s.view.Load().State.Gen}
	injection, begin := run.begin(&s.faults, kind, d)
	if begin != nil {
		return Drilled{}, fault.From("drill", begin).At(s.name, r.Before)
	}
	defer s.restore(injection)
	s.emitLater(event.DrillBegan{Head: s.head(r.Before), Fault: d.Fault, For: lasting(kind, d.For)})
	s.meter.Drilled(d.Fault)
	d.tell(d.Broken)
	r.Began = run.began
	select {
	case <-injection.Over():
	case <-ctx.Done():
		return Drilled{}, fault.From("drill", ctx.Err()).At(s.name, r.Before)
	}
	over := time.Now()
	r.Lasted = lasting(kind, over.Sub(r.Began))
	d.tell(d.Over)
	s.watchRecovery(ctx, injection, &r, over, d.Recovery)
	if pauseFor(ctx, nil, max(time.Until(r.Began.Add(d.For)), drillSettle)); ctx.Err() != nil {
		return Drilled{}, fault.From("drill", ctx.Err()).At(s.name, r.Before)
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	r.Clients, r.Probes, r.After = run.clients.result(), run.probes.result(), s.view.Load().State.Gen
	s.emitLater(event.DrillEnded{Head: s.head(r.After), Fault: d.Fault, Recovered: r.Recovered, Took: r.Recovery})
	return r, nil
}

func (s *Slot) undrillable(text string) *fault.Fault {
	f := fault.New(fault.Conflict, "drill", text)
	f.Server, f.Outcome = s.name, fault.NotSent
	return f
}

// probeMethods are requests that do nothing, by what most servers like best.
var probeMethods = []string{mcp.Ping, mcp.ServerDiscover, mcp.ToolsList}

// findProbe finds a request that the server answers while all is well.
func (s *Slot) findProbe(ctx context.Context) (string, *fault.Fault) {
	ctx, cancel := context.WithTimeout(ctx, drillPing)
	defer cancel()
	v := s.view.Load()
	if v.serving == nil {
		f := s.undrillable("a drill breaks a server that works, and this one is " + string(v.Seen()))
		f.Remedy = "everline status " + typed.Argument(s.name)
		return "", f
	}
	var last error
	for _, method := range probeMethods {
		if (method == mcp.Ping) == v.Info.Era.Modern && method != mcp.ToolsList {
			continue // the other era's word
		}
		if last = s.pingBy(ctx, method); last == nil {
			return method, nil
		}
	}
	f := s.undrillable("")
	f.Err = fmt.Errorf("a drill breaks a server that works, and this one does not answer: %w", last)
	return "", f
}

// Ping makes the server answer a request that does nothing, on the way of every
// call: it waits for a generation, and is sent again, as one that is harmless.
// An error that the server answers is an answer.
func (s *Slot) Ping(ctx context.Context) error {
	method := probeMethods[0]
	if d := s.drill.Load(); d != nil {
		method = d.method
	} else if s.view.Load().Info.Era.Modern {
		method = probeMethods[1]
	}
	return s.pingBy(ctx, method)
}

func (s *Slot) pingBy(ctx context.Context, method string) error {
	_, err := s.Call(ctx, &upstream.Call{Method: method}, config.ReplaySafe)
	if err == nil || fault.KindOf(err) == fault.RPC {
		return nil
	}
	return err
}

// watchRecovery waits until the server answers. One that does not do so within
// limit by itself, such as one whose next attempt is minutes away, is woken as
// by an operator: a drill leaves nothing broken behind.
func (s *Slot) watchRecovery(ctx context.Context, t *transport.Injection, r *Drilled, over time.Time, limit time.Duration) {
	observing, cancel := context.WithTimeout(ctx, drillPing)
	t.Observed(observing) // what is broken may answer until then
	cancel()
	r.Recovered = s.pingUntil(ctx, limit)
	if !r.Recovered && ctx.Err() == nil {
		r.Woken = s.operate(ctx, "drill", (*loop).wakeAfterDrill) == nil
		r.Recovered = s.pingUntil(ctx, limit)
	}
	r.Recovery = time.Since(over)
}

// pingUntil pings until there is an answer; false if none comes within limit.
func (s *Slot) pingUntil(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(door.Probing(ctx), limit)
	defer cancel()
	for {
		v := s.view.Load()
		once, stop := context.WithTimeout(ctx, drillPing)
		err := s.Ping(once)
		stop()
		switch {
		case err == nil:
			return true
		case fault.KindOf(err) == fault.Disabled || v.closed:
			return false
		}
		if !pauseFor(ctx, v.Changed, drillPause) && ctx.Err() != nil {
			return false
		}
	}
}

// restore ends the fault, whatever the drill came to, and leaves no long wait
// behind that the drill has caused.
func (s *Slot) restore(injection *transport.Injection) {
	injection.End()
	s.inbox.post(&operation{op: (*loop).wakeAfterDrill, done: make(chan struct{})}) // nobody waits for it
}
