package gateway

import (
	"container/list"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/mcp"
)

// Bounds of what is kept of the streams that were the responses to POSTs.
const (
	resumeFrames = 256             // of one stream, its answer apart
	resumeBytes  = 64 << 10        // likewise
	resumeEach   = 16              // streams of one session that are over
	resumeTotal  = 32 << 20        // bytes of answers of all sessions
	resumeTime   = 2 * time.Minute // how long a stream that is over is kept
	resumeRetry  = 1000            // ms after which a client is to come back
	longCall     = 1 * time.Second // a call that takes longer is answered on a stream that can be resumed
	resumePrefix = "post-"         // begins the ids of events
)

// A response is the stream that answers one POST of a legacy session. A client
// that loses the connection gets the rest with a GET (2025-11-25 basic/transports,
// "Resumability and Redelivery").
type response struct {
	n    uint64 // tells it from the others of its session
	sess *session

	followers atomic.Int32 // clients that have come back for it

	mu      sync.Mutex // guards the rest; nothing waits under it
	frames  [][]byte
	bytes   int
	next    int64 // number of the frame that comes next; 0 is the priming event
	over    bool  // nothing comes any more: the answer is in frames
	silent  bool  // there is none, because the client has canceled the request; valid when over
	changed chan struct{}
	reader  int // who writes it to the client now: 0 the POST, then the newest GET

	// Of responses, guarded by its lock.
	size int
	end  time.Time
	elem *list.Element
}

// responses are those that are over and can still be asked for, of all
// sessions, the oldest first.
type responses struct {
	mu     sync.Mutex // guards the rest; ordered before session.mu, and nothing waits under it
	order  list.List
	bytes  int
	timer  *time.Timer // set while there are any
	closed bool
}

// respond makes a response that can be resumed.
func (s *session) respond() *response {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.posts++
	r := &response{n: s.posts, sess: s, next: 1, changed: make(chan struct{})}
	if s.responses == nil {
		s.responses = map[uint64]*response{}
	}
	s.responses[r.n] = r
	return r
}

// put adds frames and returns the number of the first. What is too much is
// dropped, the oldest first.
func (r *response) put(frames [][]byte) (first int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.next
	r.next += int64(len(frames))
	r.frames = append(r.frames, frames...)
	for _, f := range frames {
		r.bytes += len(f)
	}
	r.trimLocked()
	r.tellLocked()
	return first
}

func (r *response) trimLocked() {
	drop := 0
	for drop < len(r.frames) && (len(r.frames)-drop > resumeFrames || r.bytes > resumeBytes) {
		r.bytes -= len(r.frames[drop])
		drop++
	}
	if drop > 0 {
		r.frames = append([][]byte(nil), r.frames[drop:]...)
	}
}

func (r *response) tellLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// finish adds the answer, which is the last frame, and returns its number. mine
// tells whether it is for the POST to write it.
func (r *response) finish(frame []byte) (number int64, mine bool) {
	r.mu.Lock()
	number, mine = r.next, r.reader == 0
	r.next++
	r.frames = append(r.frames, frame)
	r.over = true
	r.tellLocked()
	size := r.bytes + len(frame)
	r.mu.Unlock()
	r.sess.g.responses.keep(r, size)
	return number, mine
}

// abandon ends a response that has no answer. A nil one is none.
func (r *response) abandon() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.over, r.silent, r.frames = true, true, nil
	r.tellLocked()
	r.mu.Unlock()
	r.sess.g.responses.keep(r, 0)
}

func (r *response) abandoned() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silent
}

// since returns the frames behind the one with this number, and the number of
// the first of them.
func (r *response) since(last int64) (first int64, frames [][]byte, over bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.next - int64(len(r.frames))
	first = max(last+1, oldest)
	if first < r.next {
		frames = append(frames, r.frames[first-oldest:]...)
	}
	return first, frames, r.over, r.changed
}

// takeOver makes the caller the one who writes to the client.
func (r *response) takeOver() (reader int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reader++
	r.tellLocked()
	return r.reader
}

func (r *response) readBy(reader int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reader == reader
}

