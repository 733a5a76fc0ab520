package stdio

import (
	"errors"
	"os/exec"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/sandbox"
)

// confine has the process begin in its sandbox, as far as there can be one.
func (c *conn) confine(cmd *exec.Cmd) *fault.Fault {
	r := c.spec.Sandbox
	if r == nil {
		return nil
	}
	can, program := sandbox.Supported(), shimProgram()
	unmet := ""
	switch {
	case program == "" || c.spec.plain:
		can, unmet = sandbox.Support{}, "the program has not allowed to be started again (everline.RunShim)"
	case !can.Enforces(*r):
		unmet = "this system can enforce " + can.String()
	}
	if unmet != "" && c.spec.SandboxRequired {
		return &fault.Fault{
			Kind: fault.Invalid, Op: opStart, Outcome: fault.NotSent, Err: errors.New("the sandbox cannot be had: " + unmet),
			Remedy: "run it where it can be, or set sandbox.require to false",
		}
	}
	if unmet != "" {
		c.notice("the sandbox is not enforced: " + unmet)
	}
	if can.ABI > 0 {
		cmd.Args, cmd.Env = r.Wrap(cmd.Path, cmd.Args, cmd.Env)
		cmd.Path = program
	}
	return nil
}
