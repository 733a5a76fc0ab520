package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/everline/everline/fault"
)

// sessions are the slots of single sessions, those that are ending among them.
type sessions struct {
	*core
	starter   *starter
	subs      *subscriptions
	processes *processes

	mu     sync.Mutex // guards the rest; ordered before core.mu; nothing waits under it
	all    map[string]map[*sessionSlot]struct{}
	lanes  map[laneKey]*sharedLane
	making sync.WaitGroup // those whose member is still nil
	closed bool
}

// hold returns the session's own slot, a new one if it has none, and keeps it
// from ending for want of use; nil if the server was disabled, removed or
// changed meanwhile.
func (ss *sessions) hold(m *member, session *Session) (*sessionSlot, error) {
	session.mu.Lock()
	defer session.mu.Unlock()
	if session.ended {
		return nil, sessionEnded(m.name)
	}
	o := session.slots[m.name]
	if o == nil {
		o = &sessionSlot{ended: ss.ended, lane: m.speaksBoth() && (session.shared || session.Older != nil && session.Older() != nil)}
		if err := ss.add(m, o); err != nil {
			return nil, err
		}
		ss.ready(o, ss.starter.newSessionMember(m, session, o.lane))
		if ss.roster.Load().byName[m.name] != m || !m.slot.View().State.Want {
			// From ready on whoever changes the server finds the slot; this was before.
			ss.partLocked(o)
			ss.finish(o)
			return nil, nil
		}
		if session.slots == nil {
			session.slots = map[string]*sessionSlot{}
		}
		session.slots[m.name] = o
	}
	o.users++
	if o.idle != nil {
		o.idle.Stop()
		o.idle = nil
	}
	return o, nil
}

// release is the end of a hold.
func (ss *sessions) release(o *sessionSlot) {
	o.session.mu.Lock()
	defer o.session.mu.Unlock()
	o.users--
	ss.restLocked(o)
}

// restLocked arms the timer of a slot that nobody uses.
func (ss *sessions) restLocked(o *sessionSlot) {
	m := ss.roster.Load().byName[o.name]
	if o.users > 0 || o.session.slots[o.name] != o || m == nil || m.spec.SessionIdle <= 0 {
		return
	}
	o.idle = time.AfterFunc(m.spec.SessionIdle, func() { ss.rested(o) })
}

// rested ends a slot that was not used for long, unless its client still
// listens to something there. It runs on the timer's goroutine.
func (ss *sessions) rested(o *sessionSlot) {
	listens := ss.subs.wanted(o.slotKey())
	o.session.mu.Lock()
	mine := o.users == 0 && o.idle != nil && o.session.slots[o.name] == o
	switch {
	case mine && listens:
		ss.restLocked(o)
	case mine:
		ss.partLocked(o)
	}
	o.session.mu.Unlock()
	if mine && !listens {
		ss.finish(o)
	}
}

// end takes a slot from its session and ends it. The next call of that session,
// if it goes on, begins a new one.
func (ss *sessions) end(o *sessionSlot) {
	o.session.mu.Lock()
	ss.partLocked(o)
	o.session.mu.Unlock()
	ss.finish(o)
}

// partLocked takes a slot from its session, which remembers its generations.
func (ss *sessions) partLocked(o *sessionSlot) {
	s := o.session
	if !s.ended && (s.slots[o.name] == o || s.slots[o.name] == nil) {
		if s.gens == nil {
			s.gens = map[string]uint64{}
		}
		s.gens[o.name] = max(s.gens[o.name], o.slot.View().State.Gen)
		delete(s.slots, o.name)
	}
	if o.idle != nil {
		o.idle.Stop()
		o.idle = nil
	}
}

// finish ends a slot that is no session's any more, in a worker.
func (ss *sessions) finish(o *sessionSlot) {
	if o.gone.Swap(true) {
		return
	}
	ss.spawn(func() { // when the fleet is closing, that ends it
		ctx, cancel := context.WithTimeout(ss.ctx, o.slot.View().Server.DrainTimeout+closeLimit)
		defer cancel()
		if err := o.slot.Close(ctx); err != nil {
			ss.warn(o.name, "closing the slot of one client: "+err.Error())
			return // closing the fleet tries again
		}
		ss.drop(o)
		ss.processes.forget(o.key())
	})
}

// endServer ends the slots that sessions have of a server.
func (ss *sessions) endServer(server string) {
	for _, o := range ss.live(server) {
		ss.end(o)
	}
}

// apply gives the slots that sessions have of a server its configuration, or
// ends them where it has no such slots any more. The roster has m already, and
// m's slot the configuration.
func (ss *sessions) apply(ctx context.Context, m *member) error {
	var errs []error
	for _, o := range ss.live(m.name) {
		if o.lane || !m.private() { // a lane may be one of another era now
			ss.end(o)
			continue
		}
		if err := o.slot.Apply(ctx, sessionSpec(m.spec)); err != nil && fault.KindOf(err) != fault.Closed {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ended ends the slot of a session that has ended, and what it listens to.
func (ss *sessions) ended(o *sessionSlot) {
	ss.subs.forget(func(key slotKey) bool { return key.session == o.session })
	ss.end(o)
}

// add takes a place for a slot that is about to be made.
func (ss *sessions) add(m *member, o *sessionSlot) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	refuse := func(kind fault.Kind, text, remedy string) error {
		return &fault.Fault{Kind: kind, Op: "call", Server: m.name, Outcome: fault.NotSent, Err: errors.New(text), Remedy: remedy}
	}
	if ss.closed {
		return refuse(fault.Closed, "everline is shutting down", "")
	}
	if n := ss.countLocked(m.name); n >= max(m.spec.MaxSessions, 1) {
		return refuse(fault.Unavailable, fmt.Sprintf("%d clients have a slot of their own already, as many as maxSessions allows", n),
			`raise "maxSessions" of the server, or end another client's session`)
	}
	if ss.all == nil {
		ss.all = map[string]map[*sessionSlot]struct{}{}
	}
	if ss.all[m.name] == nil {
		ss.all[m.name] = map[*sessionSlot]struct{}{}
	}
	ss.all[m.name][o] = struct{}{}
	ss.making.Add(1)
	return nil
}

// ready fills the place.
func (ss *sessions) ready(o *sessionSlot, m *member) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	o.member = m
	ss.making.Done()
}

// countLocked leaves out those that are ending.
func (ss *sessions) countLocked(server string) (n int) {
	for o := range ss.all[server] {
		if !o.gone.Load() {
			n++
		}
	}
	return n
}

func (ss *sessions) drop(o *sessionSlot) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.all[o.name], o)
	if len(ss.all[o.name]) == 0 {
		delete(ss.all, o.name)
	}
}

// live returns the slots of one server that are not ending.
func (ss *sessions) live(server string) (list []*sessionSlot) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for o := range ss.all[server] {
		if o.member != nil && !o.gone.Load() {
			list = append(list, o)
		}
	}
	return list
}

// members returns all that are not ending.
func (ss *sessions) members() (list []*member) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, m := range ss.all {
		for o := range m {
			if o.member != nil && !o.gone.Load() {
				list = append(list, o.member)
			}
		}
	}
	return list
}

// close takes no further slots, and returns all that there are.
func (ss *sessions) close() (list []*member) {
	ss.mu.Lock()
	ss.closed = true
	ss.mu.Unlock()
	ss.making.Wait() // a slot is made without waiting for anything
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, m := range ss.all {
		for o := range m {
			list = append(list, o.member)
		}
	}
	return list
}
