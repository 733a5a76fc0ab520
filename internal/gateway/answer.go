package gateway

import (
	"bytes"
	"net/http"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

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
func (m *message) result(raw []byte) answer {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	head := make([]byte, 0, 96+len(m.msg.ID))
	head = append(append(head, `{"jsonrpc":"2.0","id":`...), m.msg.ID...)
	head = append(head, `,"result":`...)
	if !m.modern {
		return answer{head: head, body: raw, tail: closeOne}
	}
	head, body := m.splice(head, raw)
	return answer{head: head, body: body, tail: closeOne}
}

// splice writes the opening brace and the missing members to head, and returns
// what of raw comes behind them.
func (m *message) splice(head, raw []byte) (newHead, body []byte) {
	extra := missing(raw, m.msg.Method == mcp.ResourcesRead)
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
