package upstream

import (
	"context"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// abandoned is a call that nobody waits for any more, and that the server may
// still work on.
type abandoned struct {
	client   uint64
	until    time.Duration // no call takes longer
	canceled bool          // the server was sent the cancel, and has not proven yet that it was read
}

// abandonCall remembers a call that ended without an answer: the server may still
// work on it, and ask, for as long as a call may take, until it answers late,
// or until it has read that the call is canceled.
func (cs *callers) abandonCall(id int64, c *Call) {
	if cs.era.Modern || cs.opts.Owner != nil && cs.clientOf(c) != nobody {
		return // modern servers ask in answers
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	until := cs.now() + cs.opts.Server.CallTimeout
	if len(cs.abandoned) >= maxAbandoned {
		clear(cs.abandoned)
		cs.overflowUntil = until
	}
	if cs.abandoned == nil {
		cs.abandoned = map[int64]*abandoned{}
	}
	cs.abandoned[id] = &abandoned{client: cs.clientOf(c), until: until}
}

// proveCancel finds out when the server has read the cancel of an abandoned
// call, which was sent just now: when it answers a ping that was sent behind
// it. One ping runs at a time; cancels that are sent meanwhile share the next.
// None is sent before there is a client that could be asked.
func (cs *callers) proveCancel(id int64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if a := cs.abandoned[id]; a != nil {
		a.canceled = true
		cs.proveLocked()
	}
}

func (cs *callers) proveLocked() {
	if cs.serves && !cs.proving && len(cs.unprovenLocked()) > 0 {
		cs.proving = cs.spawn(cs.proveCancels) // ends when all cancels are proven, within CallTimeout each, or with the upstream
	}
}

// unprovenLocked are the calls whose cancel the server was sent.
func (cs *callers) unprovenLocked() (ids []int64) {
	if cs.ignoresCancel {
		return nil
	}
	for id, a := range cs.abandoned {
		if a.canceled {
			ids = append(ids, id)
		}
	}
	return ids
}

func (cs *callers) proveCancels() {
	for {
		cs.mu.Lock()
		ids := cs.unprovenLocked()
		cs.proving = len(ids) > 0
		cs.mu.Unlock()
		if len(ids) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(cs.ctx, cs.opts.Server.CallTimeout)
		_, f := cs.ask(ctx, mcp.Ping, nil)
		cancel()
		cs.proven(ids, f == nil) // an error is an answer, too
	}
}

// proven forgets calls whose cancel the server has read, unless it was seen to
// work on such calls. Those without a proof stand for as long as a call may take.
func (cs *callers) proven(ids []int64, read bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, id := range ids {
		a := cs.abandoned[id]
		switch {
		case a == nil:
		case read && !cs.ignoresCancel:
			cs.provenUntil = max(cs.provenUntil, a.until)
			delete(cs.abandoned, id)
		default:
			a.canceled = false
		}
	}
}

// lateAnswer is the end of a call that was given up. A result that comes when
// the server has read the cancel shows that it takes no notice of it.
func (cs *callers) lateAnswer(m *wire.Message) {
	id, _ := wire.ParseID(m.ID)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if _, kept := cs.abandoned[id]; !kept && m.Result != nil && cs.now() < cs.provenUntil {
		cs.ignoresCancel = true
	}
	delete(cs.abandoned, id)
}
