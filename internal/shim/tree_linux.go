package shim

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	prSetName           = 15 // PR_SET_NAME of linux/prctl.h
	prSetChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	prSetNoNewPrivs     = 38 // PR_SET_NO_NEW_PRIVS
)

// comm is what ps and top call us, instead of "exe".
var comm = append([]byte(Name), 0)

// becomeReaper makes us the parent of every orphan below us, whatever sessions
// and groups there are. It cannot fail on a kernel that Go runs on.
func becomeReaper() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(&comm[0])), 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// noNewPrivileges cannot fail on a kernel that Go runs on.
func noNewPrivileges() {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0)
}

const (
	sysCloseRange     = 436 // the same on every architecture
	closeRangeCloexec = 4
)

// keepFiles keeps from the server what is ours, and what everline itself was
// started with by somebody who did not look after his descriptors.
func keepFiles() {
	if _, _, e := syscall.RawSyscall(sysCloseRange, controlFD, 1<<31-1, closeRangeCloexec); e != 0 { // before Linux 5.11
		syscall.CloseOnExec(controlFD)
		syscall.CloseOnExec(statusFD)
	}
}

// enterCgroup moves us, and so whatever we start, into a cgroup.
func enterCgroup(dir string) error {
	fd, err := syscall.Open(dir+"/cgroup.procs", syscall.O_WRONLY|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600) // it is there; O_CREAT is no harm
	if err != nil {
		return err
	}
	_, err = syscall.Write(fd, []byte("0"))
	_ = syscall.Close(fd)
	return err
}

// attributes give the server a group of its own, so that a script's "kill 0"
// does not reach us, and end it with us: this thread is the main one, which
// Go keeps for as long as the process runs.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func replace(from, to int) error { return syscall.Dup3(from, to, 0) }

func (g *guard) term() { g.signal(syscall.SIGTERM) }
func (g *guard) kill() { g.signal(syscall.SIGKILL) }

// leftBehind: once there is no child there is nothing.
func (g *guard) leftBehind() bool { return false }

// signal sends to everything below us.
func (g *guard) signal(s syscall.Signal) {
	all, err := descendants()
	if err != nil { // no /proc: what is in the group at least
		_ = syscall.Kill(-g.server, s)
		return
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, s) // may have ended meanwhile
	}
}

// descendants lists all processes below us, parents before children.
func descendants() ([]int, error) {
	children, err := processTree()
	if err != nil {
		return nil, err
	}
	all := children[os.Getpid()]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// processTree reads who is whose child.
func processTree() (map[int][]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // has ended meanwhile
		}
		if parent, ok := parentIn(stat); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	return children, nil
}

// parentIn finds the parent in "pid (name) state ppid ..."; the name may
// contain anything.
func parentIn(stat []byte) (int, bool) {
	end := len(stat) - 1
	for end >= 0 && stat[end] != ')' {
		end--
	}
	const before = len(") S ")
	if end < 0 || end+before > len(stat) {
		return 0, false
	}
	rest := stat[end+before:]
	n := 0
	for n < len(rest) && rest[n] != ' ' {
		n++
	}
	parent, err := strconv.Atoi(string(rest[:n]))
	return parent, err == nil
}
