package orphan

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// find lists the living processes of our user whose mark begins with prefix.
// It is unsure where a process has no environment: when a program is started
// the kernel takes the old one away before it sets the new one, and when one
// ends it is gone a moment before the process is.
func find(prefix string) (pids []int, unsure bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil, false
	}
	want := []byte(MarkVar + "=" + prefix)
	self := os.Getpid()
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ") // empty for a zombie, refused for other users
		if len(env) == 0 && (err == nil || errors.Is(err, syscall.ESRCH)) {
			unsure = unsure || runs(pid)
		}
		if err == nil && hasMark(env, want) {
			pids = append(pids, pid)
		}
	}
	return pids, unsure
}

// marked tells whether the mark of a process begins with prefix.
func marked(pid int, prefix string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && hasMark(env, []byte(MarkVar+"="+prefix))
}

func hasMark(env, want []byte) bool {
	return bytes.HasPrefix(env, want) || bytes.Contains(env, append([]byte{0}, want...))
}

// kernelThreads is the parent of all threads of the kernel.
const kernelThreads = "2"

// runs tells whether a process is a program's, and has not ended.
func runs(pid int) bool {
	fields := statOf(pid)
	return len(fields) > 1 && pid != 2 && string(fields[1]) != kernelThreads && fields[0][0] != 'Z' && fields[0][0] != 'X'
}

// statOf returns what /proc says of a process from its state on: state, ppid,
// pgrp, ...; nil if there is none. The name before it may contain anything.
func statOf(pid int) [][]byte {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

// born identifies one use of a process id: an id is used again, the moment of
// its start on this boot is not. "" if there is no such process.
func born(pid int) string {
	fields := statOf(pid) // starttime is the 20th of them
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return ""
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it the ticks alone must do
	return string(fields[19]) + "@" + strings.TrimSpace(string(boot))
}

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// endRecorded has nothing to add: the marks are proof, and reach further.
func endRecorded(Process) bool { return false }
