package mcp

import (
	"crypto/rand"
	"strings"

	"github.com/everline/everline/internal/wire"
)

// An everline that is among its own servers would list its own tools again and
// again, each time under a longer name. So the handshake says which everline
// asks, and the endpoint of that same one refuses it, whatever stands between.

var instance = strings.ToLower(rand.Text())

// Instance is the name under which this process shakes hands with servers.
func Instance() string { return instance }

// HandshakeMeta is the _meta with which this process shakes hands.
func HandshakeMeta() []byte {
	return append(wire.AppendString([]byte(`{"`+MetaInstance+`":`), instance), '}')
}

// FromInstance reports whether the params of a handshake are those of the
// everline with this name.
func FromInstance(params []byte, name string) bool {
	from, ok := wire.Text(wire.Get(params, "_meta", MetaInstance))
	return ok && name != "" && from == name
}

// The refusal: its code alone may be anybody's, so its data has a kind.
const (
	LoopMessage = "This everline is a server of itself: remove that server from its configuration"
	LoopData    = `{"outcome":"not_sent","kind":"loop","cause":"the server is the everline that asks"}`
)

// IsLoop reports whether a raw error is the refusal of this everline itself.
func IsLoop(rawError []byte) bool {
	code, _ := wire.DecodeError(rawError)
	kind, _ := wire.Text(wire.Get(rawError, "data", "kind"))
	return code == CodeLoop && kind == "loop"
}

// ChainVar is the environment variable that the servers of an everline inherit
// from it: which configurations the everlines above them serve, each with the
// process that does. What a server has started may keep the variable for longer
// than that process runs.
const ChainVar = "EVERLINE_CHAIN"
