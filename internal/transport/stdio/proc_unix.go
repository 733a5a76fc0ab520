//go:build unix

package stdio

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/everline/everline/internal/shim"
)

// A procGroup is a process group, named by its leader's id, and the shim that
// guards it, if there is one. Without a shim the id cannot be given to another
// group while a member is left.
type procGroup struct {
	id   int
	shim *shimLink
}

// procPrepare makes the process the leader of a group. A parent-death signal
// is no use here: the kernel binds it to the thread that forked.
func procPrepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func procAdopt(p *os.Process) (procGroup, error) { return procGroup{id: p.Pid}, nil }

// term and kill ignore errors: there is none but that nobody is left.
func (g procGroup) term() {
	if g.shim != nil {
		g.shim.tell(shim.CommandTerm)
		return
	}
	_ = syscall.Kill(-g.id, syscall.SIGTERM)
}

func (g procGroup) kill() {
	if g.shim != nil {
		g.shim.tell(shim.CommandKill)
		return
	}
	_ = syscall.Kill(-g.id, syscall.SIGKILL)
}

// force ends a shim that does not do what it is told, and with it, on Linux,
// the server; what is left is found by its mark.
func (g procGroup) force() {
	if g.shim != nil {
		_ = g.shim.cmd.Process.Kill() // not reaped yet: its goroutine would have told
	}
}

// alive reports whether a member is left. It must not be called before the
// leader was reaped. Where we are process 1, or a subreaper, orphans of the
// group become our children, and would stay as zombies if nobody reaped them.
func (g procGroup) alive() bool {
	for {
		pid, err := syscall.Wait4(-g.id, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	return syscall.Kill(-g.id, 0) == nil && procGroupLives(g.id)
}

// release is the end of the use of the group. A shim that is left is told by it.
func (g procGroup) release() {
	if g.shim != nil {
		_ = g.shim.control.Close()
	}
}

// procTryWrite writes what fits into a pipe, without waiting.
func procTryWrite(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, nil
		default:
			return 0, err
		}
	}
}
