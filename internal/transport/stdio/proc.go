package stdio

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/orphan"
)

// A procSpec says how to start a process with all that it will start.
type procSpec struct {
	cmd    *exec.Cmd     // without its standard streams, which are made here
	grace  time.Duration // from SIGTERM to SIGKILL where we are gone
	cgroup string        // the folder of a cgroup to start it in; "": none
	plain  bool          // without a shim
	spares *Spares       // of shims; may be nil

	privileges bool // may be gained by what is started
}

// A procChild is a started process with all that it starts. One goroutine,
// which ends when the process, and its shim if it has one, has.
type procChild struct {
	group  procGroup
	pid    int
	mark   string        // in its environment; see package orphan
	ours   procEnds      // the caller's, who closes them
	notice string        // what could not be had, for status
	exited chan struct{} // closed once the process has ended
	state  string        // how it ended: "exit 1", "signal: killed"; valid once exited is closed
	// unguarded: the shim has ended, how is in state, and the process with it;
	// valid once exited is closed.
	unguarded bool
	cpu       atomic.Int64 // that all of it has used; 0 until it has ended
	// gone is closed once everything has ended; nil: nothing tells, and the
	// group must be looked at.
	gone chan struct{}
}

// procEnds are the ends of the three pipes that are a process's standard
// streams: ours, or its own.
type procEnds struct{ stdin, stdout, stderr *os.File }

// procPipes makes the streams. They are files, not Go readers: waiting for a
// process must not mean waiting for whoever else has inherited its streams.
func procPipes() (ours, its procEnds, err error) {
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	its.stdin, ours.stdin = pipe()
	ours.stdout, its.stdout = pipe()
	ours.stderr, its.stderr = pipe()
	if err != nil {
		ours.close()
		its.close()
	}
	return ours, its, err
}

// close gives the ends up; nothing was written to them that could be lost, and
// nil is no harm.
func (e procEnds) close() { _ = errors.Join(e.stdin.Close(), e.stdout.Close(), e.stderr.Close()) }

// give makes them a command's streams.
func (e procEnds) give(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.stdin, e.stdout, e.stderr
}

// procStartPlain starts a process as the leader of a group, without a shim.
func procStartPlain(s procSpec) (*procChild, error) {
	ours, its, err := procPipes()
	if err != nil {
		return nil, err
	}
	defer its.close() // the process has them
	p := &procChild{mark: orphan.NewMark(), ours: ours, exited: make(chan struct{})}
	procPrepare(s.cmd)
	its.give(s.cmd)
	s.cmd.Env = marked(s.cmd.Env, p.mark)
	if err := s.cmd.Start(); err != nil {
		ours.close()
		return nil, err
	}
	if p.group, err = procAdopt(s.cmd.Process); err != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // says that it was killed
		ours.close()
		return nil, err
	}
	p.pid = s.cmd.Process.Pid
	procNoCore(p.pid)
	if s.cgroup != "" {
		p.notice = cgroupNotice(cgroupEnter(s.cgroup, p.pid))
	}
	// It ends with the process; only the system can hold that up.
	go func() {
		defer close(p.exited)
		_ = s.cmd.Wait() // the state is in cmd.ProcessState
		p.state = procExit(s.cmd.ProcessState)
		p.cpu.Store(int64(s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()))
	}()
	return p, nil
}

// marked puts the mark behind the rest: the last one counts.
func marked(env []string, mark string) []string {
	return append(env[:len(env):len(env)], orphan.MarkVar+"="+mark)
}

func procExit(s *os.ProcessState) string {
	if code := s.ExitCode(); code >= 0 {
		return exitText(code)
	}
	return s.String()
}

func exitText(code int) string { return "exit " + strconv.Itoa(code) }

// goneWithin waits until the process and everything that it started has ended.
// It is false if that takes longer than d, or once forced is closed.
func (p *procChild) goneWithin(d time.Duration, forced <-chan struct{}) bool {
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
	case <-forced:
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
		case <-forced:
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
func (p *procChild) stop(closeWait, grace time.Duration, forced <-chan struct{}) bool {
	defer p.group.release()
	if p.goneWithin(closeWait, forced) {
		return p.noneLeft()
	}
	p.group.term()
	if p.goneWithin(grace, forced) {
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
	_, ended := orphan.End(ctx, p.mark)
	return ended
}
