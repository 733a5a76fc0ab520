// Package cgroup limits what a server's processes may use, with cgroups of
// version 2 where the system has delegated them to us. It starts no process,
// and where limits cannot be had it says why.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits are what one generation of a server may use at most; 0: no limit.
type Limits struct {
	Memory int64   // bytes
	Pids   int     // processes and threads
	CPU    float64 // processors
}

// None tells whether nothing is limited.
func (l Limits) None() bool { return l == Limits{} }

// A Root is the folder of a cgroup in which we may make others.
type Root struct {
	dir    string
	have   []string                // controllers that limit what is in it
	remove func(path string) error // of a group's folder
}

// leaf is where we move ourselves: a cgroup with limits below it may have no
// processes of its own.
const leaf = "everline"

// Open prepares a folder that is no cgroup of our own: one that nobody is in.
// remove removes the folder of a group; os.Remove does for real ones.
func Open(dir string, remove func(path string) error) (*Root, error) {
	r, err := open(dir, func(int) bool { return false })
	if err == nil {
		r.remove = remove
	}
	return r, err
}

// open prepares dir, our own cgroup, for groups below it. mine tells whether a
// process is us, or a child of ours, and may be moved.
func open(dir string, mine func(pid int) bool) (*Root, error) {
	offered, err := words(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("the cgroup %s cannot be read: %w", dir, err)
	}
	r := &Root{dir: dir, remove: os.Remove}
	for _, c := range []string{"memory", "pids", "cpu"} {
		if slices.Contains(offered, c) {
			r.have = append(r.have, c)
		}
	}
	if len(r.have) == 0 {
		return nil, fmt.Errorf("the cgroup %s has none of the controllers memory, pids and cpu", dir)
	}
	if err := r.vacate(mine); err != nil {
		return nil, err
	}
	for _, c := range r.have {
		if err := put(filepath.Join(dir, "cgroup.subtree_control"), "+"+c); err != nil {
			return nil, fmt.Errorf("the cgroup %s is not delegated: %w", dir, err)
		}
	}
	return r, nil
}

// vacate moves us and our children into a cgroup below our own.
func (r *Root) vacate(mine func(int) bool) error {
	inside, err := words(filepath.Join(r.dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("the cgroup %s cannot be read: %w", r.dir, err)
	}
	pids := make([]int, 0, len(inside))
	for _, word := range inside {
		pid, err := strconv.Atoi(word)
		if err != nil || !mine(pid) {
			return fmt.Errorf("the cgroup %s has other processes in it (%s)", r.dir, word)
		}
		pids = append(pids, pid)
	}
	home := filepath.Join(r.dir, leaf)
	if err := os.Mkdir(home, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("the cgroup %s is not delegated: %w", r.dir, err)
	}
	for _, pid := range pids {
		err := put(filepath.Join(home, "cgroup.procs"), strconv.Itoa(pid))
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("moving to the cgroup %s: %w", home, err)
		}
	}
	return nil
}

// A Group is the cgroup of one generation.
type Group struct {
	dir    string
	remove func(string) error
	unmet  []string
}

// New makes a group. Limits that cannot be set do not keep it from being made:
// Unmet names them.
func (r *Root) New(name string, l Limits) (*Group, error) {
	g := &Group{dir: filepath.Join(r.dir, name), remove: r.remove}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	g.limit(r.have, "memory", "memory.max", strconv.FormatInt(l.Memory, 10), l.Memory > 0)
	g.limit(r.have, "pids", "pids.max", strconv.Itoa(l.Pids), l.Pids > 0)
	g.limit(r.have, "cpu", "cpu.max", cpuMax(l.CPU), l.CPU > 0)
	return g, nil
}

func (g *Group) limit(have []string, controller, file, value string, wanted bool) {
	if !wanted {
		return
	}
	err := errors.New("the controller is not delegated")
	if slices.Contains(have, controller) {
		err = put(filepath.Join(g.dir, file), value)
	}
	if err != nil {
		g.unmet = append(g.unmet, fmt.Sprintf("%s: %v", controller, err))
	}
}

// cpuPeriod is the kernel's usual one, in microseconds.
const cpuPeriod = 100_000

func cpuMax(processors float64) string {
	quota := max(int64(processors*cpuPeriod), 1000) // the kernel takes no less
	return fmt.Sprintf("%d %d", quota, cpuPeriod)
}

// Prefix begins the names of all groups of servers, and what begins the marks
// of an everline's processes follows.
const Prefix = "everline-"

// sweep removes the groups in dir that an everline which is gone has left,
// with what is in them. instance is what all its marks begin with. One that
// would not go ends it: the next may be as slow.
func sweep(dir, instance string, remove func(string) error) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if err == nil && strings.HasPrefix(e.Name(), Prefix+instance) {
			err = (&Group{dir: filepath.Join(dir, e.Name()), remove: remove}).End()
		}
	}
	return err
}

// Dir is the group's folder.
func (g *Group) Dir() string { return g.dir }

// Unmet says which limits do not hold, and why.
func (g *Group) Unmet() []string { return g.unmet }

// Enter puts a process into the cgroup of a folder.
func Enter(dir string, pid int) error {
	return put(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
}

// goneWithin bounds the wait for killed processes to leave their cgroup.
const goneWithin = time.Second

// End kills whatever is left in the group, and removes it.
func (g *Group) End() error {
	if err := put(filepath.Join(g.dir, "cgroup.kill"), "1"); err != nil {
		g.killEach() // a kernel before 5.14
	}
	end := time.Now().Add(goneWithin)
	for pause := time.Millisecond; ; pause *= 2 {
		err := g.remove(g.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Now().Add(pause).After(end) {
			return fmt.Errorf("the cgroup %s cannot be removed: %w", g.dir, err)
		}
		<-time.After(pause)
	}
}

func (g *Group) killEach() {
	pids, _ := words(filepath.Join(g.dir, "cgroup.procs"))
	for _, word := range pids {
		if pid, err := strconv.Atoi(word); err == nil && pid > 1 {
			kill(pid)
		}
	}
}

func words(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	return strings.Fields(string(data)), err
}

// put writes one value. The files are there; O_CREATE is no harm.
func put(path, value string) error { return os.WriteFile(path, []byte(value), 0o600) }
