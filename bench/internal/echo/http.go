package echo

import (
	"crypto/rand"
	"io"
	"net/http"
	"sync"

	"github.com/everline/everline/internal/wire"
)

// DropPath is where a POST makes an HTTP server forget all its sessions, as a
// restart does.
const DropPath = "/admin/drop"

// Handler is the plain server over Streamable HTTP, for a program that serves
// it itself.
func Handler(o Options) (http.Handler, error) {
	b, err := newBrain(o)
	if err != nil {
		return nil, err
	}
	return &site{brain: b, sessions: map[string]bool{}}, nil
}

// A site serves a brain over Streamable HTTP with legacy sessions, at every
// path, each of which may be taken for a server of its own.
type site struct {
	brain *brain

	mu       sync.Mutex // guards sessions
	sessions map[string]bool
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case r.URL.Path == DropPath:
		s.mu.Lock()
		s.sessions = map[string]bool{}
		s.mu.Unlock()
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, id)
		s.mu.Unlock()
	case r.Method == http.MethodPost:
		s.post(w, r, id)
	default:
		http.Error(w, "no standing stream here", http.StatusMethodNotAllowed)
	}
}

func (s *site) post(w http.ResponseWriter, r *http.Request, id string) {
	body, err := readAll(r)
	if err != nil {
		return // the client is gone
	}
	m, err := wire.Parse(body)
	if err != nil {
		http.Error(w, "not a JSON-RPC message", http.StatusBadRequest)
		return
	}
	if !s.admit(w, &m, id) {
		return
	}
	if !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = w.Write(s.brain.answer(nil, &m, s.brain.wait(&m))) // a client that is gone has its answer lost
}

func readAll(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	b := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, b)
	return b, err
}

// admit opens a session for initialize, and refuses what belongs to none.
func (s *site) admit(w http.ResponseWriter, m *wire.Message, id string) bool {
	if m.Method == "server/discover" {
		http.Error(w, "no session id", http.StatusBadRequest) // a server of an older version knows no method without one
		return false
	}
	s.mu.Lock()
	if m.Method == "initialize" {
		id = rand.Text()
		s.sessions[id] = true
		w.Header().Set("Mcp-Session-Id", id)
	}
	known := s.sessions[id]
	s.mu.Unlock()
	if !known {
		http.Error(w, "session not found", http.StatusNotFound)
	}
	return known
}
