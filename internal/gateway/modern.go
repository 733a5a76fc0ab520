package gateway

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/wire"
)

// supported is what server/discover and -32022 list, newest first: what a
// client may go on with, the legacy revisions by way of initialize.
var supported = append([]string{modernVersion}, legacyVersions...)

// supportedJSON is supported as a JSON array.
var supportedJSON = []byte(`["` + strings.Join(supported, `","`) + `"]`)

// discover answers server/discover (server/discover, Response).
func (g *Gateway) discover(rq *request) answer {
	if bad := g.ourselves(rq); bad != nil {
		return *bad
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), rq.msg.ID...)
	b = append(b, `,"result":{"resultType":"complete","supportedVersions":`...)
	b = append(append(b, supportedJSON...), `,"capabilities":`...)
	b = append(b, g.offer().modern...)
	b = append(append(b, `,"_meta":{"`+metaServerInfo+`":`...), g.info...)
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
	return rq.fields.meta.version != nil || header == modernVersion && rq.msg.Method != methodInitialize
}

// checkModern validates what the body of a modern request must have; nil if
// all is well (basic/index, Per-request protocol fields).
func (rq *request) checkModern() *answer {
	raw := rq.fields.meta.version
	version, ok := wire.Text(raw)
	switch {
	case raw == nil:
		return rq.errorAnswer(codeInvalidParams, "Invalid params: _meta lacks "+metaVersion, nil)
	case !ok:
		return rq.errorAnswer(codeInvalidParams, "Invalid params: "+metaVersion+" is not a string", nil)
	case version != modernVersion:
		return rq.unsupported(version)
	case !wire.IsObject(rq.fields.meta.capabilities):
		return rq.errorAnswer(codeInvalidParams, "Invalid params: _meta lacks "+metaCapabilities, nil)
	default:
		return nil
	}
}

// unsupported is -32022, which tells a client what to retry with.
func (rq *request) unsupported(version string) *answer {
	data := append([]byte(`{"supported":`), supportedJSON...)
	data = wire.AppendString(append(data, `,"requested":`...), version)
	a := rq.errorAnswer(codeUnsupportedVersion, "Unsupported protocol version", append(data, '}'))
	a.status = http.StatusBadRequest
	return a
}

// checkHeaders validates that the headers say what the body says; nil if they
// do (basic/transports/streamable-http, Server Validation).
func (g *Gateway) checkHeaders(rq *request, h http.Header) *answer {
	version, _ := wire.Text(rq.fields.meta.version)
	if bad := rq.checkHeader(h, "Mcp-Protocol-Version", version, false); bad != nil {
		return bad
	}
	if bad := rq.checkHeader(h, "Mcp-Method", rq.msg.Method, false); bad != nil {
		return bad
	}
	switch rq.msg.Method {
	case methodCall, methodGet, methodRead, methodTaskGet, methodTaskUpdate, methodTaskCancel:
	default:
		return nil
	}
	name, ok := rq.target()
	if !ok {
		return nil // serve answers with what is wrong with the body
	}
	if bad := rq.checkHeader(h, "Mcp-Name", name, true); bad != nil {
		return bad
	}
	if rq.msg.Method != methodCall {
		return nil
	}
	tool, ok := g.backend.Catalog().Tool(name)
	if !ok {
		return nil
	}
	for _, p := range tool.Headers {
		if bad := rq.checkParam(h, p.Header, p.Path); bad != nil {
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
		got, ok = decodeHeader(got)
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
func (rq *request) checkParam(h http.Header, name string, path []string) *answer {
	key := "Mcp-Param-" + name
	values := h[http.CanonicalHeaderKey(key)]
	arg := wire.Get(rq.fields.arguments, path...)
	if arg == nil || wire.IsNull(arg) {
		if len(values) > 0 {
			return rq.mismatch("the " + key + " header mirrors an argument that is not there")
		}
		return nil
	}
	if len(values) == 0 {
		return rq.mismatch("the " + key + " header is missing")
	}
	got, ok := decodeHeader(values[0])
	if len(values) > 1 || !ok {
		return rq.mismatch("the " + key + " header is malformed")
	}
	if !sameParam(got, arg) {
		return rq.mismatch(key + " header value " + strconv.Quote(got) + " does not match the argument " + strings.Join(path, "."))
	}
	return nil
}

func (rq *request) mismatch(text string) *answer {
	a := rq.errorAnswer(codeHeaderMismatch, "Header mismatch: "+text, nil)
	a.status = http.StatusBadRequest
	return a
}

// sameParam compares a decoded header with a raw argument: strings as they
// are, whole numbers as numbers, booleans by their names.
func sameParam(header string, arg []byte) bool {
	if text, ok := wire.Text(arg); ok {
		return header == text
	}
	if b, ok := wire.Bool(arg); ok {
		return header == strconv.FormatBool(b)
	}
	n, ok := wire.Int(arg)
	m, okHeader := wire.Int([]byte(header))
	return ok && okHeader && n == m
}

// The base64 sentinel (streamable-http, Value Encoding).
const (
	sentinelOpen  = "=?base64?"
	sentinelClose = "?="
)

// decodeHeader returns the value that a header field carries; false if it has
// characters that no field may have, or broken base64.
func decodeHeader(v string) (string, bool) {
	for i := range len(v) {
		if c := v[i]; c != '\t' && (c < 0x20 || c > 0x7e) {
			return "", false
		}
	}
	inner, ok := strings.CutPrefix(v, sentinelOpen)
	if !ok {
		return v, true
	}
	inner, ok = strings.CutSuffix(inner, sentinelClose)
	if !ok {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

// encodeHeader is the form in which a header field carries a value.
func encodeHeader(v string) string {
	plain := strings.TrimSpace(v) == v && !(strings.HasPrefix(v, sentinelOpen) && strings.HasSuffix(v, sentinelClose))
	for i := 0; plain && i < len(v); i++ {
		plain = v[i] == '\t' || v[i] >= 0x20 && v[i] <= 0x7e
	}
	if plain {
		return v
	}
	return sentinelOpen + base64.StdEncoding.EncodeToString([]byte(v)) + sentinelClose
}
