package mcptest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/everline/everline/internal/mcp"
)

// listener is one standing stream that notifications go to.
type listener struct {
	session string // legacy HTTP; "" elsewhere
	id      string // raw id of a subscriptions/listen; "" in the legacy era
	filter  listenFilter
	out     chan string   // bounded; a stream that does not keep up loses messages
	stop    chan struct{} // closed when the server ends the stream
	stopped bool          // guarded by Server.mu
	// graceful tells that a listen is ended with an answer; guarded by Server.mu.
	graceful bool

	ctx  context.Context // HTTP+SSE: ends with the stream
	work sync.WaitGroup  // HTTP+SSE: requests whose answers go onto the stream
}

type listenFilter struct {
	Tools     bool     `json:"toolsListChanged"`
	Prompts   bool     `json:"promptsListChanged"`
	Resources bool     `json:"resourcesListChanged"`
	URIs      []string `json:"resourceSubscriptions"`
	TaskIDs   []string `json:"taskIds"`
}

func newListener(session, id string) *listener {
	return &listener{session: session, id: id, ctx: context.Background(), out: make(chan string, 1024), stop: make(chan struct{})}
}

// end is called under Server.mu.
func (l *listener) end() {
	if !l.stopped {
		l.stopped = true
		close(l.stop)
	}
}

func (s *Server) listen(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = true
	s.changedLocked()
}

// listenIn is listen for the stream of a session; false if that is gone.
func (s *Server) listenIn(l *listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sessions[l.session] {
		return false
	}
	s.listeners[l] = true
	s.changedLocked()
	return true
}

func (s *Server) unlisten(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	s.changedLocked()
}

// Notify sends a notification to every standing stream that wants it. params
// is a raw object, "" for none.
func (s *Server) Notify(method, params string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		if l.id == "" && s.cfg.Era == Modern || l.id != "" && !l.filter.wants(method, params) {
			continue // modern servers say nothing that was not asked for
		}
		select {
		case l.out <- notification(method, params, l.id):
		default:
		}
	}
}

// SendAll writes a raw message, such as a request of the server, onto every
// standing stream.
func (s *Server) SendAll(raw string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		select {
		case l.out <- raw:
		default:
		}
	}
}

func (f *listenFilter) wants(method, params string) bool {
	switch method {
	case mcp.NotifyToolsChanged:
		return f.Tools
	case mcp.NotifyPromptsChanged:
		return f.Prompts
	case mcp.NotifyResourcesChanged:
		return f.Resources
	case mcp.NotifyResourceUpdated:
		var p struct {
			URI string `json:"uri"`
		}
		_ = json.Unmarshal([]byte(params), &p)
		return slices.Contains(f.URIs, p.URI)
	case mcp.NotifyTasks:
		var p struct {
			ID string `json:"taskId"`
		}
		_ = json.Unmarshal([]byte(params), &p)
		return slices.Contains(f.TaskIDs, p.ID)
	}
	return false
}

func notification(method, params, subscription string) string {
	if subscription != "" {
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + subscription + `}`
		if len(params) > 2 {
			params = "{" + meta + "," + params[1:]
		} else {
			params = "{" + meta + "}"
		}
	}
	if params == "" {
		return `{"jsonrpc":"2.0","method":"` + method + `"}`
	}
	return `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
}

// openListen makes the listener of a subscriptions/listen request and its
// acknowledgement.
func openListen(r *Request) (*listener, string) {
	var p struct {
		Notifications json.RawMessage `json:"notifications"`
	}
	_ = json.Unmarshal(r.Params, &p)
	l := newListener("", string(r.ID))
	_ = json.Unmarshal(p.Notifications, &l.filter)
	filter := string(p.Notifications)
	if filter == "" {
		filter = "{}"
	}
	return l, notification("notifications/subscriptions/acknowledged", `{"notifications":`+filter+`}`, l.id)
}
