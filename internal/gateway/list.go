package gateway

import (
	"strconv"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
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

// implementation encodes an MCP Implementation object.
func implementation(name, version string) []byte {
	b := wire.AppendString([]byte(`{"name":`), name)
	return append(wire.AppendString(append(b, `,"version":`...), version), '}')
}
