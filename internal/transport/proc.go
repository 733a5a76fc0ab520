package transport

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/everline/everline/internal/stray"
)

// A procSpec says how to start a process with all that it will start.
type procSpec struct {
	cmd    *exec.Cmd     // its standard streams are files, so that waiting for it is waiting for nothing else
	grace  time.Duration // from SIGTERM to SIGKILL where we are gone
	mark   string        // in its environment; see package stray
	cgroup string        // the folder of a cgroup to start it in; "": none
	plain  bool          // without a shim
}

// A procChild is a started process with all that it starts. One goroutine,
// which ends when the process, and its shim if it has one, has.
type procChild struct {
	group  procGroup
	pid    int
	mark   string
	notice string        // what could not be had, for status
	exited chan struct{} // closed once the process has ended
	state  string        // how it ended: "exit 1", "signal: killed"; valid once exited is closed
	// gone is closed once everything has ended; nil: nothing tells, and the
	// group must be looked at.
	gone chan struct{}
}

// procStartPlain starts a process as the leader of a group, without a shim.
func procStartPlain(s procSpec) (*procChild, error) {
	procPrepare(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	group, err := procAdopt(s.cmd.Process)
	if err != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // says that it was killed
		return nil, err
	}
	p := &procChild{group: group, pid: s.cmd.Process.Pid, mark: s.mark, exited: make(chan struct{})}
	if s.cgroup != "" {
		p.notice = cgroupNotice(cgroupEnter(s.cgroup, p.pid))
	}
	// It ends with the process; only the system can hold that up.
	go func() {
		defer close(p.exited)
		_ = s.cmd.Wait() // the state is in cmd.ProcessState
		p.state = procExit(s.cmd.ProcessState)
	}()
	return p, nil
}

func procExit(s *os.ProcessState) string {
	if code := s.ExitCode(); code >= 0 {
		return exitText(code)
	}
	return s.String()
}

func exitText(code int) string { return "exit " + strconv.Itoa(code) }

// goneWithin waits until the process and everything that it started has ended.
// It is false if that takes longer than d, or once hurry is closed.
func (p *procChild) goneWithin(d time.Duration, hurry <-chan struct{}) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	last := p.exited
	if p.gone != nil {
		last = p.gone
	}
	select {
	case <-last:
	case <-limit.C:
		return false
	case <-hurry:
		return false
	}
	if p.gone != nil {
		return true
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

// stop ends the process and what it started: it waits for what the closing of
// its stdin, which the caller did, brings; then asks; then kills. It is false
// if something is left.
func (p *procChild) stop(closeWait, grace time.Duration, hurry <-chan struct{}) bool {
	defer p.group.release()
	if p.goneWithin(closeWait, hurry) {
		return p.noneLeft()
	}
	p.group.term()
	if p.goneWithin(grace, hurry) {
		return p.noneLeft()
	}
	p.group.kill()
	if p.gone != nil && !within(killWait, p.gone) {
		p.group.force()
	}
	if !within(killWait, p.exited) {
		return false
	}
	return p.noneLeft()
}

// noneLeft ends what has left the group, and the shim's sight. It is false if
// that is still there after killWait.
func (p *procChild) noneLeft() bool {
	if p.gone != nil && closed(p.gone) {
		return true // the shim saw the last one
	}
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	_, ended := stray.End(ctx, p.mark)
	return ended
}
