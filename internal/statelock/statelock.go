// Package statelock is the one lock on a state folder: a process has it, and
// within the process one holder of each role, such as the hub that keeps its
// state there and the socket that is served from there. It does not look at
// what is in the folder.
package statelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
)

// Roles of a process in its state folder.
const (
	Hub    = "hub"
	Socket = "admin socket"
)

const fileName = "everline.lock"

// ErrHeld: somebody has the lock of a file.
var ErrHeld = errors.New("the lock is held")

// A Lock is one role of this process in a state folder.
type Lock struct {
	folder, role string
	once         sync.Once
}

// held are the folders that this process has locked.
var (
	mu   sync.Mutex // guards held and what is in it; nothing waits under it
	held = map[string]*folder{}
)

type folder struct {
	file  *os.File
	roles map[string]string // by role, the name of its holder
}

// Take takes a role in a state folder, which must exist, for a program of this
// name. Where somebody has it the fault is of kind Conflict and names the
// holder; any other kind says that the folder cannot be locked. The system drops
// the lock with the process, however that ends, so that it is never stale.
func Take(dir, role, program string) (*Lock, error) {
	place, err := filepath.EvalSymlinks(dir)
	if err == nil {
		place, err = filepath.Abs(place)
	}
	if err != nil {
		return nil, unable(err)
	}
	mu.Lock()
	defer mu.Unlock()
	f := held[place]
	if f == nil {
		if f, err = open(place, program); err != nil {
			return nil, err
		}
		held[place] = f
	}
	if holder, taken := f.roles[role]; taken {
		return nil, conflict(place, fmt.Sprintf("another %s of this process, %s (pid %d),", role, holder, os.Getpid()))
	}
	f.roles[role] = program
	return &Lock{folder: place, role: role}, nil
}

func open(place, program string) (*folder, error) {
	file, err := owned.Open(filepath.Join(place, fileName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unable(err)
	}
	if err := Try(file); err != nil {
		defer file.Close()
		if errors.Is(err, ErrHeld) {
			return nil, conflict(place, holderOf(place))
		}
		return nil, unable(err)
	}
	_ = file.Truncate(0) // the content only helps people; see holderOf
	_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+" "+program+"\n"), 0)
	return &folder{file: file, roles: map[string]string{}}, nil
}

// holderOf is what the folder's last owner wrote down about itself.
func holderOf(place string) string {
	data, err := os.ReadFile(filepath.Join(place, fileName))
	pid, name, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
		return "another everline"
	}
	if name == "" || name == "everline" {
		return "another everline (pid " + pid + ")"
	}
	return strconv.Quote(name) + " (pid " + pid + ")"
}

func conflict(place, holder string) *fault.Fault {
	return &fault.Fault{
		Kind: fault.Conflict, Op: "start", Err: fmt.Errorf("%s uses the state folder %s", holder, place),
		Remedy: "end that one, or name another folder with --state-dir",
	}
}

func unable(err error) *fault.Fault {
	return &fault.Fault{Kind: fault.Invalid, Op: "lock the state folder", Err: err, Remedy: "name another folder with --state-dir"}
}

// Release gives the role back; the last one of a process gives the folder back.
// It is idempotent, and does nothing for nil.
func (l *Lock) Release() {
	if l == nil {
		return
	}
	l.once.Do(func() {
		mu.Lock()
		defer mu.Unlock()
		f := held[l.folder]
		delete(f.roles, l.role)
		if len(f.roles) == 0 {
			delete(held, l.folder)
			_ = f.file.Close() // which drops the lock; there is nothing to be lost
		}
	})
}
