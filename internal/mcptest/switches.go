package mcptest

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// A Request is one request as the server received it.
type Request struct {
	ID      json.RawMessage
	Method  string
	Params  json.RawMessage
	Session string      // legacy HTTP
	At      time.Time   // when it arrived
	Header  http.Header // HTTP; nil elsewhere

	send func(raw string)
}

// Send writes a raw message onto the request's own stream, ahead of its answer.
func (r *Request) Send(raw string) {
	if r.send != nil {
		r.send(raw)
	}
}

// Token is the raw progressToken of the request; "" if it has none.
func (r *Request) Token() string {
	var p struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(r.Params, &p) != nil {
		return ""
	}
	return string(p.Meta.Token)
}

// Progress sends one progress notification with the request's token.
func (r *Request) Progress(n int) { r.ProgressAs(r.Token(), n) }

// ProgressAs sends one progress notification with a raw token of the test's choosing.
func (r *Request) ProgressAs(token string, n int) {
	if token == "" {
		return
	}
	progress, _ := json.Marshal(n)
	r.Send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":` + string(progress) + `}}`)
}

// A Reply takes the place of the server's own answer to one request.
type Reply struct {
	Result string // raw result
	Error  string // raw error object
	ID     string // raw id, instead of the request's own
	Raw    string // a whole line or body, instead of an envelope

	Status int // HTTP; over streams an answer with a status of 400 or more is left out
	Header map[string]string
	Body   string // with Status
	SSE    bool   // HTTP: as an event stream, though nothing was sent ahead

	Before []string      // raw messages ahead of the answer
	Run    bool          // the request is executed first, and its own answer used unless Result, Error, Raw, Status, Hang or Cut is set
	Delay  time.Duration // ahead of everything else but Run
	Hang   bool          // never answered
	Cut    bool          // the link or the HTTP exchange ends without an answer
	Exit   bool          // Cut; a child exits with status 3
}

// Next gives the next n requests of a method the reply rep. Replies queue up.
func (s *Server) Next(method string, n int, rep Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.next[method] = append(s.next[method], rep)
	}
}

// On lets f answer every request of a method that Next has nothing for; a nil
// reply means the server's own answer, and a nil f takes the old one away. f
// runs on the request's goroutine, several at a time.
func (s *Server) On(method string, f func(*Request) *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[method] = f
}

// SetGone changes what requests of forgotten sessions are answered; 404 with a
// JSON-RPC error for id null at first.
func (s *Server) SetGone(rep Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = rep
}

// DropSessions forgets every session and ends its streams, as a restart does.
// It returns how many there were.
func (s *Server) DropSessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := len(s.sessions)
	s.dead += dropped
	clear(s.sessions)
	for l := range s.listeners {
		if l.session != "" {
			l.end()
		}
	}
	s.changedLocked()
	return dropped
}

// CutStreams ends the standing streams (GET, subscriptions/listen) without
// forgetting sessions. A listen over streams in memory is answered, since
// nothing else could end it.
func (s *Server) CutStreams() { s.endStreams(false) }

// EndStreams is CutStreams with an answer to each subscriptions/listen.
func (s *Server) EndStreams() { s.endStreams(true) }

func (s *Server) endStreams(graceful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		l.graceful = graceful
		l.end()
	}
	s.changedLocked()
}

// SetTools replaces the tools; nobody is told.
func (s *Server) SetTools(raw ...string) { s.SetList(0, raw...) }

// SetList replaces what the server lists: 0 tools, 1 prompts, 2 resources, 3 templates.
func (s *Server) SetList(kind int, raw ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[kind] = raw
}

// Count tells how many requests or notifications of a method have arrived.
func (s *Server) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[method]
}

// Executions tells how often the work tool ran with this id.
func (s *Server) Executions(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.execs[id]
}

// Sessions tells how many sessions are open: begun, and neither deleted nor dropped.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Listeners tells how many standing streams are open.
func (s *Server) Listeners() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners)
}

// Cancelled returns the raw requestIds of the cancel notices that arrived.
func (s *Server) Cancelled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cancelled)
}

// Closings tells how many HTTP exchanges the client gave up.
func (s *Server) Closings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closings
}

// Answers returns the client's answers to requests of the server, whole.
func (s *Server) Answers() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.answers)
}

// Requests returns all requests of a method so far, "" for all methods.
func (s *Server) Requests(method string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ofMethod(s.requests, method)
}

// Notifications returns all notifications of a method so far, "" for all methods.
func (s *Server) Notifications(method string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ofMethod(s.notified, method)
}

func ofMethod(all []Request, method string) (out []Request) {
	for _, r := range all {
		if method == "" || r.Method == method {
			out = append(out, r)
		}
	}
	return out
}

// Level is the last level set by logging/setLevel.
func (s *Server) Level() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}
