package slot

import (
	"context"
	"time"

	"github.com/everline/everline/config"
)

// ended: the end of generation gen is over. err may be nil.
type ended struct {
	gen uint64
	err error
}

func (ended) note() {}

// A closer is the worker that ends generations. drainCut cuts its waits for
// leases short, and forced everything.
type closer struct {
	drainCut <-chan struct{}
	forced   context.Context
}

// end waits for leases where drain says so, and then closes the generation.
func (c *closer) end(g *generation, drain bool) note {
	if drain {
		c.drain(g)
	}
	g.cancel()
	<-g.over // the start worker's context has ended
	if g.up == nil {
		return ended{gen: g.gen}
	}
	return ended{g.gen, c.shutDown(g.up, g.spec)}
}

// drain waits for the leases that are out, up to the drain deadline.
func (c *closer) drain(g *generation) {
	t := time.NewTimer(g.spec.DrainTimeout)
	defer t.Stop()
	select {
	case <-g.drained:
	case <-t.C:
	case <-c.drainCut:
	case <-c.forced.Done():
	}
}

func (c *closer) shutDown(up Upstream, spec config.Server) error {
	ctx, cancel := context.WithTimeout(c.forced, closeLimit+spec.StopGrace)
	defer cancel()
	return up.Close(ctx)
}
