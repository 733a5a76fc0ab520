//go:build unix

package stdio

import (
	"os/exec"
	"syscall"
	"time"
)

// childLeave puts a grandchild into a session of its own.
func childLeave(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// childBurn uses so much CPU time, one half of it in a grandchild.
func childBurn(d time.Duration) {
	used := func(who int) (sum time.Duration) {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for used(syscall.RUSAGE_CHILDREN) < d/2 {
		_ = exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").Run()
	}
	for begin := used(syscall.RUSAGE_SELF); used(syscall.RUSAGE_SELF)-begin < d/2; {
	}
}
