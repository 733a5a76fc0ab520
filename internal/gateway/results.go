package gateway

import (
	"container/list"
	"context"
	"crypto/sha256"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/rounds"
	"github.com/everline/everline/internal/wire"
)

const (
	leastResultID = 22       // characters: as many as 128 random bits need in base64
	mostResultID  = 128      // characters
	mostKept      = 1024     // outcomes at a time, over all clients
	mostKeptBytes = 64 << 20 // of kept results
)

// results keeps the outcomes of calls whose servers ask for it, so that a
// client that lost its connection meanwhile can fetch them. It has no
// goroutine: what is over is dropped when the next call comes.
type results struct {
	mu    sync.Mutex // guards the rest, and what a kept says that it guards; nothing waits under it
	byKey map[string]*kept
	order list.List // of *kept that are over, the oldest first
	bytes int
}

// A kept is the outcome of one call, or the promise of one. Where the server
// asks for input, that is the outcome until the client comes back with it.
type kept struct {
	key  string
	sum  [sha256.Size]byte // of the name and the arguments
	keep time.Duration

	waiters atomic.Int32 // requests of others that wait for it

	done  chan struct{} // closed when the call has ended; then the next three are final
	raw   []byte
	fault *fault.Fault
	until time.Time
}

// keyOf is the key under which the outcome of a call is kept: an id that the
// client made up, which must be unguessable, or the request's own id within a
// legacy session. "" if the client has no way to ask for it later.
func (rq *request) keyOf() (key string, bad *answer) {
	if raw := rq.fields.meta.resultID; raw != nil {
		id, ok := wire.Text(raw)
		if !ok || len(id) < leastResultID || len(id) > mostResultID {
			return "", rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: "+mcp.MetaResultID+" must be an unguessable string of "+
				strconv.Itoa(leastResultID)+" to "+strconv.Itoa(mostResultID)+" characters", nil)
		}
		return "id " + id, nil
	}
	return rq.sessionKey(rq.msg.ID), nil
}

// sessionKey is the key of what a legacy session itself has asked for.
func (rq *request) sessionKey(rawID []byte) string {
	if rq.modern || rq.sess == nil || rq.sess.id == "" {
		return ""
	}
	return "session " + rq.sess.id + " " + string(rawID)
}

// keepFor is how long the outcome of a call of this tool is to be kept.
func (g *Gateway) keepFor(rq *request, name string) time.Duration {
	if g.opts.Keep == nil || rq.msg.Method != mcp.ToolsCall {
		return 0
	}
	target, ok := g.backend.Catalog().Tool(name)
	if !ok {
		return 0
	}
	return g.opts.Keep(target.Server)
}

// begin promises the outcome of a call. first is false if a call with this key
// was made already: its outcome is this one's, and nothing is sent again. A
// request id of a legacy session may be used again for another call, which
// takes the place of the one before; so does the next round of a call.
func (r *results) begin(key string, rq *request, name string, keep time.Duration) (k *kept, first, clash bool) {
	sum := sha256.Sum256(append([]byte(name+"\x00"), rq.fields.arguments...))
	named := rq.fields.meta.resultID != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(time.Now())
	if old := r.byKey[key]; old != nil && named && (old.sum != sum || !old.asked(rq)) {
		return old, false, old.sum != sum
	}
	k = &kept{key: key, sum: sum, keep: keep, done: make(chan struct{})}
	if r.byKey == nil {
		r.byKey = map[string]*kept{}
	}
	r.byKey[key] = k
	return k, true, false
}

// asked tells whether rq comes back with the input that k asks for. A retry of
// an earlier round has been made already, like any other call that is repeated.
func (k *kept) asked(rq *request) bool {
	select {
	case <-k.done:
	default:
		return false
	}
	if k.fault != nil || !rounds.Wanted(k.raw) || rq.fields.requestState == nil && rq.fields.inputResponses == nil {
		return false
	}
	had, _ := wire.Text(wire.Get(k.raw, "requestState"))
	has, _ := wire.Text(rq.fields.requestState)
	return had == has
}

// end fulfils a promise.
func (r *results) end(k *kept, raw []byte, f *fault.Fault) {
	k.raw, k.fault, k.until = raw, f, time.Now().Add(k.keep)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += len(raw)
	r.order.PushBack(k)
	r.sweepLocked(time.Now())
	close(k.done)
}

// sweepLocked drops what was kept for long enough, and the oldest of too much.
func (r *results) sweepLocked(now time.Time) {
	for e := r.order.Front(); e != nil; e = r.order.Front() {
		k := e.Value.(*kept)
		if r.order.Len() <= mostKept && r.bytes <= mostKeptBytes && now.Before(k.until) {
			return
		}
		r.order.Remove(e)
		r.bytes -= len(k.raw)
		if r.byKey[k.key] == k {
			delete(r.byKey, k.key)
		}
	}
}

// find returns what is kept or promised under a key; nil if nothing is.
func (r *results) find(key string) *kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(time.Now())
	return r.byKey[key]
}

// callKept is call for a tool whose outcomes are kept.
func (g *Gateway) callKept(parent context.Context, rq *request, c *everline.Call, keep time.Duration) answer {
	key, bad := rq.keyOf()
	switch {
	case bad != nil:
		return *bad
	case key == "":
		a, _, _ := g.send(parent, rq, c)
		return a
	}
	k, first, clash := g.results.begin(key, rq, c.Name, keep)
	switch {
	case clash:
		return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: another call has this "+mcp.MetaResultID, nil)
	case !first:
		return g.await(parent, rq, k)
	}
	if rq.modern && !rq.flying && rq.fields.meta.resultID != nil {
		// The end of the stream would cancel the call. Who names an id wants to
		// come back for the outcome instead.
		parent = context.WithoutCancel(parent)
	}
	rq.kept.Store(k)
	raw, f := []byte(nil), fault.New(fault.Internal, mcp.ToolsCall, "the call panicked")
	defer func() { g.results.end(k, raw, f) }()
	var a answer
	a, raw, f = g.send(parent, rq, c)
	return a
}

// result answers everline/result: the outcome of an earlier call, once it is
// there.
func (g *Gateway) result(parent context.Context, rq *request) answer {
	key := ""
	if id, ok := wire.Text(wire.Get(rq.msg.Params, "resultId")); ok {
		key = "id " + id
	} else if rq.fields.requestID != nil {
		key = rq.sessionKey(rq.fields.requestID)
	}
	k := g.results.find(key)
	if k == nil {
		return *rq.errorAnswer(mcp.CodeInvalidParams, "Unknown result: nothing is kept under this id", nil)
	}
	return g.await(parent, rq, k)
}

// await answers with the outcome of another request's call.
func (g *Gateway) await(parent context.Context, rq *request, k *kept) answer {
	ctx, end, err := g.depart(parent, rq)
	if err != nil {
		return rq.failure(fault.From(rq.msg.Method, err))
	}
	defer end()
	k.waiters.Add(1)
	defer k.waiters.Add(-1)
	select {
	case <-k.done:
	case <-ctx.Done():
		return rq.failed(ctx, ctx.Err())
	}
	if k.fault == nil {
		return rq.result(k.raw)
	}
	as := &request{msg: rq.msg, fields: rq.fields, modern: rq.modern, sess: rq.sess}
	as.msg.Method = mcp.ToolsCall
	return as.failure(k.fault)
}
