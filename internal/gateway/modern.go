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
func (g *Gateway) discover(rq *request) answer {
	if bad := g.ourselves(rq); bad != nil {
		return *bad
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), rq.msg.ID...)
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

// isModern tells whether a request is of the modern era: it carries the
// protocol version in _meta, or its header declares a version that only has
// requests which do. A plain initialize is none whatever the header says: its
// sender is about to find out what is spoken here.
func (rq *request) isModern(header string) bool {
	return rq.fields.meta.version != nil || header == mcp.ModernVersion && rq.msg.Method != mcp.Initialize
}

// checkModern validates what the body of a modern request must have; nil if
// all is well (basic/index, Per-request protocol fields).
func (rq *request) checkModern() *answer {
	raw := rq.fields.meta.version
	version, ok := wire.Text(raw)
	switch {
	case raw == nil:
		return rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: _meta lacks "+mcp.MetaVersion, nil)
	case !ok:
		return rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: "+mcp.MetaVersion+" is not a string", nil)
	case version != mcp.ModernVersion:
		return rq.unsupported(version)
	case !wire.IsObject(rq.fields.meta.capabilities):
		return rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: _meta lacks "+mcp.MetaCapabilities, nil)
	default:
		return nil
	}
}

// unsupported is -32022, which tells a client what to retry with.
func (rq *request) unsupported(version string) *answer {
	data := append([]byte(`{"supported":`), supportedJSON...)
	data = wire.AppendString(append(data, `,"requested":`...), version)
	a := rq.errorAnswer(mcp.CodeUnsupportedVersion, "Unsupported protocol version", append(data, '}'))
	a.status = http.StatusBadRequest
	return a
}

// checkHeaders validates that the headers say what the body says; nil if they
// do (basic/transports/streamable-http, Server Validation).
func (g *Gateway) checkHeaders(rq *request, h http.Header) *answer {
	version, _ := wire.Text(rq.fields.meta.version)
	if bad := rq.checkHeader(h, mcp.HeaderVersion, version, false); bad != nil {
		return bad
	}
	if bad := rq.checkHeader(h, mcp.HeaderMethod, rq.msg.Method, false); bad != nil {
		return bad
	}
	switch rq.msg.Method {
	case mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead, mcp.TasksGet, mcp.TasksUpdate, mcp.TasksCancel:
	default:
		return nil
	}
	name, ok := rq.target()
	if !ok {
		return nil // serve answers with what is wrong with the body
	}
	if bad := rq.checkHeader(h, mcp.HeaderName, name, true); bad != nil {
		return bad
	}
	if rq.msg.Method != mcp.ToolsCall {
		return nil
	}
	tool, ok := g.backend.Catalog().Tool(name)
	if !ok {
		return nil
	}
	for _, p := range tool.Headers {
		if bad := rq.checkParam(h, p); bad != nil {
			return bad
		}
	}
	return nil
}

// checkHeader compares one mirrored header with the body. Only values that may
// be encoded are decoded.
func (rq *request) checkHeader(h http.Header, key, want string, encoded bool) *answer {
	values := h[http.CanonicalHeaderKey(key)]
	if len(values) == 0 {
		return rq.mismatch("the " + key + " header is missing")
	}
	got, ok := values[0], true
	if encoded {
		got, ok = mcp.DecodeHeader(got)
	}
	if len(values) > 1 || !ok {
		return rq.mismatch("the " + key + " header is malformed")
	}
	if got != want {
		return rq.mismatch(key + " header value " + strconv.Quote(got) + " does not match body value " + strconv.Quote(want))
	}
	return nil
}

// checkParam compares a Mcp-Param header with the argument that it mirrors.
func (rq *request) checkParam(h http.Header, p mcp.HeaderParam) *answer {
	key := p.Header()
	values := h[http.CanonicalHeaderKey(key)]
	arg := wire.Get(rq.fields.arguments, p.Path...)
	if arg == nil || wire.IsNull(arg) {
		if len(values) > 0 {
			return rq.mismatch("the " + key + " header mirrors an argument that is not there")
		}
		return nil
	}
	if len(values) == 0 {
		return rq.mismatch("the " + key + " header is missing")
	}
	got, ok := mcp.DecodeHeader(values[0])
	if len(values) > 1 || !ok {
		return rq.mismatch("the " + key + " header is malformed")
	}
	if !p.Equal(got, arg) {
		return rq.mismatch(key + " header value " + strconv.Quote(got) + " does not match the argument " + strings.Join(p.Path, "."))
	}
	return nil
}

func (rq *request) mismatch(text string) *answer {
	a := rq.errorAnswer(mcp.CodeHeaderMismatch, "Header mismatch: "+text, nil)
	a.status = http.StatusBadRequest
	return a
}
