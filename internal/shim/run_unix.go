//go:build unix

package shim

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const supported = true

// A shim never gets past this: it ends before any package that imports more
// than this one is initialized, and so before main.
func init() {
	if len(os.Args) > 0 && os.Args[0] == Name && os.Getenv(Var) == Tag {
		// Not os.Exit: there is nothing to flush, and instrumented builds
		// would make everline wait.
		syscall.Exit(run())
	}
}

// A guard is a running shim. It has two goroutines beside its own, which end
// with the process: one reads commands, one reaps.
type guard struct {
	server   int // process id
	grace    time.Duration
	commands chan byte // closed at the end of the control pipe
	exited   chan syscall.WaitStatus
	gone     chan struct{} // closed when there is no child left
}

// run is all that a shim does; it returns the exit code.
func run() int {
	keepFiles()
	becomeReaper()
	spec, err := receive() // may take its time: everline keeps one of us ready
	if errors.Is(err, errVersion) {
		report(ReportFailed, uint32(syscall.EPROTONOSUPPORT))
	}
	if err != nil {
		return 2
	}
	if spec.Cgroup != "" {
		if err := enterCgroup(spec.Cgroup); err != nil {
			report(ReportCgroup, errno(err))
		}
	}
	harden(spec.Privileges)
	pid, err := syscall.ForkExec(spec.Path, spec.Args, &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: []uintptr{0, 1, 2}, Sys: attributes(),
	})
	if err != nil {
		report(ReportFailed, errno(err))
		return 1
	}
	releaseStreams()
	g := &guard{
		server: pid, grace: spec.Grace,
		commands: make(chan byte), exited: make(chan syscall.WaitStatus, 1), gone: make(chan struct{}),
	}
	report(ReportStarted, uint32(pid))
	go g.readCommands() // ends with the process
	go g.reap()         // ends when no child is left
	g.watch()
	return 0
}

// harden is for us, and so for whatever we start: no core dump, in which there are
// secrets, and no more privileges than we have. The thread is the one that forks.
func harden(privileges bool) {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) // less than before can always be had
	if !privileges {
		noNewPrivileges()
	}
}

// receive reads the Spec.
func receive() (Spec, error) {
	head := make([]byte, sizeDigits)
	if err := readFull(head); err != nil {
		return Spec{}, err
	}
	size, err := strconv.ParseUint(string(head), 16, 31)
	if err != nil {
		return Spec{}, err
	}
	body := make([]byte, size)
	if err := readFull(body); err != nil {
		return Spec{}, err
	}
	return decode(string(body))
}

func readFull(p []byte) error {
	for len(p) > 0 {
		n, err := readControl(p)
		if err != nil {
			return err
		}
		if n == 0 {
			return errSpec
		}
		p = p[n:]
	}
	return nil
}

func readControl(p []byte) (int, error) {
	for {
		n, err := syscall.Read(controlFD, p)
		if err != syscall.EINTR { // a bare errno
			return n, err
		}
	}
}

// report tells everline; if that is gone there is nobody to tell.
func report(what byte, n uint32) {
	_, _ = syscall.Write(statusFD, []byte{what, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
}

func errno(err error) uint32 {
	if e, ok := err.(syscall.Errno); ok { //nolint:errorlint // ForkExec returns bare ones
		return uint32(e)
	}
	return uint32(syscall.EIO)
}

// releaseStreams gives up what is the server's now, so that the ends of its streams are
// seen by whoever is at the other ends, and does not hear what is meant for
// others. Only now: what a process ignores, its children ignore too.
func releaseStreams() {
	if null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = replace(null, fd)
		}
		_ = syscall.Close(null)
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
}

// readCommands reads commands.
func (g *guard) readCommands() {
	defer close(g.commands)
	buf := make([]byte, 1)
	for {
		n, err := readControl(buf)
		if n <= 0 || err != nil {
			return
		}
		g.commands <- buf[0]
	}
}

// reap waits for every child: the server, and orphans of it that were handed
// to us.
func (g *guard) reap() {
	defer close(g.gone)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR: // a bare errno
		case err != nil:
			return // ECHILD
		case pid == g.server:
			g.exited <- status
		}
	}
}

// What was killed may have left children, which are ours only then; and where
// nothing hands orphans to us, nothing tells when the last of them ends. So it
// is looked again, ever less often.
const (
	firstLook = time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// watch does what everline says, and on its own what must be done where
// everline is gone, until nothing of the server is left.
func (g *guard) watch() {
	commands, gone := g.commands, g.gone
	var grace, look <-chan time.Time
	reported, force, pause := false, false, firstLook
	for {
		select {
		case command, open := <-commands:
			switch {
			case !open:
				commands = nil
				g.term()
				grace = time.After(g.grace)
			case command == CommandTerm:
				g.term()
			case command == CommandKill:
				force, pause = true, firstLook
			}
		case <-grace:
			force, pause = true, firstLook
		case status := <-g.exited:
			report(ReportExited, uint32(status))
			reported = true
		case <-gone:
			if !reported {
				report(ReportExited, uint32(<-g.exited)) // it is there: gone comes after it
				reported = true
			}
			gone = nil
		case <-look:
		}
		if gone == nil && !g.leftBehind() {
			return
		}
		if force {
			g.kill()
		}
		if force || gone == nil {
			look, pause = time.After(pause), min(2*pause, lastLook)
		}
	}
}
