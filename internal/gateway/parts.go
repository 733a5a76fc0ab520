package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/internal/access"
)

// parts are the gateways of the parts of an endpoint: what one identity has at it, or
// at the address of a group. Each is made when it is first asked for. Sessions,
// outcomes, tasks, questions and streams are a part's own, and that alone is why what
// belongs to one identity is to every other one as if it did not exist. Who shows a
// token with other scopes or claims has another part: what they may do goes by the
// token, and what waits or listens in a part was begun by what that part may see.
// What the user that everline runs as has at the endpoint of all servers is the gateway
// itself.
type parts struct {
	mu     sync.RWMutex // guards the rest; nothing waits under it
	all    map[partKey]*Gateway
	usages map[string]*usage // by identity, of those that have a part
	closed bool

	ending sync.WaitGroup // of those that are taken out
}

// A partKey is a group, "" for all servers, and an access.Identity's Entitlement.
type partKey struct{ group, who string }

const (
	maxParts  = 10_000 // of an endpoint
	sweepFrom = 64     // parts: from so many on, those that nobody uses are taken out
)

// part is the gateway of an identity, "" for the group of all servers; nil if there is
// no such group for it now, or no room. The caller must leave it.
func (g *Gateway) part(group string, who *access.Identity) *Gateway {
	if group == "" && who.Is(access.Local()) {
		g.users.Add(1)
		return g
	}
	s, key := &g.parts, partKey{group, who.Entitlement()}
	s.mu.RLock()
	p := s.all[key]
	if p != nil {
		p.users.Add(1)
	}
	s.mu.RUnlock()
	if p == nil {
		p = g.newPart(key, who)
	}
	if p != nil && !p.backend.Exists() {
		p.leave()
		return nil
	}
	return p
}

// newPart makes a part that is not there yet, with its first user.
func (g *Gateway) newPart(key partKey, who *access.Identity) *Gateway {
	b := g.backend
	if g.opts.Part != nil {
		b = g.opts.Part(key.group, who)
	} else if key.group != "" {
		return nil
	}
	if b == nil || !b.Exists() {
		return nil
	}
	s := &g.parts
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[key]
	if p == nil {
		if s.sweepLocked(); s.closed || len(s.all) >= maxParts {
			return nil
		}
		opts := g.opts
		opts.Part = nil
		p = newGateway(who, key.endpoint(who), b, opts, g.shared, g.usageOf(who), func() { g.takeOut(key) })
		if s.all == nil {
			s.all = map[partKey]*Gateway{}
		}
		s.all[key] = p
	}
	p.users.Add(1)
	return p
}

// usageOf is what counts for an identity, at all its parts; the caller holds the lock
// of parts.
func (g *Gateway) usageOf(who *access.Identity) *usage {
	if who.Is(access.Local()) {
		return g.usage
	}
	s := &g.parts
	if s.usages == nil {
		s.usages = map[string]*usage{}
	}
	u := s.usages[who.Key()]
	if u == nil {
		u = &usage{}
		s.usages[who.Key()] = u
	}
	u.parts++
	return u
}

// endpoint is under what the sessions of a part are kept. No group has such a name.
func (k partKey) endpoint(who *access.Identity) string {
	if who.Is(access.Local()) {
		return k.group
	}
	return k.group + "\x00" + k.who
}

// leave is the end of a use.
func (g *Gateway) leave() {
	g.left.Store(time.Now().UnixNano())
	g.users.Add(-1)
}

// sweepLocked takes out the parts that nobody has used for as long as a session may be
// idle. What is kept of their sessions on disk stays, so one that is asked for again
// goes on.
func (s *parts) sweepLocked() {
	if len(s.all) < sweepFrom {
		return
	}
	for key, p := range s.all {
		if p.unused() {
			s.outLocked(key, p)
		}
	}
}

// unused tells whether a part has nothing that anybody could come back for.
func (g *Gateway) unused() bool {
	idle := time.Since(time.Unix(0, g.left.Load()))
	return g.users.Load() == 0 && idle > g.opts.SessionIdle &&
		g.sessions.Len() == 0 && g.tasks.Len() == 0 && g.results.empty() && g.inputs.empty()
}

func (s *parts) outLocked(key partKey, p *Gateway) {
	delete(s.all, key)
	if p.usage.parts--; p.usage.parts == 0 {
		delete(s.usages, p.who.Key())
	}
	if !s.closed {
		s.ending.Go(func() { // ends within the time of a canceled request; close waits for it
			ctx, cancel := context.WithTimeout(context.Background(), cancelGrace)
			defer cancel()
			_ = p.Close(ctx) // what had to be canceled was answered so
		})
	}
}

// takeOut ends a part of who is granted nothing any more: its streams and sessions,
// and what is in flight within a second. It does not wait.
func (g *Gateway) takeOut(key partKey) {
	s := &g.parts
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[key]; p != nil && p.backend.May() == nil {
		s.outLocked(key, p)
	}
}

// Group is what the user that everline runs as has at a group, which this gateway
// closes; nil if there is no such group now.
func (g *Gateway) Group(name string) *Gateway {
	p := g.part(name, access.Local())
	if p != nil {
		p.leave()
	}
	return p
}

func (s *parts) list() []*Gateway {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.all))
}

// close ends all of them side by side.
func (s *parts) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	all := s.list()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() { errs[i] = p.Close(ctx) })
	}
	wg.Wait()
	s.ending.Wait()
	return errors.Join(errs...)
}
