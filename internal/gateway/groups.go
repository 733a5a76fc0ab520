package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// groups are the gateways of the endpoints for parts of the catalog, each made
// when it is first asked for. There are no more of them than Options.Group has
// ever known names for.
type groups struct {
	mu     sync.Mutex // guards the rest; nothing waits under it
	byName map[string]*Gateway
	closed bool
}

// Group is the gateway of a group, which this one closes; nil if there is no
// such group now.
func (g *Gateway) Group(name string) *Gateway {
	if g.opts.Group == nil {
		return nil
	}
	b := g.opts.Group(name)
	if b == nil {
		return nil
	}
	s := &g.groups
	s.mu.Lock()
	defer s.mu.Unlock()
	if child := s.byName[name]; child != nil || s.closed {
		return child
	}
	opts := g.opts
	opts.Group = nil
	child := newGateway(name, b, opts, g.shared)
	if s.byName == nil {
		s.byName = map[string]*Gateway{}
	}
	s.byName[name] = child
	return child
}

func (s *groups) all() []*Gateway {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byName))
}

// close ends all of them side by side.
func (s *groups) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	all := s.all()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, child := range all {
		wg.Go(func() { errs[i] = child.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
