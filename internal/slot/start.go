package slot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

const (
	firstTries = 3                      // first listings tried on one generation
	firstPause = 250 * time.Millisecond // before the second try; doubled for each further one
	secondLook = time.Second            // before an empty list that was not empty is believed
	closeLimit = 10 * time.Second       // for ending a generation, beyond the configured grace
)

type (
	// started: the start of g has ended well.
	started struct{ g *generation }
	// failed: the start of g has ended badly, and nothing of it is alive.
	failed struct {
		g     *generation
		cause *fault.Fault
	}
)

func (started) note() {}
func (failed) note()  {}

// A starter is the worker that brings generations up: it dials and lists,
// bounded by startupTimeout and by no caller.
type starter struct {
	dial   Dial
	ready  func(context.Context, config.Server) error // Options.Ready
	after  <-chan struct{}                            // see Options.After
	places chan struct{}                              // Options.Starting
	faults *transport.Injector
	closer closer

	recorder tracing.Recorder // Options.Recorder
}

// start ends in one started or failed.
func (st *starter) start(g *generation, old *catalog.Catalog) note {
	began := time.Now()
	err := st.open(g, old)
	if err != nil {
		g.freezeLink()
	}
	var f *fault.Fault
	if err != nil {
		f = g.explain(fault.From("start", err))
	}
	if st.recorder != nil {
		g.peer = g.meet()
		recordStart(st.recorder, g, began, f)
	}
	close(g.over)
	if f != nil {
		return failed{g, f}
	}
	return started{g}
}

func (st *starter) open(g *generation, old *catalog.Catalog) error {
	if g.spec.Err != nil {
		return g.spec.Err
	}
	if st.ready != nil {
		began := time.Now()
		err := st.ready(g.ctx, g.spec)
		g.excused = time.Since(began)
		if err != nil {
			return err
		}
	}
	giveBack, err := st.takePlace(g)
	if err != nil {
		return err
	}
	defer giveBack()
	limit := g.spec.StartupTimeout
	ctx, cancel := context.WithTimeout(g.ctx, limit)
	defer cancel()
	up, err := st.dial(ctx, g.spec, g.gen, g.hooks(st.faults))
	if err != nil {
		return lateStart(ctx, err, limit)
	}
	listed := time.Now()
	cat, err := firstList(ctx, up, old)
	g.info = up.Info()
	g.info.Phases = append(slices.Clip(g.info.Phases), upstream.Phase{
		Name: upstream.PhaseList, Began: listed, Took: time.Since(listed), Fault: fault.From(mcp.ToolsList, err),
	})
	if err != nil {
		err = lateStart(ctx, linkErr(up, err), limit)
		_ = st.closer.shutDown(up, g.spec) // what it says is no news beside err
		return err
	}
	g.up, g.cat, g.served = up, cat, time.Now()
	return nil
}

// placeHold is how long a start may keep others waiting. What a start costs the
// machine is mostly over by then; what is left is waiting for an answer, and a
// server that never gives one must not stand in the way of those that would.
const placeHold = 300 * time.Millisecond

// takePlace waits for after, and then for one of the places that bound how many
// processes start at the same time. It is given back when the start is over or
// placeHold has passed, whichever comes first. A URL needs none: it starts
// nothing here.
func (st *starter) takePlace(g *generation) (giveBack func(), err error) {
	if st.after != nil {
		select {
		case <-st.after:
		case <-g.ctx.Done():
			return nil, g.ctx.Err()
		}
	}
	if st.places == nil || g.spec.URL != "" {
		return func() {}, nil
	}
	select {
	case st.places <- struct{}{}:
	case <-g.ctx.Done():
		return nil, g.ctx.Err()
	}
	free := sync.OnceFunc(func() { <-st.places }) // immediately: our own is in it
	held := time.AfterFunc(placeHold, free)
	return func() { held.Stop(); free() }, nil
}

// lateStart says which limit was hit, where it was ours.
func lateStart(ctx context.Context, err error, limit time.Duration) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || fault.KindOf(err) != fault.Deadline {
		return err
	}
	f := *fault.From("start", err)
	f.Err = fmt.Errorf("it was not up within its startupTimeout of %s: %w", event.Short(limit), err)
	return &f
}

// linkErr prefers the reason why the link ended over what a request on it saw.
func linkErr(up Upstream, err error) error {
	select {
	case <-up.Done():
		if cause := up.Err(); cause != nil {
			return cause
		}
	default:
	}
	return err
}

// firstList fetches the first complete listing. A listing that fails while
// the link stands is tried again: it is not the same as a server without tools.
func firstList(ctx context.Context, up Upstream, old *catalog.Catalog) (*catalog.Catalog, error) {
	pause := firstPause
	for try := 1; ; {
		cat, err := listWithin(ctx, up, old, firstTries+1-try)
		if err == nil {
			return believe(ctx, up, old, cat, catalog.Kinds[:])
		}
		wait := pause
		if f := fault.From("list", err); f.Kind == fault.RateLimited && f.RetryAfter > 0 {
			wait = f.RetryAfter // what the server asks for is no failure of the link
		} else if try++; try > firstTries || noPointRetrying(f.Kind) {
			return nil, err
		}
		pause *= 2
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return nil, err
		}
		if !pauseFor(ctx, up.Done(), wait) {
			return nil, err
		}
	}
}

// noPointRetrying tells whether asking the same generation again cannot help.
func noPointRetrying(k fault.Kind) bool {
	switch k {
	case fault.SessionLost, fault.Unauthorized, fault.Forbidden, fault.Invalid, fault.NoVersion, fault.Canceled:
		return true
	default:
		return false
	}
}

// listWithin gives one listing its share of the time that is left, so that a
// server which swallows the first request gets another.
func listWithin(ctx context.Context, up Upstream, old *catalog.Catalog, triesLeft int) (*catalog.Catalog, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		panic("bug: a first listing without a deadline")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(triesLeft))
	defer cancel()
	return up.List(ctx, old, catalog.Kinds[:]...)
}

// pauseFor waits, and tells whether going on makes sense.
func pauseFor(ctx context.Context, gone <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-gone:
		return false
	case <-ctx.Done():
		return false
	}
}
