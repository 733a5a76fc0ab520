package stream

import (
	"strconv"
	"strings"
	"sync"
)

// Bounds of what one session keeps for a client that lost its standing stream.
const (
	replayFrames = 64
	replayBytes  = 16 << 10
)

// replayPrefix begins the ids of events on a standing stream; those of other
// streams have others, so no other can be named in a Last-Event-ID.
const replayPrefix = "standing-"

// Standing is what one session has of standing streams: the one that is open, and
// the last events of all (2025-11-25 basic/transports, "Resumability and
// Redelivery"). The zero value has none.
type Standing struct {
	turn sync.Mutex // held where what goes out is taken, and where another stream takes over; ordered before mu

	mu     sync.Mutex // guards the rest; nothing waits under it
	open   *Stream    // nil if none
	ended  bool
	frames [][]byte // the last of them has the id next-1
	bytes  int
	next   int64
}

// A Stream is one open standing stream.
type Stream struct {
	standing *Standing
	over     chan struct{} // closed when a newer stream took over, or the session ended
	first    int64         // number of the first frame that was taken last; of the stream's writer
}

// Attach opens a stream, nil if the session has ended. An older one ends: what it
// has taken by now is kept, and it takes nothing more.
func (s *Standing) Attach() *Stream {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if s.open != nil {
		close(s.open.over)
	}
	s.open = &Stream{standing: s, over: make(chan struct{})}
	return s.open
}

// IsOpen tells whether there is a stream.
func (s *Standing) IsOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open != nil
}

// End ends the stream, and drops what is kept. It is idempotent.
func (s *Standing) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.frames = true, nil
	if s.open != nil {
		close(s.open.over)
		s.open = nil
	}
}

// keep numbers frames that are about to be sent, and returns the first number.
// What is too large for the bounds is numbered, and not kept.
func (s *Standing) keep(frames [][]byte) (first int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.next
	s.next += int64(len(frames))
	if s.ended {
		return first
	}
	s.frames = append(s.frames, frames...)
	for _, f := range frames {
		s.bytes += len(f)
	}
	s.frames, s.bytes = trimmed(s.frames, s.bytes, replayFrames, replayBytes)
	return first
}

// trimmed is what is left of frames when the oldest are dropped that are too much.
func trimmed(frames [][]byte, size, maxFrames, maxBytes int) (left [][]byte, leftBytes int) {
	drop := 0
	for drop < len(frames) && (len(frames)-drop > maxFrames || size > maxBytes) {
		size -= len(frames[drop])
		drop++
	}
	if drop == 0 {
		return frames, size
	}
	return append([][]byte(nil), frames[drop:]...), size
}

// eventPrefix begins the ids of the events of standing streams of this process.
var eventPrefix = replayPrefix + Run + "-"

// missed returns the events behind the one that a client got last, and the
// number of the first; none if the id is not one of a standing stream. A client
// that got its last event from another process has got none of this one's.
func (s *Standing) missed(lastID string) (first int64, frames [][]byte) {
	if !strings.HasPrefix(lastID, replayPrefix) {
		return 0, nil
	}
	n := int64(-1)
	if text, ok := strings.CutPrefix(lastID, eventPrefix); ok {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
			return 0, nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return behind(s.frames, s.next, n)
}

// behind returns the frames behind the one with the number last, and the number of
// the first of them. next is the number behind the last frame.
func behind(frames [][]byte, next, last int64) (first int64, rest [][]byte) {
	oldest := next - int64(len(frames))
	if first = max(last+1, oldest); first < next {
		rest = append(rest, frames[first-oldest:]...)
	}
	return first, rest
}

// Over is closed when a newer stream took over, or the session ended.
func (st *Stream) Over() <-chan struct{} { return st.over }

// Detach is the end of the stream, unless another has taken over.
func (st *Stream) Detach() {
	st.standing.mu.Lock()
	defer st.standing.mu.Unlock()
	if st.standing.open == st {
		st.standing.open = nil
	}
}

// Turn is Options.Turn of the stream: what it takes has its numbers, and is kept,
// before another stream takes over and asks what was missed.
func (st *Stream) Turn(take func() [][]byte) bool {
	st.standing.turn.Lock()
	defer st.standing.turn.Unlock()
	select {
	case <-st.over:
		return false
	default:
	}
	if frames := take(); len(frames) > 0 {
		st.first = st.standing.keep(frames)
	}
	return true
}

// Replay writes what a client missed that got the event with this id last.
func (st *Stream) Replay(out *Events, lastID string) error {
	first, frames := st.standing.missed(lastID)
	if len(frames) == 0 {
		return nil
	}
	return out.numbered(eventPrefix, first, frames)
}

// Sink is the sink of the stream: its events have the numbers that Turn gave.
func (st *Stream) Sink(out *Events) Sink { return standingSink{out, st} }

type standingSink struct {
	*Events
	stream *Stream
}

// Write writes events with numbers.
func (s standingSink) Write(frames [][]byte) error {
	return s.numbered(eventPrefix, s.stream.first, frames)
}
