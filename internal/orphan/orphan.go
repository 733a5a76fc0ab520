// Package orphan finds the processes of servers by a mark in their environment
// and ends those that have outlived what started them; a Ledger remembers them
// over everline's own end. It starts nothing, and touches no process that it
// cannot prove to be ours.
package orphan

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// MarkVar is the environment variable that every server gets, and hands on to
// whatever it starts. Its value is a mark.
const MarkVar = "EVERLINE_MARK"

var (
	instance = strings.ToLower(rand.Text())
	marks    atomic.Uint64
)

// Instance is what all marks of this process begin with.
func Instance() string { return instance + "-" }

// NewMark returns the mark for one generation of one server. It ends like none
// that another one begins with.
func NewMark() string { return Instance() + strconv.FormatUint(marks.Add(1), 10) + "." }

const (
	firstLook = time.Millisecond
	lastLook  = 20 * time.Millisecond
	// newbornFor is how long a process that shows no environment at all is
	// taken for one that is just being started, or just ending.
	newbornFor = 500 * time.Millisecond
)

// End kills every process whose mark begins with prefix, until there is none
// or ctx ends. It returns the ids of those that it found, and whether none is
// left. Where marks cannot be read it finds none.
func End(ctx context.Context, prefix string) (found []int, ended bool) {
	seen := map[int]bool{}
	begun := time.Now()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		left, unsure := find(prefix)
		if len(left) == 0 && (!unsure || time.Since(begun) > newbornFor) {
			return found, true
		}
		for _, pid := range left {
			if !seen[pid] {
				seen[pid] = true
				found = append(found, pid)
			}
			kill(pid)
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return found, false
		}
	}
}

// Ours tells whether a process has a mark of this process. It is false
// where the system does not tell.
func Ours(pid int) bool { return marked(pid, Instance()) }

// Alive tells whether a process of a mark that begins with prefix is there.
func Alive(prefix string) bool {
	found, _ := find(prefix)
	return len(found) > 0
}
