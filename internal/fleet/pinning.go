package fleet

import (
	"sync"
	"sync/atomic"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
)

// A pinning is the lock of one configuration. It belongs to the roster: what is
// compared with it, and what is approved by it, is so by one configuration.
type pinning struct {
	lock  atomic.Pointer[catalog.Lock] // changed under mu
	mu    sync.Mutex                   // guards changes of lock, and the next; nothing waits under it
	fresh *catalog.Lock                // servers that were adopted since the file was written; nil if none were
	saved *catalog.Lock                // what was last read from the file or written to it; guarded by pins.file
}

func newPinning(l *catalog.Lock) *pinning {
	p := &pinning{saved: l}
	p.lock.Store(l)
	return p
}

// baseline are the pins of a server; nil if it has none yet.
func (p *pinning) baseline(server string) *catalog.Pins { return p.lock.Load().Server(server) }

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
// pins.file.
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
	catalog *catalog.Catalog
	now     *catalog.Pins
}

// A pinView is what the pins make of one catalog. It is never changed.
type pinView struct {
	digest
	baseline *catalog.Pins // the pins it was compared with
	mode     config.Pins
	out      *catalog.Catalog // what is published
	changes  []catalog.PinChange
}

// holds tells whether the view was made of these.
func (v *pinView) holds(c *catalog.Catalog, baseline *catalog.Pins, mode config.Pins) bool {
	return v != nil && v.catalog == c && v.baseline == baseline && v.mode == mode
}

func samePin(a, b catalog.PinChange) bool {
	return a.Tool == b.Tool && a.What == b.What && string(a.Now) == string(b.Now)
}
