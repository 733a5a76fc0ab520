package meter

import (
	"maps"
	"sync"
	"sync/atomic"
)

// An Endpoint counts for the endpoint toward clients, groups included. The zero
// value is ready for use; its fields are written where it happens.
type Endpoint struct {
	Sessions                 atomic.Int64 // that there are
	Opened, Expired, Ended   atomic.Uint64
	Gets, Listens, SSE       atomic.Int64  // streams that are open
	Received, Sent           atomic.Uint64 // bytes on connections
	Host, Origin, Auth, Size atomic.Uint64 // requests that were refused before any server was meant, and why
	Crowded, Parse, Version  atomic.Uint64

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

// EndpointCounts are what an Endpoint has counted until one moment.
type EndpointCounts struct {
	Sessions int64
	Ends     map[string]uint64 // opened, refused, expired, ended
	Streams  map[string]int64  // by kind
	Bytes    map[string]uint64 // received from clients, and sent to them
	Refused  map[string]uint64 // by reason
	Policies map[ByPolicy]uint64
}

// Read is what was counted until now.
func (e *Endpoint) Read() EndpointCounts {
	return EndpointCounts{
		Sessions: e.Sessions.Load(),
		Ends:     map[string]uint64{"opened": e.Opened.Load(), "refused": e.Crowded.Load(), "expired": e.Expired.Load(), "ended": e.Ended.Load()},
		Streams:  map[string]int64{"get": e.Gets.Load(), "listen": e.Listens.Load(), "sse": e.SSE.Load()},
		Policies: e.byPolicy(),
		Bytes:    map[string]uint64{"received": e.Received.Load(), "sent": e.Sent.Load()},
		Refused: map[string]uint64{
			"host": e.Host.Load(), "origin": e.Origin.Load(), "auth": e.Auth.Load(), "size": e.Size.Load(),
			"sessions": e.Crowded.Load(), "parse": e.Parse.Load(), "version": e.Version.Load(),
		},
	}
}
