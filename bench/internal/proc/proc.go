// Package proc starts the programs that are measured, and reads from the
// system what they and everything below them use. It judges nothing. What it
// reads is Linux's /proc; elsewhere every reading is zero.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc.
const tick = 10 * time.Millisecond

// A Stat is what the system tells of one process.
type Stat struct {
	PID, Parent int
	CPU         time.Duration // user and system time, in steps of 10 ms
	Reaped      time.Duration // that of children which it has waited for
	Threads     int
}

// Read returns what is known of one process.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	return parseStat(pid, b)
}

func parseStat(pid int, b []byte) (Stat, error) {
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 18 {
		return Stat{}, fmt.Errorf("/proc/%d/stat has %d fields behind the name", pid, len(f))
	}
	var n [18]int64
	for i := 1; i < len(n); i++ {
		n[i], _ = strconv.ParseInt(f[i], 10, 64) // fields that are no numbers are not used
	}
	return Stat{
		PID: pid, Parent: int(n[1]), Threads: int(n[17]),
		CPU:    time.Duration(n[11]+n[12]) * tick,
		Reaped: time.Duration(n[13]+n[14]) * tick,
	}, nil
}

// Tree returns root and all processes below it that exist now.
func Tree(root int) []Stat {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]Stat{}
	var found []Stat
	for _, d := range names {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		s, err := Read(pid)
		switch {
		case err != nil: // it has ended meanwhile
		case pid == root:
			found = append(found, s)
		default:
			children[s.Parent] = append(children[s.Parent], s)
		}
	}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].PID]...)
	}
	return found
}

// CommandLine returns the arguments that a process was started with.
func CommandLine(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Usage is what a gateway and the servers below it use, apart.
type Usage struct {
	Gateway, Servers time.Duration // CPU so far
	Processes        int           // of the gateway
	Pids             []int         // of the servers
}

// Split adds up the trees under roots. isServer tells from a command line that
// a process is a server that is measured against, and no part of the gateway.
// Children that have ended count as servers: a gateway that lives has no
// others.
func Split(roots []int, isServer func(argv []string) bool) Usage {
	var u Usage
	for _, root := range roots {
		for _, s := range Tree(root) {
			u.Servers += s.Reaped
			if isServer(CommandLine(s.PID)) {
				u.Servers += s.CPU
				u.Pids = append(u.Pids, s.PID)
				continue
			}
			u.Gateway += s.CPU
			u.Processes++
		}
	}
	return u
}

// Memory is resident memory in bytes.
type Memory struct {
	RSS int64 // all pages, those that are shared with other processes included
	PSS int64 // a page that n processes share counts as an n-th
}

// MemoryOf adds up the gateway's processes under roots, the servers left out.
func MemoryOf(roots []int, isServer func(argv []string) bool) Memory {
	var m Memory
	for _, root := range roots {
		for _, s := range Tree(root) {
			if !isServer(CommandLine(s.PID)) {
				one := memoryOf(s.PID)
				m.RSS, m.PSS = m.RSS+one.RSS, m.PSS+one.PSS
			}
		}
	}
	return m
}

func memoryOf(pid int) Memory {
	var m Memory
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(f[1], 10, 64) // the first line has no number there
		switch f[0] {
		case "Rss:":
			m.RSS = kib << 10
		case "Pss:":
			m.PSS = kib << 10
		}
	}
	return m
}

// Files counts the open descriptors of a process.
func Files(pid int) int {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(names)
}

// Self is the CPU time of this process.
func Self() time.Duration {
	s, err := Read(os.Getpid())
	if err != nil {
		return 0
	}
	return s.CPU
}

// Machine is the time that all processors together were busy.
func Machine() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var busy int64
	for i, f := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // name, idle, iowait; guests are in user
			continue
		}
		n, _ := strconv.ParseInt(f, 10, 64)
		busy += n
	}
	return time.Duration(busy) * tick
}

// A Command says how to start a program.
type Command struct {
	Argv []string
	Env  []string // besides our own
	Dir  string
	Log  string // file that gets its output
}

// A Process is a program that runs. One goroutine waits for its end.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// Start runs a command. Its stdin stays open and silent until it is stopped.
func Start(c Command) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.Background(), c.Argv[0], c.Argv[1:]...) // until Stop or Kill
	cmd.Env, cmd.Dir = append(os.Environ(), c.Env...), c.Dir
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() { // ends with the process, which Stop sees to
		defer close(p.ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the process at once, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

// Stop asks the process to end, and kills it with all below it after 5 s. It
// is idempotent.
func (p *Process) Stop() {
	below := Tree(p.PID())
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(terminate)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		p.Kill()
	}
	for _, s := range below[min(1, len(below)):] {
		killLeft(s.PID)
	}
}

// killLeft ends a process that outlived its parent, which is not ours to wait for.
func killLeft(pid int) {
	s, err := Read(pid)
	if err != nil || s.Parent != 1 {
		return
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// WaitPort returns once something listens at an address.
func WaitPort(ctx context.Context, address string) error {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// FreePort returns a loopback port that nothing listens on.
func FreePort() (int, error) {
	var c net.ListenConfig
	l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
