package transport

import (
	"errors"
	"fmt"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// An answer that cannot be read is the fault of the request that it answers,
// whatever the transport: the caller gets its fault immediately, because no other answer
// comes, and its outcome is unknown, because the request has reached the
// server. It says nothing about the link.

// ErrNoContent: an answer that answers nothing.
var ErrNoContent = errors.New("the answer has neither a result nor an error")

// Unreadable is the fault of a request whose answer came and cannot be used.
// err is what wire.Parse said, or ErrNoContent.
func Unreadable(op string, err error) *fault.Fault {
	return &fault.Fault{Kind: fault.Protocol, Op: op, Outcome: fault.Unknown, Err: UnreadableText(err)}
}

// UnreadableText says what is wrong with it.
func UnreadableText(err error) error {
	var syntax *wire.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("the answer is %w", err)
	}
	return err
}

// EmptyAnswer reports whether a message that is neither a request nor an answer
// was meant as one: it has an id, and says that it is JSON-RPC, which lines of
// logs do not.
func EmptyAnswer(frame []byte, msg wire.Message) (id int64, ok bool) {
	if msg.Method != "" || !wire.Has(frame, "jsonrpc") {
		return 0, false
	}
	return wire.ParseID(msg.ID)
}

// glued cuts a frame that is a whole message and another one behind it: two
// writers of one pipe may lose the line end between them.
func glued(frame []byte, err error) (first, rest []byte, ok bool) {
	if err == nil {
		return nil, nil, false
	}
	var syntax *wire.SyntaxError
	if !errors.As(err, &syntax) || !syntax.Whole || frame[syntax.Offset] != '{' {
		return nil, nil, false
	}
	return frame[:syntax.Offset:syntax.Offset], frame[syntax.Offset:], true
}
