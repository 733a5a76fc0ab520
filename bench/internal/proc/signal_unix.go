//go:build unix

package proc

import (
	"os"
	"syscall"
)

var terminate os.Signal = syscall.SIGTERM

// Freeze stops a process in its tracks, as if it hung, until Thaw.
func Freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func Thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// Kill ends a process at once.
func Kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
