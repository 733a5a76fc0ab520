// Package web is the page that people open in a browser, and the API under it: the
// facts that status has, what happened of late, and a live stream of both. It
// supervises nothing, and what it does goes through the admin API.
package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/history"
)

// Hub is what the page needs beside the admin API; *everline.Hub is one.
type Hub interface {
	Config() *config.Config
	Server(name string) (everline.Status, bool)
	Logs(server string) ([]everline.LogLine, error)
}

// Options make a Site. All but Effective are required.
type Options struct {
	API     *admin.API
	Hub     Hub
	Journal *admin.Journal
	History *history.History
	// Endpoint is the URL for MCP clients; the page is beside it.
	Endpoint string
	StateDir string                     // holds the key of tokens
	Local    bool                       // only this machine reaches the endpoint
	Host     func(hostport string) bool // tells whether the endpoint has this name
	Capture  *history.Capture           // of arguments
	// Unlock does what gives a page of an address the right to act, and has that
	// recorded; nil: it is only done.
	Unlock    func(ctx context.Context, addr string, do func() error) error
	Effective func() []byte // the configuration that is applied, without secrets
}

// A Site serves /ui and /api/v1. It has no goroutine of its own: a stream runs on
// that of its request, and ends with EndStreams.
type Site struct {
	opts     Options
	started  time.Time
	keys     keys
	assets   *assets
	board    board
	viewers  chan struct{} // has a place for each stream
	stop     chan struct{} // closed by EndStreams
	readTime time.Duration // viewerTime
	mux      *http.ServeMux
}

// viewerTime is how long a viewer may take to read what was written to it: then it is
// cut off, and its page comes back for the newest.
const viewerTime = 10 * time.Second

// maxViewers is how many streams there may be at a time.
const maxViewers = 64

// New returns the site.
func New(o Options) *Site {
	if o.Unlock == nil {
		o.Unlock = func(_ context.Context, _ string, do func() error) error { return do() }
	}
	s := &Site{
		opts: o, started: time.Now(), keys: keys{dir: o.StateDir}, assets: readAssets(),
		viewers: make(chan struct{}, maxViewers), stop: make(chan struct{}), readTime: viewerTime, mux: http.NewServeMux(),
	}
	s.board.read = o.API.Status
	s.board.minute = func(server string) uint32 { return o.History.LastMinute(server, time.Now()) }
	s.route()
	return s
}

// Viewers is how many streams are open; of a nil Site none.
func (s *Site) Viewers() int {
	if s == nil {
		return 0
	}
	return len(s.viewers)
}

// EndStreams ends the streams in order, and what is recorded of arguments. It must be
// called once.
func (s *Site) EndStreams() {
	s.opts.Capture.Close()
	close(s.stop)
}

// Serves tells whether a path is the site's.
func Serves(path string) bool {
	return path == "/ui" || strings.HasPrefix(path, "/ui/") || strings.HasPrefix(path, "/api/")
}

// Link is where the page opens with the right to act, once and within a minute.
func (s *Site) Link() (string, error) {
	if s.opts.Hub.Config().Page == config.PageOff {
		f := fault.New(fault.Unsupported, "open the page", `the configuration has no page: "page" is "off"`)
		return "", f
	}
	code, err := s.keys.code(time.Now())
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(s.opts.Endpoint, "/mcp") + "/ui/#code=" + code, nil
}

// Revoke takes the right to act from every page that has it.
func (s *Site) Revoke() error { return s.keys.revoke() }

func (s *Site) route() {
	actions := http.StripPrefix("/api", s.opts.API.Handler())
	for _, pattern := range []string{
		"GET /api/v1/status", "GET /api/v1/tools", "GET /api/v1/servers/{name}",
	} {
		s.mux.Handle(pattern, s.looking(actions.ServeHTTP))
	}
	for pattern, serve := range map[string]http.HandlerFunc{
		"GET /api/v1/stream": s.stream, "GET /api/v1/history": s.history, "GET /api/v1/series": s.series, "GET /api/v1/rates": s.rates,
		"GET /api/v1/calls": s.calls, "GET /api/v1/calls/{id}": s.call, "GET /api/v1/config": s.config, "GET /api/v1/connect": s.connect,
		"GET /api/v1/events": s.events, "GET /api/v1/pins": s.pins, "GET /api/v1/servers/{name}/logs": s.logs,
	} {
		s.mux.Handle(pattern, s.looking(serve))
	}
	for _, pattern := range []string{
		"POST /api/v1/servers/{name}/{op}", "POST /api/v1/call", "POST /api/v1/answer", "POST /api/v1/pins/approve", "POST /api/v1/reload",
	} {
		s.mux.Handle(pattern, s.doing(actions.ServeHTTP))
	}
	s.mux.HandleFunc("POST /api/v1/unlock", func(w http.ResponseWriter, r *http.Request) { // Options.Unlock has it recorded
		s.unlock(w, r.WithContext(admin.FromWeb(r.Context())))
	})
	s.mux.Handle("POST /api/v1/renew", s.doing(s.renew))
	s.mux.Handle("POST /api/v1/servers/{name}/capture", s.acting(s.capture))
	s.mux.Handle("POST /api/v1/servers/{name}/capture-end", s.acting(s.captureEnd))
	s.mux.Handle("GET /api/v1/servers/{name}/captured", s.doing(s.captured))
	s.mux.Handle("POST /api/v1/validate", s.doing(s.validate))
	s.mux.HandleFunc("GET /ui", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "ui/", http.StatusPermanentRedirect) })
	s.mux.HandleFunc("GET /ui/{file...}", s.assets.serve)
}
