package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// listMembers are the kinds that can be listed, in the order of everline.Kind.
var listMembers = [...]everline.Kind{everline.Tools, everline.Prompts, everline.Resources, everline.Templates}

// endOfList closes a result and its message.
var endOfList = []byte("}}")

// A listEnvelope is what stands around the items of one kind in a result.
type listEnvelope struct {
	legacy, modern []byte // from the result's opening brace to just before the array
}

func listEnvelopes(info []byte, ttl time.Duration) (envs [len(listMembers)]listEnvelope) {
	for i, k := range listMembers {
		member := strconv.Quote(k.String()) + ":"
		envs[i].legacy = []byte("{" + member)
		envs[i].modern = []byte(`{"resultType":"complete","ttlMs":` + strconv.FormatInt(ttl.Milliseconds(), 10) +
			`,"cacheScope":"private","_meta":{"` + mcp.MetaServerInfo + `":` + string(info) + "}," + member)
	}
	return envs
}

// list answers one of the four list methods: the array was encoded once, when
// it was published, and the envelope once and for all. Everything is on one
// page, so there is no cursor that we ever gave out.
func (g *Gateway) list(ctx context.Context, x *exchange, k everline.Kind) message.Answer {
	if c := x.Fields.Cursor; c != nil && !wire.IsNull(c) && string(c) != `""` {
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid cursor: lists have one page", nil)
	}
	g.backend.WaitFirst(ctx)
	items := g.backend.Catalog().Array(k)
	env := g.envs[k].legacy
	if x.Modern {
		env = g.envs[k].modern
	}
	head := make([]byte, 0, len(`{"jsonrpc":"2.0","id":,"result":`)+len(x.ID)+len(env))
	head = append(append(head, `{"jsonrpc":"2.0","id":`...), x.ID...)
	head = append(append(head, `,"result":`...), env...)
	return message.Answer{Head: head, Body: items, Tail: endOfList}
}

// implementation encodes an MCP Implementation object.
func implementation(name, version string) []byte {
	b := wire.AppendString([]byte(`{"name":`), name)
	return append(wire.AppendString(append(b, `,"version":`...), version), '}')
}
