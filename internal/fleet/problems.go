package fleet

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
)

// A Problem is something that is wrong with what everline itself keeps on disk,
// for as long as it is so.
type Problem struct {
	About  string // "state" or "pins"
	Server string // "" if it is about no server
	Text   string
	Remedy string
	Since  time.Time
}

// problems are those that there are now, by what they are about.
type problems struct {
	mu sync.Mutex // guards by; nothing waits under it
	by map[string]Problem
}

// note makes p the problem of a key; it is new if there was none. The time since
// when there is one stays.
func (ps *problems) note(key string, p Problem) (isNew bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	old, was := ps.by[key]
	p.Since = time.Now()
	if was {
		p.Since = old.Since
	}
	if ps.by == nil {
		ps.by = map[string]Problem{}
	}
	ps.by[key] = p
	return !was
}

// solve takes the problem of a key away, if there is one.
func (ps *problems) solve(key string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.by, key)
}

func (ps *problems) all() []Problem {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	all := make([]Problem, 0, len(ps.by))
	for _, p := range ps.by {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.About, b.About), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Text, b.Text))
	})
	return all
}

// Problems returns what is wrong with what is kept on disk, now.
func (f *Fleet) Problems() []Problem {
	f.checkPins()
	r := f.roster.Load()
	return slices.DeleteFunc(f.problems.all(), func(p Problem) bool {
		return p.Server != "" && r.byName[p.Server] == nil // it was removed
	})
}

// wrote notes how writing a part of the state has gone. The log is told once of
// what goes wrong; Problems tells of it until a write has gone well.
func (f *Fleet) wrote(server, what string, err error) {
	key := what + " " + server
	if err == nil {
		f.problems.solve(key)
		return
	}
	p := Problem{About: "state", Server: server, Text: what + " cannot be kept on disk: " + err.Error(), Remedy: f.writeRemedy(err)}
	if f.problems.note(key, p) {
		f.warn(server, p.Text)
	}
}

// writeRemedy is what helps where the state cannot be written.
func (f *Fleet) writeRemedy(err error) string {
	dir := f.opts.StateDir
	if path := new(os.PathError); errors.As(err, &path) && dir == "" {
		dir = filepath.Dir(path.Path)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return "make room on the file system of " + dir
	}
	return "let everline write in " + dir + ", or name another folder with --state-dir"
}

// retryWrites has the saver try again what could not be written.
func (f *Fleet) retryWrites() {
	for _, p := range f.problems.all() {
		if p.Server != "" {
			f.unsaved.add(p.Server)
		}
	}
}

// pinsChecked is what the pins' file was like when it was last compared with
// what was read from it. It is guarded by Fleet.locking.
type pinsChecked struct {
	file  string
	at    time.Time
	size  int64
	saved *catalog.Lock
}

const pinsKey = "pins file"

// checkPins compares the pins' file with what is in force. A file that did not
// change is not read again; while somebody else uses the file nothing is.
func (f *Fleet) checkPins() {
	select {
	case f.locking <- struct{}{}:
		defer func() { <-f.locking }()
	default:
		return
	}
	r := f.roster.Load()
	if !r.pinsOn() {
		f.problems.solve(pinsKey)
		return
	}
	now := pinsChecked{file: r.cfg.PinsFile, saved: r.pins.saved, size: -1}
	if info, err := os.Stat(now.file); err == nil {
		now.at, now.size = info.ModTime(), info.Size()
	}
	if now == f.pinsChecked {
		return
	}
	f.pinsChecked = now
	if p := pinsProblem(now.file, now.saved); p == nil {
		f.problems.solve(pinsKey)
	} else if f.problems.note(pinsKey, *p) {
		f.warn("", p.Text)
	}
}

// pinsProblem says why the file does not say what is in force; nil if it does.
func pinsProblem(file string, saved *catalog.Lock) *Problem {
	lock, err := catalog.ReadLock(file)
	const before = "; what everline has read from it before stays in force"
	switch {
	case err != nil:
		bad := fault.From("read pins", err)
		return &Problem{About: "pins", Text: "the lock file cannot be used: " + bad.Text() + before, Remedy: bad.Remedy + ", then: everline reload"}
	case lock.Same(saved):
		return nil
	case lock == nil:
		return &Problem{
			About: "pins", Text: "the lock file " + file + " is gone" + before,
			Remedy: "take the file from version control, or write it anew: everline tools approve",
		}
	default:
		return &Problem{About: "pins", Text: "the lock file " + file + " has been changed" + before, Remedy: "everline reload"}
	}
}
