package slot

import (
	"context"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/upstream"
)

// Request is one request to a server: what Slot.Call sends.
type Request = upstream.Call

// Client is who a call is made for.
type Client = upstream.Client

// NewClientID returns a number that no other client of this process has.
func NewClientID() uint64 { return upstream.NewClientID() }

// TaskPrefix begins the names under which tasks are subscribed to.
const TaskPrefix = upstream.TaskPrefix

// Link describes the link of a life.
type Link = upstream.Link

// Era is what a life found out about how to talk to its server.
type Era = upstream.Era

// HandshakePhase is one part of how a life came up.
type HandshakePhase = upstream.Phase

// Spares are shared by all slots that start processes.
type Spares = upstream.Spares

// NewSpares returns Spares without a process; the caller must Close them.
func NewSpares() *Spares { return upstream.NewSpares() }

// NewDial returns the Dial that starts real upstreams. name and version are
// what servers are told of us; era returns what an earlier life found out.
func NewDial(name, version string, spares *Spares, era func() Era) Dial {
	return func(ctx context.Context, s config.Server, gen uint64, h Hooks) (Upstream, error) {
		u, err := upstream.Start(ctx, upstream.Options{
			Server:  s,
			Gen:     gen,
			Name:    name,
			Version: version,
			Era:     era(),
			Changed: h.Changed,
			Updated: h.Updated,
			Log:     h.Log,
			Stderr:  h.Stderr,
			Modern:  h.Modern,
			Spawned: h.Spawned,
			Linked:  h.Linked,
			Spares:  spares,
			Faults:  h.Faults,

			Owner:        h.Owner,
			Capabilities: h.Capabilities,
		})
		if err != nil {
			return nil, err // a nil *Upstream must not become a non-nil Upstream
		}
		return u, nil
	}
}
