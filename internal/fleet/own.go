package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
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
	// object; nil for nothing. It is asked when a life is started. May be nil.
	Capabilities func() []byte

	mu    sync.Mutex // guards the rest; ordered before owns.mu; nothing waits under it
	ended bool
	slots map[string]*own   // by server
	gens  map[string]uint64 // the newest generation of slots that are gone, by server
}

// An own is one session's slot of one server.
type own struct {
	*member // nil while it is being made
	fleet   *Fleet
	users   int         // calls that hold it; guarded by the session's lock like the next
	idle    *time.Timer // ends it after it was not used for long; nil while users hold it
	gone    atomic.Bool // it is ending, and is no session's any more
}

// owns are the slots of all sessions, those that are ending among them.
type owns struct {
	mu     sync.Mutex // guards the rest; a leaf; nothing waits under it
	all    map[string]map[*own]struct{}
	making sync.WaitGroup // those whose member is still nil
	closed bool
}

// At returns the slot that serves a session's calls to a server: the session's
// own where the server's isolation says so, else the shared one. release, if
// not nil, must be called when the call is over. of may be nil: calls of nobody
// in particular go to the shared slot.
func (f *Fleet) At(server string, of *Session) (s *slot.Slot, release func(), err error) {
	f.lead.end()
	for {
		m := f.roster.Load().byName[server]
		switch {
		case m == nil:
			return nil, nil, fault.New(fault.NotFound, "call", "no server is called "+server)
		case of == nil || !m.private():
			return m.slot, nil, nil // a disabled server's slot refuses, and says why
		}
		o, err := f.hold(m, of)
		if err != nil {
			return nil, nil, err
		}
		if o != nil {
			return o.slot, func() { f.release(o) }, nil
		}
	}
}

// private tells whether sessions have slots of their own of the server.
func (m *member) private() bool {
	return m.spec.Isolation == config.IsolationSession && m.slot.View().State.Want
}

// hold returns the session's own slot, a new one if it has none, and keeps it
// from ending for want of use; nil if the server was disabled, removed or
// changed meanwhile.
func (f *Fleet) hold(m *member, of *Session) (*own, error) {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.ended {
		return nil, &fault.Fault{
			Kind: fault.Closed, Op: "call", Server: m.name, Outcome: fault.NotSent,
			Err: errors.New("the client's session has ended"),
		}
	}
	o := of.slots[m.name]
	if o == nil {
		o = &own{fleet: f}
		if err := f.owns.add(m, o); err != nil {
			return nil, err
		}
		f.owns.ready(o, f.newOwn(m, of))
		if f.roster.Load().byName[m.name] != m || !m.private() {
			// From ready on whoever changes the server finds the slot; this was before.
			f.partLocked(o)
			f.finish(o)
			return nil, nil
		}
		if of.slots == nil {
			of.slots = map[string]*own{}
		}
		of.slots[m.name] = o
	}
	o.users++
	if o.idle != nil {
		o.idle.Stop()
		o.idle = nil
	}
	return o, nil
}

// release is the end of a hold.
func (f *Fleet) release(o *own) {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.users--
	f.restLocked(o)
}

// restLocked arms the timer of a slot that nobody uses.
func (f *Fleet) restLocked(o *own) {
	m := f.roster.Load().byName[o.name]
	if o.users > 0 || o.of.slots[o.name] != o || m == nil || m.spec.SessionIdle <= 0 {
		return
	}
	o.idle = time.AfterFunc(m.spec.SessionIdle, func() { f.rested(o) })
}

// rested ends a slot that was not used for long, unless its client still
// listens to something there. It runs on the timer's goroutine.
func (f *Fleet) rested(o *own) {
	listens := f.wishes.wanted(o.seat())
	o.of.mu.Lock()
	mine := o.users == 0 && o.idle != nil && o.of.slots[o.name] == o
	switch {
	case mine && listens:
		f.restLocked(o)
	case mine:
		f.partLocked(o)
	}
	o.of.mu.Unlock()
	if mine && !listens {
		f.finish(o)
	}
}

// newOwn makes the slot of one session. It takes what the shared one knows of
// the server, and publishes nothing.
func (f *Fleet) newOwn(shared *member, of *Session) *member {
	m := &member{name: shared.name, of: of, memory: &memory{saying: make(chan struct{}, 1)}}
	if e := shared.learned(); e != (upstream.Era{}) {
		m.era.Store(&e)
	}
	m.digest.Store(shared.digest.Load())
	m.spec = ownSpec(shared.spec)
	var last *catalog.Catalog
	if v := shared.slot.View(); v.CatalogOf == m.spec.Identity() {
		last = v.Catalog
	}
	m.slot = slot.New(slot.Options{
		Server:    m.spec,
		Dial:      f.dial(m, nil),
		Last:      last,
		Gen:       of.gens[m.name],
		Admit:     func(c *upstream.Call, offers *catalog.Catalog) *fault.Fault { return f.admit(m, c, offers) },
		Starting:  f.starting,
		Watch:     f.watch(m),
		Published: func(v *slot.View) { f.serves(m, v) },
		Emit:      f.opts.Emit,
		Session:   of.Client.ID(),
	})
	return m
}

// ownSpec is the configuration of a session's slot: it is there because it is
// used, whether an operator or the configuration has enabled the server, and
// what it lists is only looked at for the hints and the pins of its tools.
func ownSpec(s config.Server) config.Server {
	s.Disabled, s.Lazy, s.IdleTimeout, s.RefreshInterval = false, false, 0, 0
	return s
}