// keep keeps a response that is over, for its time and within the bounds.
func (s *responses) keep(r *response, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest, alive := r.sess.crowded()
	if s.closed || !alive {
		s.forgetLocked(r)
		return
	}
	r.size, r.end = size, time.Now().Add(resumeTime)
	r.elem = s.order.PushBack(r)
	s.bytes += size
	if oldest != nil {
		s.dropLocked(oldest)
	}
	for s.bytes > resumeTotal {
		s.dropLocked(s.order.Front().Value.(*response))
	}
	if s.timer == nil && s.order.Len() > 0 {
		s.timer = time.AfterFunc(resumeTime, s.sweep)
	}
}

// crowded returns the oldest response that is kept of a session if there are as
// many as may be; alive is false if the session has ended. The lock of
// responses is held.
func (s *session) crowded() (oldest *response, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.responses {
		if r.elem == nil {
			continue
		}
		if n++; oldest == nil || r.n < oldest.n {
			oldest = r
		}
	}
	if n < resumeEach {
		oldest = nil
	}
	return oldest, !s.ended
}

func (s *responses) dropLocked(r *response) {
	s.order.Remove(r.elem)
	r.elem = nil
	s.bytes -= r.size
	s.forgetLocked(r)
}

func (s *responses) forgetLocked(r *response) {
	r.sess.mu.Lock()
	defer r.sess.mu.Unlock()
	delete(r.sess.responses, r.n)
}

// sweep drops what was kept for its time. It runs on the timer's goroutine.
func (s *responses) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		r := e.Value.(*response)
		if left := time.Until(r.end); left > 0 && !s.closed {
			s.timer = time.AfterFunc(left, s.sweep)
			return
		}
		s.dropLocked(r)
	}
}

// forget drops what is kept of a session that has ended.
func (s *responses) forget(of *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.mu.Lock()
	kept := of.responses
	of.responses = nil
	of.mu.Unlock()
	for _, r := range kept {
		if r.elem != nil {
			s.dropLocked(r)
		}
	}
}

func (s *responses) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.sweep()
}

// resumes tells whether a GET asks for the rest of a POST's response.
func resumes(lastID string) bool { return strings.HasPrefix(lastID, resumePrefix) }

// comeBack serves it.
func (g *Gateway) comeBack(w http.ResponseWriter, r *http.Request, s *session, lastID string) {
	number, seq, _ := strings.Cut(strings.TrimPrefix(lastID, resumePrefix), "-")
	n, err := strconv.ParseUint(number, 10, 64)
	last, err2 := strconv.ParseInt(seq, 10, 64)
	s.mu.Lock()
	res := s.responses[n]
	s.mu.Unlock()
	if err != nil || err2 != nil || last < 0 || res == nil {
		g.reject(w, http.StatusBadRequest, mcp.CodeInvalidRequest, "Bad request: the stream that Last-Event-ID names is not kept any more")
		return
	}
	if res.abandoned() {
		w.WriteHeader(http.StatusNoContent) // which tells an EventSource not to come back again
		return
	}
	out := g.events(w)
	defer out.done()
	if out.open() == nil {
		g.follow(r.Context(), res, out, last)
	}
}

// follow writes a response from behind the frame with the number last on, until
// its answer is out, or somebody else takes it over, or the client goes.
func (g *Gateway) follow(ctx context.Context, res *response, out *eventStream, last int64) {
	res.followers.Add(1)
	defer res.followers.Add(-1)
	me := res.takeOver()
	idle := time.NewTicker(g.opts.KeepAlive)
	defer idle.Stop()
	for res.readBy(me) {
		first, frames, over, changed := res.since(last)
		if len(frames) > 0 && out.numbered(res.prefix(), first, frames) != nil {
			return
		}
		last = first + int64(len(frames)) - 1
		if over {
			return
		}
		select {
		case <-changed:
		case <-idle.C:
			if out.alive() != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (r *response) prefix() string { return resumePrefix + strconv.FormatUint(r.n, 10) + "-" }

// prime writes an event without data, whose id a client can come back with
// before there is another, and how soon it may do so.
func (s *eventStream) prime(prefix string) error {
	s.buf = append(append(s.buf[:0], "id: "+prefix+"0\nretry: "...), strconv.Itoa(resumeRetry)+"\ndata: \n\n"...)
	return s.put()
}

// resumable tells whether a session's client knows how to come back for a
// response: HTTP clients from 2025-03-26 on, which has the ids.
func (s *session) resumable() bool { return s.lane == nil && s.protocol() != mcp.FirstVersion }

// primed tells whether it expects the priming event.
func (s *session) primed() bool { return s.protocol() == mcp.LatestLegacy }
