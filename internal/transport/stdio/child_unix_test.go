//go:build unix

package stdio

import (
	"os/exec"
	"syscall"
)

// childLeave puts a grandchild into a session of its own.
func childLeave(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
