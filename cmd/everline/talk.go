package main

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/visible"
)

const (
	talkQueue = 1024                   // writes that may wait for stderr
	talkFlush = 500 * time.Millisecond // how long the end of the process waits for them
)

// talk writes to stderr without ever waiting for its reader: a parent
// that starts everline with a pipe and never empties it must not be able to
// stop everline from doing anything, ending included. What does not fit is
// dropped and counted. What does not show is written out, as on stdout. Its one goroutine ends with close, or, where the write
// under way never returns, with the process.
type talk struct {
	to      io.Writer
	lines   chan []byte
	dropped atomic.Uint64
	done    chan struct{}
}

func newTalk(w io.Writer) *talk {
	t := &talk{to: w, lines: make(chan []byte, talkQueue), done: make(chan struct{})}
	go t.write() // close ends it
	return t
}

func (t *talk) write() {
	defer close(t.done)
	for line := range t.lines {
		if n := t.dropped.Swap(0); n > 0 {
			fmt.Fprintf(t.to, "everline: %d lines were left out here: nobody read stderr\n", n)
		}
		_, _ = t.to.Write(line) // there is nowhere to report a failure
	}
}

// Write never fails and never waits. It must not be called after close.
func (t *talk) Write(p []byte) (int, error) {
	select {
	case t.lines <- bytes.Clone(visible.Screen(p)):
	default:
		t.dropped.Add(1)
	}
	return len(p), nil
}

func (t *talk) close() {
	close(t.lines)
	select {
	case <-t.done:
	case <-time.After(talkFlush):
	}
}
