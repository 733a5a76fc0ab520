// Package everlinetest is a scripted MCP server for the tests of programs that
// use everline: it crashes, hangs, loses its sessions and changes its tools on
// demand. It is no server for anything but tests.
package everlinetest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// A Tool is one tool of a Server.
type Tool struct {
	Name        string
	Description string
	ReadOnly    bool   // its readOnlyHint: everline may repeat a call that was lost
	InputSchema string // raw JSON Schema; any object if ""
	// Call answers a call: what it returns becomes the text of the result if it
	// is a string, else its structured content; an error becomes a result with
	// isError. nil answers with the arguments. It is called by many goroutines
	// at a time.
	Call func(args json.RawMessage) (any, error)
}

// A Server is a legacy MCP server (2025-11-25) on a loopback address. All its
// methods may be called by many goroutines at a time.
type Server struct {
	script *mcptest.Server
	addr   string

	serving sync.WaitGroup

	mu     sync.Mutex // guards the rest; nothing waits while it is held
	tools  map[string]Tool
	hung   map[string]chan struct{} // closed by Resume
	calls  map[string]int
	server *http.Server // nil while it is down
	closed bool
}

// New starts a server with these tools. The caller must Close it. It panics
// where no loopback port can be had.
func New(tools ...Tool) *Server {
	s := &Server{script: mcptest.New(mcptest.Config{Tools: []string{}}), hung: map[string]chan struct{}{}, calls: map[string]int{}}
	s.script.On("tools/call", s.call)
	s.set(tools)
	s.listen("127.0.0.1:0")
	return s
}

// URL is where the server is served; it stays the same over Crash and Restart.
func (s *Server) URL() string { return "http://" + s.addr + "/mcp" }

// Config is a configuration's entry for the server.
func (s *Server) Config(name string) config.Server {
	c := config.NewServer(name)
	c.Transport, c.URL, c.Overlap = "http", s.URL(), true
	return c
}

// SetTools replaces all tools and announces it.
func (s *Server) SetTools(tools ...Tool) {
	s.set(tools)
	s.script.Notify("notifications/tools/list_changed", "")
}

func (s *Server) set(tools []Tool) {
	raw := make([]string, len(tools))
	byName := map[string]Tool{}
	for i, t := range tools {
		raw[i] = t.definition()
		byName[t.Name] = t
	}
	s.mu.Lock()
	s.tools = byName
	s.mu.Unlock()
	s.script.SetTools(raw...)
}

func (t Tool) definition() string {
	schema := json.RawMessage(t.InputSchema)
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	type annotations struct {
		ReadOnlyHint bool `json:"readOnlyHint"`
	}
	text, err := json.Marshal(struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations annotations     `json:"annotations"`
	}{t.Name, t.Description, schema, annotations{t.ReadOnly}})
	if err != nil {
		panic("everlinetest: the tool " + strconv.Quote(t.Name) + " has a schema that is no JSON: " + err.Error())
	}
	return string(text)
}

// Crash refuses connections, and cuts those that are open, until Restart. What
// was being answered is lost.
func (s *Server) Crash() {
	s.mu.Lock()
	server := s.server
	s.server = nil
	s.mu.Unlock()
	if server != nil {
		_ = server.Close() // what it could not close in order is gone all the same
	}
	s.script.DropSessions()
}

// Restart serves again after Crash, without any session of before.
func (s *Server) Restart() {
	s.mu.Lock()
	down := s.server == nil && !s.closed
	s.mu.Unlock()
	if down {
		s.listen(s.addr)
	}
}

// LoseSessions forgets every session, as a restart behind a proxy does: each
// is answered with 404 from then on.
func (s *Server) LoseSessions() { s.script.DropSessions() }

// Hang leaves calls of a tool without an answer until Resume.
func (s *Server) Hang(tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hung[tool] == nil {
		s.hung[tool] = make(chan struct{})
	}
}

// Resume answers calls of a tool again, those that hang included.
func (s *Server) Resume(tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.hung[tool]; c != nil {
		close(c)
		delete(s.hung, tool)
	}
}

// Calls is how often a tool was called: how often a call reached the server,
// whatever became of its answer.
func (s *Server) Calls(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[tool]
}

// Close ends the server. It is idempotent.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for tool, c := range s.hung {
		close(c)
		delete(s.hung, tool)
	}
	s.mu.Unlock()
	s.script.Close()
	s.Crash()
	s.serving.Wait()
}

func (s *Server) listen(addr string) {
	var c net.ListenConfig
	l, err := c.Listen(context.Background(), "tcp", addr)
	if err != nil {
		panic("everlinetest: " + err.Error())
	}
	server := &http.Server{Handler: s.script.Handler()}
	s.mu.Lock()
	if s.closed { // while it was being opened
		_ = l.Close()
	}
	s.addr, s.server = l.Addr().String(), server
	s.mu.Unlock()
	s.serving.Go(func() { _ = server.Serve(l) }) // ends with Crash or Close, and Close waits; it has no other end to tell of
}

// call answers one call, and counts it.
func (s *Server) call(r *mcptest.Request) *mcptest.Reply {
	var p struct {
		Name      string
		Arguments json.RawMessage
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return &mcptest.Reply{Error: `{"code":-32602,"message":"the params are not those of a call"}`}
	}
	s.mu.Lock()
	s.calls[p.Name]++
	tool, known := s.tools[p.Name]
	hung := s.hung[p.Name]
	s.mu.Unlock()
	if !known {
		return &mcptest.Reply{Error: `{"code":-32602,"message":"there is no such tool"}`}
	}
	if hung != nil {
		<-hung // Resume and Close end it
	}
	var result any = p.Arguments
	var err error
	if tool.Call != nil {
		result, err = tool.Call(p.Arguments)
	}
	return &mcptest.Reply{Result: encode(result, err)}
}

func encode(result any, err error) string {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	out := struct {
		Content    []text `json:"content"`
		Structured any    `json:"structuredContent,omitempty"`
		IsError    bool   `json:"isError,omitempty"`
	}{Content: []text{}}
	switch r, plain := result.(string); {
	case err != nil:
		out.Content, out.IsError = append(out.Content, text{"text", err.Error()}), true
	case plain:
		out.Content = append(out.Content, text{"text", r})
	default:
		out.Structured = result
	}
	raw, err := json.Marshal(out)
	if err != nil {
		panic("everlinetest: a tool has returned what is no JSON: " + err.Error())
	}
	return string(raw)
}
