package gateway

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// supportedJSON is what server/discover and -32022 list, newest first: what a
// client may go on with, the legacy revisions by way of initialize.
var supportedJSON = []byte(`["` + strings.Join(mcp.Versions, `","`) + `"]`)

// discover answers server/discover (server/discover, Response).
func (g *Gateway) discover(m *message) answer {
	if bad := g.ourselves(m); bad != nil {
		return *bad
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), m.msg.ID...)
	b = append(b, `,"result":{"resultType":"complete","supportedVersions":`...)
	b = append(append(b, supportedJSON...), `,"capabilities":`...)
	b = append(b, g.offer().modern...)
	b = append(append(b, `,"_meta":{"`+mcp.MetaServerInfo+`":`...), g.info...)
	b = append(b, '}')
	if text := g.backend.Catalog().Instructions(); text != "" {
		b = wire.AppendString(append(b, `,"instructions":`...), text)
	}
	b = append(b, `,"ttlMs":0,"cacheScope":"private"}}`...)
	return answer{head: b}
}

// checkModern validates what the body of a modern request must have; nil if
// all is well (basic/index, Per-request protocol fields).
func (m *message) checkModern() *answer {
	raw := m.fields.meta.version
	version, ok := wire.Text(raw)
	switch {
	case raw == nil:
		return m.errorAnswer(mcp.CodeInvalidParams, "Invalid params: _meta lacks "+mcp.MetaVersion, nil)
	case !ok:
		return m.errorAnswer(mcp.CodeInvalidParams, "Invalid params: "+mcp.MetaVersion+" is not a string", nil)
	case version != mcp.ModernVersion:
		return m.unsupported(version)
	case !wire.IsObject(m.fields.meta.capabilities):
		return m.errorAnswer(mcp.CodeInvalidParams, "Invalid params: _meta lacks "+mcp.MetaCapabilities, nil)
	default:
		return nil
	}
}

// unsupported is -32022, which tells a client what to retry with.
func (m *message) unsupported(version string) *answer {
	data := append([]byte(`{"supported":`), supportedJSON...)
	data = wire.AppendString(append(data, `,"requested":`...), version)
	a := m.errorAnswer(mcp.CodeUnsupportedVersion, "Unsupported protocol version", append(data, '}'))
	a.status = http.StatusBadRequest
	return a
}

// checkHeaders validates that the headers say what the body says; nil if they
// do (basic/transports/streamable-http, Server Validation).
func (x *exchange) checkHeaders(h http.Header) *answer {
	version, _ := wire.Text(x.fields.meta.version)
	if bad := x.checkHeader(h, mcp.HeaderVersion, version, false); bad != nil {
		return bad
	}
	if bad := x.checkHeader(h, mcp.HeaderMethod, x.msg.Method, false); bad != nil {
		return bad
	}
	switch x.msg.Method {
	case mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead, mcp.TasksGet, mcp.TasksUpdate, mcp.TasksCancel:
	default:
		return nil
	}
	name, ok := x.itemName()
	if !ok {
		return nil // serve answers with what is wrong with the body
	}
	if bad := x.checkHeader(h, mcp.HeaderName, name, true); bad != nil {
		return bad
	}
	if !x.known() {
		return nil
	}
	for _, p := range x.target.Headers {
		if bad := x.checkParam(h, p); bad != nil {
			return bad
		}
	}
	return nil
}

// checkHeader compares one mirrored header with the body. Only values that may
// be encoded are decoded.
func (m *message) checkHeader(h http.Header, key, want string, encoded bool) *answer {
	values := h[http.CanonicalHeaderKey(key)]
	if len(values) == 0 {
		return m.mismatch("the " + key + " header is missing")
	}
	got, ok := values[0], true
	if encoded {
		got, ok = mcp.DecodeHeader(got)
	}
	if len(values) > 1 || !ok {
		return m.mismatch("the " + key + " header is malformed")
	}
	if got != want {
		return m.mismatch(key + " header value " + strconv.Quote(got) + " does not match body value " + strconv.Quote(want))
	}
	return nil
}

// checkParam compares a Mcp-Param header with the argument that it mirrors.
func (m *message) checkParam(h http.Header, p mcp.HeaderParam) *answer {
	key := p.Header()
	values := h[http.CanonicalHeaderKey(key)]
	arg := wire.Get(m.fields.arguments, p.Path...)
	if arg == nil || wire.IsNull(arg) {
		if len(values) > 0 {
			return m.mismatch("the " + key + " header mirrors an argument that is not there")
		}
		return nil
	}
	if len(values) == 0 {
		return m.mismatch("the " + key + " header is missing")
	}
	got, ok := mcp.DecodeHeader(values[0])
	if len(values) > 1 || !ok {
		return m.mismatch("the " + key + " header is malformed")
	}
	if !p.Equal(got, arg) {
		return m.mismatch(key + " header value " + strconv.Quote(got) + " does not match the argument " + strings.Join(p.Path, "."))
	}
	return nil
}

func (m *message) mismatch(text string) *answer {
	a := m.errorAnswer(mcp.CodeHeaderMismatch, "Header mismatch: "+text, nil)
	a.status = http.StatusBadRequest
	return a
}
