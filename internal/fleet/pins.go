package fleet

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/slot"
)

// pinning is the lock in use and its way to and from the disk.
type pinning struct {
	gate chan struct{} // held by whoever reads or writes the file; a channel, so that waiting for it ends with ctx

	mu      sync.Mutex // guards the rest; nothing waits under it
	lock    *catalog.Lock
	unsaved bool // servers were adopted that the file does not have
}

func (p *pinning) get() *catalog.Lock {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lock
}

func (p *pinning) set(l *catalog.Lock, unsaved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock, p.unsaved = l, unsaved
}

// adopt approves what a server offers that has no pins: the first use is trusted.
func (p *pinning) adopt(server string, now *catalog.Pins) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock, p.unsaved = p.lock.With(server, now), true
}

// take returns the lock if it is to be written.
func (p *pinning) take() (l *catalog.Lock, unsaved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, unsaved = p.lock, p.unsaved
	p.unsaved = false
	return l, unsaved
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
func (f *Fleet) pinned(m *member, c *catalog.Catalog, mode string, gen uint64) *catalog.Catalog {
	if mode == config.PinsOff || mode == "" {
		m.pin.Store(nil)
		return c
	}
	last, by := m.pin.Load(), f.pins.get().Server(m.name)
	if last != nil && last.of == c && last.by == by && last.mode == mode {
		return last.out
	}
	now := m.digestOf(c)
	if by == nil && len(c.Items[catalog.Tools]) > 0 { // an empty list may be a server that is not ready
		by = now
		f.pins.adopt(m.name, now)
		f.emit(slot.Pinned{Head: slot.Head{Time: time.Now(), Server: m.name, Gen: gen}, Tools: len(now.Tools)})
	}
	next := &pinView{digest: digest{c, now}, by: by, mode: mode, out: c, changes: by.Compare(now)}
	if mode == config.PinsEnforce {
		next.out = catalog.Withhold(c, next.changes)
	}
	m.pin.Store(next)
	f.tellPins(m.name, gen, last, next)
	return next.out
}

// tellPins tells of definitions that are not as they were approved, once for
// each time they change.
func (f *Fleet) tellPins(server string, gen uint64, last, next *pinView) {
	same := func(a, b catalog.PinChange) bool {
		return a.Tool == b.Tool && a.What == b.What && string(a.Now) == string(b.Now)
	}
	if last != nil && last.mode == next.mode && slices.EqualFunc(last.changes, next.changes, same) {
		return
	}
	e := slot.Unapproved{Head: slot.Head{Time: time.Now(), Server: server, Gen: gen}, Withheld: next.mode == config.PinsEnforce}
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

func (f *Fleet) emit(e slot.Event) {
	if f.opts.Emit != nil {
		f.opts.Emit(e)
	}
}

// PinChanges tells what of a server is not as it was approved, and whether it
// is withheld; nil if pins are off or the server is disabled.
func (f *Fleet) PinChanges(server string) (changes []catalog.PinChange, withheld bool) {
	m := f.roster.Load().byName[server]
	if m == nil {
		return nil, false
	}
	if v := m.pin.Load(); v != nil && m.slot.View().Published() {
		return v.changes, v.mode == config.PinsEnforce
	}
	return nil, false
}

// Approve pins what is offered now: one tool of a server, all of it, or all
// servers, where tool and server are "". It returns how many definitions were
// approved that were not before, once the file is written and the table shows it.
func (f *Fleet) Approve(ctx context.Context, server, tool string) (int, error) {
	r := f.roster.Load()
	if r.cfg.Pins == config.PinsOff {
		return 0, &fault.Fault{
			Kind: fault.Conflict, Op: "approve", Outcome: fault.NotSent, Err: errPinsOff,
			Remedy: `write "pins": "warn" or "enforce" under "everline" in the configuration`,
		}
	}
	if server != "" && r.byName[server] == nil {
		return 0, fault.New(fault.NotFound, "approve", "no server is called "+server)
	}
	select {
	case f.pins.gate <- struct{}{}:
		defer func() { <-f.pins.gate }()
	case <-ctx.Done():
		return 0, fault.From("approve", ctx.Err())
	}
	lock, err := catalog.ReadLock(r.cfg.PinsFile) // it may have been changed by others meanwhile
	if err != nil {
		return 0, err
	}
	lock, n := f.approved(lock.Adopt(f.pins.get()), r, server, tool)
	if n == 0 && tool != "" {
		return 0, fault.New(fault.NotFound, "approve", "nothing is to be approved of "+server+"."+tool)
	}
	if err := lock.Write(r.cfg.PinsFile); err != nil {
		return 0, err
	}
	f.pins.set(lock, false)
	for _, m := range r.order {
		f.touched.add(m.name)
	}
	return n, f.Flush(ctx)
}

// errPinsOff is why nothing can be approved.
var errPinsOff = fault.New(fault.Conflict, "approve", "pins are off")

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

// reread is the lock for a new configuration, once no write of the old one runs.
func (f *Fleet) reread(ctx context.Context, cfg *config.Config) (*catalog.Lock, error) {
	select {
	case f.pins.gate <- struct{}{}:
		defer func() { <-f.pins.gate }()
	case <-ctx.Done():
		return nil, fault.From("apply", ctx.Err())
	}
	if old := f.Config(); old.Pins != config.PinsOff {
		if lock, unsaved := f.pins.take(); unsaved {
			if err := lock.Write(old.PinsFile); err != nil {
				f.pins.again()
				return nil, err
			}
		}
	}
	return ReadPins(cfg)
}

// savePins writes what was adopted. The saver alone calls it.
func (f *Fleet) savePins() {
	f.pins.gate <- struct{}{} // held for the time of one write
	defer func() { <-f.pins.gate }()
	lock, unsaved := f.pins.take()
	if !unsaved {
		return
	}
	if err := lock.Write(f.roster.Load().cfg.PinsFile); err != nil {
		f.pins.again()
		f.warn("", "keeping the pins: "+err.Error())
	}
}

// again makes the next save write what the last one could not.
func (p *pinning) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsaved = true
}
