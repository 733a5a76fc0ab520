package upstream

import (
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// inbound takes what the server says by itself. It runs on the reader's
// goroutine and blocks on nothing.
func (u *Upstream) inbound(l *link, msg transport.Inbound) {
	u.hear()
	m := &msg.Msg
	switch {
	case m.IsRequest():
		u.requests.handle(l, msg.CallID, m)
	case m.IsNotification():
		u.notification(msg.CallID, m)
	case m.IsResponse():
		u.callers.lateAnswer(m)
	default:
		u.ignored.Add(1)
	}
}

func (u *Upstream) notification(stream int64, m *wire.Message) {
	switch m.Method {
	case mcp.NotifyToolsChanged:
		u.announced(catalog.Tools)
	case mcp.NotifyPromptsChanged:
		u.announced(catalog.Prompts)
	case mcp.NotifyResourcesChanged:
		u.announced(catalog.Resources)
		u.announced(catalog.Templates)
	case mcp.NotifyResourceUpdated:
		u.resourceUpdated(m.Params)
	case mcp.NotifyTaskStatus, mcp.NotifyTasks:
		u.callers.taskChanged(m.Params)
	case mcp.NotifyMessage:
		u.requests.message(stream, m.Params)
	case mcp.NotifyElicitationDone:
		u.requests.completed(m.Params)
	case mcp.NotifyProgress:
		u.progress(m.Params)
	case mcp.NotifyAcknowledged:
		u.subs.acknowledged(stream, m.Params)
	case mcp.NotifyCancelled:
		u.cancelled(m.Params)
	default:
		u.extended(stream, m)
	}
}

// extended hands a notification that no revision defines to the client whose call it
// belongs to: to others it might tell what is not theirs.
func (u *Upstream) extended(stream int64, m *wire.Message) {
	c, _ := u.callers.owner(stream, m.Params)
	if c == nil {
		u.ignored.Add(1)
		return
	}
	c.Client.Notify(m.Method, m.Params)
}

func (u *Upstream) resourceUpdated(params []byte) {
	uri, ok := wire.Text(wire.Get(params, "uri"))
	if !ok {
		u.ignored.Add(1)
		return
	}
	u.updated(uri, params)
}

// progress goes to the call that has the token, while it is in flight, with
// the token that its client gave.
func (u *Upstream) progress(params []byte) {
	id, ok := wire.ParseID(wire.Get(params, mcp.MetaProgressToken))
	if !ok {
		u.ignored.Add(1)
		return
	}
	c := u.callers.progressOf(id)
	if c == nil || c.Progress == nil {
		u.ignored.Add(1)
		return
	}
	c.Progress(wire.Set(params, wire.Get(c.Params, "_meta", mcp.MetaProgressToken), mcp.MetaProgressToken))
}

// cancelled: a legacy server withdraws a request of its own so, a modern one
// ends a listen stream, and nothing else.
func (u *Upstream) cancelled(params []byte) {
	if u.requests.withdrawn(wire.Get(params, "requestId")) {
		return
	}
	id, ok := wire.ParseID(wire.Get(params, "requestId"))
	if !ok {
		u.ignored.Add(1)
		return
	}
	if !u.subs.cutStream(id) {
		u.ignored.Add(1)
	}
}
