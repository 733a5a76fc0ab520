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
	*core
	mu    sync.Mutex // guards by; nothing waits under it
	byKey map[string]Problem
}

// note makes p the problem of a key; it is new if there was none. The time since
// when there is one stays.
func (ps *problems) note(key string, p Problem) (isNew bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	old, known := ps.byKey[key]
	p.Since = time.Now()
	if known {
		p.Since = old.Since
	}
	if ps.byKey == nil {
		ps.byKey = map[string]Problem{}
	}
	ps.byKey[key] = p
	return !known
}

// solve takes the problem of a key away, if there is one.
func (ps *problems) solve(key string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.byKey, key)
}

func (ps *problems) all() []Problem {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	all := make([]Problem, 0, len(ps.byKey))
	for _, p := range ps.byKey {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.About, b.About), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Text, b.Text))
	})
	return all
}

// wrote notes how writing a part of the state has gone. The log is told once of
// what goes wrong; Problems tells of it until a write has gone well.
func (ps *problems) wrote(server, what string, err error) {
	key := what + " " + server
	if err == nil {
		ps.solve(key)
		return
	}
	p := Problem{About: "state", Server: server, Text: what + " cannot be kept on disk: " + err.Error(), Remedy: ps.writeRemedy(err)}
	if ps.note(key, p) {
		ps.warn(server, p.Text)
	}
}

// writeRemedy is what helps where the state cannot be written.
func (ps *problems) writeRemedy(err error) string {
	dir := ps.opts.StateDir
	if path := new(os.PathError); errors.As(err, &path) && dir == "" {
		dir = filepath.Dir(path.Path)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return "make room on the file system of " + dir
	}
	return "let everline write in " + dir + ", or name another folder with --state-dir"
}
