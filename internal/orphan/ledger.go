package orphan

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/cgroup"
	"github.com/everline/everline/internal/owned"
)

// A Process is one server's process as it is remembered.
type Process struct {
	Server  string `json:"server"`
	PID     int    `json:"pid"`
	Started string `json:"started"` // when, in the system's own terms; "" if that cannot be told
}

// A Found orphan is a process of an earlier everline that was found alive.
type Found struct {
	Server string // "" if it was not recorded: something that a server started
	PID    int
	Ended  bool // it is gone; false: it would not go in time
}

// record is a ledger's file: one for each everline that uses the folder.
type record struct {
	Owner     Process   `json:"owner"` // the everline itself
	Instance  string    `json:"instance"`
	Processes []Process `json:"processes"`
}

// A Ledger keeps on disk which processes this everline has started, so that
// the next one can end what a crash left behind. All methods may be called by
// many goroutines, but Save by one at a time.
type Ledger struct {
	dir    string
	file   string
	groups func(instance string) error // removes the cgroups of an everline that is gone

	mu      sync.Mutex // guards the rest; memory only
	last    map[string]Process
	changed bool
}

const (
	folder = "processes"
	suffix = ".json"
)

// NewLedger makes the ledger of this process under a state folder. It is on
// disk, and so every mark can be found again, from the first Save on.
func NewLedger(stateDir string) *Ledger {
	dir := filepath.Join(stateDir, folder)
	name := Instance() + strconv.FormatUint(ledgers.Add(1), 10) + suffix
	return &Ledger{dir: dir, file: filepath.Join(dir, name), groups: cgroup.Sweep, last: map[string]Process{}, changed: true}
}

// ledgers tells those of one process apart.
var ledgers atomic.Uint64

// Set notes a server's newest process.
func (l *Ledger) Set(server string, pid int) {
	p := Process{Server: server, PID: pid, Started: born(pid)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[server] = p
	l.changed = true
}

// Forget drops a server whose processes have ended in order.
func (l *Ledger) Forget(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.last[server]; there {
		delete(l.last, server)
		l.changed = true
	}
}

// Save writes what has changed since the last Save, atomically.
func (l *Ledger) Save() error {
	l.mu.Lock()
	changed := l.changed
	l.changed = false
	rec := record{Owner: Process{PID: os.Getpid()}, Instance: Instance(), Processes: []Process{}}
	for _, p := range l.last {
		rec.Processes = append(rec.Processes, p)
	}
	l.mu.Unlock()
	if !changed {
		return nil
	}
	rec.Owner.Started = born(rec.Owner.PID)
	slices.SortFunc(rec.Processes, func(a, b Process) int { return strings.Compare(a.Server, b.Server) })
	data, err := json.MarshalIndent(rec, "", "  ")
	if err == nil {
		err = l.write(data)
	}
	if err != nil {
		l.mu.Lock()
		l.changed = true
		l.mu.Unlock()
	}
	return err
}

func (l *Ledger) write(data []byte) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	tmp := l.file + ".new"
	if err := owned.Write(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, l.file)
}

// Remove takes the ledger off the disk, once all that it lists has ended.
func (l *Ledger) Remove() error {
	err := os.Remove(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweepLimit bounds the end of one dead everline's processes: they are killed,
// and only one that hangs in the kernel takes longer.
const sweepLimit = 2 * time.Second

// Sweep ends what is left of every earlier everline on this folder that is not
// alive any more, and forgets those of which nothing is left. It is bounded by
// ctx and sweepLimit.
func (l *Ledger) Sweep(ctx context.Context) ([]Found, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Found
	var errs []error
	for _, e := range entries {
		path := filepath.Join(l.dir, e.Name())
		if path == l.file || !strings.HasSuffix(path, suffix) {
			continue
		}
		found, err := l.sweepFile(ctx, path)
		all = append(all, found...)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

func (l *Ledger) sweepFile(ctx context.Context, path string) ([]Found, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rec record
	if json.Unmarshal(data, &rec) != nil || len(rec.Instance) != len(Instance()) {
		return nil, os.Remove(path) // proves nothing about any process
	}
	if rec.Owner.Started != "" && born(rec.Owner.PID) == rec.Owner.Started {
		return nil, nil // another everline that is alive
	}
	names := map[int]string{}
	for _, p := range rec.Processes {
		if p.Started != "" && born(p.PID) == p.Started {
			names[p.PID] = p.Server
		}
	}
	pids, ended := End(ctx, rec.Instance)
	for _, p := range rec.Processes {
		if endRecorded(p) {
			pids = append(pids, p.PID)
		}
	}
	found := make([]Found, 0, len(pids))
	for _, pid := range pids {
		found = append(found, Found{Server: names[pid], PID: pid, Ended: ended || born(pid) == ""})
	}
	if !ended {
		return found, nil // kept, for the next start
	}
	if err := l.groups(rec.Instance); err != nil {
		return found, err // kept, for the next start
	}
	return found, os.Remove(path)
}
