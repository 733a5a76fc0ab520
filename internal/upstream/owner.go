package upstream

import (
	"context"
	"strings"
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

// flown is one call in flight.
type flown struct {
	*Call
	ctx  context.Context // of the caller
	over chan struct{}   // closed once it is out no more; nil unless it is a listing of everline's own
}

// owners is what an Upstream knows of clients beside its calls in flight; its
// mu guards it. Times are since born.
type owners struct {
	serves        bool                 // some call had a client that could be asked
	tasks         map[string]*openTask // of legacy servers, by their own ids
	abandoned     map[int64]*abandoned // by request id
	overflowUntil time.Duration        // until then more goes on than could be kept
	proving       bool                 // a ping is to prove that cancels were read
	provenUntil   time.Duration        // until then calls might go on that were forgotten because their cancel was read
	ignoresCancel bool                 // the server was seen to work on after it had read a cancel
}

// newFlown registers a call that is about to be sent.
func newFlown(ctx context.Context, c *Call) *flown {
	f := &flown{Call: c, ctx: ctx}
	if c.Client == nil && strings.HasSuffix(c.Method, "/list") {
		f.over = make(chan struct{})
	}
	return f
}

// listings are everline's own that are out, each as a channel that is closed
// when it is over.
func (u *Upstream) listings() (all []<-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.calls {
		if c.over != nil {
			all = append(all, c.over)
		}
	}
	return all
}

// rank is how well a call can bring a request to its client.
func (c *flown) rank() int {
	switch {
	case c.Client == nil:
		return 0
	case c.ctx.Err() != nil: // it is over, and about to leave
		return 1
	default:
		return 2
	}
}

// abandoned is a call that nobody waits for any more, and that the server may
// still work on.
type abandoned struct {
	client   uint64
	until    time.Duration // no call takes longer
	canceled bool          // the server was sent the cancel, and has not proven yet that it was read
}

// openTask is a task that a call was answered with, and that goes on.
type openTask struct {
	client uint64
	until  time.Duration
}

// clientOf is whose call c is. On a connection for one client alone that client
// has all of them, what everline asks for it included, but for those of a
// program that serves no requests.
func (u *Upstream) clientOf(c *Call) uint64 {
	switch {
	case u.opts.Owner != nil && (c.Client != nil || c.Internal):
		return u.opts.Owner.ID()
	case c.Client != nil:
		return c.Client.ID()
	default:
		return nobody
	}
}

// owner is the call that something the server says by itself belongs to; nil,
// and why, where that is not certain or there is no such call.
func (u *Upstream) owner(of int64, params []byte) (*flown, string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.calls[of]; c != nil {
		return u.servedLocked(c)
	}
	if of != 0 && u.opts.Owner == nil {
		return nil, errOver
	}
	if id, ok := wire.Text(wire.Get(params, "_meta", mcp.MetaRelatedTask, "taskId")); ok && u.tasks[id] != nil {
		return u.taskOwnerLocked(id)
	}
	return u.onlyClientLocked()
}

// servedLocked is c if its client serves requests.
func (u *Upstream) servedLocked(c *flown) (*flown, string) {
	switch {
	case c.Client != nil:
		return c, ""
	case u.clientOf(c.Call) != nobody:
		return u.ownersLocked(), ""
	default:
		return nil, errNobody
	}
}

// ownersLocked stands for a call of the client that the connection is for.
func (u *Upstream) ownersLocked() *flown {
	return &flown{Call: &Call{Client: u.opts.Owner}, ctx: u.life}
}

// taskOwnerLocked is the call that waits for the task, or else any call of the
// task's client.
func (u *Upstream) taskOwnerLocked(task string) (*flown, string) {
	var found *flown
	for _, c := range u.calls {
		waits := strings.HasPrefix(c.Method, "tasks/") && c.Name == task
		if u.clientOf(c.Call) == u.tasks[task].client && (found == nil || waits) {
			found = c
		}
	}
	if found == nil {
		return nil, errTaskGone
	}
	return u.servedLocked(found)
}

// onlyClientLocked is a call of the one client that can have caused a request of
// the server. Of several it is the oldest: what is out for long stays for long.
func (u *Upstream) onlyClientLocked() (*flown, string) {
	var found *flown
	var at int64
	for id, c := range u.calls {
		switch {
		case found != nil && u.clientOf(found.Call) != u.clientOf(c.Call):
			return nil, errNotTold
		case found == nil || c.rank() > found.rank() || c.rank() == found.rank() && id < at:
			found, at = c, id
		}
	}
	if found == nil && u.opts.Owner != nil {
		found = u.ownersLocked()
	}
	if found == nil {
		u.ignoresCancel = u.ignoresCancel || time.Since(u.born) < u.provenUntil // whose else can it be?
		return nil, errNoCall
	}
	if u.othersGoOnLocked(u.clientOf(found.Call)) {
		return nil, errNotTold
	}
	return u.servedLocked(found)
}

// othersGoOnLocked tells whether the server may work for another client without
// a call in flight.
func (u *Upstream) othersGoOnLocked(client uint64) bool {
	now := time.Since(u.born)
	if now < u.overflowUntil {
		return true
	}
	for id, a := range u.abandoned {
		switch {
		case now >= a.until:
			delete(u.abandoned, id)
		case a.client != client:
			return true
		}
	}
	for id, t := range u.tasks {
		switch {
		case now >= t.until:
			delete(u.tasks, id)
		case t.client != client:
			return true
		}
	}
	return false
}

// abandonCall remembers a call that ended without an answer: the server may still
// work on it, and ask, for as long as a call may take, until it answers late,
// or until it has read that the call is canceled.
func (u *Upstream) abandonCall(id int64, c *Call) {
	if u.era.Modern || u.opts.Owner != nil && u.clientOf(c) != nobody {
		return // modern servers ask in answers
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	until := time.Since(u.born) + u.opts.Server.CallTimeout
	if len(u.abandoned) >= maxAbandoned {
		clear(u.abandoned)
		u.overflowUntil = until
	}
	if u.abandoned == nil {
		u.abandoned = map[int64]*abandoned{}
	}
	u.abandoned[id] = &abandoned{client: u.clientOf(c), until: until}
}

// proveCancel finds out when the server has read the cancel of an abandoned
// call, which was sent just now: when it answers a ping that was sent behind
// it. One ping runs at a time; cancels that are sent meanwhile share the next.
// None is sent before there is a client that could be asked.
func (u *Upstream) proveCancel(id int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a := u.abandoned[id]; a != nil {
		a.canceled = true
		u.proveLocked()
	}
}

func (u *Upstream) proveLocked() {
	if u.serves && !u.proving && !u.closed && len(u.unprovenLocked()) > 0 {
		u.proving = true
		u.work.Go(u.proveCancels) // ends when all cancels are proven, within CallTimeout each, or with the upstream
	}
}

// unprovenLocked are the calls whose cancel the server was sent.
func (u *Upstream) unprovenLocked() (ids []int64) {
	if u.ignoresCancel {
		return nil
	}
	for id, a := range u.abandoned {
		if a.canceled {
			ids = append(ids, id)
		}
	}
	return ids
}

// clientSeenLocked notes that there is a client that could be asked.
func (u *Upstream) clientSeenLocked(c *Call) {
	if c.Client != nil && !u.serves {
		u.serves = true
		u.proveLocked()
	}
}

func (u *Upstream) proveCancels() {
	for {
		u.mu.Lock()
		ids := u.unprovenLocked()
		u.proving = len(ids) > 0
		u.mu.Unlock()
		if len(ids) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(u.life, u.opts.Server.CallTimeout)
		_, f := u.ask(ctx, mcp.Ping, nil)
		cancel()
		u.proven(ids, f == nil) // an error is an answer, too
	}
}

// proven forgets calls whose cancel the server has read, unless it was seen to
// work on such calls. Those without a proof stand for as long as a call may take.
func (u *Upstream) proven(ids []int64, read bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range ids {
		a := u.abandoned[id]
		switch {
		case a == nil:
		case read && !u.ignoresCancel:
			u.provenUntil = max(u.provenUntil, a.until)
			delete(u.abandoned, id)
		default:
			a.canceled = false
		}
	}
}

// lateAnswer is the end of a call that was given up. A result that comes when
// the server has read the cancel shows that it takes no notice of it.
func (u *Upstream) lateAnswer(m *wire.Message) {
	id, _ := wire.ParseID(m.ID)
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, kept := u.abandoned[id]; !kept && m.Result != nil && time.Since(u.born) < u.provenUntil {
		u.ignoresCancel = true
	}
	delete(u.abandoned, id)
}

// calledFor tells whether any client has a call in flight.
func (u *Upstream) calledFor() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.calls {
		if c.Client != nil {
			return true
		}
	}
	return false
}
