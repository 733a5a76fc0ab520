package gateway

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A message is one decoded JSON-RPC message of a client. Nothing in it changes.
// Its byte slices are views into the frame that it came in.
type message struct {
	msg    wire.Message
	fields fields
	modern bool // of the 2026-07-28 revision: everything that matters is in the message
}

// fields are the members of params that the gateway itself reads, raw; nil
// where absent.
type fields struct {
	name, uri, ref, cursor, level, requestID, notifications, arguments []byte
	requestState, inputResponses                                       []byte
	task, taskID                                                       []byte

	meta struct {
		version, capabilities, logLevel, progressToken, resultID, session []byte
	}
}

// readFields looks at each member of params once.
func readFields(params []byte) fields {
	var f fields
	for key, val := range wire.Members(params) {
		switch key {
		case "name":
			f.name = val
		case "uri":
			f.uri = val
		case "ref":
			f.ref = val
		case "cursor":
			f.cursor = val
		case "level":
			f.level = val
		case "requestId":
			f.requestID = val
		case "notifications":
			f.notifications = val
		case "arguments":
			f.arguments = val
		case "requestState":
			f.requestState = val
		case "inputResponses":
			f.inputResponses = val
		case "task":
			f.task = val
		case "taskId":
			f.taskID = val
		case "_meta":
			f.readMeta(val)
		}
	}
	return f
}

func (f *fields) readMeta(meta []byte) {
	for key, val := range wire.Members(meta) {
		switch key {
		case mcp.MetaVersion:
			f.meta.version = val
		case mcp.MetaCapabilities:
			f.meta.capabilities = val
		case mcp.MetaLogLevel:
			f.meta.logLevel = val
		case mcp.MetaProgressToken:
			f.meta.progressToken = val
		case mcp.MetaResultID:
			f.meta.resultID = val
		case mcp.MetaSession:
			f.meta.session = val
		}
	}
}

// itemName is the value of params that a header mirrors and that a call is
// routed by: the name of a tool or prompt, the URI of a resource, or the id of a
// task.
func (m *message) itemName() (string, bool) {
	raw := m.fields.name
	switch m.msg.Method {
	case mcp.ResourcesRead:
		raw = m.fields.uri
	case mcp.TasksGet, mcp.TasksUpdate, mcp.TasksCancel:
		raw = m.fields.taskID
	}
	return wire.Text(raw)
}

// parse decodes one frame of a connection that has no modern requests. On failure it returns the answer to it: -32700 for
// what is no JSON or no UTF-8, -32600 for what is no message, both with id null, because
// nothing in such a frame can be trusted to be an id.
func parse(frame []byte) (*message, *answer) {
	msg, err := wire.Parse(frame)
	if err != nil {
		if errors.As(err, new(*wire.SyntaxError)) {
			return nil, refuse(nil, mcp.CodeParse, "Parse error: "+err.Error())
		}
		return nil, refuse(nil, mcp.CodeInvalidRequest, "Invalid request: "+err.Error())
	}
	switch {
	case msg.Mended && msg.IsRequest() && !bytes.Contains(msg.ID, []byte(string(utf8.RuneError))):
		return nil, refuse(msg.ID, mcp.CodeParse, "Parse error: not UTF-8") // who waits for an answer on a stream gets it
	case msg.Mended:
		return nil, refuse(nil, mcp.CodeParse, "Parse error: not UTF-8")
	case msg.Method == "" && !msg.IsResponse():
		return nil, refuse(nil, mcp.CodeInvalidRequest, "Invalid request: neither a request, a notification nor a response")
	case msg.IsRequest() && wire.IsNull(msg.ID):
		return nil, refuse(nil, mcp.CodeInvalidRequest, "Invalid request: the id is null")
	case msg.Params != nil && !wire.IsObject(msg.Params) && msg.Method != "":
		return nil, refuse(msg.ID, mcp.CodeInvalidParams, "Invalid params: not an object")
	}
	return &message{msg: msg, fields: readFields(msg.Params)}, nil
}

// parseAny is parse where both eras are spoken. version is what the header says,
// "" where there are no headers.
func parseAny(frame []byte, version string) (*message, *answer) {
	m, bad := parse(frame)
	if bad == nil {
		m.modern = m.isModern(version)
	}
	return m, bad
}

// isModern tells whether a message is of the modern era: it carries the
// protocol version in _meta, or its header declares a version that only has
// messages which do. A plain initialize is none whatever the header says: its
// sender is about to find out what is spoken here.
func (m *message) isModern(header string) bool {
	return m.fields.meta.version != nil || header == mcp.ModernVersion && m.msg.Method != mcp.Initialize
}
