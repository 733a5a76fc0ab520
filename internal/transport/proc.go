package transport

import (
	"os"
	"os/exec"
	"strconv"
	"time"
)

// A procChild is a started process with all that it starts in its group. One
// goroutine, which ends when the process has.
type procChild struct {
	cmd    *exec.Cmd
	group  procGroup
	exited chan struct{} // closed once the process has ended and was reaped
}

// procStart starts cmd in a group of its own. Its standard streams must be
// files, so that waiting for it is waiting for nothing else.
func procStart(cmd *exec.Cmd) (*procChild, error) {
	procPrepare(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	group, err := procAdopt(cmd.Process)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
		return nil, err
	}
	p := &procChild{cmd: cmd, group: group, exited: make(chan struct{})}
	// It ends with the process; only the system can hold that up.
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // the state is in cmd.ProcessState
	}()
	return p, nil
}

func (p *procChild) pid() int { return p.cmd.Process.Pid }

// exit describes how the process ended: "exit 1", "signal: killed". It may be
// called once exited is closed.
func (p *procChild) exit() string { return procExit(p.cmd.ProcessState) }

func procExit(s *os.ProcessState) string {
	if code := s.ExitCode(); code >= 0 {
		return "exit " + strconv.Itoa(code)
	}
	return s.String()
}

// goneWithin waits until the process and everything in its group has ended. It
// is false if that takes longer than d, or once hurry is closed.
func (p *procChild) goneWithin(d time.Duration, hurry <-chan struct{}) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-p.exited:
	case <-limit.C:
		return false
	case <-hurry:
		return false
	}
	// Nothing tells when the last of a group ends; look ever less often.
	for pause := time.Millisecond; p.group.alive(); pause = min(2*pause, 50*time.Millisecond) {
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-limit.C:
			next.Stop()
			return false
		case <-hurry:
			next.Stop()
			return false
		}
	}
	return true
}

// killWait bounds the wait for a process that was killed: only one that hangs
// in the kernel takes longer.
const killWait = 2 * time.Second

// stop ends the process and its group: it waits for what the closing of its
// stdin, which the caller did, brings; then asks; then kills. It is false if
// the process is still there.
func (p *procChild) stop(closeWait, grace time.Duration, hurry <-chan struct{}) bool {
	defer p.group.release()
	if p.goneWithin(closeWait, hurry) {
		return true
	}
	p.group.term()
	if p.goneWithin(grace, hurry) {
		return true
	}
	p.group.kill()
	limit := time.NewTimer(killWait)
	defer limit.Stop()
	select {
	case <-p.exited:
		return true
	case <-limit.C:
		return false
	}
}
