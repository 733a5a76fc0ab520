package upstream

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A request of a server belongs to the call that caused it, and to that call's
// client. A stream of its own or the id of a task says whose it is. Elsewhere
// it is certain only while all calls that can have caused it are of one client.
// Calls without a client count as well: they are nobody's, and what belongs to
// nobody is refused.
//
// Pings are left out. They ask for no work, and a server that is busy with a
// call leaves them lying until it asks.

// nobody is the ID of everline itself, and of programs that serve no requests.
const nobody uint64 = 0

const (
	maxAbandoned = 256  // calls that were given up and may go on at the server
	maxTasks     = 1024 // of one server, whose clients are known

	// listingWait is how long a question waits for everline's own listings to
	// be over. A listing that has caused it is not answered before it is.
	listingWait = 2 * time.Second
)

// Why a request of a server has no owner.
const (
	errNotTold = "the connection is shared by several clients, and whose call this request belongs to cannot be told: " +
		"go on without it, or take the value as an argument of the tool"
	errNobody = "nobody can answer this request: the call that it belongs to was made without a client that serves requests. " +
		"Make the call from an MCP client, or with everline call on a terminal, or give the value as an argument of the tool"
	errOver     = "the call that this request belongs to is over"
	errNoCall   = "no call is in flight that this request could belong to"
	errTaskGone = "nobody waits for the task that this request belongs to: ask while its client waits for tasks/result"
)

// inflight is one call in flight.
type inflight struct {
	*Call
	ctx  context.Context // of the caller
	over chan struct{}   // closed once it is out no more; nil unless it is a listing of everline's own
}

// callers are the clients that a server works for, and their calls: those that
// are in flight, those that were given up and may go on, and tasks. Times are
// since born.
type callers struct {
	*core
	early earlyNews

	mu            sync.Mutex // guards the rest; ordered before core.mu; nothing waits under it
	calls         map[int64]*inflight
	tails         map[int64]*Call      // answered with a task, whose progress goes on; see tail
	serves        bool                 // some call had a client that could be asked
	tasks         map[string]*openTask // of legacy servers, by their own ids
	abandoned     map[int64]*abandoned // by request id
	overflowUntil time.Duration        // until then more goes on than could be kept
	proving       bool                 // a ping is to prove that cancels were read
	provenUntil   time.Duration        // until then calls might go on that were forgotten because their cancel was read
	ignoresCancel bool                 // the server was seen to work on after it had read a cancel
}

func newCallers(c *core) *callers { return &callers{core: c, calls: map[int64]*inflight{}} }

// enter registers a call that is about to be sent, leave takes it out.
func (cs *callers) enter(ctx context.Context, id int64, c *Call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.calls[id] = newInflight(ctx, c)
	cs.clientSeenLocked(c)
}

func (cs *callers) leave(id int64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.calls[id]; c != nil && c.over != nil {
		close(c.over)
	}
	delete(cs.calls, id)
}

// busy tells whether any call is in flight.
func (cs *callers) busy() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.calls) > 0
}

// listener is a call that names the level of the messages it wants to hear, if all calls
// that can have caused one are of its client; else nil.
func (cs *callers) listener() *inflight {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.calls {
		if c.Client == nil || !c.namesLevel() {
			continue
		}
		if one, _ := cs.onlyClientLocked(); one == nil {
			return nil
		}
		return c
	}
	return nil
}

// progressOf is the call whose progress has this token: it is in flight, or a
// task that it began goes on; nil if there is none.
func (cs *callers) progressOf(token int64) *Call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.calls[token]; c != nil {
		return c.Call
	}
	return cs.tails[token]
}

// newInflight registers a call that is about to be sent.
func newInflight(ctx context.Context, c *Call) *inflight {
	f := &inflight{Call: c, ctx: ctx}
	if c.Client == nil && strings.HasSuffix(c.Method, "/list") {
		f.over = make(chan struct{})
	}
	return f
}

// listings are everline's own that are out, each as a channel that is closed
// when it is over.
func (cs *callers) listings() (all []<-chan struct{}) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.calls {
		if c.over != nil {
			all = append(all, c.over)
		}
	}
	return all
}

