package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

const (
	loudFor   = 10 * time.Second // a server stays talkative for so long after the last request that wanted it
	loudLimit = 5 * time.Second  // a call waits no longer for the answer of a server that is told
)

// loudness is the log level of a server of the older revisions, which has one for all
// its clients. Those of 2026-07-28 name theirs in each request (2026-07-28
// server/utilities/logging): while such a call is out, the server is asked for the most talkative
// of them and of what logging/setLevel wants.
type loudness struct {
	*core
	idle func() bool // no call is out
	turn chan struct{}

	mu      sync.Mutex // guards the rest; nothing waits under it
	base    int        // what logging/setLevel wants; 0: nothing
	calls   [9]int     // that are out, or were a moment ago, by the rank of their level
	told    int        // what the server knows; 0: nothing
	timer   *time.Timer
	stopped bool
}

func newLoudness(c *core, idle func() bool) *loudness {
	return &loudness{core: c, idle: idle, turn: make(chan struct{}, 1)}
}

// namesLevel tells whether the request itself says which messages its client wants: that of
// a session has been told by logging/setLevel, and hears them as the session does.
func (c *Call) namesLevel() bool {
	return c.LogLevel != "" && wire.Get(c.Params, "_meta", mcp.MetaLogLevel) != nil
}

// during has the server told of the level that a call names, and returns what ends that.
func (l *loudness) during(ctx context.Context, c *Call) (over func()) {
	rank := slices.Index(mcp.Levels, c.LogLevel)
	if l.era.Modern || rank <= 0 || !c.namesLevel() || !l.declares("logging") {
		return func() {}
	}
	l.mu.Lock()
	l.calls[rank]++
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, loudLimit)
	defer cancel()
	_ = l.settle(ctx, false, l.say) // without it the call has no messages
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls[rank]--
		l.armLocked()
	}
}

// rebase is logging/setLevel. send sends it.
func (l *loudness) rebase(ctx context.Context, rank int, send tell) *fault.Fault {
	l.mu.Lock()
	l.base = rank
	l.mu.Unlock()
	return l.settle(ctx, true, send)
}

// A tell puts logging/setLevel to the server.
type tell func(ctx context.Context, params []byte) *fault.Fault

// say is the tell of what everline wants by itself. An error of the server's own is an answer.
func (l *loudness) say(ctx context.Context, params []byte) *fault.Fault {
	_, f := l.ask(ctx, mcp.LoggingSetLevel, params)
	return f
}

// settle tells the server what is wanted now, if it does not know, and may say less than it is
// asked to only if quieter says so: one at a time, so that an older wish never comes behind a
// newer one.
func (l *loudness) settle(ctx context.Context, quieter bool, send tell) *fault.Fault {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return fault.From(mcp.LoggingSetLevel, ctx.Err())
	}
	l.mu.Lock()
	wanted := l.wantedLocked()
	known := wanted == l.told || !quieter && l.told != 0 && wanted > l.told
	l.mu.Unlock()
	if known {
		return nil
	}
	f := send(ctx, append(wire.AppendString([]byte(`{"level":`), mcp.Levels[wanted]), '}'))
	l.mu.Lock()
	defer l.mu.Unlock()
	if f == nil || f.Kind == fault.RPC {
		l.told = wanted
	}
	return f
}

// wantedLocked is the most talkative level that anybody wants. The protocol has none for
// nothing.
func (l *loudness) wantedLocked() int {
	for rank, n := range l.calls {
		if n > 0 && (l.base == 0 || rank < l.base) {
			return rank
		}
	}
	if l.base == 0 && l.told != 0 {
		return len(mcp.Levels) - 1
	}
	return l.base
}

// armLocked has the server told in a while that nobody wants so much any more.
func (l *loudness) armLocked() {
	if l.stopped || l.wantedLocked() == l.told {
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(loudFor, l.quieten)
		return
	}
	l.timer.Reset(loudFor)
}

// quieten waits for a moment without calls: whatever the server asks meanwhile is theirs.
func (l *loudness) quieten() {
	if !l.idle() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.armLocked()
		return
	}
	l.spawn(func() { // ends within loudLimit
		ctx, cancel := context.WithTimeout(l.ctx, loudLimit)
		defer cancel()
		_ = l.settle(ctx, true, l.say) // it stays talkative, which costs what it says
	})
}

// close leaves no timer behind.
func (l *loudness) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
