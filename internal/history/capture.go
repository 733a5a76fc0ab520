package history

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/event"
)

// Bounds of a capture.
const (
	CaptureTime = 10 * time.Minute
	captureSize = 16 << 10 // bytes of one record
	captureMost = 100      // records of all servers, the newest
)

// A Capture records the arguments of calls to servers for which a person has asked
// for that: for ten minutes, in memory alone, without secrets, and then they are
// gone. While none is recorded a call costs one look at a number. Close ends it.
type Capture struct {
	mask    func(params []byte) string // takes the secrets out
	running atomic.Int32               // servers

	mu      sync.Mutex // guards the rest; held for copying alone
	servers map[string]*capturing
	records []Captured // oldest first
	changed uint64     // rises with each begin and end
}

type capturing struct {
	until time.Time
	end   *time.Timer // runs forget
}

// Captured are the arguments of one call.
type Captured struct {
	Server, Name string
	Time         time.Time // when the call came
	By           *event.Caller
	Result       event.CallResult
	Params       string // JSON, without secrets
	Cut          bool   // it was longer than is kept
}

// NewCapture returns one that records nothing. mask gives of the raw params what may
// be kept.
func NewCapture(mask func(params []byte) string) *Capture {
	return &Capture{mask: mask, servers: map[string]*capturing{}}
}

// Begin records the calls of a server from now on, or longer if they are recorded
// already.
func (c *Capture) Begin(server string) (until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed++
	until = time.Now().Add(CaptureTime)
	if s := c.servers[server]; s != nil {
		s.until = until
		s.end.Reset(CaptureTime)
		return until
	}
	// The timer ends by itself, by End, or by Close.
	c.servers[server] = &capturing{until, time.AfterFunc(CaptureTime, func() { c.forget(server, false) })}
	c.running.Add(1)
	return until
}

// End records no more calls of a server, and forgets those that were.
func (c *Capture) End(server string) { c.forget(server, true) }

// Close is End for all servers.
func (c *Capture) Close() {
	for server := range c.Running() {
		c.End(server)
	}
}

func (c *Capture) forget(server string, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	if s == nil || !now && time.Now().Before(s.until) { // it was prolonged just when it ended
		return
	}
	s.end.Stop()
	delete(c.servers, server)
	c.running.Add(-1)
	c.changed++
	c.records = slices.Clip(slices.DeleteFunc(c.records, func(r Captured) bool { return r.Server == server }))
}

// Running are the servers whose calls are recorded, and until when.
func (c *Capture) Running() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]time.Time, len(c.servers))
	for name, s := range c.servers {
		all[name] = s.until
	}
	return all
}

// Changed rises with each begin and end of a recording.
func (c *Capture) Changed() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Records are those of a server, newest first.
func (c *Capture) Records(server string) []Captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := []Captured{}
	for _, r := range slices.Backward(c.records) {
		if r.Server == server {
			found = append(found, r)
		}
	}
	return found
}

// Watch returns what observes a call with these params: next, where nothing is
// recorded. c and next may be nil.
func (c *Capture) Watch(params []byte, next func(event.CallFacts)) func(event.CallFacts) {
	if c == nil || c.running.Load() == 0 {
		return next
	}
	return func(f event.CallFacts) {
		c.add(params, &f)
		if next != nil {
			next(f)
		}
	}
}

func (c *Capture) add(params []byte, f *event.CallFacts) {
	if _, wanted := c.Running()[f.Server]; !wanted {
		return
	}
	text := c.mask(params)
	r := Captured{Server: f.Server, Name: cut(f.Name, nameSize), Time: f.Began, By: f.By, Result: f.Result, Params: cut(text, captureSize), Cut: len(text) > captureSize}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers[f.Server] == nil {
		return // it ended meanwhile
	}
	if len(c.records) == captureMost {
		c.records = slices.Delete(c.records, 0, 1)
	}
	c.records = append(c.records, r)
}
