package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/typed"
	"github.com/everline/everline/internal/upstream"
)

// A pinning is the lock of one configuration. It belongs to the roster: what is
// compared with it, and what is approved by it, is so by one configuration.
type pinning struct {
	lock  atomic.Pointer[catalog.Lock] // changed under mu
	mu    sync.Mutex                   // guards changes of lock, and the next; nothing waits under it
	fresh *catalog.Lock                // servers that were adopted since the file was written; nil if none were
	saved *catalog.Lock                // what was last read from the file or written to it; guarded by Fleet.locking
}

func newPinning(l *catalog.Lock) *pinning {
	p := &pinning{saved: l}
	p.lock.Store(l)
	return p
}

// by are the pins of a server; nil if it has none yet.
func (p *pinning) by(server string) *catalog.Pins { return p.lock.Load().Server(server) }

// set replaces the lock by what is in the file by now.
func (p *pinning) set(l *catalog.Lock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock.Store(l.Adopt(p.fresh))
}

// adopt approves what a server offers that has no pins: the first use is trusted.
func (p *pinning) adopt(server string, now *catalog.Pins) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock.Store(p.lock.Load().With(server, now))
	p.fresh = p.fresh.With(server, now)
}

// take returns what is to be written; nil if nothing is.
func (p *pinning) take() *catalog.Lock {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.fresh
	p.fresh = nil
	return l
}

// again makes the next save write what the last one could not.
func (p *pinning) again(l *catalog.Lock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = p.fresh.Adopt(l)
}

// write adds what was adopted to the file. What others have approved there
// meanwhile stands, and is returned; nil if it is not so. The caller holds
// Fleet.locking.
func (p *pinning) write(file string) (others *catalog.Lock, err error) {
	fresh := p.take()
	if fresh == nil {
		return nil, nil
	}
	lock := p.saved
	if !lock.In(file) {
		lock, err = catalog.ReadLock(file)
		others = lock
	}
	if err == nil {
		lock = lock.Adopt(fresh)
		err = lock.Write(file)
	}
	if err != nil {
		p.again(fresh)
		return nil, err
	}
	p.saved = lock
	return others, nil
}

// A digest is what pinning a catalog gives.
type digest struct {
	of  *catalog.Catalog
	now *catalog.Pins
}

// A pinView is what the pins make of one catalog. It is never changed.
type pinView struct {
	digest
	by      *catalog.Pins // the pins it was compared with
	mode    string
	out     *catalog.Catalog // what is published
	changes []catalog.PinChange
}

// digestOf computes the pins of a catalog once. A slot's own loop does it when
// it publishes, so that an enormous definition costs its own server's time.
func (m *member) digestOf(c *catalog.Catalog) *catalog.Pins {
	if d := m.digest.Load(); d != nil && d.of == c {
		return d.now
	}
	now := catalog.PinsOf(c)
	m.digest.Store(&digest{c, now})
	return now
}

// pinned is what is published of a catalog under the pins. The merge loop
// alone calls it.
func (f *Fleet) pinned(r *roster, m *member, c *catalog.Catalog, gen uint64) *catalog.Catalog {
	if !r.pinsOn() {
		m.pin.Store(nil)
		return c
	}
	last, by, mode := m.pin.Load(), r.pins.by(m.name), r.cfg.Pins
	if last.holds(c, by, mode) {
		return last.out
	}
	now := m.digestOf(c)
	if by == nil && c.Pinnable() {
		by = now
		r.pins.adopt(m.name, now)
		f.emit(event.Pinned{Head: event.Head{Time: time.Now(), Server: m.name, Gen: gen}, Tools: len(now.Tools)})
	}
	next := &pinView{digest: digest{c, now}, by: by, mode: mode, out: c, changes: by.Compare(now)}
	if mode == config.PinsEnforce {
		next.out = catalog.Withhold(c, next.changes)
	}
	m.pin.Store(next)
	f.tellPins(m.name, gen, last, next)
	return next.out
}

func (r *roster) pinsOn() bool { return r.cfg.Pins != config.PinsOff && r.cfg.Pins != "" }

// holds tells whether the view was made of these.
func (v *pinView) holds(c *catalog.Catalog, by *catalog.Pins, mode string) bool {
	return v != nil && v.of == c && v.by == by && v.mode == mode
}

