package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
)

// A Breakage is a way to break a server on purpose.
type Breakage uint8

const (
	// BreakKill ends the process and what it started by SIGKILL, or cuts all
	// connections to a URL.
	BreakKill Breakage = iota
	// BreakHang lets requests through and nothing that the server says.
	BreakHang
	// BreakForget answers as an HTTP server does that has forgotten the session.
	BreakForget
	// BreakSlow holds each answer back.
	BreakSlow
	// BreakGarbage puts what is no message ahead of what the server says.
	BreakGarbage
	// BreakDrop ends the stream that the server speaks on: stdout, or the open
	// event streams.
	BreakDrop
)

var breakages = [...]string{"kill", "hang", "404", "slow", "garbage", "drop"}

// String returns the word that people use.
func (b Breakage) String() string { return breakages[b] }

// ParseBreakage reads such a word.
func ParseBreakage(word string) (Breakage, bool) {
	i := slices.Index(breakages[:], word)
	return Breakage(max(i, 0)), i >= 0
}

// Breakages returns all words.
func Breakages() []string { return breakages[:] }

// Lasts tells a breakage that is there for a time from one that strikes once.
func (b Breakage) Lasts() bool { return b == BreakHang || b == BreakSlow || b == BreakGarbage }

// Faults is the fault layer of one server: it breaks the server's links on
// purpose, at the place where a real fault of the kind would be met, so that
// everything behind that place does what it does then. It is off unless Begin
// turned it on; it then costs a message one load of a nil pointer. It outlives
// links: what lasts is met by the links to come as well. The zero value works,
// a nil Faults is off for ever, and all methods may be called by many
// goroutines at once.
type Faults struct {
	on atomic.Pointer[Trouble] // what lasts; nil: off

	mu    sync.Mutex // guards links, and Trouble.limit; nothing waits under it
	links map[breakable]struct{}
}

// A breakable is a link that the layer can reach.
type breakable interface {
	// fits says why a breakage cannot be made here; nil if it can.
	fits(Breakage) error
	// strike makes one that does not last. It is false where there was nothing
	// to strike. felt, if not nil, is closed once the link has met it.
	strike(Breakage) (felt <-chan struct{}, hit bool)
}

// A Trouble is a breakage that was begun.
type Trouble struct {
	kind  Breakage
	delay time.Duration // BreakSlow
	owner *Faults
	once  sync.Once
	limit *time.Timer   // ends it whatever who began it does
	over  chan struct{} // closed when it is over
	felt  []<-chan struct{}
}

// Felt returns once the links that a breakage has struck have met it, which is
// later than the strike where that is a signal to a process; or when ctx ends.
func (t *Trouble) Felt(ctx context.Context) {
	for _, felt := range t.felt {
		select {
		case <-felt:
		case <-ctx.Done():
			return
		}
	}
}

// Over is closed when the breakage is off again.
func (t *Trouble) Over() <-chan struct{} { return t.over }

// End turns it off. It is idempotent.
func (t *Trouble) End() {
	t.once.Do(func() {
		t.owner.mu.Lock()
		limit := t.limit
		t.owner.mu.Unlock()
		if limit != nil {
			limit.Stop()
		}
		t.owner.on.CompareAndSwap(t, nil)
		close(t.over)
	})
}

// Begin breaks the server: once, or, what lasts, until End, at most for limit.
// delay is how long BreakSlow holds an answer back. Errors are faults, and
// nothing was broken then: Invalid where the breakage does not fit the link,
// with what does; Conflict where no link is alive, none of them has what is to
// be broken, or another breakage is on.
func (f *Faults) Begin(kind Breakage, delay, limit time.Duration) (*Trouble, error) {
	links := f.alive()
	if len(links) == 0 {
		return nil, conflict("there is no connection to break")
	}
	for _, l := range links {
		if err := l.fits(kind); err != nil {
			return nil, misfit(l, kind, err)
		}
	}
	t := &Trouble{kind: kind, delay: delay, owner: f, over: make(chan struct{})}
	if kind.Lasts() {
		if !f.on.CompareAndSwap(nil, t) {
			return nil, conflict("it is broken on purpose already")
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		t.limit = time.AfterFunc(limit, t.End)
		return t, nil
	}
	hit := false
	for _, l := range links {
		felt, struck := l.strike(kind)
		hit = hit || struck
		if felt != nil {
			t.felt = append(t.felt, felt)
		}
	}
	if !hit {
		return nil, conflict("it has no open stream that could be cut")
	}
	t.End()
	return t, nil
}

func conflict(text string) *fault.Fault {
	f := fault.New(fault.Conflict, "break", text)
	f.Outcome = fault.NotSent
	return f
}

// misfit says what does not fit, why, and what does.
func misfit(l breakable, kind Breakage, err error) *fault.Fault {
	var fit []string
	for i, word := range breakages {
		if l.fits(Breakage(i)) == nil {
			fit = append(fit, word)
		}
	}
	return &fault.Fault{
		Kind: fault.Invalid, Op: "break", Outcome: fault.NotSent, Err: fmt.Errorf("%s does not fit: %w", kind, err),
		Remedy: "--fault " + strings.Join(fit, "|"),
	}
}

// Active tells whether something lasts now.
func (f *Faults) Active() bool { return f.now() != nil }

// now is what lasts now; nil if nothing does.
func (f *Faults) now() *Trouble {
	if f == nil {
		return nil
	}
	return f.on.Load()
}

// lasting is now for one kind.
func (f *Faults) lasting(kind Breakage) *Trouble {
	if t := f.now(); t != nil && t.kind == kind {
		return t
	}
	return nil
}

// join makes a link reachable until leave.
func (f *Faults) join(l breakable) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.links == nil {
		f.links = map[breakable]struct{}{}
	}
	f.links[l] = struct{}{}
}

func (f *Faults) leave(l breakable) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.links, l)
}

func (f *Faults) alive() []breakable {
	f.mu.Lock()
	defer f.mu.Unlock()
	links := make([]breakable, 0, len(f.links))
	for l := range f.links {
		links = append(links, l)
	}
	return links
}

// garbage is what a server that prints where it must not might print.
const garbage = "<<< this is no message: a drill put it here >>>"

var (
	errNoSessions = errors.New("404 is what an HTTP server answers that has forgotten the session")
	errForeign    = errors.New("the connections to this server are not everline's own")
)
