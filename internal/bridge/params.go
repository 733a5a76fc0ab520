package bridge

import (
	"context"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// toolsQuestion is the modern tools/list of a bridge's own.
var toolsQuestion = []byte(`{"jsonrpc":"2.0","id":"bridge-tools","method":"tools/list","params":{"_meta":{"` +
	mcp.MetaVersion + `":"` + mcp.ModernVersion + `","` + mcp.MetaCapabilities + `":{}}}}`)

// learn reads anew which arguments of the tools headers repeat: a client on stdio
// knows nothing of headers (streamable-http, Custom Headers from Tool Parameters).
func (b *bridge) learn(ctx context.Context) error {
	m, bad := message.Parse(toolsQuestion, mcp.ModernVersion)
	if bad != nil {
		return fault.New(fault.Internal, "bridge", "bug: the tools question does not parse")
	}
	body, err := b.ask(ctx, &relayed{Message: m}, toolsQuestion)
	if err != nil {
		return err
	}
	params := map[string][]mcp.HeaderParam{}
	for tool := range wire.Elements(wire.Get(body, "result", "tools")) {
		if name, ok := wire.Text(wire.Get(tool, "name")); ok {
			if found, _ := mcp.HeaderParams(wire.Get(tool, "inputSchema")); found != nil {
				params[name] = found
			}
		}
	}
	b.mu.Lock()
	b.params = params
	b.mu.Unlock()
	return nil
}
