package gateway

import (
	"sync"
	"time"
)

// A taskRecord has what changes written down soon after: everline may be killed.
type taskRecord struct {
	save func() error // all of it
	fail func(error)  // is told once

	turn sync.Mutex // held while it is written, so that an older state never comes behind a newer one

	mu     sync.Mutex    // guards the rest; nothing waits under it
	timer  *time.Timer   // set while there is something to write
	pause  time.Duration // from a change to the write of it
	failed bool
	closed bool
}

const (
	recordAfter = 100 * time.Millisecond // writes at most so often,
	recordShare = 20                     // and for a twentieth of the time, whatever the disk
)

// changed does not wait.
func (r *taskRecord) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil && !r.closed {
		r.timer = time.AfterFunc(max(r.pause, recordAfter), r.write)
	}
}

// write runs on the timer's goroutine, which ends with it.
func (r *taskRecord) write() {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.mu.Lock()
	r.timer = nil // what changes from here on is written again
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return
	}
	began := time.Now()
	err := r.save()
	r.mu.Lock()
	r.pause = time.Since(began) * recordShare
	tell := err != nil && !r.failed
	r.failed = r.failed || tell
	r.mu.Unlock()
	if tell {
		r.fail(err)
	}
}

// close waits for a write that is under way; there is none after it.
func (r *taskRecord) close() {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.turn.Lock()
	defer r.turn.Unlock()
}
