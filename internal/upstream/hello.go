package upstream

import (
	"fmt"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// hello is what the handshake told.
type hello struct {
	envelope     envelope
	capabilities []byte // raw; nil if there were none
	serverInfo   []byte // raw; nil if there was none
	instructions string
	unheard      *fault.Fault // how the server refused notifications/initialized; nil if it did not
}

// beside adds to the failure of a request that the server refused the
// notification which ends the handshake. That decides nothing, and it may be
// why.
func (h *hello) beside(f *fault.Fault) *fault.Fault {
	if h.unheard == nil || f.Kind == fault.Canceled {
		return f
	}
	c := *f
	c.Err = fmt.Errorf("%w (before it, %s was answered: %s)", f.Cause(), mcp.NotifyInitialized, h.unheard.Reason())
	return &c
}

// texts reads an array of strings, leaving out what is none.
func texts(raw []byte) []string {
	var out []string
	for e := range wire.Elements(raw) {
		if s, ok := wire.Text(e); ok {
			out = append(out, s)
		}
	}
	return out
}
