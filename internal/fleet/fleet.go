// Package fleet is the set of slots: it applies configurations, merges what
// the slots publish into one table, and keeps last good catalogs on disk. It
// decides nothing about a server's lifecycle, and knows no clients.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/orphan"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/transport/stdio"
)

// A Fleet has three long-lived goroutines, the publisher's, the keeper's and the
// one that forgets unused logins, and those of its slots and credentials.
type Fleet struct {
	*core
	started time.Time

	publisher   *publisher
	keeper      *keeper
	problems    *problems
	pins        *pins
	processes   *processes
	subs        *subscriptions
	starter     *starter
	credentials *credentials
	sessions    *sessions
	retired     *retired

	gate    ctxLock       // held by the one Apply or Approve that runs
	sealed  chan struct{} // closed by Close: whoever gets the gate from then on gives it back
	sealing sync.Once
	stopped sync.Once
	loops   sync.WaitGroup // publisher, keeper and credentials, and the sweep
}

// New starts a slot for every server of cfg. It returns at once: servers come
// up behind it. The caller must Close the fleet.
func New(cfg *config.Config, opts Options) *Fleet {
	f := &Fleet{
		core:    newCore(opts),
		started: time.Now(),
		gate:    newCtxLock(),
		sealed:  make(chan struct{}),
		retired: newRetired(),
	}
	c := f.core
	f.problems = &problems{core: c}
	f.pins = newPins(c, f.problems)
	f.processes = &processes{core: c, problems: f.problems, swept: make(chan struct{})}
	f.keeper = &keeper{core: c, problems: f.problems, pins: f.pins, processes: f.processes}
	if opts.StateDir != "" {
		f.keeper.store = &catalog.Store{Dir: opts.StateDir}
		f.processes.ledger = orphan.NewLedger(opts.StateDir)
	}
	f.subs = newSubscriptions(c)
	f.credentials = newCredentials(c)
	f.starter = &starter{
		credentials: f.credentials, core: c, keeper: f.keeper, processes: f.processes, pins: f.pins, subs: f.subs,
		spares: stdio.NewSpares(), starting: make(chan struct{}, max(cfg.MaxStarting, 1)), headStart: newHeadStart(),
	}
	f.sessions = &sessions{core: c, starter: f.starter, subs: f.subs, processes: f.processes}
	f.pins.sessions, f.credentials.live = f.sessions.live, f.sessions.live
	f.loops.Go(f.processes.sweep) // bounded by itself
	f.starter.keepOwn(cfg)
	r := newRoster(cfg, newPinning(opts.Pins))
	for _, s := range cfg.Servers {
		r.add(f.starter.newMember(s, 0, nil))
	}
	f.roster.Store(r)
	f.publisher = newPublisher(c, f.pins)
	f.loops.Go(func() { f.publisher.run(f.follow) })
	f.loops.Go(f.keeper.run)
	f.loops.Go(f.credentials.run)
	f.poke()
	return f
}

// follow does what new generations ask for: they are told what clients want,
// and what they offer is kept on disk.
func (f *Fleet) follow(r *roster, touched []string) {
	for _, name := range touched {
		m := r.byName[name]
		if m == nil {
			continue
		}
		f.keeper.unsaved.add(name)
		v := m.slot.View()
		if v.State.Serving == 0 || m.told.Load() == v.State.Serving {
			continue
		}
		m.told.Store(v.State.Serving)
		f.subs.renew(m)
	}
	f.saveSoon()
}

// Table is the merged table that is out now.
func (f *Fleet) Table() *catalog.Table { return f.publisher.out.Load().table }

// Fresh is the table that shows every view that was out when it was called; after
// limit, the one that is out.
func (f *Fleet) Fresh(limit time.Duration) *catalog.Table { return f.publisher.fresh(limit) }

// Config is the configuration that is applied now.
func (f *Fleet) Config() *config.Config { return f.roster.Load().cfg }

// Views returns the views of all slots, in the order of the configuration.
func (f *Fleet) Views() []*slot.View {
	r := f.roster.Load()
	views := make([]*slot.View, len(r.order))
	for i, m := range r.order {
		views[i] = m.slot.View()
	}
	return views
}

// Counts are what was counted until now, by server.
func (f *Fleet) Counts() map[string]meter.Counts {
	r := f.roster.Load()
	all := make(map[string]meter.Counts, len(r.order)+1)
	for _, m := range r.order {
		m.slot.CountLinks()
		for _, o := range f.sessions.live(m.name) {
			o.slot.CountLinks()
		}
		all[m.name] = m.meter.Read()
	}
	return all
}

