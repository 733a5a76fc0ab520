package message

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// SupportedJSON is what server/discover and -32022 list, newest first: what a
// client may go on with, the legacy revisions by way of initialize.
var SupportedJSON = []byte(`["` + strings.Join(mcp.Versions, `","`) + `"]`)

// CheckModern validates what the body of a modern request must have; nil if
// all is well (basic/index, Per-request protocol fields).
func (m *Message) CheckModern() *Answer {
	raw := m.Fields.Meta.Version
	version, ok := wire.Text(raw)
	switch {
	case raw == nil:
		return m.Refusal(mcp.CodeInvalidParams, "Invalid params: _meta lacks "+mcp.MetaVersion, nil)
	case !ok:
		return m.Refusal(mcp.CodeInvalidParams, "Invalid params: "+mcp.MetaVersion+" is not a string", nil)
	case version != mcp.ModernVersion:
		return m.Unsupported(version)
	case !wire.IsObject(m.Fields.Meta.Capabilities):
		return m.Refusal(mcp.CodeInvalidParams, "Invalid params: _meta lacks "+mcp.MetaCapabilities, nil)
	default:
		return nil
	}
}

// Unsupported is -32022, which tells a client what to retry with.
func (m *Message) Unsupported(version string) *Answer {
	data := append([]byte(`{"supported":`), SupportedJSON...)
	data = wire.AppendString(append(data, `,"requested":`...), version)
	a := m.Refusal(mcp.CodeUnsupportedVersion, "Unsupported protocol version", append(data, '}'))
	a.Status = http.StatusBadRequest
	return a
}

// CheckRequest validates body and headers of a modern request: first what era
// and version it is of, then the rest. params are the arguments that headers repeat.
func (m *Message) CheckRequest(h http.Header, params []mcp.HeaderParam) *Answer {
	if m.Fields.Meta.Version != nil {
		version, _ := wire.Text(m.Fields.Meta.Version)
		if bad := m.checkHeader(h, mcp.HeaderVersion, version, false); bad != nil {
			return bad
		}
	}
	if bad := m.CheckModern(); bad != nil {
		return bad
	}
	return m.checkHeaders(h, params)
}

// checkHeaders validates that the headers say what the body says; nil if they
// do (basic/transports/streamable-http, Server Validation).
func (m *Message) checkHeaders(h http.Header, params []mcp.HeaderParam) *Answer {
	version, _ := wire.Text(m.Fields.Meta.Version)
	if bad := m.checkHeader(h, mcp.HeaderVersion, version, false); bad != nil {
		return bad
	}
	if bad := m.checkHeader(h, mcp.HeaderMethod, m.Method, false); bad != nil {
		return bad
	}
	switch m.Method {
	case mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead, mcp.TasksGet, mcp.TasksUpdate, mcp.TasksCancel:
	default:
		return nil
	}
	name, ok := m.ItemName()
	if !ok {
		return nil // serve answers with what is wrong with the body
	}
	if bad := m.checkHeader(h, mcp.HeaderName, name, true); bad != nil {
		return bad
	}
	for _, p := range params {
		if bad := m.checkParam(h, p); bad != nil {
			return bad
		}
	}
	return nil
}

// checkHeader compares one mirrored header with the body. Only values that may
// be encoded are decoded.
func (m *Message) checkHeader(h http.Header, key, want string, encoded bool) *Answer {
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
func (m *Message) checkParam(h http.Header, p mcp.HeaderParam) *Answer {
	key := p.Header()
	values := h[http.CanonicalHeaderKey(key)]
	arg := wire.Get(m.Fields.Arguments, p.Path...)
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

func (m *Message) mismatch(text string) *Answer {
	a := m.Refusal(mcp.CodeHeaderMismatch, "Header mismatch: "+text, nil)
	a.Status = http.StatusBadRequest
	return a
}
