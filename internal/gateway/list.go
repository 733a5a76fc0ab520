package gateway

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// listMembers are the kinds that can be listed, in the order of everline.Kind.
var listMembers = [...]everline.Kind{everline.Tools, everline.Prompts, everline.Resources, everline.Templates}

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
func (g *Gateway) list(ctx context.Context, x *exchange, k everline.Kind) answer {
	if c := x.fields.cursor; c != nil && !wire.IsNull(c) && string(c) != `""` {
		return *x.errorAnswer(mcp.CodeInvalidParams, "Invalid cursor: lists have one page", nil)
	}
	g.backend.WaitFirst(ctx)
	items := g.backend.Catalog().Array(k)
	env := g.envs[k].legacy
	if x.modern {
		env = g.envs[k].modern
	}
	head := make([]byte, 0, len(`{"jsonrpc":"2.0","id":,"result":`)+len(x.msg.ID)+len(env))
	head = append(append(head, `{"jsonrpc":"2.0","id":`...), x.msg.ID...)
	head = append(append(head, `,"result":`...), env...)
	return answer{head: head, body: items, tail: closeTwo}
}

// memberOf is wire.Get for one member, with a quick no for large objects that
// do not have the name in them at all.
func memberOf(obj []byte, name string) []byte {
	if len(obj) > 512 && !bytes.Contains(obj, []byte(name)) {
		return nil
	}
	return wire.Get(obj, name)
}

// implementation encodes an MCP Implementation object.
func implementation(name, version string) []byte {
	b := wire.AppendString([]byte(`{"name":`), name)
	return append(wire.AppendString(append(b, `,"version":`...), version), '}')
}
