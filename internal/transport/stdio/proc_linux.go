package stdio

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	fSetPipeSize = 1031    // F_SETPIPE_SZ of linux/fcntl.h
	widePipe     = 1 << 20 // the most that everybody may have
)

// procWiden gives a pipe room for large messages, so that they need fewer
// changes of who runs. Where that is refused the pipe works as it is.
func procWiden(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, fSetPipeSize, widePipe)
	})
}

// procGroupLives reports whether a group that the kernel still knows has more
// than zombies in it. Orphans are reaped by process 1, and in many containers
// that takes its time, or never does it.
func procGroupLives(id int) bool {
	dir, err := os.Open("/proc")
	if err != nil {
		return true // cannot be told
	}
	names, err := dir.Readdirnames(-1)
	if closeErr := dir.Close(); err != nil || closeErr != nil {
		return true
	}
	want := []byte(strconv.Itoa(id))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // has ended meanwhile
		}
		// pid (name) state ppid pgrp ...; the name may contain anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && bytes.Equal(fields[2], want) && fields[0][0] != 'Z' && fields[0][0] != 'X' {
			return true
		}
	}
	return false
}

// procNoCore keeps a process without a shim, and what it starts, from leaving its
// memory behind. A shim sees to that, and to privileges, by itself.
func procNoCore(pid int) { _ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) } // it may have ended
