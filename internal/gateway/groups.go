package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
)

// groups are the gateways of the endpoints for parts of the catalog, each made
// when it is first asked for. There are no more of them than Options.Group has
// ever known names for.
type groups struct {
	mu     sync.Mutex // guards the rest; nothing waits under it
	byName map[string]*Gateway
	closed bool
}

// ofGroup serves the same for a group: on another Backend, with sessions of
// its own.
func (g *Gateway) ofGroup(serve func(*Gateway, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("group")
		child := g.Group(name)
		switch {
		case child == nil && g.closing():
			g.ending(w, &message.Message{})
			return
		case child == nil:
			g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "no group has this name: "+strconv.Quote(name)+". "+paths)
			return
		}
		serve(child, w, r)
	}
}

func (g *Gateway) ofAll(serve func(*Gateway, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serve(g, w, r) }
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

// close ends all of them side by side.
func (s *groups) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var all []*Gateway
	for _, child := range s.byName {
		all = append(all, child)
	}
	s.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, child := range all {
		wg.Go(func() { errs[i] = child.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
