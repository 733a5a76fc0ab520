package message

import (
	"sync"
	"time"

	"github.com/everline/everline/internal/mcp"
)

// An Admission counts what is in flight on one connection that answers out of order,
// where two requests with one id could not be told apart by the client.
type Admission struct {
	Limit int

	mu     sync.Mutex // guards the rest; nothing waits under it
	ids    map[string]struct{}
	closed bool
	Work   sync.WaitGroup // one for each of ids, and for each batch
}

// Enter admits a request, or returns the answer that refuses it. That has no
// id: one with the id would be taken for the answer of the other request.
func (ad *Admission) Enter(m *Message) *Answer {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	id := string(m.ID)
	if _, dup := ad.ids[id]; dup {
		return Refuse(nil, mcp.CodeInvalidRequest, "Invalid request: a request with this id is in flight")
	}
	if ad.closed {
		return m.Refusal(mcp.CodeShuttingDown, "everline is shutting down", nil)
	}
	if len(ad.ids) >= ad.Limit {
		return m.Overloaded("Too many requests are in flight on this connection", time.Second)
	}
	if ad.ids == nil {
		ad.ids = map[string]struct{}{}
	}
	ad.ids[id] = struct{}{}
	ad.Work.Add(1)
	return nil
}

// Admit admits work that has no id of its own; its end is work.Done.
func (ad *Admission) Admit() bool {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	if !ad.closed {
		ad.Work.Add(1)
	}
	return !ad.closed
}

func (ad *Admission) Leave(m *Message) {
	ad.Free(m)
	ad.Work.Done()
}

func (ad *Admission) Free(m *Message) {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	delete(ad.ids, string(m.ID))
}

// Drain admits nothing more and waits for what is in flight.
func (ad *Admission) Drain() {
	ad.mu.Lock()
	ad.closed = true
	ad.mu.Unlock()
	ad.Work.Wait()
}
