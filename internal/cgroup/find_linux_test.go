package cgroup

import (
	"os"
	"testing"
)

func TestLocate(t *testing.T) {
	const mounts = `22 1 0:20 / /proc rw - proc proc rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
`
	const part = `30 22 0:26 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw
`
	for _, c := range []struct{ own, mounts, want string }{
		{"0::/user.slice/everline.service\n", mounts, "/sys/fs/cgroup/user.slice/everline.service"},
		{"9:pids:/x\n0::/\n", mounts, "/sys/fs/cgroup"},
		{"0::/user.slice/a\n", part, "/sys/fs/cgroup/a"},
		{"0::/other/a\n", part, ""},
		{"0::/\n", "22 1 0:20 / /proc rw - proc proc rw\n", ""},
	} {
		got, err := locate(c.own, c.mounts)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v, want %q", c.own, got, err, c.want)
		}
	}
}

func TestIsOurs(t *testing.T) {
	if !isOurs(os.Getpid()) || isOurs(os.Getppid()) || isOurs(1) {
		t.Error("isOurs is wrong")
	}
}

// Whatever this machine is like: there is a root, or a reason.
func TestFind(t *testing.T) {
	if r, err := Find(); (r == nil) == (err == nil) {
		t.Errorf("%v, %v", r, err)
	}
}
