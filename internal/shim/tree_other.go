//go:build unix && !linux

package shim

import "syscall"

// becomeReaper: nothing hands orphans to anybody but process 1 here.
func becomeReaper() {}

// keepFiles keeps from the server what is ours.
func keepFiles() {
	syscall.CloseOnExec(controlFD)
	syscall.CloseOnExec(statusFD)
}

// enterCgroup is asked for on Linux alone.
func enterCgroup(string) error { return syscall.ENOTSUP }

// attributes give the server a group of its own: what we can find here.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func replace(from, to int) error { return syscall.Dup2(from, to) }

func (g *guard) term() { _ = syscall.Kill(-g.server, syscall.SIGTERM) }
func (g *guard) kill() { _ = syscall.Kill(-g.server, syscall.SIGKILL) }

// leftBehind tells whether orphans of the group are left.
func (g *guard) leftBehind() bool { return syscall.Kill(-g.server, 0) == nil }

// noNewPrivileges: there is no such thing here.
func noNewPrivileges() {}
