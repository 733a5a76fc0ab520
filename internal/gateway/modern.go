package gateway

import (
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// discover answers server/discover (server/discover, Response).
func (svc *service) discover(m *message.Message) message.Answer {
	if bad := svc.ourselves(m); bad != nil {
		return *bad
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), m.ID...)
	b = append(b, `,"result":{"resultType":"complete","supportedVersions":`...)
	b = append(append(b, message.SupportedJSON...), `,"capabilities":`...)
	b = append(b, svc.offer().modern...)
	b = append(append(b, `,"_meta":{"`+mcp.MetaServerInfo+`":`...), svc.info...)
	b = append(b, '}')
	if text := svc.backend.Catalog().Instructions(); text != "" {
		b = wire.AppendString(append(b, `,"instructions":`...), text)
	}
	b = append(b, `,"ttlMs":0,"cacheScope":"private"}}`...)
	return message.Answer{Head: b}
}
