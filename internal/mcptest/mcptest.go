// Package mcptest is the scripted MCP server of the tests: one brain that can
// be served over HTTP (Streamable HTTP of both eras, HTTP+SSE), over a pair of
// streams, or as a child process, and that misbehaves on demand. It is not a
// server for anything but tests, and it uses nothing of the code it tests.
//
// Over HTTP:
//
//	s := mcptest.New(mcptest.Config{})
//	site := mcptest.Web(t, s)                      // site.URL + "/mcp", and "/sse"
//
// In memory (works in testing/synctest bubbles), and over a pair of streams:
//
//	conn := mcptest.OpenMemory(s.ServeFrames, options)
//	go s.Serve(in, out)                            // returns when in ends, or after s.Close
//
// As a child process, which is the test binary itself:
//
//	func TestMain(m *testing.M) { mcptest.RunChild(); os.Exit(m.Run()) }
//	command, args, env := mcptest.Child(mcptest.Config{Journal: file})
//
// Misbehaviour is a Reply in place of the server's own answer:
//
//	s.Next("tools/list", 2, mcptest.Reply{Status: 503})            // the next two
//	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {   // all; nil: its own answer
//		return &mcptest.Reply{Hang: true}
//	})
//	s.DropSessions()                               // a restart, as clients of HTTP see it
//	s.SetTools(`{"name":"a","inputSchema":{"type":"object"}}`)
//	s.Notify("notifications/tools/list_changed", "")
//
// What happened is counted: s.Count("initialize"), s.Executions("id-1"),
// s.Sessions(), s.Cancelled(), s.Answers(). s.Await waits for a condition over
// these without polling.
//
// The default tools are echo (returns its arguments as structuredContent),
// work (counts an execution of its argument "id"; waits for "ms"
// milliseconds; sends "steps" progress notifications) and fail (a result with
// isError).
package mcptest

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/everline/everline/internal/mcp"
)

// Era says which revisions a Server speaks.
type Era int

const (
	Legacy Era = iota // initialize and sessions
	Modern            // 2026-07-28: server/discover, no sessions
	Dual              // both
)

// A Config describes a Server. The zero value is a legacy server with the
// default tools. It can be handed to a child as JSON.
type Config struct {
	Name string // serverInfo.name; "mcptest"
	Era  Era
	// Versions are the protocol versions it accepts; the newest of its eras by
	// default. A legacy server answers another version with Versions[0].
	Versions     []string
	Capabilities string // raw; "": derived from what there is, all with listChanged
	Instructions string
	Tools        []string // raw; nil: the default tools
	Prompts      []string // raw
	Resources    []string // raw
	Templates    []string // raw
	PageSize     int      // items per page; 0: all on one
	Stateless    bool     // legacy HTTP without a session id
	TTL          int      // ttlMs of modern lists

	// For children and streams.
	ExitOnProbe bool          // the server ends when it is asked server/discover
	Deaf        bool          // reads, and never answers
	StderrBytes int           // so many bytes go to stderr before the first answer
	StartDelay  time.Duration // before anything is read
	Journal     string        // a file that gets a line for each request, execution and cancel, over all generations
}

// Server is one scripted server. All methods may be called by many goroutines.
type Server struct {
	cfg  Config
	done chan struct{} // closed by Close

	mu        sync.Mutex // guards what follows; nothing that waits happens under it
	closed    bool
	lists     [4][]string
	next      map[string][]Reply
	on        map[string]func(*Request) *Reply
	counts    map[string]int
	execs     map[string]int
	sessions  map[string]bool
	dead      int // sessions forgotten by DropSessions
	minted    int
	cancelled []string
	closings  int // requests whose HTTP exchange the client ended
	answers   []json.RawMessage
	notified  []Request
	requests  []Request
	gone      Reply
	level     string
	listeners map[*listener]bool
	change    chan struct{} // closed and replaced when anything above changed
}

// DefaultTools are the tools of a zero Config.
var DefaultTools = []string{
	`{"name":"echo","description":"Returns its arguments.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
	`{"name":"work","description":"Does something once.","inputSchema":{"type":"object","properties":{"id":{"type":"string"},"ms":{"type":"integer"},"steps":{"type":"integer"}}}}`,
	`{"name":"fail","description":"Fails.","inputSchema":{"type":"object"}}`,
}

// New makes a Server that serves nobody yet.
func New(cfg Config) *Server {
	if cfg.Name == "" {
		cfg.Name = "mcptest"
	}
	if cfg.Tools == nil {
		cfg.Tools = DefaultTools
	}
	if len(cfg.Versions) == 0 {
		cfg.Versions = defaultVersions(cfg.Era)
	}
	return &Server{
		cfg:       cfg,
		done:      make(chan struct{}),
		lists:     [4][]string{cfg.Tools, cfg.Prompts, cfg.Resources, cfg.Templates},
		next:      map[string][]Reply{},
		on:        map[string]func(*Request) *Reply{},
		counts:    map[string]int{},
		execs:     map[string]int{},
		sessions:  map[string]bool{},
		listeners: map[*listener]bool{},
		gone:      Reply{Status: 404, Body: `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`},
		change:    make(chan struct{}),
	}
}

func defaultVersions(era Era) []string {
	switch era {
	case Modern:
		return mcp.ModernVersions
	case Dual:
		return mcp.Versions
	default:
		return mcp.LegacyVersions
	}
}

// Close ends every stream and every request that hangs. It is idempotent.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
}

// Await waits until ok holds, evaluating it after each change of the server's
// counters, and fails the test after half a minute. ok may call any method.
func (s *Server) Await(t T, what string, ok func() bool) {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for {
		s.mu.Lock()
		change := s.change
		s.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-change:
		case <-late.C:
			t.Fatalf("mcptest: %s did not happen within 30 s", what)
		}
	}
}

// changedLocked wakes Await.
func (s *Server) changedLocked() {
	close(s.change)
	s.change = make(chan struct{})
}
