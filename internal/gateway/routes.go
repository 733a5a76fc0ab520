package gateway

import (
	"net/http"
	"strconv"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
)

// A Route is one path of an endpoint, as http.ServeMux takes it.
type Route struct {
	Pattern string
	Serve   http.HandlerFunc
	Open    bool // to everybody, whatever the Entrance says
}

// Handler serves /mcp for Streamable HTTP of both eras, /sse and /messages for
// clients of HTTP+SSE, the same below /groups/<group> for each group, and
// further routes. /mcp/<group> is the older name of /groups/<group>/mcp. Origin
// and Host are checked on every route. The server must be one of Server, and
// accept its connections from Listener.
func (g *Gateway) Handler(more ...Route) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve http.HandlerFunc) { mux.Handle(pattern, g.identified(serve)) }
	handle("/mcp", g.serveMCP)
	handle("/mcp/{group}", g.ofGroup((*Gateway).serveMCP))
	handle("/groups/{group}/mcp", g.ofGroup((*Gateway).serveMCP))
	for prefix, endpoint := range map[string]func(func(*Gateway, http.ResponseWriter, *http.Request)) http.HandlerFunc{
		"": g.ofAll, "/groups/{group}": g.ofGroup,
	} {
		handle(prefix+"/sse", only(http.MethodGet, endpoint((*Gateway).serveSSE)))
		messages := only(http.MethodPost, endpoint((*Gateway).serveMessages))
		handle(prefix+"/messages", messages)
		handle(prefix+"/sse/messages", messages) // of a client that was given "/sse/"
	}
	for _, r := range more {
		if r.Open {
			mux.HandleFunc(r.Pattern, r.Serve)
		} else {
			handle(r.Pattern, r.Serve)
		}
	}
	handle("/{$}", g.serveRoot)
	handle("/", g.lost)
	return g.unread(g.guard.wrap(tidy(mux)))
}

// only refuses all other methods: HEAD as well, which is a GET to a ServeMux, and
// would open a session.
func only(method string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		serve(w, r)
	}
}

// ofGroup serves the same for a group: on another Backend, with sessions of
// its own.
func (g *Gateway) ofGroup(serve func(*Gateway, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("group")
		child := g.Group(name)
		switch {
		case child == nil && g.closing():
			g.ending(w, &message.Message{})
			return
		case child == nil:
			g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "no group has this name: "+strconv.Quote(name)+". "+paths)
			return
		}
		serve(child, w, r)
	}
}

func (g *Gateway) ofAll(serve func(*Gateway, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serve(g, w, r) }
}