// rank is how well a call can bring a request to its client.
func (c *inflight) rank() int {
	switch {
	case c.Client == nil:
		return 0
	case c.ctx.Err() != nil: // it is over, and about to leave
		return 1
	default:
		return 2
	}
}

// openTask is a task that a call was answered with, and that goes on.
type openTask struct {
	client uint64
	until  time.Duration
}

// clientOf is whose call c is. On a connection for one client alone that client
// has all of them, what everline asks for it included, but for those of a
// program that serves no requests.
func (cs *callers) clientOf(c *Call) uint64 {
	switch {
	case cs.opts.Owner != nil && (c.Client != nil || c.Internal):
		return cs.opts.Owner.ID()
	case c.Client != nil:
		return c.Client.ID()
	default:
		return nobody
	}
}

// owner is the call that something the server says by itself belongs to; nil,
// and why, where that is not certain or there is no such call.
func (cs *callers) owner(stream int64, params []byte) (*inflight, string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.calls[stream]; c != nil {
		return cs.servedLocked(c)
	}
	if stream != 0 && cs.opts.Owner == nil {
		return nil, errOver
	}
	if id, ok := wire.Text(wire.Get(params, "_meta", mcp.MetaRelatedTask, "taskId")); ok && cs.tasks[id] != nil {
		return cs.taskOwnerLocked(id)
	}
	return cs.onlyClientLocked()
}

// servedLocked is c if its client serves requests.
func (cs *callers) servedLocked(c *inflight) (*inflight, string) {
	switch {
	case c.Client != nil:
		return c, ""
	case cs.clientOf(c.Call) != nobody:
		return cs.ownersLocked(), ""
	default:
		return nil, errNobody
	}
}

// ownersLocked stands for a call of the client that the connection is for.
func (cs *callers) ownersLocked() *inflight {
	return &inflight{Call: &Call{Client: cs.opts.Owner}, ctx: cs.ctx}
}

// taskOwnerLocked is the call that waits for the task's result, or else any call of the
// task's client.
func (cs *callers) taskOwnerLocked(task string) (*inflight, string) {
	var found *inflight
	for _, c := range cs.calls {
		waits := c.Method == mcp.TasksResult && c.Name == task
		if cs.clientOf(c.Call) == cs.tasks[task].client && (found == nil || waits) {
			found = c
		}
	}
	if found == nil {
		return nil, errTaskGone
	}
	return cs.servedLocked(found)
}

// onlyClientLocked is a call of the one client that can have caused a request of
// the server. Of several it is the oldest: what is out for long stays for long.
func (cs *callers) onlyClientLocked() (*inflight, string) {
	var found *inflight
	var oldest int64
	for id, c := range cs.calls {
		switch {
		case found != nil && cs.clientOf(found.Call) != cs.clientOf(c.Call):
			return nil, errNotTold
		case found == nil || c.rank() > found.rank() || c.rank() == found.rank() && id < oldest:
			found, oldest = c, id
		}
	}
	if found == nil && cs.opts.Owner != nil {
		found = cs.ownersLocked()
	}
	if found == nil {
		cs.ignoresCancel = cs.ignoresCancel || cs.now() < cs.provenUntil // whose else can it be?
		return nil, errNoCall
	}
	if cs.othersGoOnLocked(cs.clientOf(found.Call)) {
		return nil, errNotTold
	}
	return cs.servedLocked(found)
}

// othersGoOnLocked tells whether the server may work for another client without
// a call in flight.
func (cs *callers) othersGoOnLocked(client uint64) bool {
	now := cs.now()
	if now < cs.overflowUntil {
		return true
	}
	for id, a := range cs.abandoned {
		switch {
		case now >= a.until:
			delete(cs.abandoned, id)
		case a.client != client:
			return true
		}
	}
	for id, t := range cs.tasks {
		switch {
		case now >= t.until:
			delete(cs.tasks, id)
		case t.client != client:
			return true
		}
	}
	return false
}

// clientSeenLocked notes that there is a client that could be asked.
func (cs *callers) clientSeenLocked(c *Call) {
	if c.Client != nil && !cs.serves {
		cs.serves = true
		cs.proveLocked()
	}
}

// calledFor tells whether any client has a call in flight.
func (cs *callers) calledFor() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.calls {
		if c.Client != nil {
			return true
		}
	}
	return false
}
