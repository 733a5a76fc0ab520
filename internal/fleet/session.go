package fleet

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/upstream"
)

// A Session is one client between its first call and its end. A server whose
// isolation is "session" has a slot for each, from the session's first use of
// it on; what is published comes from the shared slot all the same. The zero
// value with a Client works. Whoever makes one must End it.
type Session struct {
	// Client gets what its own servers ask and log outside of any call.
	// Required; its ID is the session's.
	Client upstream.Client
	// Capabilities returns what the client has declared to serve, as a raw
	// object; nil for nothing. It is asked when a generation is started. May be nil.
	Capabilities func() []byte
	// Older returns what a client of the revisions up to 2025-11-25 has declared to
	// serve in its handshake; nil for a client of a later one, and for nothing.
	// Where a server speaks both eras such a client is served in its own. May be nil.
	Older func() []byte

	// Changed hears that what the session's own generations list has changed, where
	// its table shows that. It must not block. May be nil.
	Changed func(kinds []catalog.Kind)

	laned  atomic.Bool              // it has had a lane
	own    atomic.Pointer[ownTable] // the last table of its own; nil while it has had none
	shared bool                     // it stands for many, and its slots are for all of them; set before it is used

	mu    sync.Mutex // guards the rest; ordered before sessions.mu; nothing waits under it
	ended bool
	left  []func()                // what else is to be done when it ends
	slots map[string]*sessionSlot // by server
	gens  map[string]uint64       // the newest generation of slots that are gone, by server
}

// An ownTable is the table of one session, and what it was made from.
type ownTable struct {
	base   *catalog.Table
	listed map[string]*catalog.Catalog // of its lanes, by server
	table  *catalog.Table
}

// A sessionSlot is one session's slot of one server.
type sessionSlot struct {
	*member                    // nil while it is being made
	lane    bool               // it is there for its era, which the server is not spoken to else; constant
	proven  atomic.Bool        // of a lane: it has served
	ended   func(*sessionSlot) // called when its session has ended
	users   int                // calls that hold it; guarded by the session's lock like the next
	idle    *time.Timer        // ends it after it was not used for long; nil while users hold it
	gone    atomic.Bool        // it is ending, and is no session's any more
}

// concern makes a generation the session's: what it says by itself goes to the
// client.
func (s *Session) concern(o *upstream.Options) {
	if s.Capabilities != nil {
		o.Capabilities = s.Capabilities()
	}
	if s.shared {
		return
	}
	o.Owner = s.Client
	o.Log = func(params []byte) { s.Client.Notify(mcp.NotifyMessage, params) }
}

// End ends the session: its slots refuse calls and end, each with its drain
// time. It does not wait, and is idempotent.
func (s *Session) End() {
	s.mu.Lock()
	s.ended = true
	slots, left := s.slots, s.left
	s.slots, s.left = nil, nil
	s.mu.Unlock()
	for _, leave := range left {
		leave()
	}
	for _, o := range slots {
		o.ended(o)
	}
}

// slot is the session's slot of a server; nil if there is none now.
func (s *Session) slot(server string) *slot.Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.slots[server]; o != nil {
		return o.slot
	}
	return nil
}

// A slotKey is where a server is asked: its shared slot, or the one of a session.
type slotKey struct {
	server  string
	session *Session // nil: the shared one
}
