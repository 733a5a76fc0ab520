package gateway

import (
	"sync/atomic"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/mcp"
)

// callers tell what is known of who makes a call. A modern client says it anew with
// each request, and one client is what most everlines have: what the request before
// said is not read again.
type callers struct {
	subject string // of all of them
	newest  atomic.Pointer[knownCaller]
}

type knownCaller struct {
	info string // raw
	by   *event.Caller
}

// of is the caller of a request.
func (c *callers) of(x *exchange) *event.Caller {
	if !x.Modern && x.sess != nil {
		return x.sess.Caller()
	}
	if known := c.newest.Load(); known != nil && known.info == string(x.Fields.Meta.ClientInfo) {
		return known.by
	}
	by := &event.Caller{Subject: c.subject}
	if by.Name, by.Version = session.ReadClientInfo(x.Fields.Meta.ClientInfo); x.Modern {
		by.Protocol = mcp.ModernVersion
	}
	c.newest.Store(&knownCaller{string(x.Fields.Meta.ClientInfo), by})
	return by
}
