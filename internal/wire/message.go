// Package wire turns JSON-RPC 2.0 envelopes into bytes and back. Params,
// results and error objects stay raw, byte for byte; nothing here knows MCP.
package wire

// A Message is one decoded envelope. Its byte slices are views into the frame
// that it was parsed from and are valid as long as that frame is not changed.
type Message struct {
	ID       []byte // raw JSON: a string or a number; "null" as sent; nil if absent
	Method   string // "" for a response
	Params   []byte // raw; nil if absent
	Result   []byte // raw; nil if absent
	Error    []byte // the raw error object; nil if absent
	Repaired bool   // the frame was not UTF-8; the slices are views into a repaired copy
	// Sent is the frame as it came, where the slices are views into a copy in
	// which what is no text was replaced: the frame was not UTF-8, or had half of
	// a surrogate pair. nil elsewhere. The ID is always as it came.
	Sent []byte
	URIs bool // some member, however deep, is called "uri"
}

// IsRequest reports whether the peer expects an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether this is a one-way message.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether this answers a request of ours.
func (m *Message) IsResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }
