// Package message is what a client says and what it is answered: a message decoded
// once, and the answers to it, with the one table from faults to JSON-RPC errors and
// to words that a model can read. It sends nothing, and knows neither sessions nor
// servers.
package message

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A Message is one decoded JSON-RPC message of a client. Nothing in it changes.
// Its byte slices are views into the frame that it came in.
type Message struct {
	wire.Message
	Fields fields
	Modern bool // of the 2026-07-28 revision: everything that matters is in the message
}

// fields are the members of params that everline itself reads, raw; nil
// where absent.
type fields struct {
	name, URI, Ref, Cursor, Level, RequestID, Notifications, Arguments []byte
	RequestState, InputResponses                                       []byte
	task, TaskID                                                       []byte

	Meta struct {
		Version, Capabilities, LogLevel, ProgressToken, ResultID, Session []byte
		TraceParent, TraceState, ClientInfo                               []byte
		Traces                                                            int // how many times there is a TraceParent
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
			f.URI = val
		case "ref":
			f.Ref = val
		case "cursor":
			f.Cursor = val
		case "level":
			f.Level = val
		case "requestId":
			f.RequestID = val
		case "notifications":
			f.Notifications = val
		case "arguments":
			f.Arguments = val
		case "requestState":
			f.RequestState = val
		case "inputResponses":
			f.InputResponses = val
		case "task":
			f.task = val
		case "taskId":
			f.TaskID = val
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
			f.Meta.Version = val
		case mcp.MetaCapabilities:
			f.Meta.Capabilities = val
		case mcp.MetaClientInfo:
			f.Meta.ClientInfo = val
		case mcp.MetaLogLevel:
			f.Meta.LogLevel = val
		case mcp.MetaProgressToken:
			f.Meta.ProgressToken = val
		case mcp.MetaResultID:
			f.Meta.ResultID = val
		case mcp.MetaSession:
			f.Meta.Session = val
		case mcp.MetaTraceParent:
			f.Meta.TraceParent = val
			f.Meta.Traces++
		case mcp.MetaTraceState:
			f.Meta.TraceState = val
		}
	}
}

// ItemName is the value of params that a header mirrors and that a call is
// routed by: the name of a tool or prompt, the URI of a resource, or the id of a
// task.
func (m *Message) ItemName() (string, bool) {
	raw := m.Fields.name
	switch m.Method {
	case mcp.ResourcesRead:
		raw = m.Fields.URI
	case mcp.TasksGet, mcp.TasksUpdate, mcp.TasksCancel:
		raw = m.Fields.TaskID
	}
	return wire.Text(raw)
}

// ParseLegacy decodes one frame of a connection that has no modern requests. On failure
// it returns the answer to it: -32700 for what is no JSON or no UTF-8, -32600 for
// what is no message, both with id null, because nothing in such a frame can be
// trusted to be an id.
func ParseLegacy(frame []byte) (*Message, *Answer) {
	msg, err := wire.Parse(frame)
	if err != nil {
		if errors.As(err, new(*wire.SyntaxError)) {
			return nil, Refuse(nil, mcp.CodeParse, "Parse error: "+err.Error())
		}
		return nil, Refuse(nil, mcp.CodeInvalidRequest, "Invalid request: "+err.Error())
	}
	switch {
	case msg.Repaired && msg.IsRequest() && !bytes.Contains(msg.ID, []byte(string(utf8.RuneError))):
		return nil, Refuse(msg.ID, mcp.CodeParse, "Parse error: not UTF-8") // who waits for an answer on a stream gets it
	case msg.Repaired:
		return nil, Refuse(nil, mcp.CodeParse, "Parse error: not UTF-8")
	case msg.Method == "" && !msg.IsResponse():
		return nil, Refuse(nil, mcp.CodeInvalidRequest, "Invalid request: neither a request, a notification nor a response")
	case msg.IsRequest() && wire.IsNull(msg.ID):
		return nil, Refuse(nil, mcp.CodeInvalidRequest, "Invalid request: the id is null")
	case msg.Params != nil && !wire.IsObject(msg.Params) && msg.Method != "":
		return nil, Refuse(msg.ID, mcp.CodeInvalidParams, "Invalid params: not an object")
	}
	return &Message{Message: msg, Fields: readFields(msg.Params)}, nil
}

// Parse is parse where both eras are spoken. version is what the header says,
// "" where there are no headers.
func Parse(frame []byte, version string) (*Message, *Answer) {
	m, bad := ParseLegacy(frame)
	if bad == nil {
		m.Modern = m.isModern(version)
	}
	return m, bad
}

// isModern tells whether a message is of the modern era: it carries the
// protocol version in _meta, or its header declares a version that only has
// messages which do. A plain initialize is none whatever the header says: its
// sender is about to find out what is spoken here.
func (m *Message) isModern(header string) bool {
	return m.Fields.Meta.Version != nil || header == mcp.ModernVersion && m.Method != mcp.Initialize
}

// BadLevel tells whether the client wants log messages of no known level.
func (m *Message) BadLevel() bool {
	raw := m.Fields.Meta.LogLevel
	return m.Modern && raw != nil && mcp.LevelRank(raw) == 0
}

// MayBeTask tells whether the answer to a call may be a task.
func (m *Message) MayBeTask() bool {
	if m.Method != mcp.ToolsCall {
		return false
	}
	if m.Modern {
		return m.DeclaresTasks()
	}
	return wire.IsObject(m.Fields.task)
}

// DeclaresTasks tells whether a modern client knows the tasks extension.
func (m *Message) DeclaresTasks() bool {
	return wire.IsObject(wire.Get(m.Fields.Meta.Capabilities, "extensions", mcp.ExtensionTasks))
}
