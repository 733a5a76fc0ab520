package mcp

import (
	"strconv"
	"time"

	"github.com/everline/everline/internal/wire"
)

// KeepAlive is a comment, which readers skip: it keeps a connection from looking
// dead to what is in between.
const KeepAlive = ":\n\n"

// AppendEvent appends a message as an event. The frame may have line ends.
func AppendEvent(dst, frame []byte) []byte {
	dst = append(dst, "event: message\ndata: "...)
	return append(append(dst, wire.OneLine(frame)...), "\n\n"...)
}

// AppendEventID appends the id of the event that is appended next.
func AppendEventID[T string | []byte](dst []byte, id T) []byte {
	return append(append(append(dst, "id: "...), id...), '\n')
}

// AppendRetry appends, ahead of an event, after how long a reader that loses the
// stream shall come back.
func AppendRetry(dst []byte, after time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), after.Milliseconds(), 10)
	return append(dst, '\n')
}

// AppendOtherEvent appends an event that is no message: of another name, or, if
// that is "", one without data, which gives a reader the id and nothing else.
func AppendOtherEvent(dst []byte, name, data string) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	return append(append(append(dst, "data: "...), data...), "\n\n"...)
}
