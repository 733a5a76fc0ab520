package fleet

import (
	"context"
	"errors"
	"os"
	"slices"
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

// pins compare what servers offer with what was approved.
type pins struct {
	*core
	problems *problems
	sessions func(server string) []*sessionSlot // those of a server that are not ending

	file    ctxLock     // held by whoever reads or writes the lock file
	checked pinsChecked // guarded by file
}

func newPins(c *core, ps *problems) *pins {
	return &pins{core: c, problems: ps, file: newCtxLock()}
}

// publish is what is published of a catalog under the pins. The merge loop
// alone calls it.
func (p *pins) publish(r *roster, m *member, c *catalog.Catalog, gen uint64) *catalog.Catalog {
	if !r.pinsOn() {
		m.pin.Store(nil)
		return c
	}
	last, baseline, mode := m.pin.Load(), r.pins.baseline(m.name), r.cfg.Pins
	if last.holds(c, baseline, mode) {
		return last.out
	}
	now := m.digestOf(c)
	if baseline == nil && c.Pinnable() {
		baseline = now
		r.pins.adopt(m.name, now)
		p.emit(event.Pinned{Head: event.Head{Time: time.Now(), Server: m.name, Gen: gen}, Tools: len(now.Tools)})
	}
	next := &pinView{digest: digest{c, now}, baseline: baseline, mode: mode, out: c, changes: baseline.Compare(now)}
	if mode == config.PinsEnforce {
		next.out = catalog.Withhold(c, next.changes)
	}
	m.pin.Store(next)
	p.report(m.name, gen, last, next)
	return next.out
}

// checkSession reports what a session's own slot offers, and the shared one does
// not, that was never approved: it is another process, and may be of another
// version. Its slot's loop alone calls it.
func (p *pins) checkSession(m *member, v *slot.View) {
	r := p.roster.Load()
	shared := r.byName[m.name]
	if shared == nil || !r.pinsOn() || v.Catalog == nil || v.State.Serving == 0 {
		return
	}
	last, baseline := m.pin.Load(), r.pins.baseline(m.name)
	if last == nil {
		last = shared.pin.Load()
	}
	if baseline == nil || last.holds(v.Catalog, baseline, r.cfg.Pins) {
		return
	}
	now := m.digestOf(v.Catalog)
	next := &pinView{digest: digest{v.Catalog, now}, baseline: baseline, mode: r.cfg.Pins, changes: baseline.Compare(now)}
	m.pin.Store(next)
	p.report(m.name, v.State.Gen, last, next)
}

// admit refuses the call of a tool whose definition, as the generation lists it that
// would get the call, is not the approved one: the call may have waited for
// that generation, or it may be of one session alone.
func (p *pins) admit(m *member, c *upstream.Call, offers *catalog.Catalog) *fault.Fault {
	if c.Method != mcp.ToolsCall || offers == nil {
		return nil
	}
	r := p.roster.Load()
	if r.cfg.Pins != config.PinsEnforce {
		return nil
	}
	baseline := r.pins.baseline(m.name)
	if baseline == nil {
		return nil
	}
	approved, known := baseline.Tools[c.Name]
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

// report tells of definitions that are not as they were approved, once for
// each time they change.
func (p *pins) report(server string, gen uint64, last, next *pinView) {
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
		p.emit(e)
	}
}

// changes tells what of a server is not as it was approved, in its shared slot
// or in those of single sessions, and whether it is withheld; nil if pins are
// off or the server is disabled.
func (p *pins) changes(server string) (changes []catalog.PinChange, withheld bool) {
	r := p.roster.Load()
	m := r.byName[server]
	if m == nil {
		return nil, false
	}
	v := m.pin.Load()
	if v == nil || !m.slot.View().Published() {
		return nil, false
	}
	changes = slices.Clone(v.changes)
	for _, o := range p.sessions(server) {
		c := o.slot.View().Catalog
		if c == nil || c == v.catalog {
			continue
		}
		for _, ch := range v.baseline.Compare(o.digestOf(c)) {
			if !slices.ContainsFunc(changes, func(old catalog.PinChange) bool { return samePin(old, ch) }) {
				changes = append(changes, ch)
			}
		}
	}
	return changes, v.mode == config.PinsEnforce
}

// approve puts what was asked for into the file and the lock in use.
func (p *pins) approve(ctx context.Context, r *roster, server, tool string) (int, error) {
	if err := p.file.lock(ctx); err != nil {
		return 0, fault.From("approve", err)
	}
	defer p.file.unlock()
	lock, err := catalog.ReadLock(r.cfg.PinsFile) // it may have been changed by others meanwhile
	if err != nil {
		return 0, err
	}
	lock, n := p.approved(lock.Adopt(r.pins.lock.Load()), r, server, tool)
	switch {
	case n > 0:
	case p.sessionsDiffer(lock, server, tool):
		return 0, &fault.Fault{
			Kind: fault.Conflict, Op: "approve", Server: server, Outcome: fault.NotSent, Err: errSessionsDiffer,
			Remedy: "everline restart " + typed.Argument(server) + ", so that all of its processes are of one version",
		}
	case tool != "":
		return 0, fault.New(fault.NotFound, "approve", "nothing is to be approved of "+server+"."+tool)
	}
	if err := lock.Write(r.cfg.PinsFile); err != nil {
		return 0, err
	}
	r.pins.saved = lock
	r.pins.set(lock)
	p.problems.solve(pinsKey) // whoever asks at once is not to be told of the file from before
	return n, nil
}

// repin has all members compared with the lock anew.
func (p *pins) repin(r *roster) {
	for _, m := range r.order {
		p.touched.add(m.name)
	}
}

// errPinsOff is why nothing can be approved.
var errPinsOff = fault.New(fault.Conflict, "approve", "pins are off")

// errSessionsDiffer is why what a session's own slot offers cannot be approved.
var errSessionsDiffer = fault.New(fault.Conflict, "approve", "only slots of single clients offer something else")

// sessionsDiffer tells whether a session's own slot offers something of this that is
// not approved.
func (p *pins) sessionsDiffer(lock *catalog.Lock, server, tool string) bool {
	for _, o := range p.sessions(server) {
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
func (p *pins) approved(lock *catalog.Lock, r *roster, server, tool string) (*catalog.Lock, int) {
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
func (p *pins) reread(ctx context.Context, cfg *config.Config) (*pinning, error) {
	if err := p.file.lock(ctx); err != nil {
		return nil, fault.From("apply", err)
	}
	defer p.file.unlock()
	old := p.roster.Load()
	if _, err := old.pins.write(old.cfg.PinsFile); err != nil {
		return nil, err
	}
	lock, err := ReadPins(cfg)
	if err != nil {
		return nil, err
	}
	return newPinning(lock), nil
}

// save writes what was adopted. The saver alone calls it.
func (p *pins) save() {
	_ = p.file.lock(context.Background()) // it is held for the time of one write
	defer p.file.unlock()
	r := p.roster.Load()
	others, err := r.pins.write(r.cfg.PinsFile)
	p.problems.wrote("", "what was approved at first sight", err)
	switch {
	case err != nil:
	case others != nil:
		r.pins.set(others.Adopt(r.pins.lock.Load()))
		p.repin(r)
		p.poke()
	}
}

// pinsChecked is what the pins' file was like when it was last compared with
// what was read from it. It is guarded by pins.file.
type pinsChecked struct {
	file    string
	modTime time.Time
	size    int64
	saved   *catalog.Lock
}

const pinsKey = "pins file"

// check compares the pins' file with what is in force. A file that did not
// change is not read again; while somebody else uses the file nothing is.
func (p *pins) check() {
	if !p.file.tryLock() {
		return
	}
	defer p.file.unlock()
	r := p.roster.Load()
	if !r.pinsOn() {
		p.problems.solve(pinsKey)
		return
	}
	now := pinsChecked{file: r.cfg.PinsFile, saved: r.pins.saved, size: -1}
	if info, err := os.Stat(now.file); err == nil {
		now.modTime, now.size = info.ModTime(), info.Size()
	}
	if now == p.checked {
		return
	}
	p.checked = now
	if bad := pinsProblem(now.file, now.saved); bad == nil {
		p.problems.solve(pinsKey)
	} else if p.problems.note(pinsKey, *bad) {
		p.warn("", bad.Text)
	}
}

// pinsProblem says why the file does not say what is in force; nil if it does.
func pinsProblem(file string, saved *catalog.Lock) *Problem {
	lock, err := catalog.ReadLock(file)
	const before = "; what everline has read from it before stays in force"
	switch {
	case err != nil:
		bad := fault.From("read pins", err)
		return &Problem{About: "pins", Text: "the lock file cannot be used: " + bad.Reason() + before, Remedy: bad.Remedy + ", then: everline reload"}
	case lock.Same(saved):
		return nil
	case lock == nil:
		return &Problem{
			About: "pins", Text: "the lock file " + file + " is gone" + before,
			Remedy: "take the file from version control, or write it anew: everline tools approve",
		}
	default:
		return &Problem{About: "pins", Text: "the lock file " + file + " has been changed" + before, Remedy: "everline reload"}
	}
}