// Meter counts for a server; nil if none is called so.
func (f *Fleet) Meter(server string) *meter.Server {
	if m := f.roster.Load().byName[server]; m != nil {
		return m.meter
	}
	return nil
}

// Stuck names the servers whose loops do not answer until ctx ends.
func (f *Fleet) Stuck(ctx context.Context) (names []string) {
	r := f.roster.Load()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards names
	for _, m := range r.order {
		wg.Go(func() { // ends with ctx
			if m.slot.Answers(ctx) != nil && ctx.Err() != nil {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, m.name)
			}
		})
	}
	wg.Wait()
	slices.Sort(names)
	return names
}

// Slot returns the slot of a server; nil if no such server is configured.
func (f *Fleet) Slot(name string) *slot.Slot {
	return f.roster.Load().slot(name)
}

// Names returns the names of all servers, in the order of the configuration.
func (f *Fleet) Names() []string {
	r := f.roster.Load()
	names := make([]string, len(r.order))
	for i, m := range r.order {
		names[i] = m.name
	}
	return names
}

// Do runs an operation on one server's slot, and on those that sessions have of
// it, and returns once the table reflects what it did.
func (f *Fleet) Do(ctx context.Context, name string, op func(context.Context, *slot.Slot) error) error {
	s := f.Slot(name)
	if s == nil {
		return fault.New(fault.NotFound, "server", "no server is called "+name)
	}
	if err := op(ctx, s); err != nil {
		return err
	}
	for _, o := range f.sessions.live(name) {
		if err := op(ctx, o.slot); err != nil && fault.KindOf(err) != fault.Closed {
			return err
		}
	}
	if !s.View().State.Want {
		f.sessions.endServer(name)
	}
	return f.Flush(ctx)
}

// Apply makes cfg the configuration: new servers get a slot, changed ones a
// new generation, removed ones are unpublished at once and closed behind it. Servers
// that did not change are not touched. It returns once the new table is out. If
// cfg would make a usable server unusable, nothing is changed: see config.Breaks.
func (f *Fleet) Apply(ctx context.Context, cfg *config.Config) (config.Plan, error) {
	return f.Edit(ctx, func(*config.Config) (*config.Config, error) { return cfg, nil })
}

// Edit is Apply of what change makes of the configuration that is applied. No
// other configuration comes between. change must not wait, and changes no part
// of what it gets; its error is returned as it is.
func (f *Fleet) Edit(ctx context.Context, change func(*config.Config) (*config.Config, error)) (config.Plan, error) {
	leave, err := f.enter(ctx, "apply")
	if err != nil {
		return config.Plan{}, err
	}
	defer leave()
	cfg, err := change(f.roster.Load().cfg)
	if err != nil {
		return config.Plan{}, err
	}
	pins, err := f.pins.reread(ctx, cfg)
	if err != nil {
		return config.Plan{}, err
	}
	old := f.roster.Load()
	if f := config.Breaks(old.cfg, cfg); f != nil {
		return config.Plan{}, f
	}
	plan := config.Diff(old.cfg, cfg)
	next := newRoster(cfg, pins)
	f.starter.keepOwn(cfg)
	var errs []error
	for _, s := range cfg.Servers {
		m := old.byName[s.Name]
		switch {
		case m == nil:
			m = f.starter.newMember(s, f.retired.lastGen(s.Name), f.retired.predecessor(s.Name))
		case slices.Contains(plan.Change, s.Name):
			m = m.with(s)
			f.credentials.use(&s)
			errs = append(errs, m.slot.Apply(ctx, s))
		}
		next.add(m)
	}
	f.roster.Store(next)
	for _, name := range plan.Change {
		errs = append(errs, f.sessions.apply(ctx, next.byName[name]))
		next.byName[name].replaced.add(old.byName[name].spec.Identity())
	}
	for _, name := range plan.Remove {
		f.credentials.remove(name)
		f.retire(ctx, old.byName[name])
		f.keeper.unused.add(old.byName[name].spec.Identity())
		for _, key := range old.byName[name].replaced.take() {
			f.keeper.unused.add(key)
		}
	}
	errs = append(errs, f.Flush(ctx))
	return plan, errors.Join(errs...)
}

// enter lets one operation in at a time that changes the roster or the pins,
// and none once the fleet is closing.
func (f *Fleet) enter(ctx context.Context, op string) (leave func(), err error) {
	if err := f.gate.lock(ctx); err != nil {
		return nil, fault.From(op, err)
	}
	if f.Closed() {
		f.gate.unlock()
		return nil, fault.New(fault.Closed, op, "everline is shutting down")
	}
	return f.gate.unlock, nil
}