// pinnedOwn tells of what a session's own life offers, and the shared one does
// not, that was never approved: it is another process, and may be of another
// version. Its slot's loop alone calls it.
func (f *Fleet) pinnedOwn(m *member, v *slot.View) {
	r := f.roster.Load()
	shared := r.byName[m.name]
	if shared == nil || !r.pinsOn() || v.Catalog == nil || v.State.Serving == 0 {
		return
	}
	last, by := m.pin.Load(), r.pins.by(m.name)
	if last == nil {
		last = shared.pin.Load()
	}
	if by == nil || last.holds(v.Catalog, by, r.cfg.Pins) {
		return
	}
	now := m.digestOf(v.Catalog)
	next := &pinView{digest: digest{v.Catalog, now}, by: by, mode: r.cfg.Pins, changes: by.Compare(now)}
	m.pin.Store(next)
	f.tellPins(m.name, v.State.Gen, last, next)
}

// admit refuses the call of a tool whose definition, as the life lists it that
// would get the call, is not the approved one: the call may have waited for
// that life, or the life may be of one session alone.
func (f *Fleet) admit(m *member, c *upstream.Call, offers *catalog.Catalog) *fault.Fault {
	if c.Method != mcp.ToolsCall || offers == nil {
		return nil
	}
	r := f.roster.Load()
	if r.cfg.Pins != config.PinsEnforce {
		return nil
	}
	by := r.pins.by(m.name)
	if by == nil {
		return nil
	}
	approved, known := by.Tools[c.Name]
	now, offered := m.digestOf(offers).Tools[c.Name]
	if known && offered && approved.Sum == now.Sum {
		return nil
	}
	return &fault.Fault{
		Kind: fault.Conflict, Op: c.Method, Server: m.name, Outcome: fault.NotSent,
		Err:    errors.New("the definition of the tool is not the one that was approved: it is withheld"),
		Remedy: "everline tools diff " + m.name,
	}
}

// tellPins tells of definitions that are not as they were approved, once for
// each time they change.
func (f *Fleet) tellPins(server string, gen uint64, last, next *pinView) {
	if last != nil && last.mode == next.mode && slices.EqualFunc(last.changes, next.changes, samePin) {
		return
	}
	e := event.Unapproved{Head: event.Head{Time: time.Now(), Server: server, Gen: gen}, Withheld: next.mode == config.PinsEnforce}
	for _, c := range next.changes {
		switch {
		case c.What == catalog.PinNew:
			e.New = append(e.New, c.Tool)
		case c.What == catalog.PinChanged && c.Tool == "":
			e.Instructions = true
		case c.What == catalog.PinChanged:
			e.Changed = append(e.Changed, c.Tool)
		}
	}
	if len(e.New)+len(e.Changed) > 0 || e.Instructions {
		f.emit(e)
	}
}

func samePin(a, b catalog.PinChange) bool {
	return a.Tool == b.Tool && a.What == b.What && string(a.Now) == string(b.Now)
}

func (f *Fleet) emit(e event.Event) {
	if f.opts.Emit != nil {
		f.opts.Emit(e)
	}
}

// PinChanges tells what of a server is not as it was approved, in its shared
// life or in those of single sessions, and whether it is withheld; nil if pins
// are off or the server is disabled.
func (f *Fleet) PinChanges(server string) (changes []catalog.PinChange, withheld bool) {
	r := f.roster.Load()
	m := r.byName[server]
	if m == nil {
		return nil, false
	}
	v := m.pin.Load()
	if v == nil || !m.slot.View().Published() {
		return nil, false
	}
	changes = slices.Clone(v.changes)
	for _, o := range f.owns.of(server) {
		c := o.slot.View().Catalog
		if c == nil || c == v.of {
			continue
		}
		for _, ch := range v.by.Compare(o.digestOf(c)) {
			if !slices.ContainsFunc(changes, func(old catalog.PinChange) bool { return samePin(old, ch) }) {
				changes = append(changes, ch)
			}
		}
	}
	return changes, v.mode == config.PinsEnforce
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
	n, err := f.approve(ctx, r, server, tool)
	if err != nil {
		return 0, err
	}
	f.repin(r)
	return n, f.Flush(ctx)
}

