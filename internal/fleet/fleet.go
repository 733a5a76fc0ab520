// Package fleet is the set of slots: it applies configurations, merges what
// the slots publish into one table, and keeps last good catalogs on disk. It
// decides nothing about a server's life, and knows no clients.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/stray"
	"github.com/everline/everline/internal/transport/stdio"
	"github.com/everline/everline/internal/upstream"
	"github.com/everline/everline/internal/watch"
)

// Options make a Fleet. The func fields must not block; nil is allowed.
type Options struct {
	StateDir      string // where last good catalogs are kept; "": nowhere
	Name, Version string // what servers are told of us

	Pins *catalog.Lock // as ReadPins gives it

	Emit    func(event.Event)                  // every event of every slot
	Changed func([]catalog.Kind)               // after a new table is out: the kinds that differ
	Log     func(server string, params []byte) // notifications/message of a server
	Warn    func(server, text string)          // a state file that could not be read or written

	// Start starts a generation in place of upstream.Start; for tests.
	Start func(context.Context, upstream.Options) (slot.Upstream, error)
}

// A Fleet has two long-lived goroutines, the merger and the saver, and those
// of its slots.
type Fleet struct {
	opts    Options
	started time.Time
	store   *catalog.Store
	ledger  *stray.Ledger // of server processes; nil without a state folder
	spares  *stdio.Spares // of the processes that guard servers
	wishes  wishes
	owns    owns  // the slots of single sessions
	touched names // members that have published since the last merge
	unsaved names // members of which the disk may not have the latest
	unused  names // keys of the store that may belong to no server any more

	problems    problems
	pinsChecked pinsChecked

	gate     chan struct{} // held by the one Apply or Approve that runs; a channel, so that waiting for it ends with ctx
	sealed   chan struct{} // closed by Close: whoever gets the gate from then on gives it back
	sealing  sync.Once
	locking  chan struct{} // held by whoever reads or writes the pins' file; a channel likewise
	roster   atomic.Pointer[roster]
	out      atomic.Pointer[published]
	trigger  chan struct{}    // one slot: something that is merged has changed
	save     chan struct{}    // one slot: something that is kept on disk has changed
	asked    atomic.Uint64    // merges asked for
	starting chan struct{}    // bounds the starts over all slots
	ports    watch.Ports      // looks at ports that refused, for all slots
	lead     *lead            // of the first clients, before servers that are listed already
	swept    chan struct{}    // closed once what an earlier everline left behind has ended
	strays   []stray.Leftover // what that was; valid then
	hard     context.Context  // of the workers; ends when a Close ran out of time
	give     context.CancelFunc
	stop     chan struct{}
	stopped  sync.Once
	loops    sync.WaitGroup // merger and saver
	workers  sync.WaitGroup // closings of removed slots, and what new lives are told

	mu      sync.Mutex               // guards the rest; nothing waits under it
	closed  bool                     // no more workers
	leaving map[string]chan struct{} // removed servers whose slot is still closing
	retired map[*member]struct{}     // all members whose slot is, several of one name among them
	gens    map[string]uint64        // the newest generations of removed servers
}

// A roster is the immutable set of members; Apply replaces it.
type roster struct {
	cfg    *config.Config
	pins   *pinning
	order  []*member
	byName map[string]*member
	place  map[string]int // in order, by name
}

func newRoster(cfg *config.Config, pins *pinning) *roster {
	return &roster{cfg: cfg, pins: pins, byName: map[string]*member{}, place: map[string]int{}}
}

// published is the table that is out. changed is closed when the next one is.
type published struct {
	table   *catalog.Table
	merged  uint64 // the value of Fleet.asked that this table reflects
	changed chan struct{}
}

// New starts a slot for every server of cfg. It returns at once: servers come
// up behind it. The caller must Close the fleet.
func New(cfg *config.Config, opts Options) *Fleet {
	f := &Fleet{
		opts:     opts,
		started:  time.Now(),
		gate:     make(chan struct{}, 1),
		sealed:   make(chan struct{}),
		locking:  make(chan struct{}, 1),
		trigger:  make(chan struct{}, 1),
		save:     make(chan struct{}, 1),
		starting: make(chan struct{}, max(cfg.MaxStarting, 1)),
		swept:    make(chan struct{}),
		stop:     make(chan struct{}),
		leaving:  map[string]chan struct{}{},
		retired:  map[*member]struct{}{},
		gens:     map[string]uint64{},
		spares:   stdio.NewSpares(),
	}
	f.hard, f.give = context.WithCancel(context.Background())
	f.wishes.init()
	if opts.StateDir != "" {
		f.store = &catalog.Store{Dir: opts.StateDir}
		f.ledger = stray.NewLedger(opts.StateDir)
	}
	f.lead = newLead()
	f.loops.Go(f.sweep) // bounded by itself
	r := newRoster(cfg, newPinning(opts.Pins))
	for _, s := range cfg.Servers {
		r.add(f.newMember(s, nil))
	}
	f.roster.Store(r)
	m := newMerger(f)
	f.out.Store(&published{table: m.merge(r, nil), changed: make(chan struct{})})
	f.loops.Go(func() { f.mergeLoop(m) })
	f.loops.Go(f.saveLoop)
	f.poke()
	return f
}

