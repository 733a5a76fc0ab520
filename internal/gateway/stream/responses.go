package stream

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
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
	resumeBytes  = 64 << 10        // of these frames
	resumeEach   = 16              // streams of one session that are over
	resumeTotal  = 32 << 20        // bytes of answers of all sessions
	resumeTime   = 2 * time.Minute // how long a stream that is over is kept
	resumeRetry  = time.Second     // after which a client is to come back
	resumePrefix = "post-"         // begins the ids of events
	resumeID     = 64              // bytes of a request's id that the ids of events repeat
)

// A Response is the stream that answers one POST of a session. A client that loses
// the connection gets the rest with a GET (2025-11-25 basic/transports,
// "Resumability and Redelivery").
type Response struct {
	n       uint64 // tells it from the others of its session
	name    string // begins the ids of its events
	session *Responses

	followers atomic.Int32 // clients that have come back for it

	mu      sync.Mutex // guards the rest; nothing waits under it
	frames  [][]byte
	bytes   int
	next    int64 // number of the frame that comes next; 0 is the priming event
	over    bool  // nothing comes any more: the answer is in frames
	silent  bool  // there is none, because the client has canceled the request; valid when over
	changed chan struct{}
	reader  int // who writes it to the client now: 0 the POST, then the newest GET

	// Guarded by the store's lock.
	size int
	end  time.Time
	elem *list.Element // nil while it is not over
}

// Responses are those of one session that its client can come back for.
type Responses struct {
	store *ResponseStore

	// Guarded by the store's lock.
	last     uint64 // number of the newest
	byNumber map[uint64]*Response
	ended    bool
}

// A ResponseStore holds the responses of all sessions that can still be asked for,
// and bounds those that are over. The zero value is empty.
type ResponseStore struct {
	mu     sync.Mutex // guards the rest; nothing waits under it
	over   list.List  // of *Response, the oldest first
	bytes  int
	timer  *time.Timer // set while any is over
	closed bool
}

// Session returns the responses of a new session. It must be ended.
func (s *ResponseStore) Session() *Responses { return &Responses{store: s} }

// Run is part of the id of each event: it tells the streams of this process from
// those of another, which may have had the same session.
var Run = strings.ToLower(rand.Text()[:8])

// Open begins the response to a request, which can be resumed; nil if the
// session has ended.
func (rs *Responses) Open(method string, id []byte) *Response {
	rs.store.mu.Lock()
	defer rs.store.mu.Unlock()
	if rs.ended {
		return nil
	}
	rs.last++
	name := resumePrefix + Run + "." + strconv.FormatUint(rs.last, 10) + "." + repeated(method, id) + "-"
	r := &Response{n: rs.last, name: name, session: rs, next: 1, changed: make(chan struct{})}
	if rs.byNumber == nil {
		rs.byNumber = map[uint64]*Response{}
	}
	rs.byNumber[r.n] = r
	return r
}

// repeated is what the ids of events say of the request: whether it is a call of
// a tool, and its id, so that its client can be answered where the response is
// not kept.
func repeated(method string, id []byte) string {
	if len(id) > resumeID {
		return ""
	}
	kind := "r"
	if method == mcp.ToolsCall {
		kind = "c"
	}
	return kind + base64.RawURLEncoding.EncodeToString(id)
}

// Request is what a Last-Event-ID says of the request whose response it is of.
func Request(lastID string) (method string, id []byte, ok bool) {
	name, _ := cutName(lastID)
	_, name, _ = strings.Cut(name, ".")
	_, said, _ := strings.Cut(name, ".")
	if len(said) < 2 {
		return "", nil, false
	}
	id, err := base64.RawURLEncoding.Strict().DecodeString(said[1:])
	if err != nil || len(id) > resumeID || !isID(id) {
		return "", nil, false
	}
	if said[0] == 'c' {
		method = mcp.ToolsCall
	}
	return method, id, true
}

