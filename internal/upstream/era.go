package upstream

import (
	"errors"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

// Era is what a generation found out about how to talk to its server.
type Era struct {
	Transport transport.Kind
	Version   string // the protocol version; "" if unknown
	Modern    bool   // without a version: it was once
	// Answered: the server has said so itself. A legacy era without it rests on
	// silence, which is no verdict: it is not to be kept.
	Answered bool
	// Older: a modern server says that it speaks older versions, too.
	Older bool
	// Asks: it has asked a client in the way of the older versions, which it must
	// not in the modern era. Of a server, not of a generation: see package fleet.
	Asks bool
}

// Proven tells whether the server itself has shown its era, so that it may be
// kept. Earlier versions kept eras without Answered: of those only a modern one
// is sure to have been answered.
func (e Era) Proven() bool { return e.Modern || e.Answered }

// perhapsLegacy tells the codes with which legacy servers refuse requests that
// come without a session.
func perhapsLegacy(code int64) bool {
	return code == mcp.CodeMethodNotFound || code == mcp.CodeInvalidRequest || code == mcp.CodeServerError
}

// refusesEra tells the codes with which modern servers refuse every request of
// the legacy era, ping included.
func refusesEra(code int64) bool {
	return code == mcp.CodeUnsupportedVersion || code == mcp.CodeHeaderMismatch
}

var errOtherEra = errors.New("the server speaks another protocol version than at the handshake")
