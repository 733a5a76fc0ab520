package gateway

import (
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
)

// ourselves refuses the handshake of the everline that this is the endpoint of,
// by whatever way it came here; nil for everybody else's.
func (svc *service) ourselves(m *message.Message) *message.Answer {
	if !mcp.FromInstance(m.Params, svc.opts.Instance) {
		return nil
	}
	return m.LoopRefusal()
}
