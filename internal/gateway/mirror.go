package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// A mirror is an argument of a tool that a header repeats (streamable-http,
// Custom Headers from Tool Parameters). A client on stdio knows nothing of
// headers, so a bridge finds them out from the tools' schemas.
type mirror struct {
	path []string // below arguments
	name string   // behind Mcp-Param-
}

// set sets the header if the argument is there.
func (m mirror) set(h http.Header, arguments []byte) {
	raw := wire.Get(arguments, m.path...)
	if text, ok := wire.Text(raw); ok {
		h.Set("Mcp-Param-"+m.name, encodeHeader(text))
	} else if b, ok := wire.Bool(raw); ok {
		h.Set("Mcp-Param-"+m.name, strconv.FormatBool(b))
	} else if n, ok := wire.Int(raw); ok {
		h.Set("Mcp-Param-"+m.name, strconv.FormatInt(n, 10))
	}
}

// toolsQuestion is the modern tools/list of a bridge's own.
var toolsQuestion = []byte(`{"jsonrpc":"2.0","id":"bridge-tools","method":"tools/list","params":{"_meta":{"` +
	metaVersion + `":"` + modernVersion + `","` + metaCapabilities + `":{}}}}`)

// learn reads the tools' mirrors anew.
func (b *bridge) learn(ctx context.Context) error {
	rq, bad := parse(toolsQuestion)
	if bad != nil {
		return fault.New(fault.Internal, "bridge", "bug: the tools question does not parse")
	}
	rq.modern = true
	body, err := b.ask(ctx, rq, toolsQuestion)
	if err != nil {
		return err
	}
	mirrors := map[string][]mirror{}
	for tool := range wire.Elements(wire.Get(body, "result", "tools")) {
		if name, ok := wire.Text(wire.Get(tool, "name")); ok {
			if found := mirrorsOf(wire.Get(tool, "inputSchema"), nil); found != nil {
				mirrors[name] = found
			}
		}
	}
	b.mu.Lock()
	b.mirrors = mirrors
	b.mu.Unlock()
	return nil
}

// maxSchemaDepth bounds how deep annotations are looked for.
const maxSchemaDepth = 16

// mirrorsOf finds the annotations that can be reached by properties alone.
func mirrorsOf(schema []byte, path []string) []mirror {
	if len(path) >= maxSchemaDepth {
		return nil
	}
	var found []mirror
	for key, prop := range wire.Members(wire.Get(schema, "properties")) {
		at := append(slices.Clone(path), key)
		if name, ok := wire.Text(wire.Get(prop, "x-mcp-header")); ok {
			found = append(found, mirror{at, name})
		}
		found = append(found, mirrorsOf(prop, at)...)
	}
	return found
}
