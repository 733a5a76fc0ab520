package upstream

import (
	"crypto/rand"
	"errors"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// An everline that is among its own servers would list its own tools again and
// again, each time under a longer name. So the handshake says which everline
// asks, and the endpoint of that same one refuses it, whatever stands between.
const (
	metaInstance = "everline/instance"
	codeLoop     = -31012
	kindLoop     = "loop" // data.kind of that refusal: the code alone may be anybody's
)

var instance = strings.ToLower(rand.Text())

// Instance is the name under which this process shakes hands with servers.
func Instance() string { return instance }

// selfMeta is the _meta of a handshake.
func selfMeta() []byte {
	return append(member([]byte{'{'}, metaInstance, wire.AppendString(nil, instance)), '}')
}

// refused is the error with which a server refused the handshake.
func (u *Upstream) refused(op string, raw []byte) *fault.Fault {
	f := u.rpcFault(op, raw)
	if kind, ok := wire.Text(wire.Get(raw, "data", "kind")); f.RPC.Code != codeLoop || !ok || kind != kindLoop {
		return f
	}
	return u.blame(op, &fault.Fault{
		Kind: fault.Invalid, Op: op, Outcome: fault.Answered,
		Err:    errors.New("this server is the same everline again"),
		Remedy: "remove the server " + u.opts.Server.Name + " from the configuration",
	})
}