// approve puts what was asked for into the file and the lock in use.
func (f *Fleet) approve(ctx context.Context, r *roster, server, tool string) (int, error) {
	select {
	case f.locking <- struct{}{}:
		defer func() { <-f.locking }()
	case <-ctx.Done():
		return 0, fault.From("approve", ctx.Err())
	}
	lock, err := catalog.ReadLock(r.cfg.PinsFile) // it may have been changed by others meanwhile
	if err != nil {
		return 0, err
	}
	lock, n := f.approved(lock.Adopt(r.pins.lock.Load()), r, server, tool)
	switch {
	case n > 0:
	case f.ownDiffer(lock, server, tool):
		return 0, &fault.Fault{
			Kind: fault.Conflict, Op: "approve", Server: server, Outcome: fault.NotSent, Err: errOwnDiffer,
			Remedy: "everline restart " + typed.Argument(server) + ", so that all of its lives are of one version",
		}
	case tool != "":
		return 0, fault.New(fault.NotFound, "approve", "nothing is to be approved of "+server+"."+tool)
	}
	if err := lock.Write(r.cfg.PinsFile); err != nil {
		return 0, err
	}
	r.pins.saved = lock
	r.pins.set(lock)
	f.problems.solve(pinsKey) // whoever asks at once is not to be told of the file from before
	return n, nil
}

// repin has all members compared with the lock anew.
func (f *Fleet) repin(r *roster) {
	for _, m := range r.order {
		f.touched.add(m.name)
	}
}

// errPinsOff is why nothing can be approved.
var errPinsOff = fault.New(fault.Conflict, "approve", "pins are off")

// errOwnDiffer is why what a session's own life offers cannot be approved.
var errOwnDiffer = fault.New(fault.Conflict, "approve", "only lives of single clients offer something else")

// ownDiffer tells whether a session's own life offers of this what is not approved.
func (f *Fleet) ownDiffer(lock *catalog.Lock, server, tool string) bool {
	for _, o := range f.owns.of(server) {
		c := o.slot.View().Catalog
		if c == nil {
			continue
		}
		for _, ch := range lock.Server(server).Compare(o.digestOf(c)) {
			if tool == "" || ch.Tool == tool {
				return true
			}
		}
	}
	return false
}

// approved is the lock with what was asked for as it is now.
func (f *Fleet) approved(lock *catalog.Lock, r *roster, server, tool string) (*catalog.Lock, int) {
	n := 0
	for _, m := range r.order {
		c := m.slot.View().Catalog
		if c == nil || server != "" && m.name != server {
			continue
		}
		now, pins := m.digestOf(c), lock.Server(m.name)
		for _, ch := range pins.Compare(now) {
			if tool == "" || ch.Tool == tool {
				n++
			}
		}
		switch {
		case tool == "":
			lock = lock.With(m.name, now)
		case pins != nil:
			lock = lock.With(m.name, pins.Approve(now, tool))
		}
	}
	return lock, n
}

// ReadPins reads the lock that a configuration asks for; nil where pins are off.
func ReadPins(cfg *config.Config) (*catalog.Lock, error) {
	switch {
	case cfg.Pins == config.PinsOff || cfg.Pins == "":
		return nil, nil
	case cfg.PinsFile == "":
		return nil, fault.New(fault.Invalid, "read pins", "pins need a pinsFile")
	default:
		return catalog.ReadLock(cfg.PinsFile)
	}
}

// reread is the lock for a new configuration, once what the old one adopted is
// in its file.
func (f *Fleet) reread(ctx context.Context, cfg *config.Config) (*pinning, error) {
	select {
	case f.locking <- struct{}{}:
		defer func() { <-f.locking }()
	case <-ctx.Done():
		return nil, fault.From("apply", ctx.Err())
	}
	old := f.roster.Load()
	if _, err := old.pins.write(old.cfg.PinsFile); err != nil {
		return nil, err
	}
	lock, err := ReadPins(cfg)
	if err != nil {
		return nil, err
	}
	return newPinning(lock), nil
}

// savePins writes what was adopted. The saver alone calls it.
func (f *Fleet) savePins() {
	f.locking <- struct{}{} // held for the time of one write
	defer func() { <-f.locking }()
	r := f.roster.Load()
	others, err := r.pins.write(r.cfg.PinsFile)
	f.wrote("", "what was approved at first sight", err)
	switch {
	case err != nil:
	case others != nil:
		r.pins.set(others.Adopt(r.pins.lock.Load()))
		f.repin(r)
		f.poke()
	}
}
