package message

import (
	"bytes"
	"net/http"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// Refuse is an answer of the transport's own: status 400 and a JSON-RPC error.
func Refuse(id []byte, code int64, text string) *Answer {
	return &Answer{Status: http.StatusBadRequest, Head: wire.AppendError(nil, id, code, text, nil)}
}

// An Answer is one JSON-RPC response in three parts that are written one after
// the other, so that a large result is never copied.
type Answer struct {
	Status           int // HTTP status; 0 is 200
	Head, Body, Tail []byte
	RetryAfter       time.Duration // when the request may come again; 0: that is not said, or in the body alone
	Silent           bool          // nothing is sent, where the transport lets a request go unanswered
}

func (a *Answer) Size() int { return len(a.Head) + len(a.Body) + len(a.Tail) }

// Frame joins the parts to one line.
func (a *Answer) Frame() []byte {
	if len(a.Head) == a.Size() {
		return wire.OneLine(a.Head)
	}
	out := make([]byte, 0, a.Size()+1)
	out = append(append(append(out, a.Head...), a.Body...), a.Tail...)
	return wire.OneLine(out)
}

var closeOne = []byte("}")

// Success answers with a raw result. For a modern client an absent resultType
// is filled in, and for what it may cache an absent ttlMs and cacheScope:
// results of older servers have neither. Nothing else is touched.
func (m *Message) Success(raw []byte) Answer {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	head := make([]byte, 0, 96+len(m.ID))
	head = append(append(head, `{"jsonrpc":"2.0","id":`...), m.ID...)
	head = append(head, `,"result":`...)
	if !m.Modern {
		return Answer{Head: head, Body: raw, Tail: closeOne}
	}
	head, body := m.splice(head, raw)
	return Answer{Head: head, Body: body, Tail: closeOne}
}

// splice writes the opening brace and the missing members to head, and returns
// what of raw comes behind them.
func (m *Message) splice(head, raw []byte) (newHead, body []byte) {
	extra := missing(raw, m.Method == mcp.ResourcesRead)
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
	if kind, ok := wire.Text(wire.Member(raw, "resultType")); !ok {
		s = `"resultType":"complete",`
	} else if kind != "complete" {
		return "" // an interim result carries no caching hints
	}
	if !cacheable {
		return s
	}
	if wire.Member(raw, "ttlMs") == nil {
		s += `"ttlMs":0,`
	}
	if wire.Member(raw, "cacheScope") == nil {
		s += `"cacheScope":"private",`
	}
	return s
}

// LoopRefusal is the refusal. Whoever asks knows it by its code and its kind.
func (m *Message) LoopRefusal() *Answer {
	return m.Refusal(mcp.CodeLoop, mcp.LoopMessage, []byte(mcp.LoopData))
}

// Named tells whether an answer has the id of a request.
func (a *Answer) Named() bool {
	id := wire.Member(a.Frame(), "id")
	return id != nil && !wire.IsNull(id)
}

// Error is the JSON-RPC error that an answer is; code 0 for a result.
func (a *Answer) Error() (code int64, text string) {
	if a.Body != nil { // all errors are in one part
		return 0, ""
	}
	if raw := wire.Member(a.Head, "error"); raw != nil {
		code, text = wire.DecodeError(raw)
	}
	return code, text
}
