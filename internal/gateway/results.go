package gateway

import (
	"container/list"
	"crypto/sha256"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/rounds"
	"github.com/everline/everline/internal/sessions"
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

	done  chan struct{} // closed when the call has ended; then the next two are final
	raw   []byte
	fault *fault.Fault

	until time.Time // guarded by the lock of results; zero before the end
}

// resultKey is the key under which the outcome of a call is kept: an id that the
// client made up, which must be unguessable, or the request's own id within a
// legacy session. "" if the client has no way to ask for it later.
func (x *exchange) resultKey() (key string, bad *message.Answer) {
	if raw := x.Fields.Meta.ResultID; raw != nil {
		id, ok := wire.Text(raw)
		if !ok || len(id) < leastResultID || len(id) > mostResultID {
			return "", x.Refusal(mcp.CodeInvalidParams, "Invalid params: "+mcp.MetaResultID+" must be an unguessable string of "+
				strconv.Itoa(leastResultID)+" to "+strconv.Itoa(mostResultID)+" characters", nil)
		}
		return namedKey(id), nil
	}
	return x.sessionKey(x.ID), nil
}

// namedKey is the key of an id that a client made up.
func namedKey(id string) string { return "id " + id }

// sessionKey is the key of what a legacy session itself has asked for.
func (x *exchange) sessionKey(rawID []byte) string {
	if x.Modern || x.sess == nil || x.sess.Key == "" {
		return ""
	}
	return "session " + x.sess.Key + " " + string(rawID)
}

// comesBack tells whether the client wants to come back for the outcome of a call
// when it loses the response, whose end would cancel the call otherwise.
func (x *exchange) comesBack() bool {
	return x.Modern && !x.tracked && x.Fields.Meta.ResultID != nil
}

// promise promises the outcome of a call; nil if it need not be kept. first is
// false if the call was made already: its outcome is this one's, and nothing is
// sent again. The first one must fulfil the promise.
func (r *results) promise(x *exchange) (k *kept, first bool, bad *message.Answer) {
	if x.keep <= 0 {
		return nil, true, nil
	}
	key, bad := x.resultKey()
	if bad != nil || key == "" {
		return nil, true, bad
	}
	name, _ := x.ItemName()
	k, first, clash := r.begin(key, x.Message, name, x.keep)
	if clash {
		return nil, false, x.Refusal(mcp.CodeInvalidParams, "Invalid params: another call has this "+mcp.MetaResultID, nil)
	}
	return k, first, nil
}

// begin is promise under a key. A request id of a legacy session may be used
// again for another call, which takes the place of the one before; so does the
// next round of a call.
func (r *results) begin(key string, m *message.Message, name string, keep time.Duration) (k *kept, first, clash bool) {
	sum := sha256.Sum256(append([]byte(name+"\x00"), m.Fields.Arguments...))
	named := m.Fields.Meta.ResultID != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(time.Now())
	if old := r.byKey[key]; old != nil && named && (old.sum != sum || !old.asked(m)) {
		return old, false, old.sum != sum
	}
	k = &kept{key: key, sum: sum, keep: keep, done: make(chan struct{})}
	if r.byKey == nil {
		r.byKey = map[string]*kept{}
	}
	r.byKey[key] = k
	return k, true, false
}

// asked tells whether m comes back with the input that k asks for. A retry of
// an earlier round has been made already, like any other call that is repeated.
func (k *kept) asked(m *message.Message) bool {
	select {
	case <-k.done:
	default:
		return false
	}
	if k.fault != nil || !rounds.Wanted(k.raw) || m.Fields.RequestState == nil && m.Fields.InputResponses == nil {
		return false
	}
	had, _ := wire.Text(wire.Get(k.raw, "requestState"))
	has, _ := wire.Text(m.Fields.RequestState)
	return had == has
}

// fulfil fulfils a promise, once. A nil one is none.
func (r *results) fulfil(k *kept, raw []byte, f *fault.Fault) {
	if k == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !k.until.IsZero() {
		return
	}
	k.raw, k.fault, k.until = raw, f, time.Now().Add(k.keep)
	r.bytes += len(raw)
	r.order.PushBack(k)
	r.sweepLocked(time.Now())
	close(k.done)
}

// lost fulfils a promise whose call has panicked.
func (r *results) lost(k *kept) {
	if k != nil {
		r.fulfil(k, nil, fault.New(fault.Internal, mcp.ToolsCall, "the call panicked"))
	}
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

// export is what is over and kept, the oldest first.
func (r *results) export() []sessions.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(time.Now())
	var all []sessions.Result
	for e := r.order.Front(); e != nil; e = e.Next() {
		if k := e.Value.(*kept); r.byKey[k.key] == k {
			all = append(all, sessions.Result{Key: k.key, Sum: k.sum, Until: k.until, Raw: k.raw, Fault: k.fault})
		}
	}
	return all
}

// restore keeps what an everline before this one has exported.
func (r *results) restore(all []sessions.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range all {
		k := &kept{key: one.Key, sum: one.Sum, until: one.Until, raw: one.Raw, fault: one.Fault, done: make(chan struct{})}
		close(k.done)
		if r.byKey == nil {
			r.byKey = map[string]*kept{}
		}
		r.byKey[k.key] = k
		r.bytes += len(k.raw)
		r.order.PushBack(k)
	}
	r.sweepLocked(time.Now())
}

// find returns what is kept or promised under a key; nil if nothing is.
func (r *results) find(key string) *kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(time.Now())
	return r.byKey[key]
}

func (r *results) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(time.Now())
	return len(r.byKey) == 0
}

// awaited tells whether another request waits for the outcome of this one.
func (r *results) awaited(x *exchange) bool {
	if x.keep <= 0 {
		return false
	}
	key, _ := x.resultKey()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byKey[key]
	return k != nil && k.waiters.Load() > 0
}