// seal waits for who has entered before the fleet was sealed.
func (f *Fleet) seal(ctx context.Context) error {
	if err := f.gate.lock(ctx); err != nil {
		return &fault.Fault{Kind: fault.Closed, Op: "close", Err: fmt.Errorf("a change of the configuration goes on: %w", err)}
	}
	f.gate.unlock()
	return nil
}

// Pending tells whether a server may still get its first catalog.
func (f *Fleet) Pending() bool { return f.roster.Load().pending() }

// WaitFirst returns when every server that may still get its first catalog
// has one, or FirstListWait after the start of the fleet, or when ctx ends.
// Later than that it returns at once.
func (f *Fleet) WaitFirst(ctx context.Context) {
	left := f.Config().FirstListWait - time.Since(f.started)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		out := f.publisher.out.Load()
		if !f.roster.Load().pending() {
			_ = f.Flush(ctx) // the catalog is there; so must the table be
			return
		}
		select {
		case <-out.changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-f.stop:
			return
		}
	}
}

// Closed tells whether Close was called.
func (f *Fleet) Closed() bool {
	select {
	case <-f.sealed:
		return true
	default:
		return false
	}
}

// Close refuses all calls, ends every server side by side, and waits for all
// goroutines, bounded by ctx. It is idempotent, and names what would not stop.
func (f *Fleet) Close(ctx context.Context) error {
	f.starter.headStart.stop()
	f.sealing.Do(func() { close(f.sealed) })
	defer context.AfterFunc(ctx, f.forceCancel)() // then workers wait no longer for what would not stop; it only ends a context
	_ = f.closeMembers(ctx)                       // at once: a change that goes on holds nobody up
	late := f.seal(ctx)
	errs := append(f.closeMembers(ctx), late) // with those that the change has brought
	f.credentials.manager.Close()
	f.noMoreWorkers()
	f.stopped.Do(func() { close(f.stop) })
	f.loops.Wait()
	f.workers.Wait()
	f.starter.spares.Close()
	f.processes.close(errors.Join(errs...))
	return errors.Join(errs...)
}

// closeMembers ends every server that there is, side by side, and returns which
// would not stop. Those that are gone cost nothing.
func (f *Fleet) closeMembers(ctx context.Context) []error {
	members := slices.Concat(f.sessions.close(), f.roster.Load().order, f.retired.all())
	errs := make([]error, len(members), len(members)+1)
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = m.slot.Close(ctx) })
	}
	wg.Wait()
	return errs
}

// retire closes a removed server's slot behind the caller's back; Close waits
// for it. No further generation begins behind the one that is remembered.
func (f *Fleet) retire(ctx context.Context, m *member) {
	if err := m.slot.Want(ctx, false); err != nil {
		f.warn(m.name, "ending the removed server: "+err.Error())
	}
	done := f.retired.add(m)
	f.sessions.endServer(m.name)
	f.subs.forget(func(key slotKey) bool { return key.server == m.name })
	f.spawn(func() {
		ctx, cancel := context.WithTimeout(f.ctx, m.spec.DrainTimeout+closeLimit)
		defer cancel()
		err := m.slot.Close(ctx)
		if err != nil {
			f.warn(m.name, "closing the removed server: "+err.Error()) // closing the fleet tries again
		}
		done(err == nil)
	})
}

// Flush returns once the table reflects every view that was out when it was
// called.
func (f *Fleet) Flush(ctx context.Context) error { return f.publisher.flush(ctx) }

// At returns the slot that serves a session's calls to a server: the session's
// own where the server's isolation says so, its lane where the client is of the era
// that the server is not spoken to in, else the shared one. It waits for the first
// attempt of a lane. release, if
// not nil, must be called when the call is over. session may be nil: calls of
// nobody in particular go to the shared slot.
func (f *Fleet) At(ctx context.Context, server string, session *Session) (s *slot.Slot, release func(), err error) {
	s, o, err := f.at(ctx, server, session)
	if o != nil {
		release = func() { f.sessions.release(o) }
	}
	return s, release, err
}

// Own is the slot that a session has of a server for itself; nil if there is none now.
func (f *Fleet) Own(server string, session *Session) *slot.Slot { return session.slot(server) }