// pending tells whether a server may still get its first catalog by itself.
func (r *roster) pending() bool {
	return slices.ContainsFunc(r.order, func(m *member) bool { return m.slot.View().Pending() })
}

func (r *roster) add(m *member) {
	r.place[m.name] = len(r.order)
	r.order = append(r.order, m)
	r.byName[m.name] = m
}

// Table is the merged table that is out now.
func (f *Fleet) Table() *catalog.Table { return f.out.Load().table }

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

// Slot returns the slot of a server; nil if no such server is configured.
func (f *Fleet) Slot(name string) *slot.Slot {
	if m := f.roster.Load().byName[name]; m != nil {
		return m.slot
	}
	return nil
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
	for _, o := range f.owns.of(name) {
		if err := op(ctx, o.slot); err != nil && fault.KindOf(err) != fault.Closed {
			return err
		}
	}
	if !s.View().State.Want {
		f.endOwn(name)
	}
	return f.Flush(ctx)
}

// Apply makes cfg the configuration: new servers get a slot, changed ones a
// new life, removed ones are unpublished at once and closed behind it. Servers
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
	pins, err := f.reread(ctx, cfg)
	if err != nil {
		return config.Plan{}, err
	}
	old := f.roster.Load()
	if f := config.Breaks(old.cfg, cfg); f != nil {
		return config.Plan{}, f
	}
	plan := config.Diff(old.cfg, cfg)
	next := newRoster(cfg, pins)
	var errs []error
	for _, s := range cfg.Servers {
		m := old.byName[s.Name]
		switch {
		case m == nil:
			m = f.newMember(s, f.predecessor(s.Name))
		case slices.Contains(plan.Change, s.Name):
			m = m.with(s)
			errs = append(errs, m.slot.Apply(ctx, s))
		}
		next.add(m)
	}
	f.roster.Store(next)
	for _, name := range plan.Change {
		errs = append(errs, f.applyOwn(ctx, next.byName[name]))
		next.byName[name].replaced.add(old.byName[name].spec.Identity())
	}
	for _, name := range plan.Remove {
		f.retire(ctx, old.byName[name])
		f.unused.add(old.byName[name].spec.Identity())
		for _, key := range old.byName[name].replaced.take() {
			f.unused.add(key)
		}
	}
	errs = append(errs, f.Flush(ctx))
	return plan, errors.Join(errs...)
}

// enter lets one operation in at a time that changes the roster or the pins,
// and none once the fleet is closing.
func (f *Fleet) enter(ctx context.Context, op string) (leave func(), err error) {
	select {
	case f.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.From(op, ctx.Err())
	}
	leave = func() { <-f.gate }
	select {
	case <-f.sealed:
		leave()
		return nil, fault.New(fault.Closed, op, "everline is shutting down")
	default:
		return leave, nil
	}
}

// seal waits for who has entered before the fleet was sealed.
func (f *Fleet) seal(ctx context.Context) error {
	select {
	case f.gate <- struct{}{}:
		<-f.gate
		return nil
	default:
	}
	select {
	case f.gate <- struct{}{}:
		<-f.gate
		return nil
	case <-ctx.Done():
		return &fault.Fault{Kind: fault.Closed, Op: "close", Err: fmt.Errorf("a change of the configuration goes on: %w", ctx.Err())}
	}
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
		out := f.out.Load()
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
	f.lead.stop()
	f.sealing.Do(func() { close(f.sealed) })
	defer context.AfterFunc(ctx, f.give)() // then workers wait no longer for what would not stop; it only ends a context
	_ = f.closeMembers(ctx)                // at once: a change that goes on holds nobody up
	late := f.seal(ctx)
	errs := append(f.closeMembers(ctx), late) // with those that the change has brought
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.stopped.Do(func() { close(f.stop) })
	f.loops.Wait()
	f.workers.Wait()
	f.spares.Close()
	f.closeLedger(errors.Join(errs...))
	return errors.Join(errs...)
}

// closeMembers ends every server that there is, side by side, and returns which
// would not stop. Those that are gone cost nothing.
func (f *Fleet) closeMembers(ctx context.Context) []error {
	members := slices.Concat(f.owns.close(), f.roster.Load().order, f.retiring())
	errs := make([]error, len(members), len(members)+1)
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = m.slot.Close(ctx) })
	}
	wg.Wait()
	return errs
}

// spawn runs fn in a worker that Close waits for; after Close it does nothing.
// fn must bound itself.
func (f *Fleet) spawn(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.workers.Go(fn)
	}
}
