package session

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/wire"
)

// maxServerRequests is how many requests may wait for one client.
const maxServerRequests = 256

// serverRequestIDs number the requests that go to clients. They start anywhere,
// so that an answer to a request of an earlier everline is not taken for one to
// ours.
var serverRequestIDs = func() *atomic.Int64 {
	var seed [5]byte
	_, _ = rand.Read(seed[:]) // never fails
	n := new(atomic.Int64)
	n.Store(int64(binary.BigEndian.Uint32(seed[:4])) << 16)
	return n
}()

// serverRequests are the requests of servers that wait for the answers of one
// client. The zero value is ready.
type serverRequests struct {
	mu     sync.Mutex                    // guards the rest; a leaf; nothing waits under it
	all    map[int64]chan<- wire.Message // each has one slot, and is closed without an answer when the client has gone
	closed bool
}

// Put puts a request to the client, and waits for the answer until ctx ends or
// gone is closed. The span of ctx, if it is that of the request, gets its id.
func (r *serverRequests) Put(ctx context.Context, out Outlet, gone <-chan struct{}, method string, params []byte) ([]byte, error) {
	if out == nil {
		return nil, fault.New(fault.Unavailable, method, "the client has no stream open on which it could be asked")
	}
	id, answer := serverRequestIDs.Add(1), make(chan wire.Message, 1)
	if !r.add(id, answer) {
		return nil, fault.New(fault.Unavailable, method, "the client has gone, or too many requests wait for it")
	}
	defer r.take(id)
	if _, s := tracing.From(ctx); s != nil && s.Kind == tracing.Client {
		s.Number = id
	}
	out.Send(wire.AppendRequest(nil, id, method, params))
	select {
	case m, ok := <-answer:
		return answerOf(method, m, ok)
	case <-gone:
		return nil, fault.New(fault.Closed, method, "the client has gone")
	case <-ctx.Done():
		out.Send(wire.AppendNotification(nil, mcp.NotifyCancelled, append(wire.AppendInt([]byte(`{"requestId":`), id), '}')))
		return nil, fault.From(method, ctx.Err())
	}
}

func (r *serverRequests) add(id int64, answer chan<- wire.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.all) >= maxServerRequests {
		return false
	}
	if r.all == nil {
		r.all = map[int64]chan<- wire.Message{}
	}
	r.all[id] = answer
	return true
}

func (r *serverRequests) take(id int64) chan<- wire.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := r.all[id]
	delete(r.all, id)
	return answer
}

// Answered takes a response of the client. One that nothing waits for is
// dropped: it crossed the end of its call.
func (r *serverRequests) Answered(m *wire.Message) {
	id, ok := wire.ParseID(m.ID)
	if !ok {
		return
	}
	if answer := r.take(id); answer != nil {
		answer <- *m // has a slot, and this is the only message for it
	}
}

// Close ends the requests that wait for the client, and takes no more: it is
// gone.
func (r *serverRequests) Close() {
	r.mu.Lock()
	left := r.all
	r.all, r.closed = nil, true
	r.mu.Unlock()
	for _, answer := range left {
		close(answer)
	}
}

func answerOf(method string, m wire.Message, ok bool) ([]byte, error) {
	switch {
	case !ok:
		return nil, fault.New(fault.Closed, method, "the client has gone")
	case m.Error != nil:
		code, text, raw := wire.StrictError(m.Error)
		return nil, &fault.Fault{
			Kind: fault.RPC, Op: method, Outcome: fault.Answered,
			RPC: &fault.RPCError{Code: code, Message: text, Raw: raw},
		}
	default:
		return m.Result, nil
	}
}
