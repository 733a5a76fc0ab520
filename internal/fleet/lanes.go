package fleet

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/slot"
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

// speaksBoth tells whether the server is spoken to in the modern era and can be
// spoken to in the older one. What is known of it goes by its own words, until it
// refuses.
func (m *member) speaksBoth() bool {
	e := m.era.Load()
	if e == nil || !e.Modern || m.oneEra.Load() {
		return false
	}
	return m.spec.Eras == config.ErasBoth || m.spec.Eras != config.ErasModern && e.Older
}

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
	case m.era.Load().Transport == transport.HTTP:
		return ss.join(m, s)
	default:
		return s, nil
	}
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

var errNotAsked = errors.New("the server has no session in the older revisions over which it could ask its client")

// older is what the start of a lane has come to. A server that refuses the older
// era, or cannot ask in it, is not asked again by this generation of the shared slot.
func (st *starter) older(ctx context.Context, shared *member, up slot.Upstream, err error) (slot.Upstream, error) {
	if err == nil && up.Info().Sessionless {
		_ = up.Close(ctx) // it has no session that could stay
		err = &fault.Fault{Kind: fault.NoVersion, Op: mcp.Initialize, Outcome: fault.Answered, Err: errNotAsked}
	}
	f := fault.From("start", err)
	if f == nil || !refusesOlder(f) {
		return up, err
	}
	shared.oneEra.Store(true)
	c := *f
	c.Kind = fault.NoVersion // nothing that trying again would mend
	return nil, &c
}

// refusesOlder tells whether a server has answered the handshake of the older era
// in the way of one that does not speak it.
func refusesOlder(f *fault.Fault) bool {
	switch f.Kind {
	case fault.RPC, fault.NoVersion, fault.Protocol:
		return true
	case fault.HTTPStatus:
		return f.Status >= http.StatusBadRequest && f.Status < http.StatusInternalServerError
	default:
		return false
	}
}

// asked notes that a server asks its clients in the way of the older revisions.
func (st *starter) asked(m *member) {
	if m.speaksBoth() && !m.asks.Swap(true) {
		st.emit(event.OlderWanted{Head: event.Head{Time: time.Now(), Server: m.name, Gen: m.slot.View().State.Serving}})
		st.touch(m.name) // it is kept on disk
	}
}

// Asked tells whether the outcome of a call that the shared slot has served looks as
// if the server had wanted to ask the client and could not, for its era, and the
// client has a lane from now on. The words are the server's: they only decide that
// the other era is used.
func (f *Fleet) Asked(server string, session *Session, got *slot.Answer, err error) bool {
	m := f.roster.Load().byName[server]
	if m == nil || session.Older == nil || !m.speaksBoth() || session.Older() == nil || !namesQuestion(failureText(got, err)) {
		return false
	}
	f.starter.asked(m)
	return m.splits(session)
}

// failureText is what a server says of a call that it has answered and that failed;
// nil of another.
func failureText(got *slot.Answer, err error) []byte {
	f := fault.From("call", err)
	switch {
	case f == nil && got.IsError():
		return got.Raw
	case f != nil && f.RPC != nil:
		return []byte(f.RPC.Message)
	default:
		return nil
	}
}

var questions = [][]byte{[]byte(mcp.ElicitationCreate), []byte(mcp.SamplingCreateMessage), []byte(mcp.RootsList), []byte(mcp.ModernVersion)}

// namesQuestion tells whether a failure speaks of a request of a server, or of the era.
func namesQuestion(text []byte) bool {
	for _, q := range questions {
		if bytes.Contains(text, q) {
			return true
		}
	}
	return false
}

// laneSpec is the configuration of a session's slot at a server that is spoken to
// in the modern era.
func laneSpec(s config.Server) config.Server {
	s = sessionSpec(s)
	s.Eras = config.ErasLegacy
	return s
}

// sessionEnded is the fault of a call for a session that has ended.
func sessionEnded(server string) *fault.Fault {
	return &fault.Fault{
		Kind: fault.Closed, Op: "call", Server: server, Outcome: fault.NotSent,
		Err: errors.New("the client's session has ended"),
	}
}
