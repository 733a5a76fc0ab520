package meter

import "sync/atomic"

// An Endpoint counts for the endpoint toward clients, groups included. The zero
// value is ready for use; its fields are written where it happens.
type Endpoint struct {
	Sessions                 atomic.Int64 // that there are
	Opened, Expired, Ended   atomic.Uint64
	Gets, Listens, SSE       atomic.Int64  // streams that are open
	Received, Sent           atomic.Uint64 // bytes on connections
	Host, Origin, Auth, Size atomic.Uint64 // requests that were refused before any server was meant, and why
	Crowded, Parse, Version  atomic.Uint64
}

// EndpointCounts are what an Endpoint has counted until one moment.
type EndpointCounts struct {
	Sessions int64
	Ends     map[string]uint64 // opened, refused, expired, ended
	Streams  map[string]int64  // by kind
	Bytes    map[string]uint64 // received from clients, and sent to them
	Refused  map[string]uint64 // by reason
}

// Read is what was counted until now.
func (e *Endpoint) Read() EndpointCounts {
	return EndpointCounts{
		Sessions: e.Sessions.Load(),
		Ends:     map[string]uint64{"opened": e.Opened.Load(), "refused": e.Crowded.Load(), "expired": e.Expired.Load(), "ended": e.Ended.Load()},
		Streams:  map[string]int64{"get": e.Gets.Load(), "listen": e.Listens.Load(), "sse": e.SSE.Load()},
		Bytes:    map[string]uint64{"received": e.Received.Load(), "sent": e.Sent.Load()},
		Refused: map[string]uint64{
			"host": e.Host.Load(), "origin": e.Origin.Load(), "auth": e.Auth.Load(), "size": e.Size.Load(),
			"sessions": e.Crowded.Load(), "parse": e.Parse.Load(), "version": e.Version.Load(),
		},
	}
}
