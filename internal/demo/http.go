package demo

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A remote is the built-in server over Streamable HTTP with legacy sessions.
// Restart ends it the hard way: connections are cut and sessions forgotten.
type remote struct {
	server *server
	addr   string // fixed by the first start

	mu       sync.Mutex // guards sessions and live
	sessions map[string]bool
	live     *http.Server
	done     chan struct{} // closed when live's Serve has returned
}

func startRemote(s *server) (*remote, error) {
	r := &remote{server: s, addr: "127.0.0.1:0"}
	if err := r.start(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *remote) url() string { return "http://" + r.addr + "/mcp" }

func (r *remote) start() error {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", r.addr)
	if err != nil {
		return err
	}
	live := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	r.mu.Lock()
	r.addr, r.sessions, r.live, r.done = l.Addr().String(), map[string]bool{}, live, done
	r.mu.Unlock()
	go func() { // ends when stop closes the server
		defer close(done)
		_ = live.Serve(l) // always ErrServerClosed: stop is the only way out
	}()
	return nil
}

// stop cuts every connection and forgets every session.
func (r *remote) stop() {
	r.mu.Lock()
	live, done := r.live, r.done
	r.sessions = map[string]bool{}
	r.mu.Unlock()
	_ = live.Close() // the connections go with it
	<-done
}

// restart is a crash and a start on the same port.
func (r *remote) restart() error {
	r.stop()
	return r.start()
}

func (r *remote) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id := req.Header.Get(mcp.HeaderSession)
	switch req.Method {
	case http.MethodGet:
		http.Error(w, "no standing stream here", http.StatusMethodNotAllowed)
		return
	case http.MethodDelete:
		r.mu.Lock()
		delete(r.sessions, id)
		r.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		return // the client is gone
	}
	m, err := wire.Parse(body)
	if err != nil {
		http.Error(w, "not a JSON-RPC message", http.StatusBadRequest)
		return
	}
	r.message(w, &m, id)
}

func (r *remote) message(w http.ResponseWriter, m *wire.Message, id string) {
	r.mu.Lock()
	if m.Method == mcp.Initialize {
		id = rand.Text()
		r.sessions[id] = true
		w.Header().Set(mcp.HeaderSession, id)
	}
	known := r.sessions[id]
	r.mu.Unlock()
	if m.Method == mcp.ServerDiscover {
		http.Error(w, "no session id", http.StatusBadRequest) // a legacy server: it knows no method without a session
		return
	}
	if !known {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	a := r.server.answer(m)
	if a == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", mcp.TypeJSON)
	_, _ = w.Write(a) // a client that is gone has its answer lost, as everywhere
}
