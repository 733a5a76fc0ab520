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

// Lasts tells a breakage that is there for a time from one that happens once.
func (b Breakage) Lasts() bool { return b == BreakHang || b == BreakSlow || b == BreakGarbage }

// An Injector is there for one server: it breaks the server's links on
// purpose, at the place where a real fault of the kind would be met, so that
// everything behind that place does what it does then. It is off unless Begin
// turned it on; it then costs a message one load of a nil pointer. It outlives
// links: what lasts is met by the links to come as well. The zero value works,
// a nil Injector is off for ever, and all methods may be called by many
// goroutines at once.
type Injector struct {
	on atomic.Pointer[Injection] // what lasts; nil: off

	mu    sync.Mutex // guards links, and Injection.limit; nothing waits under it
	links map[Breakable]struct{}
}

// A Breakable is a link that the injector can reach.
type Breakable interface {
	// Fits says why a breakage cannot be made here; nil if it can.
	Fits(Breakage) error
	// Inject makes one that does not last. It is false where there was nothing
	// to break. observed, if not nil, is closed once the link has noticed.
	Inject(Breakage) (observed <-chan struct{}, hit bool)
}

// An Injection is a breakage that was begun.
type Injection struct {
	Kind     Breakage
	Delay    time.Duration // BreakSlow
	owner    *Injector
	once     sync.Once
	limit    *time.Timer   // ends it whatever who began it does
	over     chan struct{} // closed when it is over
	observed []<-chan struct{}
}

// Observed returns once the broken links have noticed, which is later than the
// injection where that is a signal to a process; or when ctx ends.
func (t *Injection) Observed(ctx context.Context) {
	for _, observed := range t.observed {
		select {
		case <-observed:
		case <-ctx.Done():
			return
		}
	}
}

// Over is closed when the breakage is off again.
func (t *Injection) Over() <-chan struct{} { return t.over }

// End turns it off. It is idempotent.
func (t *Injection) End() {
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
func (f *Injector) Begin(kind Breakage, delay, limit time.Duration) (*Injection, error) {
	links := f.alive()
	if len(links) == 0 {
		return nil, conflict("there is no connection to break")
	}
	for _, l := range links {
		if err := l.Fits(kind); err != nil {
			return nil, misfit(l, kind, err)
		}
	}
	t := &Injection{Kind: kind, Delay: delay, owner: f, over: make(chan struct{})}
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
		observed, struck := l.Inject(kind)
		hit = hit || struck
		if observed != nil {
			t.observed = append(t.observed, observed)
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
func misfit(l Breakable, kind Breakage, err error) *fault.Fault {
	var fit []string
	for i, word := range breakages {
		if l.Fits(Breakage(i)) == nil {
			fit = append(fit, word)
		}
	}
	return &fault.Fault{
		Kind: fault.Invalid, Op: "break", Outcome: fault.NotSent, Err: fmt.Errorf("%s does not fit: %w", kind, err),
		Remedy: "--fault " + strings.Join(fit, "|"),
	}
}

// Active reports whether something lasts now.
func (f *Injector) Active() bool { return f.Now() != nil }

// Now is what lasts now; nil if nothing does.
func (f *Injector) Now() *Injection {
	if f == nil {
		return nil
	}
	return f.on.Load()
}

// Lasting is Now for one kind.
func (f *Injector) Lasting(kind Breakage) *Injection {
	if t := f.Now(); t != nil && t.Kind == kind {
		return t
	}
	return nil
}

// Join makes a link reachable until Leave.
func (f *Injector) Join(l Breakable) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.links == nil {
		f.links = map[Breakable]struct{}{}
	}
	f.links[l] = struct{}{}
}

func (f *Injector) Leave(l Breakable) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.links, l)
}

func (f *Injector) alive() []Breakable {
	f.mu.Lock()
	defer f.mu.Unlock()
	links := make([]Breakable, 0, len(f.links))
	for l := range f.links {
		links = append(links, l)
	}
	return links
}

// Garbage is what a server that prints where it must not might print.
const Garbage = "<<< this is no message: a drill put it here >>>"

// ErrNoSessions is why a server cannot be made to forget a session.
var ErrNoSessions = errors.New("404 is what an HTTP server answers that has forgotten the session")
