package wire

import (
	"bytes"
	"errors"
	"iter"
	"unicode/utf16"
	"unicode/utf8"
)

// What can be wrong with a frame that is JSON.
var (
	// ErrBatch: the frame is an array. Batch splits it.
	ErrBatch = errors.New("a batch, not one message")
	// ErrNotObject: the frame is a string, a number or a literal.
	ErrNotObject = errors.New("not a JSON object")
	// ErrEnvelope: a member of the envelope has a type that it cannot have.
	// The Message beside it holds the members that could be read.
	ErrEnvelope = errors.New("the method is no string, or the id neither string, number nor null")
)

var bom = []byte("\xef\xbb\xbf")

// methods are the method names of all MCP revisions. Parse returns these
// strings instead of allocating equal ones.
var methods = intern(
	"initialize", "ping", "server/discover",
	"tools/list", "tools/call",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
	"prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
	"sampling/createMessage", "elicitation/create", "roots/list", "subscriptions/listen",
	"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
	"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/message",
	"notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/resources/updated",
	"notifications/prompts/list_changed", "notifications/roots/list_changed", "notifications/elicitation/complete",
	"notifications/tasks/status", "notifications/tasks", "notifications/subscriptions/acknowledged",
)

func intern(names ...string) map[string]string {
	m := make(map[string]string, len(names))
	for _, n := range names {
		m[n] = n
	}
	return m
}

// Parse decodes one envelope and checks that the whole frame is JSON. A byte
// order mark and space around the message are tolerated, "jsonrpc" is not
// required, members that no envelope has are ignored, and of a member that
// occurs twice the last counts. "error":null beside a result, and
// "result":null beside an error, count as absent; "error":null alone is an
// error. Bytes that are not UTF-8, which JSON-RPC messages of MCP must be, and
// escaped halves of surrogate pairs, which are JSON and no text, become U+FFFD,
// so that none is passed on; the Message says so.
//
// The error is a *SyntaxError, ErrBatch, ErrNotObject or ErrEnvelope.
func Parse(frame []byte) (Message, error) {
	msg, lone, err := parse(frame)
	readable := err == nil || errors.Is(err, ErrEnvelope)
	if !readable || !lone && utf8.Valid(frame) {
		return msg, err
	}
	text, id := frame, msg.ID
	repaired := !utf8.Valid(frame)
	if repaired {
		text = bytes.ToValidUTF8(frame, []byte("\uFFFD"))
	}
	if lone {
		text = WholeText(text)
	}
	msg, _, err = parse(text)
	msg.Repaired, msg.Sent = repaired, frame[afterBOM(frame):]
	if !repaired {
		msg.ID = id
	}
	return msg, err
}

// WholeText returns a copy of JSON text in which each escaped half of a
// surrogate pair that stands alone is the escape of U+FFFD.
func WholeText(text []byte) []byte {
	out := bytes.Clone(text)
	for i := 0; i+1 < len(out); i++ {
		switch {
		case out[i] != '\\':
		case out[i+1] != 'u':
			i++
		default:
			r, n := escapedRune(out[i:])
			if r == utf8.RuneError && utf16.IsSurrogate(hex4(out[i+2:])) {
				copy(out[i:], `\ufffd`)
			}
			i += n - 1
		}
	}
	return out
}

func parse(frame []byte) (msg Message, lone bool, err error) {
	s := scanner{b: frame}
	i := s.space(afterBOM(frame))
	if i >= len(frame) || frame[i] != '{' {
		return Message{}, false, notObject(&s, i)
	}
	bad := false
	for pos, first := i+1, true; ; first = false {
		m, more := s.member(pos, first, 1)
		if !more {
			pos = m.end
			if pos >= 0 {
				if pos = s.space(pos); pos < len(frame) {
					return Message{}, false, &SyntaxError{Offset: pos, Text: "text after the message", Whole: true}
				}
			}
			if pos < 0 {
				return Message{}, false, s.err()
			}
			break
		}
		if !msg.take(frame[m.key+1:m.keyEnd-1], frame[m.val:m.end:m.end]) {
			bad = true
		}
		pos = m.end
	}
	msg.dropNulls()
	msg.URIs = s.uris
	if bad {
		err = ErrEnvelope
	}
	return msg, s.seen.Lone, err
}

func afterBOM(frame []byte) int {
	if bytes.HasPrefix(frame, bom) {
		return len(bom)
	}
	return 0
}

func notObject(s *scanner, i int) error {
	if !s.text(i) {
		return s.err()
	}
	if s.b[i] == '[' {
		return ErrBatch
	}
	return ErrNotObject
}

// take stores one member of the envelope; key is without its quotes.
func (m *Message) take(key, val []byte) bool {
	if bytes.IndexByte(key, '\\') >= 0 {
		key = unescape(nil, key)
	}
	switch string(key) {
	case "id":
		m.ID = val
		return val[0] == '"' || val[0] == 'n' || val[0] == '-' || isDigit(val[0])
	case "method":
		return m.takeMethod(val)
	case "params":
		m.Params = val
	case "result":
		m.Result = val
	case "error":
		m.Error = val
	}
	return true
}

func (m *Message) takeMethod(val []byte) bool {
	m.Method = ""
	if val[0] != '"' {
		return val[0] == 'n'
	}
	if known, ok := methods[string(val[1:len(val)-1])]; ok {
		m.Method = known
		return true
	}
	m.Method, _ = Text(val)
	return m.Method != ""
}

func (m *Message) dropNulls() {
	if IsNull(m.Error) && (m.Method != "" || m.Result != nil) {
		m.Error = nil
	}
	if m.Error != nil && IsNull(m.Result) {
		m.Result = nil
	}
}

// BeginsAnswer reports whether the beginning of a frame, cut anywhere, is that of
// a response: of the members that tell, "result" or "error" comes first.
func BeginsAnswer(head []byte) bool {
	s := scanner{b: head}
	i := s.space(afterBOM(head))
	if i >= len(head) || head[i] != '{' {
		return false
	}
	i++
	for first := true; ; first = false {
		m, more := s.member(i, first, 1)
		if m.keyEnd <= m.key {
			return false
		}
		switch string(head[m.key+1 : m.keyEnd-1]) {
		case "result", "error":
			return true
		case "method", "params":
			return false
		}
		if !more {
			return false
		}
		i = m.end
	}
}

// IsBatch reports whether a frame begins as an array; it does not check the rest.
func IsBatch(frame []byte) bool { return IsArray(frame[afterBOM(frame):]) }

// Batch yields the raw elements of a frame that is an array, which are views
// into the frame, and takes no memory for them: a small frame can have very
// many. It is false, and yields nothing, for anything else and for an array
// that is not JSON. The elements are checked as JSON, and are not decoded as
// messages.
func Batch(frame []byte) (iter.Seq[[]byte], bool) {
	s := scanner{b: frame}
	i := s.space(afterBOM(frame))
	if i >= len(frame) || frame[i] != '[' || !s.text(i) {
		return Elements(nil), false
	}
	return Elements(frame[i:]), true
}
