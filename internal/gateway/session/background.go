package session

import (
	"context"
	"sync"
	"time"
)

// background is what an endpoint does that belongs to no request. Its close
// ends all of it.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex // guards closed, and adding to tasks
	closed bool
	tasks  sync.WaitGroup
}

func (b *background) init() { b.ctx, b.cancel = context.WithCancel(context.Background()) }

// add counts one more goroutine; false if none may be started any more.
func (b *background) add() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.tasks.Add(1)
	return true
}

func (b *background) done() { b.tasks.Done() }

// sleep is false if close came first.
func (b *background) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.ctx.Done():
		return false
	}
}

func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.tasks.Wait()
}
