package gateway

import (
	"bytes"
	"errors"
	"net/http"
	"sync/atomic"
	"unicode/utf8"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A request is one message of a client on its way through the gateway. Its
// byte slices are views into the frame that it came in.
type request struct {
	msg    wire.Message
	fields fields
	modern bool     // of the 2026-07-28 revision: everything that matters is in the request
	sess   *session // the legacy session; on stdio, which cancels by message, of modern requests too; else nil
	// emit takes a frame that belongs to this request and goes out before its
	// answer; it does not block. nil: the client takes none.
	emit func(frame []byte)
	// tell is emit for a frame that must not be lost: a request to the client.
	tell func(frame []byte)
	held *claim               // what the body holds of the budget; nil for nothing
	gone <-chan struct{}      // closed when the client of this exchange has gone; nil on stdio
	post *post                // the response that the answer belongs to; nil where answers share a stream
	kept atomic.Pointer[kept] // the outcome that others may ask for; nil if nobody can

	// Of calls; see everline.Client.
	client  uint64
	serves  served                 // what servers may ask the client for
	level   int                    // log messages from this severity on are wanted; 0 none
	missing atomic.Pointer[string] // of a modern client: what was asked for and is not declared

	late   atomic.Bool // the answer was a task: what belongs to the request may come later
	muted  atomic.Bool // of a bridge: the client wants no answer
	flying bool        // the transport has registered it in flights, before the next message was read
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

// target is the value of params that a header mirrors and that a call is
// routed by: the name of a tool or prompt, the URI of a resource, or the id of a
// task.
func (rq *request) target() (string, bool) {
	raw := rq.fields.name
	switch rq.msg.Method {
	case mcp.ResourcesRead:
		raw = rq.fields.uri
	case mcp.TasksGet, mcp.TasksUpdate, mcp.TasksCancel:
		raw = rq.fields.taskID
	}
	return wire.Text(raw)
}

// parse decodes one frame. On failure it returns the answer to it: -32700 for
// what is no JSON or no UTF-8, -32600 for what is no message, both with id null, because
// nothing in such a frame can be trusted to be an id.
func parse(frame []byte) (*request, *answer) {
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
	return &request{msg: msg, fields: readFields(msg.Params)}, nil
}

// refuse is an answer of the transport's own: status 400 and a JSON-RPC error.
func refuse(id []byte, code int64, text string) *answer {
	return &answer{status: http.StatusBadRequest, head: wire.AppendError(nil, id, code, text, nil)}
}

// An answer is one JSON-RPC response in three parts that are written one after
// the other, so that a large result is never copied.
type answer struct {
	status           int // HTTP status; 0 is 200
	head, body, tail []byte
	silent           bool // nothing is sent, where the transport lets a request go unanswered
}

func (a *answer) size() int { return len(a.head) + len(a.body) + len(a.tail) }

// frame joins the parts to one line.
func (a *answer) frame() []byte {
	if len(a.head) == a.size() {
		return wire.OneLine(a.head)
	}
	out := make([]byte, 0, a.size()+1)
	out = append(append(append(out, a.head...), a.body...), a.tail...)
	return wire.OneLine(out)
}

var closeOne, closeTwo = []byte("}"), []byte("}}")

// result answers with a raw result. For a modern client an absent resultType
// is filled in, and for what it may cache an absent ttlMs and cacheScope:
// results of older servers have neither. Nothing else is touched.
func (rq *request) result(raw []byte) answer {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	head := make([]byte, 0, 96+len(rq.msg.ID))
	head = append(append(head, `{"jsonrpc":"2.0","id":`...), rq.msg.ID...)
	head = append(head, `,"result":`...)
	if !rq.modern {
		return answer{head: head, body: raw, tail: closeOne}
	}
	head, body := rq.splice(head, raw)
	return answer{head: head, body: body, tail: closeOne}
}

// splice writes the opening brace and the missing members to head, and returns
// what of raw comes behind them.
func (rq *request) splice(head, raw []byte) (newHead, body []byte) {
	extra := missing(raw, rq.msg.Method == mcp.ResourcesRead)
	if extra == "" || !wire.IsObject(raw) {
		return head, raw
	}
	at := bytes.IndexByte(raw, '{')
	head = append(append(head, '{'), extra...)
	for body = raw[at+1:]; len(body) > 0 && isSpace(body[0]); body = body[1:] {
	}
	if len(body) > 0 && body[0] == '}' {
		head = head[:len(head)-1] // the comma
	}
	return head, body
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// missing are the members that a modern result must have and raw has not, each
// with a comma behind it.
func missing(raw []byte, cacheable bool) string {
	s := ""
	if kind, ok := wire.Text(memberOf(raw, "resultType")); !ok {
		s = `"resultType":"complete",`
	} else if kind != "complete" {
		return "" // an interim result carries no caching hints
	}
	if !cacheable {
		return s
	}
	if memberOf(raw, "ttlMs") == nil {
		s += `"ttlMs":0,`
	}
	if memberOf(raw, "cacheScope") == nil {
		s += `"cacheScope":"private",`
	}
	return s
}
