package meter

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/everline/everline/event"
)

// An Endpoint counts for the endpoint toward clients, groups included. It is made by
// NewEndpoint; its fields are written where it happens.
type Endpoint struct {
	Sessions                  atomic.Int64 // that there are
	Opened, Expired, Ended    atomic.Uint64
	Gets, Listens, SSE, Posts atomic.Int64  // streams that are open
	Received, Sent            atomic.Uint64 // bytes on connections
	Slow, Quiet               atomic.Uint64 // connections that were cut because the client did not read, or sent nothing for long
	Host, Origin, Auth, Size  atomic.Uint64 // requests that were refused before any server was meant, and why
	Crowded, Parse, Version   atomic.Uint64

	Lasted             Histogram // sessions that are over
	OverHTTP, OverPipe Histogram // what everline itself took of calls, by how the client is connected
	own                [len(Methods)][event.CallResults]atomic.Uint64

	mu      sync.Mutex // guards refused; nothing waits under it
	refused map[ByPolicy]uint64
}

// ByPolicy is what refusals by policies are counted by: the names of the policies
// that the client has, joined by "+" and "" for none, and why it was refused.
type ByPolicy struct{ Policy, Reason string }

// Refuse counts a refusal by policies.
func (e *Endpoint) Refuse(policy, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused == nil {
		e.refused = map[ByPolicy]uint64{}
	}
	e.refused[ByPolicy{policy, reason}]++
}

func (e *Endpoint) byPolicy() map[ByPolicy]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.refused)
}

// NewEndpoint returns the meter of an endpoint.
func NewEndpoint() *Endpoint {
	return &Endpoint{Lasted: Make(Lifetimes), OverHTTP: Make(Overhead), OverPipe: Make(Overhead)}
}

// Own counts a request that everline has answered itself: no server was asked.
func (e *Endpoint) Own(method string, refused bool) {
	result := event.CallAnswered
	if refused {
		result = event.CallRefused
	}
	e.own[methodOf(method)][result].Add(1)
}

// EndpointCounts are what an Endpoint has counted until one moment.
type EndpointCounts struct {
	Sessions int64
	Ends     map[string]uint64 // opened, refused, expired, ended
	Streams  map[string]int64  // by kind
	Bytes    map[string]uint64 // received from clients, and sent to them
	Cut      map[string]uint64 // connections, by reason
	Refused  map[string]uint64 // by reason
	Policies map[ByPolicy]uint64
	Own      [len(Methods)][event.CallResults]uint64
	Lasted   Distribution
	Overhead map[string]Distribution // by how the client is connected
}

// Read is what was counted until now.
func (e *Endpoint) Read() EndpointCounts {
	c := EndpointCounts{
		Sessions: e.Sessions.Load(),
		Ends:     map[string]uint64{"opened": e.Opened.Load(), "refused": e.Crowded.Load(), "expired": e.Expired.Load(), "ended": e.Ended.Load()},
		Streams:  map[string]int64{"get": e.Gets.Load(), "listen": e.Listens.Load(), "sse": e.SSE.Load(), "post": e.Posts.Load()},
		Policies: e.byPolicy(),
		Bytes:    map[string]uint64{"received": e.Received.Load(), "sent": e.Sent.Load()},
		Cut:      map[string]uint64{"slow": e.Slow.Load(), "idle": e.Quiet.Load()},
		Refused: map[string]uint64{
			"host": e.Host.Load(), "origin": e.Origin.Load(), "auth": e.Auth.Load(), "size": e.Size.Load(),
			"sessions": e.Crowded.Load(), "parse": e.Parse.Load(), "version": e.Version.Load(),
		},
		Lasted:   e.Lasted.Read(),
		Overhead: map[string]Distribution{"http": e.OverHTTP.Read(), "pipe": e.OverPipe.Read()},
	}
	for i := range e.own {
		for j := range e.own[i] {
			c.Own[i][j] = e.own[i][j].Load()
		}
	}
	return c
}