// at is At that holds the session's slot; nil for the shared one.
func (f *Fleet) at(ctx context.Context, server string, session *Session) (*slot.Slot, *sessionSlot, error) {
	f.starter.headStart.end()
	for {
		m := f.roster.Load().byName[server]
		if m == nil {
			return nil, nil, fault.New(fault.NotFound, "call", "no server is called "+server)
		}
		lane, err := f.sessions.laneOf(m, session)
		if lane == nil {
			return m.slot, nil, err // a disabled server's slot refuses, and says why
		}
		o, err := f.sessions.hold(m, lane)
		switch {
		case err != nil:
			return nil, nil, err
		case o == nil:
		case o.usable(ctx, m):
			return o.slot, o, nil
		default:
			f.sessions.release(o)
			f.sessions.end(o)
		}
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

// A SessionSlot is what can be seen of one session's slot.
type SessionSlot struct {
	Client  uint64 // the session's; 0 where several share the slot
	Clients int    // that have it
	Older   bool   // it speaks the older era to a server that is spoken to in the modern one
	Slot    *slot.Slot
}

// SessionSlots returns the slots that sessions have of a server, those that are
// ending left out, the oldest session first.
func (f *Fleet) SessionSlots(server string) []SessionSlot {
	var all []SessionSlot
	for _, o := range f.sessions.live(server) {
		s := SessionSlot{o.session.Client.ID(), 1, o.lane, o.slot}
		if o.session.shared {
			s.Client, s.Clients = 0, f.sessions.sharers(o.session)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b SessionSlot) int { return cmp.Compare(a.Client, b.Client) })
	return all
}

// Subscribe asks a server for the updates of a resource, and again each new
// generation of it, until cancel is called. Where the server has a slot for each
// session, that of session is asked. fn gets the params of each notification,
// and a catch-up one after a generation was replaced; it must not block.
func (f *Fleet) Subscribe(ctx context.Context, session *Session, server, uri string, fn func(params []byte)) (cancel func(), err error) {
	_, o, err := f.at(ctx, server, session)
	if err != nil {
		return nil, err
	}
	key := slotKey{server: server}
	if o != nil {
		defer f.sessions.release(o)
		key = o.slotKey()
	}
	return f.subs.subscribe(ctx, key, uri, fn)
}

// SetLevel asks every server for log messages from this level on, and each new
// generation as well. The level is one for all clients: the most talkative that
// any of them wants.
func (f *Fleet) SetLevel(level string) {
	if !f.subs.setLevel(level) {
		return
	}
	for _, m := range append(f.sessions.members(), f.roster.Load().order...) {
		if m.slot.View().State.Serving != 0 {
			f.spawn(func() { f.subs.sayLevel(m) })
		}
	}
}

// PinChanges tells what of a server is not as it was approved, in its shared
// slot or in those of single sessions, and whether it is withheld; nil if pins
// are off or the server is disabled.
func (f *Fleet) PinChanges(server string) (changes []catalog.PinChange, withheld bool) {
	return f.pins.changes(server)
}

// Approve pins what is offered now: one tool of a server, all of it, or all
// servers, where tool and server are "". It returns how many definitions were
// approved that were not before, once the file is written and the table shows it.
func (f *Fleet) Approve(ctx context.Context, server, tool string) (int, error) {
	leave, err := f.enter(ctx, "approve")
	if err != nil {
		return 0, err
	}
	defer leave()
	r := f.roster.Load()
	if !r.pinsOn() {
		return 0, &fault.Fault{
			Kind: fault.Conflict, Op: "approve", Outcome: fault.NotSent, Err: errPinsOff,
			Remedy: `write "pins": "warn" or "enforce" under "everline" in the configuration`,
		}
	}
	if server != "" && r.byName[server] == nil {
		return 0, fault.New(fault.NotFound, "approve", "no server is called "+server)
	}
	n, err := f.pins.approve(ctx, r, server, tool)
	if err != nil {
		return 0, err
	}
	f.pins.repin(r)
	return n, f.Flush(ctx)
}

// Problems returns what is wrong with what is kept on disk, now.
func (f *Fleet) Problems() []Problem {
	f.pins.check()
	r := f.roster.Load()
	return slices.DeleteFunc(f.problems.all(), func(p Problem) bool {
		return p.Server != "" && r.byName[p.Server] == nil // it was removed
	})
}

// Orphans returns the processes of an earlier everline that were found alive
// at the start, and ended; nothing while they are still looked for.
func (f *Fleet) Orphans() []orphan.Found { return f.processes.found() }

// Credentials are those that servers are shown.
func (f *Fleet) Credentials() *auth.Manager { return f.credentials.manager }

// Credential is how the credential of a server is; nil of a command.
func (f *Fleet) Credential(server string) *auth.State { return f.credentials.state(server) }
