package upstream

import (
	"errors"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
)

// refused is the error with which a server refused the handshake.
func (u *Upstream) refused(op string, raw []byte) *fault.Fault {
	f := u.rpcFault(op, raw)
	if !mcp.IsLoop(raw) {
		return f
	}
	return u.blame(op, &fault.Fault{
		Kind: fault.Invalid, Op: op, Outcome: fault.Answered,
		Err:    errors.New("this server is the same everline again"),
		Remedy: "remove the server " + u.opts.Server.Name + " from the configuration",
	})
}
