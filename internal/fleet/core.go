package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/event"
)

// core is what the parts of a fleet share: who its members are, what is asked of
// the merger and of the saver, and workers. It knows none of the parts.
type core struct {
	opts   Options
	roster atomic.Pointer[roster]

	touched names         // members that have published since the last merge
	trigger chan struct{} // one slot: something that is merged has changed
	asked   atomic.Uint64 // merges asked for
	save    chan struct{} // one slot: something that is kept on disk has changed
	stop    chan struct{} // closed by Close: merger and saver end

	ctx         context.Context // of the workers; ends when a Close ran out of time
	forceCancel context.CancelFunc
	workers     sync.WaitGroup // closings of removed slots, and what new generations are told

	mu     sync.Mutex // guards closed; nothing waits under it
	closed bool       // no more workers
}

func newCore(opts Options) *core {
	c := &core{opts: opts, trigger: make(chan struct{}, 1), save: make(chan struct{}, 1), stop: make(chan struct{})}
	c.ctx, c.forceCancel = context.WithCancel(context.Background())
	return c
}

// touch has a member looked at by the merger, and kept on disk.
func (c *core) touch(name string) {
	c.touched.add(name)
	c.poke()
}

// saveSoon has the saver look at what is to be kept.
func (c *core) saveSoon() {
	select {
	case c.save <- struct{}{}:
	default:
	}
}

// poke asks for a merge and returns its number; it never waits.
func (c *core) poke() uint64 {
	n := c.asked.Add(1)
	select {
	case c.trigger <- struct{}{}:
	default:
	}
	return n
}

// spawn runs fn in a worker that Close waits for; after Close it does nothing.
// fn must bound itself.
func (c *core) spawn(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.workers.Go(fn)
	}
}

func (c *core) warn(server, text string) {
	if c.opts.Warn != nil {
		c.opts.Warn(server, text)
	}
}

func (c *core) emit(e event.Event) {
	if c.opts.Emit != nil {
		c.opts.Emit(e)
	}
}

func (c *core) noMoreWorkers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// closeLimit is what closing a slot may take beyond draining its calls.
const closeLimit = 10 * time.Second
