package stdio

import "os/exec"

// childLeave has nothing to do: there are no sessions to hide in.
func childLeave(*exec.Cmd) {}
