package upstream

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// envelope is what goes around every request of this generation.
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
	head := member(nil, mcp.MetaVersion, wire.AppendString(nil, version))
	head = member(append(head, ','), mcp.MetaClientInfo, clientInfo(name, ownVersion))
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

// params returns the params of one request as this generation's server shall get
// them: the server's own name, our progress token, and the _meta of its era.
// Everything else stays byte for byte.
func (e *envelope) params(c *Call, id int64) ([]byte, *fault.Fault) {
	var has members
	if text := has.read(c); text != "" {
		f := fault.New(fault.Invalid, c.Method, text)
		f.Outcome = fault.NotSent
		return nil, f
	}
	p := named(c, &has)
	meta := has[hasMeta]
	if !wire.IsObject(meta) {
		meta = nil
	}
	own := retraced(retoken(meta, c, id), c)
	if !e.modern && wire.Get(meta, mcp.MetaVersion) != nil && has[hasState] != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: c.Method, Outcome: fault.NotSent, Err: errForeign}
	}
	if e.modern {
		return wire.Set(p, e.modernMeta(own, c.LogLevel, c.Capabilities), "_meta"), nil
	}
	if newer := wire.Get(meta, mcp.MetaVersion) != nil; newer || c.Task {
		p = asTask(p, c.Task, newer, has[hasTask] != nil)
	}
	if own == nil {
		return p, nil
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

// asTask puts the wish for a task into the words of 2025-11-25, of which clients of a
// newer revision know nothing: what they call a task is something else.
func asTask(params []byte, wants, newer, has bool) []byte {
	switch {
	case wants && (newer || !has):
		return wire.Set(params, []byte("{}"), "task")
	case newer && has:
		return wire.Delete(params, "task")
	default:
		return params
	}
}

// members are the values of those params that decide here, in the hub or in the
// endpoint what becomes of a call; nil where absent.
type members [9][]byte

const (
	hasMeta = iota
	hasName
	hasRef
	hasTask
	hasState
)

var (
	memberNames = [len(members{})][]byte{
		hasMeta: []byte("_meta"), hasName: []byte("name"), hasRef: []byte("ref"), hasTask: []byte("task"), hasState: []byte("requestState"),
		5: []byte("uri"), []byte("arguments"), []byte("taskId"), []byte("inputResponses"),
	}
	metaNames = [...][]byte{[]byte(mcp.MetaProgressToken), []byte(mcp.MetaVersion), []byte(mcp.MetaClientInfo), []byte(mcp.MetaCapabilities), []byte(mcp.MetaLogLevel)}
	refNames  = [...][]byte{[]byte("type"), []byte("name"), []byte("uri")}
)

// read returns why the params cannot be sent, "" if they can. A member that is
// there twice, or in another case, might be read by the server as another than
// the one that was decided by: it could name a tool that is denied, or the
// progress token of another client.
func (m *members) read(c *Call) string {
	switch {
	case c.Params == nil:
		return ""
	case !wire.IsObject(c.Params):
		return "params must be an object"
	case !utf8.Valid(c.Params):
		return "params are not UTF-8"
	}
	names := memberNames[:]
	if !standard(c.Method) {
		names = names[:hasMeta+1] // the others mean whatever they mean there
	}
	twice := wire.Pick(c.Params, names, m[:])
	var inner [len(metaNames)][]byte
	if twice == "" {
		twice = wire.Pick(m[hasMeta], metaNames[:], inner[:])
	}
	if twice == "" {
		clear(inner[:])
		twice = wire.Pick(m[hasRef], refNames[:], inner[:])
	}
	if twice != "" {
		return twice + " occurs twice, or in another case"
	}
	return ""
}

// standard tells the methods whose params the protocol defines.
func standard(method string) bool {
	switch method {
	case mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead, mcp.CompletionComplete:
		return true
	default:
		return strings.HasPrefix(method, "tasks/")
	}
}

// named puts the server's own name where the client's params have another.
func named(c *Call, has *members) []byte {
	now, path := has[hasName], []string{"name"}
	switch c.Method {
	case mcp.ToolsCall, mcp.PromptsGet:
	case mcp.CompletionComplete:
		if now, path = wire.Get(has[hasRef], "name"), []string{"ref", "name"}; now == nil {
			return c.Params
		}
	default:
		if c.Sent == nil {
			return c.Params
		}
		path = []string{"uri"}
	}
	if c.Sent != nil {
		return wire.Set(c.Params, c.Sent, path...)
	}
	if text, ok := wire.Text(now); c.Name == "" || ok && text == c.Name {
		return c.Params
	}
	return wire.Set(c.Params, wire.AppendString(nil, c.Name), path...)
}

// retoken replaces the client's progress token by the request's own id, which
// no other client can have. A token that nobody listens for is taken out: it
// might be the same as one of ours.
func retoken(meta []byte, c *Call, id int64) []byte {
	token := wire.Get(meta, mcp.MetaProgressToken)
	switch {
	case token == nil:
		return meta
	case c.Progress == nil || wire.IsNull(token):
		return wire.Delete(meta, mcp.MetaProgressToken)
	}
	return wire.Set(meta, wire.AppendInt(nil, id), mcp.MetaProgressToken)
}

// retraced puts the context of the send where that of the client's own span is:
// what the server records is its child then, and not its sibling. What a client has
// said of its trace in _meta stays; what it has said in the header of its POST is
// handed on here.
func retraced(meta []byte, c *Call) []byte {
	if !c.Span.Tells() {
		return meta
	}
	if meta == nil {
		meta = []byte("{}")
	}
	own := c.Span.Own()
	if own.State != "" && wire.Get(meta, mcp.MetaTraceParent) == nil && wire.Get(meta, mcp.MetaTraceState) == nil {
		meta = wire.Set(meta, wire.AppendString(nil, own.State), mcp.MetaTraceState)
	}
	return wire.Set(meta, own.Text(), mcp.MetaTraceParent)
}

// bare returns meta without the members that modern requests alone carry.
func bare(meta []byte) []byte {
	for _, key := range []string{mcp.MetaVersion, mcp.MetaClientInfo, mcp.MetaCapabilities, mcp.MetaLogLevel} {
		meta = wire.Delete(meta, key)
	}
	return meta
}

// modernMeta puts this generation's own members in front of the client's.
func (e *envelope) modernMeta(meta []byte, level string, declared []byte) []byte {
	capabilities := wire.Get(meta, mcp.MetaCapabilities)
	switch {
	case wire.IsObject(capabilities):
	case declared != nil:
		capabilities = declared
	default:
		capabilities = []byte("{}")
	}
	out := append([]byte{'{'}, e.head...)
	out = member(append(out, ','), mcp.MetaCapabilities, capabilities)
	if level != "" {
		out = member(append(out, ','), mcp.MetaLogLevel, wire.AppendString(nil, level))
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
	arguments := wire.Get(c.Params, "arguments")
	for _, h := range c.Headers {
		if value, ok := h.Value(arguments); ok {
			out = append(out, [2]string{h.Header(), value})
		}
	}
	return out
}

// errForeign is a retry toward a server that never asked for input.
var errForeign = errors.New("requestState is not known here, or has expired: start over without requestState and inputResponses")