// isID tells whether raw is a request's id: a text or a number.
func isID(raw []byte) bool {
	return json.Valid(raw) && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// cutName parts the id of an event into the name of its response and its number.
func cutName(lastID string) (name, number string) {
	at := strings.LastIndexByte(lastID, '-')
	if at < len(resumePrefix) || !Resumes(lastID) {
		return "", ""
	}
	return lastID[len(resumePrefix):at], lastID[at+1:]
}

// Resumes tells whether a Last-Event-ID asks for the rest of a response.
func Resumes(lastID string) bool { return strings.HasPrefix(lastID, resumePrefix) }

// Find returns the response that a Last-Event-ID is of, nil if it is not kept any
// more, and the number of the event that the client got last.
func (rs *Responses) Find(lastID string) (r *Response, last int64) {
	name, number := cutName(lastID)
	last, err := strconv.ParseInt(number, 10, 64)
	if err != nil || last < 0 {
		return nil, 0
	}
	rs.store.mu.Lock()
	defer rs.store.mu.Unlock()
	for _, r := range rs.byNumber {
		if r.name == resumePrefix+name+"-" {
			return r, last
		}
	}
	return nil, 0
}

// End drops what is kept of a session that has ended. It is idempotent.
func (rs *Responses) End() {
	s := rs.store
	s.mu.Lock()
	defer s.mu.Unlock()
	rs.ended = true
	for _, r := range rs.byNumber {
		if r.elem != nil {
			s.dropLocked(r)
		}
	}
	rs.byNumber = nil
}

// keep keeps a response that is over, for its time and within the bounds.
func (s *ResponseStore) keep(r *Response, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || r.session.ended {
		delete(r.session.byNumber, r.n)
		return
	}
	if oldest := r.session.crowdedLocked(); oldest != nil {
		s.dropLocked(oldest)
	}
	r.size, r.end = size, time.Now().Add(resumeTime)
	r.elem = s.over.PushBack(r)
	s.bytes += size
	for s.bytes > resumeTotal {
		s.dropLocked(s.over.Front().Value.(*Response))
	}
	if s.timer == nil && s.over.Len() > 0 {
		s.timer = time.AfterFunc(resumeTime, s.sweep)
	}
}

// crowdedLocked returns the oldest response that is over if there are as many as
// may be.
func (rs *Responses) crowdedLocked() (oldest *Response) {
	n := 0
	for _, r := range rs.byNumber {
		if r.elem == nil {
			continue
		}
		if n++; oldest == nil || r.n < oldest.n {
			oldest = r
		}
	}
	if n < resumeEach {
		return nil
	}
	return oldest
}

func (s *ResponseStore) dropLocked(r *Response) {
	s.over.Remove(r.elem)
	r.elem = nil
	s.bytes -= r.size
	delete(r.session.byNumber, r.n)
}

// sweep drops what was kept for its time. It runs on the timer's goroutine.
func (s *ResponseStore) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	for e := s.over.Front(); e != nil; e = s.over.Front() {
		r := e.Value.(*Response)
		if left := time.Until(r.end); left > 0 && !s.closed {
			s.timer = time.AfterFunc(left, s.sweep)
			return
		}
		s.dropLocked(r)
	}
}

// Close drops everything, and keeps nothing more.
func (s *ResponseStore) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.sweep()
}

// put adds frames and returns the number of the first. What is too much is
// dropped, the oldest first.
func (r *Response) put(frames [][]byte) (first int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.next
	r.next += int64(len(frames))
	r.frames = append(r.frames, frames...)
	for _, f := range frames {
		r.bytes += len(f)
	}
	r.frames, r.bytes = trimmed(r.frames, r.bytes, resumeFrames, resumeBytes)
	r.changedLocked()
	return first
}

func (r *Response) changedLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// finish adds the answer, which is the last frame, and returns its number. mine
// tells whether it is for the POST to write it.
func (r *Response) finish(frame []byte) (number int64, mine bool) {
	r.mu.Lock()
	number, mine = r.next, r.reader == 0
	r.next++
	r.frames = append(r.frames, frame)
	r.over = true
	r.changedLocked()
	size := r.bytes + len(frame)
	r.mu.Unlock()
	r.session.store.keep(r, size)
	return number, mine
}

// abandon ends a response that has no answer.
func (r *Response) abandon() {
	r.mu.Lock()
	r.over, r.silent, r.frames = true, true, nil
	r.changedLocked()
	r.mu.Unlock()
	r.session.store.keep(r, 0)
}

// Abandoned tells whether the response has ended without an answer.
func (r *Response) Abandoned() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silent
}

// Followed tells whether a client has come back for it, and is there.
func (r *Response) Followed() bool { return r.followers.Load() > 0 }

// since returns the frames behind the one with this number, and the number of
// the first of them.
func (r *Response) since(last int64) (first int64, frames [][]byte, over bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, frames = behind(r.frames, r.next, last)
	return first, frames, r.over, r.changed
}

// takeOver makes the caller the one who writes to the client.
func (r *Response) takeOver() (reader int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reader++
	r.changedLocked()
	return r.reader
}

func (r *Response) readBy(reader int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reader == reader
}

// Follow writes a response from behind the frame with the number last on, until
// its answer is out, or somebody else takes it over, or the client goes.
func (r *Response) Follow(ctx context.Context, out *Events, last int64, keepAlive time.Duration) {
	r.followers.Add(1)
	defer r.followers.Add(-1)
	me := r.takeOver()
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	for r.readBy(me) {
		first, frames, over, changed := r.since(last)
		if len(frames) > 0 && out.numbered(r.name, first, frames) != nil {
			return
		}
		last = first + int64(len(frames)) - 1
		if over {
			return
		}
		select {
		case <-changed:
		case <-idle.C:
			if out.Alive() != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
