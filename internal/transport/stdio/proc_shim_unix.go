//go:build unix

package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/everline/everline/internal/orphan"
	"github.com/everline/everline/internal/shim"
)

// shimReplies bounds the wait for a shim to take its order and to start the
// server, which takes it milliseconds.
const shimReplies = 10 * time.Second

// A shimLink is our side of a shim.
type shimLink struct {
	cmd     *exec.Cmd
	control *os.File
	status  *os.File
	ours    procEnds // of the streams that the shim hands on to the server
	mark    string   // in its environment, and for that of the server
}

// procStart starts a process: below a shim where that is allowed, and as the
// leader of a group elsewhere.
func procStart(s procSpec) (*procChild, error) {
	program := shimProgram()
	if program == "" || s.plain {
		return procStartPlain(s)
	}
	if link := s.spares.take(); link != nil {
		p, err := link.start(s)
		if !errors.Is(err, errShimGone) {
			return p, err
		}
	}
	link, err := startShim(program)
	if err != nil {
		return nil, err
	}
	return link.start(s)
}

// start makes the shim start a server. An error leaves nothing of it.
func (l *shimLink) start(s procSpec) (*procChild, error) {
	p := &procChild{
		group: procGroup{shim: l}, mark: l.mark, ours: l.ours,
		exited: make(chan struct{}), gone: make(chan struct{}),
	}
	if err := l.order(s, p); err != nil {
		l.giveUp()
		endMarked(l.mark)
		return nil, err
	}
	p.group.id = p.pid
	go p.attend(l) // ends when the shim does
	return p, nil
}

// shimProgram is our own program; "" if it must not, or cannot, be a shim.
func shimProgram() string {
	if !shim.Allowed() {
		return ""
	}
	if runtime.GOOS == "linux" {
		return "/proc/self/exe" // what runs, even if the file was replaced
	}
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// startShim starts a shim with the streams of the server to come. It has an
// environment of its own: what makes a Go program small.
func startShim(program string) (*shimLink, error) {
	ours, its, err := procPipes()
	if err != nil {
		return nil, err
	}
	defer its.close() // the shim has them
	orders, control, err := os.Pipe()
	if err != nil {
		ours.close()
		return nil, err
	}
	status, reports, err := os.Pipe()
	if err != nil {
		_ = errors.Join(orders.Close(), control.Close())
		ours.close()
		return nil, err
	}
	l := &shimLink{control: control, status: status, ours: ours, mark: orphan.NewMark()}
	l.cmd = &exec.Cmd{
		Path: program, Args: []string{shim.Name},
		Env:         marked([]string{shim.Var + "=" + shim.Tag, "GOMAXPROCS=1", "GOGC=off", "GOTRACEBACK=none"}, l.mark),
		ExtraFiles:  []*os.File{orders, reports},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	its.give(l.cmd)
	err = l.cmd.Start()
	_ = errors.Join(orders.Close(), reports.Close()) // the shim has them
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// close gives our ends up.
func (l *shimLink) close() {
	_ = errors.Join(l.control.Close(), l.status.Close())
	l.ours.close()
}

// errShimGone tells a shim that has ended, or does not answer, from a server
// that cannot be started.
var errShimGone = errors.New("the process that guards the server has ended")

// errShimOther is about a program file that was replaced while everline ran.
var errShimOther = errors.New("the process that guards the server is of another release of everline: restart everline")

// order tells the shim what to start, and waits until it is started.
func (l *shimLink) order(s procSpec, p *procChild) error {
	limit := time.Now().Add(shimReplies)
	order := shim.Spec{
		Path: s.cmd.Path, Args: s.cmd.Args, Env: marked(s.cmd.Env, l.mark), Dir: s.cmd.Dir, Cgroup: s.cgroup, Grace: s.grace, Privileges: s.privileges,
	}
	if err := errors.Join(l.control.SetWriteDeadline(limit), l.status.SetReadDeadline(limit)); err != nil {
		return err
	}
	if _, err := l.control.Write(order.Encode()); err != nil {
		return fmt.Errorf("%w: %w", errShimGone, err)
	}
	for {
		what, n, err := l.report()
		if err != nil {
			return fmt.Errorf("%w: %w", errShimGone, err)
		}
		switch what {
		case shim.ReportCgroup:
			p.notice = cgroupNotice(syscall.Errno(n))
		case shim.ReportFailed:
			if syscall.Errno(n) == syscall.EPROTONOSUPPORT { // no start says that
				return errShimOther
			}
			return &fs.PathError{Op: "fork/exec", Path: s.cmd.Path, Err: syscall.Errno(n)}
		case shim.ReportStarted:
			p.pid = int(n)
			return errors.Join(l.control.SetWriteDeadline(time.Time{}), l.status.SetReadDeadline(time.Time{}))
		}
	}
}

func (l *shimLink) report() (what byte, n uint32, err error) {
	var r [shim.ReportSize]byte
	if _, err := io.ReadFull(l.status, r[:]); err != nil {
		return 0, 0, err
	}
	return r[0], uint32(r[1]) | uint32(r[2])<<8 | uint32(r[3])<<16 | uint32(r[4])<<24, nil
}

// giveUp ends a shim that has started nothing, or did not do its work.
func (l *shimLink) giveUp() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait() // says that it was killed
	l.close()
}

// attend hears what the shim reports until it ends.
func (p *procChild) attend(l *shimLink) {
	reported := false
	for {
		what, n, err := l.report()
		if err != nil {
			break // it has ended
		}
		if what == shim.ReportExited && !reported {
			reported = true
			p.state = waitText(syscall.WaitStatus(n))
			close(p.exited)
		}
	}
	_ = l.cmd.Wait()                                                                    // at once: nothing else holds the other end
	p.cpu.Store(int64(l.cmd.ProcessState.UserTime() + l.cmd.ProcessState.SystemTime())) // it has waited for all others
	if !reported {
		// Somebody killed the shim. The kernel ends the server with it; the
		// rest is found by its mark.
		p.state, p.unguarded = procExit(l.cmd.ProcessState), true
		close(p.exited)
		endMarked(p.mark)
	}
	_ = l.status.Close()
	close(p.gone)
}

// endMarked ends what a shim can no longer end.
func endMarked(mark string) {
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	orphan.End(ctx, mark)
}

func waitText(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal: " + s.Signal().String()
	}
	return exitText(s.ExitStatus())
}

// tell sends a command; a shim that has ended needs none.
func (l *shimLink) tell(command byte) { _, _ = l.control.Write([]byte{command}) }
