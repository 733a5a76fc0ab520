package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/transport"
)

// A server that speaks both eras is spoken to in the modern one, in which it may
// not ask its clients anything. A client of an older revision that serves such
// requests has its calls served by a generation of the older era beside: its
// lane. Over Streamable HTTP the stream tells whose call a request belongs to, so
// all who have declared the same share a lane; elsewhere each has its own. A lane
// is the slot of a Session: that of the client, or one that stands for many.

// A sharedLane is the Session of a lane that several sessions share. It is there as
// long as one of them.
type sharedLane struct {
	Session
	key     laneKey
	members map[*Session]struct{} // guarded by sessions.mu
}

type laneKey struct{ server, declared string }

// A nobody is the Client of a shared lane, which cannot be asked: its calls can.
type nobody uint64

func (n nobody) ID() uint64 { return uint64(n) }

func (nobody) Ask(_ context.Context, method string, _ []byte) ([]byte, error) {
	return nil, fault.New(fault.Unsupported, method, "the request belongs to no client's call")
}

func (nobody) Notify(string, []byte) {}

// splits tells whether a client gets a lane at a server that all clients share.
// A process is started only once it is known that the server asks in that way, as
// what the server keeps in its process is kept twice then.
func (m *member) splits(s *Session) bool {
	if s.Older == nil || !m.speaksBoth() || !m.slot.View().State.Want {
		return false
	}
	sure := m.spec.Eras == config.ErasBoth || m.era.Load().Transport == transport.HTTP || m.asks.Load()
	return sure && s.Older() != nil
}

// laneOf is the session whose slot serves s; nil for the shared slot.
func (ss *sessions) laneOf(m *member, s *Session) (*Session, error) {
	switch {
	case s == nil:
		return nil, nil
	case m.private():
		return s, nil
	case !m.splits(s):
		return nil, nil
	}
	s.laned.Store(true)
	if m.era.Load().Transport == transport.HTTP {
		return ss.join(m, s)
	}
	return s, nil
}

// join makes s one of those that share the lane of what they have declared.
func (ss *sessions) join(m *member, s *Session) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, sessionEnded(m.name)
	}
	declared := s.Older()
	key := laneKey{m.name, string(declared)}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	c := ss.lanes[key]
	if c == nil {
		c = &sharedLane{key: key, members: map[*Session]struct{}{}}
		c.Client, c.Capabilities, c.shared = nobody(door.NewClientID()), func() []byte { return declared }, true
		c.Changed = func(kinds []catalog.Kind) { ss.changed(c, kinds) }
		if ss.lanes == nil {
			ss.lanes = map[laneKey]*sharedLane{}
		}
		ss.lanes[key] = c
	}
	if _, in := c.members[s]; !in {
		c.members[s] = struct{}{}
		s.left = append(s.left, func() { ss.leave(c, s) })
	}
	return &c.Session, nil
}

// leave takes a session that has ended out of a lane, which ends with the last.
func (ss *sessions) leave(c *sharedLane, s *Session) {
	ss.mu.Lock()
	delete(c.members, s)
	last := len(c.members) == 0
	if last {
		delete(ss.lanes, c.key)
	}
	ss.mu.Unlock()
	if last {
		c.End()
	}
}

// changed tells all who share a lane that what it lists has changed.
func (ss *sessions) changed(c *sharedLane, kinds []catalog.Kind) {
	ss.mu.Lock()
	members := slices.Collect(maps.Keys(c.members))
	ss.mu.Unlock()
	for _, s := range members {
		if s.Changed != nil {
			s.Changed(kinds)
		}
	}
}

// sharers is how many sessions share the slots of a session.
func (ss *sessions) sharers(s *Session) int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, c := range ss.lanes {
		if &c.Session == s {
			return len(c.members)
		}
	}
	return 1
}

// older tells whether a slot speaks the older era to a server that is spoken to
// in the modern one.
func (o *sessionSlot) older() bool { return o.spec.Eras == config.ErasLegacy && o.lane }

// usable waits for the first attempt of a new lane, and is false if the server
// has refused the era: then the shared slot serves, as it does for others. What
// else fails is the call's matter.
func (o *sessionSlot) usable(ctx context.Context, shared *member) bool {
	for o.older() && !o.proven.Load() {
		v := o.slot.View()
		switch {
		case shared.oneEra.Load():
			return false
		case v.State.Serving != 0 || !v.Starting():
			o.proven.Store(v.State.Serving != 0)
			return true
		}
		select {
		case <-v.Changed:
		case <-ctx.Done():
			return true
		}
	}
	return true
}

// sessionEnded is the fault of a call for a session that has ended.
func sessionEnded(server string) *fault.Fault {
	return &fault.Fault{
		Kind: fault.Closed, Op: "call", Server: server, Outcome: fault.NotSent,
		Err: errors.New("the client's session has ended"),
	}
}