// serves tells a new life of one session what its client wants of it. It is
// called by the slot's loop.
func (f *Fleet) serves(m *member, v *slot.View) {
	f.pinnedOwn(m, v)
	if v.State.Serving == 0 || m.told.Swap(v.State.Serving) == v.State.Serving {
		return
	}
	f.tell(m)
}

// concern makes a generation the session's: what it says by itself goes to the
// client.
func (s *Session) concern(o *upstream.Options) {
	o.Owner = s.Client
	if s.Capabilities != nil {
		o.Capabilities = s.Capabilities()
	}
	o.Log = func(params []byte) { s.Client.Notify(mcp.NotifyMessage, params) }
}

// End ends the session: its slots refuse calls and end, each with its drain
// time. It does not wait, and is idempotent.
func (s *Session) End() {
	s.mu.Lock()
	s.ended = true
	slots := s.slots
	s.slots = nil
	s.mu.Unlock()
	for _, o := range slots {
		o.fleet.wishes.forget(func(at seat) bool { return at.of == s })
		o.fleet.end(o)
	}
}

// end takes a slot from its session and ends it. The next call of that session,
// if it goes on, begins a new one.
func (f *Fleet) end(o *own) {
	o.of.mu.Lock()
	f.partLocked(o)
	o.of.mu.Unlock()
	f.finish(o)
}

// partLocked takes a slot from its session, which remembers its generations.
func (f *Fleet) partLocked(o *own) {
	s := o.of
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
func (f *Fleet) finish(o *own) {
	if o.gone.Swap(true) {
		return
	}
	f.spawn(func() { // when the fleet is closing, that ends it
		ctx, cancel := context.WithTimeout(f.hard, o.slot.View().Server.DrainTimeout+closeLimit)
		defer cancel()
		if err := o.slot.Close(ctx); err != nil {
			f.warn(o.name, "closing the life of one client: "+err.Error())
			return // closing the fleet tries again
		}
		f.owns.drop(o)
		if f.ledger != nil {
			f.ledger.Forget(o.key())
		}
	})
}

// endOwn ends the slots that sessions have of a server.
func (f *Fleet) endOwn(server string) {
	for _, o := range f.owns.of(server) {
		f.end(o)
	}
}

// applyOwn gives the slots that sessions have of a server its configuration, or
// ends them where it has no such slots any more. The roster has m already, and
// m's slot the configuration.
func (f *Fleet) applyOwn(ctx context.Context, m *member) error {
	if !m.private() {
		f.endOwn(m.name)
		return nil
	}
	var errs []error
	for _, o := range f.owns.of(m.name) {
		if err := o.slot.Apply(ctx, ownSpec(m.spec)); err != nil && fault.KindOf(err) != fault.Closed {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// slotAt is the slot of a seat; nil if there is none now.
func (f *Fleet) slotAt(at seat) *slot.Slot {
	if at.of == nil {
		return f.Slot(at.server)
	}
	at.of.mu.Lock()
	defer at.of.mu.Unlock()
	if o := at.of.slots[at.server]; o != nil {
		return o.slot
	}
	return nil
}

// An Own is what can be seen of one session's slot.
type Own struct {
	Client uint64 // the session's
	Slot   *slot.Slot
}

// Own returns the slots that sessions have of a server, those that are ending
// left out, the oldest session first.
func (f *Fleet) Own(server string) []Own {
	var all []Own
	for _, o := range f.owns.of(server) {
		all = append(all, Own{o.of.Client.ID(), o.slot})
	}
	slices.SortFunc(all, func(a, b Own) int { return cmp.Compare(a.Client, b.Client) })
	return all
}

// add takes a place for a slot that is about to be made.
func (a *owns) add(m *member, o *own) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	refuse := func(kind fault.Kind, text, remedy string) error {
		return &fault.Fault{Kind: kind, Op: "call", Server: m.name, Outcome: fault.NotSent, Err: errors.New(text), Remedy: remedy}
	}
	if a.closed {
		return refuse(fault.Closed, "everline is shutting down", "")
	}
	if n := a.countLocked(m.name); n >= max(m.spec.MaxSessions, 1) {
		return refuse(fault.Unavailable, fmt.Sprintf("%d clients have a life of it of their own already, as many as maxSessions allows", n),
			`raise "maxSessions" of the server, or end another client's session`)
	}
	if a.all == nil {
		a.all = map[string]map[*own]struct{}{}
	}
	if a.all[m.name] == nil {
		a.all[m.name] = map[*own]struct{}{}
	}
	a.all[m.name][o] = struct{}{}
	a.making.Add(1)
	return nil
}

// ready fills the place.
func (a *owns) ready(o *own, m *member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o.member = m
	a.making.Done()
}

// countLocked leaves out those that are ending.
func (a *owns) countLocked(server string) (n int) {
	for o := range a.all[server] {
		if !o.gone.Load() {
			n++
		}
	}
	return n
}

func (a *owns) drop(o *own) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all[o.name], o)
	if len(a.all[o.name]) == 0 {
		delete(a.all, o.name)
	}
}

// of returns the slots of one server that are not ending.
func (a *owns) of(server string) (list []*own) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for o := range a.all[server] {
		if o.member != nil && !o.gone.Load() {
			list = append(list, o)
		}
	}
	return list
}

// members returns all that are not ending.
func (a *owns) members() (list []*member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.all {
		for o := range m {
			if o.member != nil && !o.gone.Load() {
				list = append(list, o.member)
			}
		}
	}
	return list
}

// close takes no further slots, and returns all that there are.
func (a *owns) close() (list []*member) {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.making.Wait() // a slot is made without waiting for anything
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.all {
		for o := range m {
			list = append(list, o.member)
		}
	}
	return list
}
