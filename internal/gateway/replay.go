package gateway

import (
	"strconv"
	"strings"

	"github.com/everline/everline/internal/wire"
)

// Bounds of what one session keeps for a client that lost its standing stream.
const (
	replayFrames = 64
	replayBytes  = 16 << 10
)

// replayPrefix begins the ids of events on a standing stream; those of other
// streams have none, so no other can be named in a Last-Event-ID.
const replayPrefix = "standing-"

// A replay holds the last events of a session's standing streams (2025-11-25
// basic/transports, "Resumability and Redelivery").
type replay struct {
	frames [][]byte // the last of them has the id next-1
	bytes  int
	next   int64
}

// keep numbers frames that are about to be sent, and returns the first number.
// What is too large for the bounds is numbered, and not kept.
func (s *session) keep(frames [][]byte) (first int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.sent
	first = r.next
	r.next += int64(len(frames))
	if s.ended {
		return first
	}
	for _, f := range frames {
		r.frames = append(r.frames, f)
		r.bytes += len(f)
	}
	drop := 0
	for drop < len(r.frames) && (len(r.frames)-drop > replayFrames || r.bytes > replayBytes) {
		r.bytes -= len(r.frames[drop])
		drop++
	}
	r.frames = append([][]byte(nil), r.frames[drop:]...)
	return first
}

// missed returns the events behind the one that a client got last, and the
// number of the first; none if the id is not one of a standing stream.
func (s *session) missed(lastID string) (first int64, frames [][]byte) {
	text, ok := strings.CutPrefix(lastID, replayPrefix)
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || n < 0 {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.sent.next - int64(len(s.sent.frames))
	first = max(n+1, oldest)
	if first >= s.sent.next {
		return first, nil
	}
	return first, append(frames, s.sent.frames[first-oldest:]...)
}

// turnOf is the turn of a standing stream: what it takes has its numbers, and is
// kept, before another stream takes over and asks what was missed.
func (s *session) turnOf(st *standing) func(take func() [][]byte) bool {
	return func(take func() [][]byte) bool {
		s.turn.Lock()
		defer s.turn.Unlock()
		select {
		case <-st.over:
			return false
		default:
		}
		if frames := take(); len(frames) > 0 {
			st.first = s.keep(frames)
		}
		return true
	}
}

// A standingSink is the sink of a standing stream: its events have ids.
type standingSink struct {
	*eventStream
	of *standing
}

func (s standingSink) write(frames [][]byte) error {
	return s.numbered(replayPrefix, s.of.first, frames)
}

// numbered writes events whose ids are the prefix and a number, from first on.
func (s *eventStream) numbered(prefix string, first int64, frames [][]byte) error {
	s.buf = s.buf[:0]
	for i, f := range frames {
		s.buf = strconv.AppendInt(append(s.buf, "id: "+prefix...), first+int64(i), 10)
		s.buf = append(s.buf, "\nevent: message\ndata: "...)
		s.buf = append(append(s.buf, wire.OneLine(f)...), "\n\n"...)
	}
	return s.put()
}
