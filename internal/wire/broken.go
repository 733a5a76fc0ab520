package wire

import (
	"bytes"
	"iter"
)

// A Remnant is one message of a frame that is not JSON.
type Remnant struct {
	Raw []byte // as far as it goes, a view into the frame; it may be JSON by itself
	// ID is the request that it would have answered, valid if Answer is true:
	// it names an id, is no request, and says that it is JSON-RPC.
	ID     int64
	Answer bool
	// Nameless: it has a result, and no id that could be made out.
	Nameless bool
}

// Remnants yields the messages that can be made out in a frame that Parse
// refuses: an object, or the objects of a batch. Only members of the envelope
// count, never what is nested below them. It checks nothing.
func Remnants(frame []byte) iter.Seq[Remnant] {
	return func(yield func(Remnant) bool) {
		w := wreck{b: frame, level: 1}
		i := w.space(afterBOM(frame))
		switch {
		case i >= len(frame) || frame[i] != '{' && frame[i] != '[':
			return // a message behind other text is a line of a log
		case frame[i] == '[':
			w.level = 2
		}
		for i < len(frame) {
			i = w.pass(i)
			if w.ended && !yield(w.remnant(i)) {
				return
			}
		}
		if w.depth >= w.level {
			yield(w.remnant(len(frame)))
		}
	}
}

// A wreck walks over a text that may stop being JSON anywhere. Strings and
// nesting are all that it goes by.
type wreck struct {
	b     []byte
	depth int // of the containers that are open
	level int // the depth inside of a message
	start int // of the message
	ended bool
	lost  bool // the text ended inside of a string: quotes are not what they seem

	id      []byte // raw; nil if none was seen
	request bool   // it has a method
	reply   bool   // it has a member that tells JSON-RPC
	result  bool
}

func (w *wreck) space(i int) int { return (&scanner{b: w.b}).space(i) }

// pass takes in what is at i and returns the index behind it.
func (w *wreck) pass(i int) int {
	w.ended = false
	switch w.b[i] {
	case '{', '[':
		if w.depth++; w.depth == w.level {
			w.start, w.id, w.request, w.reply, w.result = i, nil, false, false, false
		}
	case '}', ']':
		w.ended = w.depth == w.level
		w.depth = max(w.depth-1, 0)
	case '"':
		end := w.str(i)
		if w.depth != w.level {
			return end
		}
		if pos := w.space(end); pos < len(w.b) && w.b[pos] == ':' {
			w.member(w.b[i+1:end-1], w.space(pos+1))
			return pos + 1
		}
		return end
	}
	return i + 1
}

// str returns the index behind a string; the end of the text if it has none.
func (w *wreck) str(i int) int {
	for i++; i < len(w.b); i++ {
		switch w.b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	w.lost = true
	return len(w.b)
}

// member notes a member of an envelope, whose value begins at val.
func (w *wreck) member(key []byte, val int) {
	if val >= len(w.b) {
		return
	}
	switch string(key) {
	case "id":
		w.id = w.token(val)
	case "method":
		w.request = w.b[val] == '"'
	case "result":
		w.reply, w.result = true, true
	case "jsonrpc", "error":
		w.reply = true
	}
}

// token is a string or whatever else ends where a member can end.
func (w *wreck) token(i int) []byte {
	if w.b[i] == '"' {
		return w.b[i:w.str(i)]
	}
	if n := bytes.IndexAny(w.b[i:], ",}] \t\r\n"); n >= 0 {
		return w.b[i : i+n]
	}
	return nil // it may be cut
}

// remnant describes the message that ends at i.
func (w *wreck) remnant(i int) Remnant {
	if w.id == nil && w.lost {
		w.id = lastID(w.b)
	}
	r := Remnant{Raw: w.b[w.start:i:i]}
	if w.reply && !w.request {
		r.ID, r.Answer = ParseID(w.id)
		r.Nameless = w.id == nil && w.result
	}
	return r
}

// lastID is the id that a text ends with, where servers put it that write the
// result first.
func lastID(b []byte) []byte {
	pos := bytes.LastIndex(b, []byte(`"id"`))
	if pos < 0 {
		return nil
	}
	msg, err := Parse(append([]byte("{"), b[pos:]...))
	if err != nil {
		return nil
	}
	return msg.ID
}
