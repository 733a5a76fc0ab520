package upstream

import (
	"slices"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// The reserved keys of specification 2026-07-28, basic/index, "_meta".
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaToken        = "progressToken"
)

// envelope is what goes around every request of this life.
type envelope struct {
	modern bool
	// head is, for a modern server, the text of the members that every _meta
	// begins with, up to the capabilities.
	head []byte
}

// newEnvelope makes the envelope for a protocol version; "" is a legacy one.
func newEnvelope(version, name, ownVersion string) envelope {
	if version == "" {
		return envelope{}
	}
	head := member(nil, metaVersion, wire.AppendString(nil, version))
	head = member(append(head, ','), metaClientInfo, clientInfo(name, ownVersion))
	return envelope{modern: true, head: head}
}

func clientInfo(name, version string) []byte {
	b := wire.AppendString([]byte(`{"name":`), name)
	b = wire.AppendString(append(b, `,"version":`...), version)
	return append(b, '}')
}

func member(dst []byte, key string, value []byte) []byte {
	dst = append(wire.AppendString(dst, key), ':')
	return append(dst, value...)
}

// params returns the params of one request as this life's server shall get
// them: the server's own name, our progress token, and the _meta of its era.
// Everything else stays byte for byte.
func (e *envelope) params(c *Call, id int64) ([]byte, *fault.Fault) {
	p := c.Params
	if p != nil && !wire.IsObject(p) {
		f := fault.New(fault.Invalid, c.Method, "params must be an object")
		f.Outcome = fault.NotSent
		return nil, f
	}
	p = named(p, c)
	meta := wire.Get(p, "_meta")
	if !wire.IsObject(meta) {
		meta = nil
	}
	own := retoken(meta, c, id)
	if !e.modern && wire.Get(meta, metaVersion) != nil && wire.Get(p, "requestState") != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: c.Method, Outcome: fault.NotSent, Err: errForeign}
	}
	if e.modern {
		return wire.Set(p, e.modernMeta(own, c.LogLevel, c.Capabilities), "_meta"), nil
	}
	if meta == nil {
		return p, nil
	}
	if wire.Get(meta, metaVersion) != nil && wire.Get(p, "task") != nil {
		p = wire.Delete(p, "task") // the client of a newer revision knows no such tasks
	}
	own = bare(own)
	switch {
	case isEmpty(own) && !isEmpty(meta):
		return wire.Delete(p, "_meta"), nil
	case sameBytes(own, meta):
		return p, nil
	}
	return wire.Set(p, own, "_meta"), nil
}

// named puts the server's own name where the client's params have another.
func named(p []byte, c *Call) []byte {
	if c.Name == "" {
		return p
	}
	var path []string
	switch c.Method {
	case methodCallTool, "prompts/get":
		path = []string{"name"}
	case "completion/complete":
		if wire.Get(p, "ref", "name") == nil {
			return p
		}
		path = []string{"ref", "name"}
	default:
		return p
	}
	if now, ok := wire.Text(wire.Get(p, path...)); ok && now == c.Name {
		return p
	}
	return wire.Set(p, wire.AppendString(nil, c.Name), path...)
}

// retoken replaces the client's progress token by the request's own id, which
// no other client can have. A token that nobody listens for is taken out: it
// might be the same as one of ours.
func retoken(meta []byte, c *Call, id int64) []byte {
	token := wire.Get(meta, metaToken)
	switch {
	case token == nil:
		return meta
	case c.Progress == nil || wire.IsNull(token):
		return wire.Delete(meta, metaToken)
	}
	return wire.Set(meta, wire.AppendInt(nil, id), metaToken)
}

// bare returns meta without the members that modern requests alone carry.
func bare(meta []byte) []byte {
	for _, key := range []string{metaVersion, metaClientInfo, metaCapabilities, metaLogLevel} {
		meta = wire.Delete(meta, key)
	}
	return meta
}

// modernMeta puts this life's own members in front of the client's.
func (e *envelope) modernMeta(meta []byte, level string, declared []byte) []byte {
	capabilities := wire.Get(meta, metaCapabilities)
	switch {
	case wire.IsObject(capabilities):
	case declared != nil:
		capabilities = declared
	default:
		capabilities = []byte("{}")
	}
	out := append([]byte{'{'}, e.head...)
	out = member(append(out, ','), metaCapabilities, capabilities)
	if level != "" {
		out = member(append(out, ','), metaLogLevel, wire.AppendString(nil, level))
	}
	rest := bare(meta)
	if rest == nil || isEmpty(rest) {
		return append(out, '}')
	}
	out = append(out, ',')
	return append(out, rest[slices.Index(rest, '{')+1:]...)
}

func isEmpty(object []byte) bool {
	for range wire.Members(object) {
		return false
	}
	return true
}

// sameBytes tells whether a is b itself, unchanged.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// headers reads the values of a tool's header parameters from its arguments
// (specification 2026-07-28, basic/transports/streamable-http, "Custom Headers
// from Tool Parameters"). What is absent or no plain value has no header.
func headers(c *Call) [][2]string {
	var out [][2]string
	for _, h := range c.Headers {
		raw := wire.Get(c.Params, append([]string{"arguments"}, h.Path...)...)
		if raw == nil || wire.IsNull(raw) || wire.IsObject(raw) || wire.IsArray(raw) {
			continue
		}
		value, ok := wire.Text(raw)
		if !ok {
			value = string(raw)
		}
		out = append(out, [2]string{"Mcp-Param-" + h.Header, value})
	}
	return out
}
