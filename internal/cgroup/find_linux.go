package cgroup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Find returns the root of our own cgroup, found and prepared once for the
// whole process, or why there is none.
var Find = sync.OnceValues(func() (*Root, error) {
	dir, err := ownDir()
	if err != nil {
		return nil, err
	}
	return open(dir, isOurs)
})

// Sweep removes the groups that an everline which is gone has left where ours
// would be, with what is in them. instance is what all its marks begin with.
func Sweep(instance string) error {
	dir, err := ownDir()
	if err != nil {
		return nil //nolint:nilerr // where there are no cgroups there are none left
	}
	if filepath.Base(dir) == leaf { // we are where Find has moved us
		dir = filepath.Dir(dir)
	}
	return sweep(dir, instance, os.Remove)
}

func ownDir() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return locate(string(own), string(mounts))
}

// locate finds the folder of our own cgroup.
func locate(own, mounts string) (string, error) {
	path := ""
	for line := range strings.Lines(own) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = rest
		}
	}
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) == 0 || kind[0] != "cgroup2" {
			continue
		}
		rel, err := filepath.Rel(fields[3], path) // the mount may show a part of the tree
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		return filepath.Join(fields[4], rel), nil
	}
	return "", errors.New("no cgroup of version 2 is mounted")
}

// isOurs tells whether a process is us or below us.
func isOurs(pid int) bool {
	for self := os.Getpid(); pid > 1; {
		if pid == self {
			return true
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return true // has ended meanwhile
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(string(fields[1])); err != nil {
			return false
		}
	}
	return false
}

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
